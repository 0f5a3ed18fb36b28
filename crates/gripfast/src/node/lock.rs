//! The lock that gives a data directory to one process.

use std::{
    fs::{self, File},
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

/// Why a directory is not ours to use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum LockError {
    #[error(
        "the directory {} is in use by another gripfast{}: stop that one, or choose another \
         directory with --data-dir",
        .dir.display(), holder(.pid)
    )]
    InUse { dir: PathBuf, pid: Option<u32> },
    #[error(
        "cannot write to the directory {}: give it to the user of the service, or choose another \
         with --data-dir",
        .dir.display()
    )]
    NotWritable {
        dir: PathBuf,
        source: std::io::Error,
    },
}

fn holder(pid: &Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})"))
        .unwrap_or_default()
}

pub(super) const NAME: &str = "gripfast.lock";

/// Says whether a node has used the directory for its data.
pub(crate) fn is_data_dir(dir: &Path) -> bool {
    dir.join(NAME).exists()
}

/// Holds directories until it is dropped; the kernel frees them if the process dies.
#[must_use = "the directories are free again as soon as the lock is dropped"]
#[derive(Debug)]
pub(crate) struct DirLock {
    _files: Vec<File>,
}

impl DirLock {
    /// Takes a directory that a node has used, for as long as none uses it.
    pub(crate) fn try_take(dir: &Path) -> Result<Self, LockError> {
        let _files = if is_data_dir(dir) {
            vec![lock(dir)?]
        } else {
            Vec::new()
        };
        Ok(Self { _files })
    }

    /// Makes the directories if need be and takes them. Those inside an earlier one come with it.
    pub(crate) fn take(dirs: &[&Path]) -> Result<Self, LockError> {
        let mut files = Vec::new();
        for (index, dir) in dirs.iter().enumerate() {
            let not_writable = |source| LockError::NotWritable {
                dir: (*dir).to_owned(),
                source,
            };
            fs::create_dir_all(dir).map_err(not_writable)?;
            if !dirs[..index].iter().any(|earlier| dir.starts_with(earlier)) {
                files.push(lock(dir)?);
            }
        }
        Ok(Self { _files: files })
    }
}

fn lock(dir: &Path) -> Result<File, LockError> {
    let not_writable = |source| LockError::NotWritable {
        dir: dir.to_owned(),
        source,
    };
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(dir.join(NAME))
        .map_err(not_writable)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut text = String::new();
        // Without the number the sentence is still true.
        let _ = file.read_to_string(&mut text);
        return Err(LockError::InUse {
            dir: dir.to_owned(),
            pid: text.trim().parse().ok(),
        });
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(not_writable)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_holder_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let held = DirLock::take(&[&data]).unwrap();
        let error = DirLock::take(&[&data]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("(process {})", std::process::id())),
            "{error}"
        );
        drop(held);
        let _again = DirLock::take(&[&data]).unwrap();
    }

    #[test]
    fn a_part_outside_the_data_directory_is_locked_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (data, inside, outside) = (path("data"), path("data/relay"), path("git"));
        let _held = DirLock::take(&[&data, &inside, &outside]).unwrap();
        assert!(!inside.join(NAME).exists());
        assert!(DirLock::take(&[&path("other"), &outside]).is_err());
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let error = DirLock::take(&[&dir.path().join("file/data")]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot write to the directory"),
            "{error}"
        );
    }
}
