//! The state of a backup, brought back.

use std::{
    fs::{self, File, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use grip_db::Db;
use grip_git::{Options, Repositories};
use grip_store::EventStore;

use super::{
    Directory, FileEntry, ROWS, Snapshot,
    blocks::{BLOCK, Digest},
    cut, sync_file_system,
};
use crate::{
    commands::progress::Progress,
    config::{DatabasePlace, Settings},
    node::database,
};

/// Lies in a data directory until all of a backup is in it.
const MARK: &str = "restoring";
/// Rows of a database server, in a data directory until a database has them.
const ROWS_DIR: &str = ".rows";

/// Where a backup is brought to.
pub(crate) struct Target {
    pub(crate) data_dir: PathBuf,
    pub(crate) git: PathBuf,
    pub(crate) relay: PathBuf,
    pub(crate) database: PathBuf,
    /// The server that takes the rows of the database, and the name that was given to the node there.
    pub(crate) server: Option<(Db, Option<String>)>,
    pub(crate) git_program: PathBuf,
}

/// What came back.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Restored {
    pub(crate) backup: String,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    pub(crate) repositories: usize,
    pub(crate) events: u64,
    /// Every object was read.
    pub(crate) full: bool,
    pub(crate) is_without_database: bool,
    /// Where the database is a server: how many rows it took.
    pub(crate) rows: Option<RowsRestored>,
}

/// How many rows a server took; null if it had some.
#[derive(Debug, serde::Serialize)]
pub(crate) struct RowsRestored {
    pub(crate) own: Option<u64>,
    pub(crate) shared: Option<u64>,
}

impl Target {
    /// The places that the settings name. A server is reached first: who named a wrong one is told before
    /// anything is copied.
    pub(crate) async fn of(settings: &Settings) -> anyhow::Result<Self> {
        let storage = &settings.storage;
        let (database, server) = match settings.database() {
            DatabasePlace::File(path) => (path, None),
            DatabasePlace::Server(url) => {
                let file = storage.data_dir.join("gripfast.sqlite");
                // `gripfast cluster adopt` takes the file.
                let server = if settings.cluster.cluster_packs.is_none() {
                    let server = database::connect_beside(&url, "restore").await?;
                    Some((server, storage.node_name.clone()))
                } else {
                    None
                };
                (file, server)
            }
        };
        Ok(Self {
            data_dir: storage.data_dir.clone(),
            git: settings.git_data_path(),
            relay: settings.relay_data_path(),
            database,
            server,
            git_program: storage.git_program.clone(),
        })
    }

    /// The places below one directory.
    pub(crate) fn below(data_dir: &Path, git_program: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            git: data_dir.join("git"),
            relay: data_dir.join("relay"),
            database: data_dir.join("gripfast.sqlite"),
            server: None,
            git_program: git_program.to_owned(),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        if let Some(rest) = name.strip_prefix("git/") {
            return self.git.join(rest);
        }
        if let Some(rest) = name.strip_prefix("relay/") {
            return self.relay.join(rest);
        }
        if let Some(suffix) = name.strip_prefix("gripfast.sqlite") {
            return self.beside_database(suffix);
        }
        if let Some(rest) = name.strip_prefix(ROWS) {
            return self.rows().join(rest);
        }
        self.data_dir.join(name)
    }

    fn beside_database(&self, suffix: &str) -> PathBuf {
        let mut path = self.database.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    fn rows(&self) -> PathBuf {
        self.data_dir.join(ROWS_DIR)
    }

    /// Makes a file of the rows of a server.
    async fn import_rows(&self) -> anyhow::Result<()> {
        let half = self.beside_database(".half");
        remove_file(&half)?;
        let mut progress = Progress::bytes("read rows", 0);
        let on_progress = &mut |done, total| progress.set(done, total);
        let imported = Db::import_rows(&self.rows(), &half, on_progress).await;
        progress.finish();
        imported.context("cannot read the rows of the database")?;
        Ok(fs::rename(half, &self.database)?)
    }

    /// Brings the rows of the file to the server, and removes the file.
    async fn bring_rows(&self) -> anyhow::Result<Option<RowsRestored>> {
        let Some((server, name)) = self.server.as_ref().filter(|_| self.database.exists()) else {
            return Ok(None);
        };
        let node = match name {
            Some(name) => name.clone(),
            None => database::kept_name(&self.data_dir)?,
        };
        let file = Db::open(&self.database).await;
        let file = file.context("the database cannot be opened")?;
        let mut progress = Progress::items("restore rows", 0);
        let on_progress = &mut |done, total| progress.set(done, total);
        let taken = server.take_missing_rows(&file, &node, on_progress).await;
        progress.finish();
        file.close().await;
        let taken = taken.context("cannot bring rows into the database (database_url)")?;
        grip_tasks::fault::point("restore.rows_taken");
        for suffix in ["", "-wal", "-shm"] {
            remove_file(&self.beside_database(suffix))?;
        }
        Ok(Some(RowsRestored {
            own: taken.own,
            shared: taken.shared,
        }))
    }

    /// Takes empty directories, or those of a restore that did not end.
    fn prepare(&self) -> anyhow::Result<()> {
        let mark = self.data_dir.join(MARK);
        let is_elsewhere = !self.database.starts_with(&self.data_dir);
        if is_elsewhere && self.database.exists() && !mark.exists() {
            bail!(
                "the database {} is there already; name another with --database-url, or move it aside",
                self.database.display()
            );
        }
        for place in [&self.data_dir, &self.git, &self.relay] {
            let failed = || format!("cannot write to {}", place.display());
            let mut made = fs::DirBuilder::new();
            made.recursive(true)
                .mode(0o750)
                .create(place)
                .with_context(failed)?;
            let mut entries = fs::read_dir(place).with_context(failed)?;
            // The lock is ours, and took the places below with it; those are looked at themselves.
            let is_ours = |entry: &fs::DirEntry| {
                let path = entry.path();
                entry.file_name() == "gripfast.lock" || path == self.git || path == self.relay
            };
            let is_used = entries.any(|entry| !entry.as_ref().is_ok_and(is_ours));
            if is_used && !mark.exists() {
                bail!(
                    "{} is not empty; name an empty directory with --data-dir, or move this one aside",
                    place.display()
                );
            }
            if place == &self.data_dir {
                fs::write(&mark, "gripfast restore did not end; run it again\n")?;
                File::open(&mark)?.sync_all()?;
            }
        }
        Ok(())
    }
}

/// Refuses a data directory that has only a part of a backup.
pub(crate) fn check_finished(data_dir: &Path) -> anyhow::Result<()> {
    if data_dir.join(MARK).exists() {
        bail!(
            "the restore into {} did not end: run `gripfast restore` again, it goes on where it was",
            data_dir.display()
        );
    }
    Ok(())
}

/// Writes all files, checks what they are, and gives the directory free. What is there already from an
/// attempt that was stopped is read and kept.
pub(crate) async fn restore(
    directory: &Directory,
    name: &str,
    snapshot: &Snapshot,
    target: &Target,
    full: bool,
) -> anyhow::Result<Restored> {
    target.prepare()?;
    // Left by a check that was stopped: they belong to another state of the file.
    for suffix in ["-wal", "-shm"] {
        remove_file(&target.beside_database(suffix))?;
    }
    let mut progress = Progress::bytes("restore", snapshot.bytes());
    for file in &snapshot.files {
        let path = target.path(&file.path);
        let written = write(directory, file, &path, &mut progress);
        written.with_context(|| format!("cannot restore {}", path.display()))?;
        grip_tasks::fault::point("restore.file");
    }
    progress.finish();
    if target.rows().is_dir() {
        target.import_rows().await?;
    }
    for place in [&target.data_dir, &target.git, &target.relay] {
        sync_file_system(place)?;
    }
    let (repositories, events) = check(target, full).await?;
    let rows = target.bring_rows().await?;
    if target.rows().is_dir() {
        fs::remove_dir_all(target.rows())?;
    }
    fs::remove_file(target.data_dir.join(MARK))?;
    File::open(&target.data_dir)?.sync_all()?;
    Ok(Restored {
        backup: name.to_owned(),
        files: snapshot.files.len(),
        bytes: snapshot.bytes(),
        repositories,
        events,
        full,
        is_without_database: snapshot.is_without_database,
        rows,
    })
}

/// Writes one file of a backup, each block checked against its digest; one that is there is kept.
pub(super) fn write(
    directory: &Directory,
    file: &FileEntry,
    path: &Path,
    progress: &mut Progress,
) -> io::Result<()> {
    let mut make = fs::DirBuilder::new();
    make.recursive(true).mode(0o750);
    let Some(digests) = &file.blocks else {
        return make.create(path);
    };
    if let Some(parent) = path.parent() {
        make.create(parent)?;
    }
    if is_there(file, digests, path)? {
        progress.add(file.size);
        return Ok(());
    }
    let half = path.with_added_extension("half");
    // Some of them are secrets, and their modes are theirs before anything is in them.
    let mut out = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&half)?;
    out.set_permissions(Permissions::from_mode(file.mode))?;
    for digest in digests {
        let bytes = directory.blocks.get(digest)?;
        out.write_all(&bytes)?;
        progress.add(bytes.len() as u64);
    }
    fs::rename(half, path)
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the file was written before, whole.
fn is_there(file: &FileEntry, digests: &[Digest], path: &Path) -> io::Result<bool> {
    let mut found = match File::open(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if found.metadata()?.len() != file.size {
        return Ok(false);
    }
    let mut buffer = Vec::with_capacity(BLOCK);
    for digest in digests {
        cut(&file.path).next(&mut found, &mut buffer)?;
        if Digest::of(&buffer) != *digest {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Opens all as a node would: every ref must lead to an object that is there.
async fn check(target: &Target, full: bool) -> anyhow::Result<(usize, u64)> {
    let options = Options {
        git: target.git_program.clone(),
        ..Options::new(&target.git)
    };
    let repositories = Repositories::open(options).context("the repositories cannot be opened")?;
    let store = EventStore::open(&target.relay.join("events"), grip_store::Options::default())
        .context("the event store cannot be opened")?;
    if target.database.exists() {
        let db = Db::open(&target.database).await;
        db.context("the database cannot be opened")?.close().await;
    }
    let all = repositories
        .list()
        .context("the repositories cannot be listed")?;
    let mut progress = Progress::items("check repositories", all.len() as u64);
    for repo in &all {
        let refs = repositories.refs(repo)?;
        // Those of pull requests may rest on packs of the repository alone.
        let shared = refs.iter().filter(|found| !found.name.is_under_nostr());
        let (names, oids): (Vec<_>, Vec<_>) = shared.map(|found| (&found.name, found.oid)).unzip();
        let kinds = repositories.kinds(&repo.identifier, &oids)?;
        if let Some(at) = kinds.iter().position(Option::is_none) {
            bail!("{repo} lacks the object of {}", names[at]);
        }
        if full {
            let fsck = repositories.fsck(repo).await?;
            if !fsck.is_clean {
                bail!("git fsck finds fault with {repo}: {}", fsck.report.trim());
            }
        }
        progress.add(1);
    }
    progress.finish();
    let events = store
        .stats()
        .context("the event store cannot be read")?
        .events;
    Ok((all.len(), events))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_elsewhere_is_left_alone_unless_this_restore_began_it() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("other.sqlite");
        let target = Target {
            database: database.clone(),
            ..Target::below(&dir.path().join("data"), Path::new("git"))
        };
        fs::write(&database, "of somebody else").unwrap();
        let error = target.prepare().unwrap_err().to_string();
        assert!(error.contains("is there already"), "{error}");
        assert_eq!(fs::read_to_string(&database).unwrap(), "of somebody else");
        fs::remove_file(&database).unwrap();
        target.prepare().unwrap();
        // What a restore that was cut off had written goes on.
        fs::write(&database, "half").unwrap();
        target.prepare().unwrap();
    }
}
