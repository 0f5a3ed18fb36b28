//! From a node that serves alone to the first member of a cluster, and back. Nothing runs meanwhile.
//!
//! ```text
//! keys, rows of the database ─▶ packs, snapshot ─▶ the log begins ─▶ this directory is a member
//! ```
//!
//! Each step may be done again: what was cut short is begun again by the next call, and until the last
//! one the directory is what it was.

use anyhow::{Context as _, bail, ensure};
use grip_cluster::{Cluster, PackStore, Position, SingleNode};
use grip_db::Db;
use grip_tasks::TaskGroup;
use serde::Serialize;

use super::{enter, keys, open};
use crate::{backup, commands::progress::Progress, config::Settings, node::DirLock};

/// The database of a node that serves alone.
const FILE: &str = "gripfast.sqlite";
/// Notes in the cluster's keys that rows are being taken over; no node reads it.
const ADOPTING: &str = "adopting";

/// What has become the cluster's.
#[derive(Debug, Serialize)]
pub(crate) struct Adopted {
    pub(crate) repositories: usize,
    pub(crate) events: u64,
    /// Of the database: what waits, jobs, the index.
    pub(crate) rows: u64,
}

/// Makes the data directory of a node that served alone the first member of a cluster.
pub(crate) async fn adopt(settings: &Settings) -> anyhow::Result<Adopted> {
    let data_dir = &settings.storage.data_dir;
    let _lock = take(settings)?;
    backup::check_finished(data_dir)?;
    let (cluster, packs) = enter(settings).await?;
    if let Some(state) = cluster.state().await?
        && state.is_led()
    {
        bail!("{} leads the cluster: stop its nodes first", state.leader);
    }
    let position = Position::new(data_dir, &settings.cluster.cluster_name);
    ensure!(
        position.read()?.is_none(),
        "{} is a member of the cluster already",
        data_dir.display()
    );
    let marked = cluster.mark(&packs).await;
    marked.context("cannot write to cluster_packs")?;
    keys::give(&cluster, data_dir).await?;
    let rows = take_rows(settings, &cluster).await?;
    let group = TaskGroup::new("adopt");
    let (store, repositories) = open(settings, &group, None, None).await?;
    let all = repositories.list().context("cannot list what is here")?;
    let mut progress = Progress::bytes("packs and events", 0);
    let adopted = Adopted {
        repositories: all.len(),
        events: store.stats()?.events,
        rows,
    };
    let node = SingleNode {
        store,
        repositories,
        directory: data_dir.clone(),
        group,
    };
    let on_progress = move |done, total| progress.set(done, total);
    let tip = cluster.adopt(&packs, &node, on_progress).await;
    let tip = tip.context("cannot make what is here the cluster's")?;
    position.write(&tip)?;
    cluster.db().close().await;
    Ok(adopted)
}

/// Takes the rows over that this node has in the database, under the name of the cluster.
async fn take_rows(settings: &Settings, cluster: &Cluster) -> anyhow::Result<u64> {
    let name = &settings.cluster.cluster_name;
    let path = settings.storage.data_dir.join(FILE);
    if !path.exists() {
        let renamed = cluster.db().rename_rows(&cluster.member().node, name);
        return renamed.await.context("cannot give rows to the cluster");
    }
    let file = Db::open(&path).await;
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    let has_begun = cluster.keys().await?.iter().any(|(key, _)| key == ADOPTING);
    if !has_begun && !cluster.db().is_unused(&file).await? {
        bail!("the database holds something of another node: use an empty one (database_url)");
    }
    cluster.keep_key(ADOPTING, &cluster.member().node).await?;
    let mut progress = Progress::items("rows", 0);
    let on_progress = &mut |done, total| progress.set(done, total);
    let taken = cluster.db().take_rows(&file, name, on_progress).await;
    progress.finish();
    file.close().await;
    taken.context("cannot take the rows of the database over")
}

/// Makes the data directory of a member, which has all that the cluster has, one of a node that serves
/// alone.
pub(crate) async fn leave(settings: &Settings) -> anyhow::Result<()> {
    let data_dir = &settings.storage.data_dir;
    let _lock = take(settings)?;
    let (cluster, packs) = enter(settings).await?;
    let position = Position::new(data_dir, &settings.cluster.cluster_name);
    let noted = position.read()?;
    let noted = noted.with_context(|| format!("{} is no member", data_dir.display()))?;
    let state = cluster.state().await?;
    let state = state.context("the database does not know the cluster")?;
    cluster.db().close().await;
    if state.is_led() {
        bail!(
            "{} leads the cluster: stop all its nodes first",
            state.leader
        );
    }
    if noted.joining.is_some() || noted.tip != state.tip() {
        bail!(
            "this node has not all that the cluster has: leave with one that has (`gripfast cluster status`)"
        );
    }
    fetch_all(settings, &packs).await?;
    Ok(position.remove()?)
}

/// Fetches every pack that is not on this disk: a node alone has no other place for them, and what it
/// has from then on is in no other.
async fn fetch_all(settings: &Settings, packs: &PackStore) -> anyhow::Result<()> {
    let group = TaskGroup::new("leave");
    let (_, repositories) = open(settings, &group, None, Some(packs)).await?;
    let mut progress = Progress::items("identifiers", 0);
    let fetching = group.spawn_blocking("cluster.packs", move || {
        repositories.leave_cache(|done, total| progress.set(done as u64, total as u64))
    });
    fetching.await?.context("cannot fetch all packs")
}

fn take(settings: &Settings) -> anyhow::Result<DirLock> {
    ensure!(
        settings.cluster.cluster_packs.is_some(),
        "set cluster_packs, database_url and the other settings of the cluster first (docs/cluster.md)"
    );
    let lock = DirLock::take(&[
        &settings.storage.data_dir,
        &settings.git_data_path(),
        &settings.relay_data_path(),
    ])?;
    Ok(lock)
}
