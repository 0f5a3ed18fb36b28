//! `gripfast restore`.

use anyhow::Context as _;

use crate::{
    backup::{self, Directory, Target},
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
    let target = Target::of(&settings);
    let _lock = DirLock::take(&[&target.data_dir, &target.git, &target.relay])?;
    let restored = backup::restore(&directory, &name, &snapshot, &target, restore.full).await?;
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
            "the database was a server and is not part of the backup: restore its dump of that time"
        );
    }
    Ok(())
}
