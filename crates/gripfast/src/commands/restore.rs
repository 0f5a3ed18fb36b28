//! `gripfast restore`.

use anyhow::Context as _;

use crate::{
    backup::{self, Directory, RowsRestored, Target},
    cli::{NodeRequest, RestoreRequest},
    commands::progress::size,
    config::{self, ProcessEnvironment},
    node::{self, DirLock},
};

/// Brings a backup back into an empty data directory.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(request: &NodeRequest, restore: &RestoreRequest) -> anyhow::Result<()> {
    node::narrow_umask();
    let settings = config::load(&request.flags, &ProcessEnvironment)?.settings;
    let directory = Directory::open(&restore.from)?;
    let (name, snapshot) = match &restore.backup {
        Some(name) => (name.clone(), directory.read(name)?),
        None => directory.newest()?.context("there is no backup in it")?,
    };
    let target = Target::of(&settings).await?;
    let _lock = DirLock::take(&[&target.data_dir, &target.git, &target.relay])?;
    let restored = backup::restore(&directory, &name, &snapshot, &target, restore.full).await;
    if let Some((server, _)) = &target.server {
        server.close().await;
    }
    let restored = restored?;
    if request.json {
        anstream::println!("{:#}", serde_json::to_value(&restored)?);
        return Ok(());
    }
    anstream::println!(
        "restored {name} of {} into {}: {} files, {}; repositories {}, events {}",
        snapshot.url,
        target.data_dir.display(),
        restored.files,
        size(restored.bytes),
        restored.repositories,
        restored.events
    );
    if restored.is_without_database {
        anstream::println!(
            "the database was a server, which older versions left out of backups: restore its dump of that \
             time"
        );
    }
    if let Some(rows) = &restored.rows {
        anstream::println!("{}", rows_line(rows));
    }
    if settings.cluster.cluster_packs.is_some() {
        anstream::println!(
            "`gripfast cluster adopt` makes it the first member of a cluster, with an empty database and \
             an empty cluster_packs"
        );
    }
    Ok(())
}

/// What became of the rows of the database.
fn rows_line(rows: &RowsRestored) -> String {
    let line = |whose: &str, taken: Option<u64>| match taken {
        Some(taken) => format!("{whose} {taken}"),
        None => format!("{whose} left as the database has them"),
    };
    format!(
        "rows in the database: {}, {}",
        line("of this node", rows.own),
        line("of all nodes", rows.shared)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_the_database_has_are_told_from_those_that_came() {
        let line = |own, shared| rows_line(&RowsRestored { own, shared });
        assert_eq!(
            line(Some(3), Some(0)),
            "rows in the database: of this node 3, of all nodes 0"
        );
        assert_eq!(
            line(Some(3), None),
            "rows in the database: of this node 3, of all nodes left as the database has them"
        );
    }
}
