//! The files that a backup is made of, with the paths that they have in it.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use grip_web::api_types::FrozenState;

use super::ROWS;
use crate::{
    config::{DatabasePlace, Settings},
    running,
};

/// Files of the data directory that belong to the running process alone.
const NOT_KEPT: [&str; 6] = [
    "gripfast.lock",
    "backup.lock",
    "admin.token",
    // How far a member of a cluster is: of another moment than the rest, and of a log that is no part of it.
    "cluster.json",
    "restoring",
    running::FILE,
];

/// All files of one moment.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(super) files: Vec<SourceFile>,
    pub(super) empty_directories: Vec<String>,
}

#[derive(Debug)]
pub(super) struct SourceFile {
    /// Its path in the backup.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) mode: u32,
}

impl Sources {
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    fn file(&mut self, name: String, path: &Path) -> io::Result<()> {
        let metadata = fs::symlink_metadata(path)?;
        self.files.push(SourceFile {
            name,
            path: path.to_owned(),
            size: metadata.len(),
            mode: metadata.mode() & 0o777,
        });
        Ok(())
    }

    /// Everything below a directory but what `is_left_out` says of the name at the top and of files.
    fn tree(
        &mut self,
        name: &str,
        path: &Path,
        is_left_out: &dyn Fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let mut is_empty = true;
        let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            is_empty = false;
            let file_name = entry.file_name();
            // The node makes no other names.
            let Some(own) = file_name.to_str().filter(|own| !is_left_out(own)) else {
                continue;
            };
            let (name, path) = (format!("{name}/{own}"), entry.path());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.tree(&name, &path, is_left_out)?;
            } else if kind.is_file() {
                self.file(name, &path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
            }
        }
        if is_empty {
            self.empty_directories.push(name.to_owned());
        }
        Ok(())
    }

    /// A copy of the database: a file, or a directory of rows.
    fn database(&mut self, copy: &Path) -> anyhow::Result<()> {
        if copy.is_dir() {
            return self.tree(ROWS.trim_end_matches('/'), copy, &|_| false);
        }
        self.file("gripfast.sqlite".to_owned(), copy)
            .with_context(|| format!("cannot read {}", copy.display()))
    }

    /// Keys, names and pictures, which lie in the data directory itself.
    fn own_files(&mut self, data_dir: &Path) -> anyhow::Result<()> {
        let failed = || format!("cannot read {}", data_dir.display());
        for entry in fs::read_dir(data_dir).with_context(failed)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_kept = !NOT_KEPT.contains(&name.as_str())
                && !name.starts_with("gripfast.sqlite")
                && !name.ends_with(".new")
                && !name.ends_with(".half");
            if is_kept && entry.file_type()?.is_file() {
                self.file(name, &entry.path()).with_context(failed)?;
            }
        }
        self.tree("avatars", &data_dir.join("avatars"), &|_| false)
    }
}

/// The files of a running node, as it laid them out.
pub(crate) fn frozen(state: &FrozenState, data_dir: &Path) -> anyhow::Result<Sources> {
    let mut sources = Sources::default();
    sources.tree("git", Path::new(&state.git), &|_| false)?;
    sources.tree("relay/events", Path::new(&state.events), &is_lock_of_events)?;
    if let Some(database) = &state.database {
        sources.database(Path::new(database))?;
    }
    sources.own_files(data_dir)?;
    Ok(sources)
}

/// The files of a node that does not run, whose directories the caller has locked; with its rows where the
/// database is a server.
pub(crate) fn stopped(settings: &Settings, rows: Option<&Path>) -> anyhow::Result<Sources> {
    let mut sources = Sources::default();
    sources.tree("git", &settings.git_data_path(), &is_made_again)?;
    let events = settings.relay_data_path().join("events");
    sources.tree("relay/events", &events, &is_lock_of_events)?;
    if let Some(rows) = rows {
        sources.database(rows)?;
    } else if let DatabasePlace::File(path) = settings.database() {
        // With what was not written into the file itself yet.
        for suffix in ["", "-wal"] {
            let mut part = path.clone().into_os_string();
            part.push(suffix);
            let part = PathBuf::from(part);
            if part.exists() {
                sources
                    .file(format!("gripfast.sqlite{suffix}"), &part)
                    .with_context(|| format!("cannot read {}", part.display()))?;
            }
        }
    }
    sources.own_files(&settings.storage.data_dir)?;
    Ok(sources)
}

fn is_made_again(name: &str) -> bool {
    let is_passing = matches!(name, ".quarantine" | ".frozen" | "gripfast.lock");
    is_passing || name.starts_with("multi-pack-index") || name.ends_with(".bitmap")
}

fn is_lock_of_events(name: &str) -> bool {
    name == "lock.mdb" || name.starts_with(".compact-")
}
