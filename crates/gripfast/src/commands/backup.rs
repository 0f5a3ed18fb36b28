//! `gripfast backup`.

use std::{
    fs::File,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use grip_web::api_types::FrozenState;
use reqwest::Method;
use rustix::{
    fs::{FlockOperation, Mode, flock},
    process::umask,
};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    backup::{self, Directory, Made, Restored, Target},
    cli::{BackupRequest, NodeRequest},
    commands::{
        client::Node,
        progress::{Progress, size},
        table::Table,
        when::Now,
    },
    config::{self, DatabasePlace, ProcessEnvironment, Settings},
    node::{DirLock, LockError, database},
};

const PATH: [&str; 3] = ["api", "v1", "backup"];
/// One backup of a data directory at a time.
const LOCK: &str = "backup.lock";
/// How long the node may lay nothing more out.
const MAX_STANDSTILL: Duration = Duration::from_secs(300);

/// Makes a backup of the running node, or of one that does not run.
pub(crate) fn run(request: &NodeRequest, backup: &BackupRequest) -> anyhow::Result<()> {
    if backup.list {
        return list(request, &backup.to);
    }
    // There are keys among what is copied.
    umask(Mode::RWXG | Mode::RWXO);
    let settings = config::load(&request.flags, &ProcessEnvironment)?.settings;
    let node = Node::new(request)?;
    // Before anything is made at the other end.
    if !node.data_dir().is_dir() {
        bail!(
            "there is no data directory {}; name that of the node with --data-dir",
            node.data_dir().display()
        );
    }
    let directory = Directory::open_or_make(&backup.to)?;
    let _alone = directory.lock()?;
    let _lock = lock(node.data_dir())?;
    let made = match DirLock::try_take(node.data_dir()) {
        Ok(_held) if request.url.is_none() => of_stopped(&settings, node.data_dir(), &directory)?,
        Ok(_) | Err(LockError::InUse { .. }) => of_running(&node, &directory)?,
        Err(error) => return Err(error.into()),
    };
    let verified = if backup.verify {
        Some(verify(&directory, &made.name, &settings)?)
    } else {
        None
    };
    let removed = match backup.keep {
        Some(keep) => directory.prune(keep as usize, &directory.read(&made.name)?)?,
        None => 0,
    };
    print(request, &made, verified.as_ref(), removed);
    Ok(())
}

fn of_running(node: &Node<'_>, directory: &Directory) -> anyhow::Result<Made> {
    let end = || node.change_slowly(Method::POST, &[&PATH[..], &["end"]].concat(), &[]);
    let state = laid_out(node).inspect_err(|_| drop(end()))?;
    let made = read_frozen(&state).and_then(|_reading| {
        let sources = backup::frozen(&state, node.data_dir());
        let sources = sources.context("run this as the user of the node, or as root")?;
        backup::make(directory, &sources, node.name())
    });
    // Also where it failed: links keep the space of what goes meanwhile.
    let ended = end();
    let made = made?;
    ended.context("the backup is complete, but the node could not clear up behind it")?;
    Ok(made)
}

/// Tells the node that what it laid out is read, for as long as the result lives: it removes what nobody
/// reads for an hour.
fn read_frozen(state: &FrozenState) -> anyhow::Result<File> {
    let git = Path::new(&state.git);
    let place = git.parent().context("the node names no directory")?;
    let failed = || format!("cannot read {}", place.display());
    let reading = File::open(place).with_context(failed)?;
    flock(&reading, FlockOperation::NonBlockingLockShared).with_context(failed)?;
    Ok(reading)
}

/// Has the node lay its state out, however long that takes, as long as it gets on.
fn laid_out(node: &Node<'_>) -> anyhow::Result<FrozenState> {
    let (mut advanced, mut before) = (Instant::now(), (0, 0));
    let mut copying = Some(Progress::bytes("events and database", 0));
    let mut linking = None;
    loop {
        let answer = node.change_slowly(Method::POST, &PATH, &[])?;
        let state: FrozenState =
            serde_json::from_str(&answer).context("the answer cannot be read")?;
        if state.is_complete {
            copying
                .into_iter()
                .chain(linking)
                .for_each(Progress::finish);
            return Ok(state);
        }
        let now = (state.links, state.copied_bytes);
        if now != before {
            (before, advanced) = (now, Instant::now());
        }
        if advanced.elapsed() >= MAX_STANDSTILL {
            bail!(
                "the node has laid out {} files and {} and does not get on; its log says more",
                state.links,
                size(state.copied_bytes)
            );
        }
        // Repositories come when all else is copied.
        if state.total_trees > 0 {
            copying.take().into_iter().for_each(Progress::finish);
            let linking =
                linking.get_or_insert_with(|| Progress::items("repositories", state.total_trees));
            linking.set(state.trees, state.total_trees.max(state.trees));
            linking.note(|| format!("{} files", state.links));
        } else if let Some(copying) = &mut copying {
            copying.set(state.copied_bytes, state.total_bytes);
        }
    }
}

