//! A run that leaves nothing behind.
//!
//! All that the node writes lies in one directory that only its user may enter, made at the start
//! below the system's directory for temporary files and removed at the end, however the end comes
//! about. Only a process that is killed cannot remove it: the next such run does, and says so.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};

use super::lock;
use crate::config::Settings;

const PREFIX: &str = "gripfast-amnesia-";

/// The directory of this run.
#[must_use = "the directory is removed as soon as it is dropped"]
#[derive(Debug)]
pub(crate) struct Amnesia {
    dir: PathBuf,
}

impl Amnesia {
    /// Makes the directory in `parent` and has `settings` put everything there.
    pub(crate) fn begin(parent: &Path, settings: &mut Settings) -> anyhow::Result<Self> {
        for left in remove_abandoned(parent) {
            tracing::warn!(dir = %left.display(), "removed the directory of a killed run");
        }
        let (process, chance) = (std::process::id(), rand::random::<u64>());
        let dir = parent.join(format!("{PREFIX}{process}-{chance:016x}"));
        let made = DirBuilder::new().mode(0o700).create(&dir);
        made.with_context(|| format!("cannot make the directory {}", dir.display()))?;
        // All other places follow from the data directory, unless they are set.
        settings.storage.git_data_path = None;
        settings.storage.relay_data_path = None;
        settings.storage.database_url = None;
        settings.watch.watch_avatars_store = None;
        settings.storage.data_dir.clone_from(&dir);
        tracing::warn!(
            dir = %dir.display(),
            "amnesia: everything is kept in this directory, and is gone with the end of this run"
        );
        Ok(Self { dir })
    }
}

impl Drop for Amnesia {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::error!(dir = %self.dir.display(), %error, "failed to remove the directory");
        }
    }
}

/// Removes directories of our own that no running process holds.
fn remove_abandoned(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(PREFIX);
    let named = entries.filter(|entry| ours(&entry.file_name()));
    named
        .map(|entry| entry.path())
        .filter(|dir| remove_if_abandoned(dir).unwrap_or(false))
        .collect()
}

/// Others can write beside it: a link, or a directory of somebody else, is none of ours.
fn remove_if_abandoned(dir: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    // One that was made a moment ago has no lock yet, and is not abandoned.
    let held = File::open(dir.join(lock::NAME))?;
    if flock(&held, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    fs::remove_dir_all(dir)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{
        config::{DatabasePlace, tests::Fake},
        node::lock::DirLock,
    };

    fn begin(parent: &Path) -> (Amnesia, Settings) {
        let mut settings = Fake::default().loaded().settings;
        let amnesia = Amnesia::begin(parent, &mut settings).unwrap();
        (amnesia, settings)
    }

    #[test]
    fn everything_goes_into_one_private_directory_and_with_it() {
        let parent = tempfile::tempdir().unwrap();
        let (amnesia, settings) = begin(parent.path());
        let dir = settings.storage.data_dir.clone();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        assert!(settings.git_data_path().starts_with(&dir));
        assert!(settings.relay_data_path().starts_with(&dir));
        assert!(matches!(settings.database(), DatabasePlace::File(f) if f.starts_with(&dir)));
        assert!(Path::new(&settings.avatars_store()).starts_with(&dir));
        fs::create_dir_all(settings.git_data_path().join("deep/down")).unwrap();
        drop(amnesia);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_is_held_or_foreign_stays() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(format!("{PREFIX}{name}"));
        let (held, abandoned) = (path("held"), path("abandoned"));
        let _lock = DirLock::take(&[&held]).unwrap();
        drop(DirLock::take(&[&abandoned]).unwrap());
        fs::write(abandoned.join("file"), "x").unwrap();
        fs::create_dir(path("fresh")).unwrap();
        let precious = tempfile::tempdir().unwrap();
        drop(DirLock::take(&[precious.path()]).unwrap());
        symlink(precious.path(), path("link")).unwrap();

        assert_eq!(
            remove_abandoned(parent.path()),
            std::slice::from_ref(&abandoned)
        );
        assert!(held.exists() && path("fresh").exists() && !abandoned.exists());
        assert!(precious.path().join(lock::NAME).exists());
    }
}
