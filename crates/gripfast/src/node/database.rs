//! The database: opened where the settings say, and watched.

use std::{fs, io, path::Path};

use anyhow::{Context as _, bail};
use grip_db::{Db, Fence, Server};
use grip_tasks::TaskGroup;
use grip_web::Readiness;

use crate::config::{DatabasePlace, SecretText, Settings, parse_node_name};

/// Keeps the name of this node, in the data directory.
const NAME: &str = "node.name";
/// Connections of a command: one does its work, the others are its own.
const CONNECTIONS_BESIDE: u32 = 4;
/// What `/readyz` calls it.
const PART: &str = "database";

/// Opens the file, or connects to the server: under the name of this node, or as the leader that
/// `fence` lets write under the name of its cluster.
pub(crate) async fn open(settings: &Settings, fence: Option<Fence>) -> anyhow::Result<Db> {
    let storage = &settings.storage;
    let url = match settings.database() {
        DatabasePlace::File(path) => {
            let opened = Db::open(&path).await;
            return opened.with_context(|| format!("cannot open {}", path.display()));
        }
        DatabasePlace::Server(url) => url,
    };
    let node = match &fence {
        Some(fence) => fence.cluster.clone(),
        None => node_name(settings)?,
    };
    let server = Server {
        connections: storage.database_connections,
        fence,
        ..Server::new(url.reveal(), &node)
    };
    let db = Db::connect(&server)
        .await
        .context("cannot use the database (database_url)")?;
    tracing::info!(
        node,
        ?server,
        "the database is shared under the name of this node"
    );
    Ok(db)
}

/// Connects to a server for a command, under a name of its own beside the nodes.
pub(crate) async fn connect_beside(url: &SecretText, purpose: &str) -> anyhow::Result<Db> {
    let server = Server {
        connections: CONNECTIONS_BESIDE,
        ..Server::new(
            url.reveal(),
            format!("{purpose}-{:08x}", rand::random::<u32>()),
        )
    };
    let connected = Db::connect(&server).await;
    connected.context("cannot use the database (database_url)")
}

/// The name that was given to this node, or that it keeps.
pub(super) fn node_name(settings: &Settings) -> anyhow::Result<String> {
    match &settings.storage.node_name {
        Some(name) => Ok(name.clone()),
        None => kept_name(&settings.storage.data_dir),
    }
}

/// The name made at the first start: what is held under it is found again.
pub(crate) fn kept_name(data_dir: &Path) -> anyhow::Result<String> {
    let path = data_dir.join(NAME);
    let shown = path.display();
    match fs::read_to_string(&path) {
        Ok(text) => match parse_node_name(text.trim()) {
            Ok(name) if !name.is_empty() => Ok(name),
            _ => bail!(
                "{shown} holds no name: letters, digits, `-`, `_` and `.` make one. Under the \
                 name it had, this node has entries in the database; another one begins without"
            ),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = format!("node-{:012x}", rand::random::<u64>() & 0xffff_ffff_ffff);
            write_whole(&path, &name).with_context(|| format!("cannot keep a name in {shown}"))?;
            Ok(name)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
    }
}

/// Appears whole under its name or not at all; the directory is locked by this process.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let half = path.with_extension("half");
    fs::write(&half, format!("{text}\n"))?;
    fs::File::open(&half)?.sync_all()?;
    fs::rename(half, path)
}

/// Has `/readyz` say when the database cannot be reached.
pub(super) fn watch(db: &Db, readiness: &Readiness, group: &TaskGroup) {
    let (mut outage, readiness, stop) = (db.outage(), readiness.clone(), group.token());
    let watching = async move {
        loop {
            match &*outage.borrow_and_update() {
                Some(why) => readiness.lacks(
                    PART,
                    format!("{why}: start it again, or correct database_url"),
                ),
                None => readiness.has(PART),
            }
            if outage.changed().await.is_err() {
                return;
            }
        }
    };
    group.spawn("database.watch", async move {
        stop.run_until_cancelled(watching).await;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let name = kept_name(dir.path()).unwrap();
        assert!(parse_node_name(&name).is_ok() && name.len() > 8, "{name}");
        assert_eq!(kept_name(dir.path()).unwrap(), name);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(kept_name(other.path()).unwrap(), name);
    }

    #[test]
    fn a_file_without_a_name_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "two words", "\0"] {
            fs::write(dir.path().join(NAME), text).unwrap();
            let error = kept_name(dir.path()).unwrap_err().to_string();
            assert!(error.contains("node.name holds no name"), "{error}");
            let kept = fs::read_to_string(dir.path().join(NAME)).unwrap();
            assert_eq!(kept, text);
        }
    }
}