fn of_stopped(settings: &Settings, data_dir: &Path, directory: &Directory) -> anyhow::Result<Made> {
    if data_dir != settings.storage.data_dir {
        bail!(
            "the node of {} does not run; name its data directory with --data-dir",
            data_dir.display()
        );
    }
    if !crate::node::is_data_dir(data_dir) {
        bail!(
            "no node runs, and {} holds none; name its data directory with --data-dir",
            data_dir.display()
        );
    }
    backup::check_finished(data_dir)?;
    if settings.cluster.cluster_packs.is_some() {
        bail!(
            "{} is of a member of a cluster, which may lack packs and events while it does not run: start \
             it, and make the backup where the leader runs (`gripfast cluster status`)",
            data_dir.display()
        );
    }
    let rows = match settings.database() {
        DatabasePlace::File(path) if path.exists() => None,
        // Else what waits would be missing, and nobody would be told.
        DatabasePlace::File(path) => bail!(
            "there is no database {}: name the one of the node with --database-url",
            path.display()
        ),
        DatabasePlace::Server(_) => Some(rows(settings, directory)?),
    };
    let sources = backup::stopped(settings, rows.as_ref().map(TempDir::path))?;
    backup::make(directory, &sources, &settings.service().http_url())
}

/// Rows that the node has on a database server, under its own name: it does not run elsewhere meanwhile.
#[tokio::main(flavor = "current_thread")]
async fn rows(settings: &Settings, directory: &Directory) -> anyhow::Result<TempDir> {
    let place = directory.rows_dir()?;
    let db = database::open(settings, None).await?;
    let copied = db.copy_to(place.path(), || Ok(())).await;
    db.close().await;
    copied.context("cannot back up the rows of the database")?;
    Ok(place)
}

fn lock(data_dir: &Path) -> anyhow::Result<File> {
    let path = data_dir.join(LOCK);
    // One that somebody else made will do: it is locked, not written.
    let opened = File::open(&path).or_else(|_| File::create(&path));
    let file = opened.with_context(|| {
        format!(
            "cannot write to {}; run this as the user of the node, or as root",
            data_dir.display()
        )
    })?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("another backup of {} is under way", data_dir.display());
    }
    Ok(file)
}

/// Restores into a directory of its own, and removes that again.
#[tokio::main(flavor = "current_thread")]
async fn verify(
    directory: &Directory,
    name: &str,
    settings: &Settings,
) -> anyhow::Result<Restored> {
    let place = directory.verify_dir()?;
    let target = Target::below(&place.path().join("data"), &settings.storage.git_program);
    let snapshot = directory.read(name)?;
    let restored = backup::restore(directory, name, &snapshot, &target, true).await;
    restored.context("the backup was made, and cannot be restored")
}

fn print(request: &NodeRequest, made: &Made, verified: Option<&Restored>, removed: usize) {
    if request.json {
        let report = json!({ "made": made, "verified": verified, "removed": removed });
        anstream::println!("{report:#}");
        return;
    }
    anstream::println!(
        "backup {}: {} files, {}, of which {} are new",
        made.name,
        made.files,
        size(made.bytes),
        size(made.new_bytes)
    );
    if let Some(restored) = verified {
        anstream::println!(
            "restored and checked: repositories {}, events {}",
            restored.repositories,
            restored.events
        );
    }
    if removed > 0 {
        anstream::println!("removed older backups: {removed}");
    }
}

fn list(request: &NodeRequest, root: &Path) -> anyhow::Result<()> {
    let directory = Directory::open(root)?;
    let (names, mut backups) = (directory.names()?, Vec::new());
    // The newest, which come last.
    let left_out = names
        .len()
        .saturating_sub(request.limit.unwrap_or(usize::MAX));
    for name in names.into_iter().skip(left_out) {
        let snapshot = directory.read(&name)?;
        backups.push((name, snapshot));
    }
    if request.json {
        let rows = backups.iter().map(|(name, snapshot)| {
            json!({
                "name": name, "made_at": snapshot.made_at * 1000, "url": snapshot.url,
                "files": snapshot.files.len(), "bytes": snapshot.bytes(),
            })
        });
        anstream::println!("{:#}", json!({ "backups": rows.collect::<Vec<_>>() }));
        return Ok(());
    }
    if backups.is_empty() {
        anstream::println!("no backups");
        return Ok(());
    }
    let mut table = Table::new(["backup", "made", "files", "size", "node"], 4);
    let now = Now::new();
    for (name, snapshot) in &backups {
        let (when, bytes) = (now.seconds(snapshot.made_at), size(snapshot.bytes()));
        table.row([name, &when, &snapshot.files.len(), &bytes, &snapshot.url]);
    }
    anstream::print!("{}", table.render());
    Ok(())
}
