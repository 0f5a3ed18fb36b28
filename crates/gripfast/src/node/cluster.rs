//! A node as part of a cluster: it follows the log and serves what it has, until it leads.
//!
//! ```text
//! catch up ─▶ serve fetches, forward the rest ─▶ nobody leads? ─▶ lead: the node as it is alone,
//!                ▲                       │                        with every change logged first
//!                └── the log, all along ─┘
//! ```
//!
//! A leader that is not one any more ends; started again, it follows.

mod adopt;
mod joining;
mod keys;
mod leadership;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use grip_cluster::{
    Cluster, FollowError, Follower, Lease, Member, PackStore, Position, SnapshotOptions,
    SweepOptions, Tip,
};
use grip_git::Repositories;
use grip_store::EventStore;
use grip_tasks::{Ended, TaskGroup};
use grip_web::{Freshness, Readiness, Replica};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, sleep},
};

pub(crate) use self::adopt::{adopt, leave};
use self::joining::Begin;
pub(super) use self::leadership::{Leadership, end, lost};
use super::{
    component_settings,
    components::{BACKLOG, bind, open},
    database,
    identity::Identity,
    object_store,
    signals::Signals,
    systemd::ServiceManager,
};
use crate::{
    config::{Loaded, ProcessEnvironment, Settings, local_url},
    running::{Record, RunningNode},
};

/// How often a follower looks who leads, and says that it lives.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long requests under way have when a follower begins to lead.
const HANDOVER_GRACE: Duration = Duration::from_secs(2);
/// What `/readyz` calls it.
const PART: &str = "cluster";

/// Follows the cluster until this node leads it; none if it was told to stop.
pub(super) async fn follow(
    loaded: &Loaded,
    signals: &mut Signals,
    service_manager: &ServiceManager,
) -> anyhow::Result<Option<Leadership>> {
    let settings = &loaded.settings;
    let member = tokio::select! {
        joined = Joined::open(settings) => joined?,
        signal = signals.stop() => {
            tracing::info!(signal, "stopped before it was part of the cluster");
            return Ok(None);
        }
    };
    let leading = tokio::select! {
        leading = member.serve_until_leading(settings, service_manager) => Some(leading?),
        signal = signals.stop() => {
            tracing::info!(signal, "stopping, accepting no new work");
            None
        }
    };
    service_manager.status("finishing work in progress");
    member.end(leading).await
}

/// Reaches the database and the store of packs, under the name of this node.
async fn enter(settings: &Settings) -> anyhow::Result<(Cluster, PackStore)> {
    let place = settings.cluster.cluster_packs.clone().unwrap_or_default();
    let name = &settings.cluster.cluster_name;
    let node = database::node_name(settings)?;
    if node == *name {
        bail!("cluster_name and node_name are both {name:?}: a cluster needs a name of its own");
    }
    let packs = PackStore::open(&place).context("cannot use cluster_packs")?;
    let checked = packs.check().await;
    checked.with_context(|| format!("cannot use cluster_packs ({place})"))?;
    let db = database::open(settings, None).await?;
    let member = Member {
        cluster: name.clone(),
        node,
        address: settings.cluster_address().to_string(),
    };
    let cluster = Cluster::open(db, member).await?;
    Ok((cluster, packs))
}

/// A node that is part of the cluster and follows it.
struct Joined {
    cluster: Cluster,
    packs: PackStore,
    store: EventStore,
    repositories: Repositories,
    follower: Follower,
    position: Arc<Position>,
    snapshots: SnapshotOptions,
    sweeps: SweepOptions,
    /// Connections, and what they asked for.
    front: TaskGroup,
    /// What follows the log.
    back: TaskGroup,
    /// What fetches packs and evicts them.
    cache: TaskGroup,
}

impl Joined {
    /// Opens what is on this disk, and brings it up to date.
    async fn open(settings: &Settings) -> anyhow::Result<Self> {
        let (cluster, packs) = enter(settings).await?;
        let name = &settings.cluster.cluster_name;
        keys::take(&cluster, &settings.storage.data_dir).await?;
        let root = TaskGroup::new("cluster");
        let (front, back) = (root.child("front"), root.child("back"));
        let cache = root.child("cache");
        let position = Arc::new(Position::new(&settings.storage.data_dir, name));
        let known = joining::prepare(settings, &cluster, &position).await?;
        let (store, repositories) = open(settings, &cache, None, Some(&packs)).await?;
        // Which events are out of service is known to the leader alone.
        repositories.withheld_tips().withhold_unshown();
        let (tip, snapshot) = match known {
            Begin::Log(tip) => (tip, None),
            Begin::Snapshot(snapshot) => (Tip::default(), Some(snapshot)),
            Begin::New(newest) => {
                refuse_other(&store, &repositories)?;
                (joining::begin(&position, newest.as_ref())?, newest)
            }
        };
        let seq = tip.seq;
        let copy = (store.clone(), repositories.clone());
        let follower = Follower::new(
            cluster.clone(),
            copy,
            packs.clone(),
            Arc::clone(&position),
            tip,
            back.clone(),
        );
        let catching_up = async {
            if let Some(snapshot) = &snapshot {
                follower.take_over(snapshot).await?;
            }
            follower.catch_up().await
        };
        // Reported meanwhile, so that the log is not trimmed.
        let applied = tokio::select! {
            applied = catching_up => applied.context("cannot follow the cluster")?,
            never = report(&follower) => match never {},
        };
        tracing::info!(
            cluster = name,
            records = applied.seq - seq,
            "caught up with the cluster"
        );
        Ok(Self {
            cluster,
            packs,
            store,
            repositories,
            follower,
            position,
            snapshots: SnapshotOptions {
                records: settings.cluster.cluster_snapshot_records,
                away: settings.cluster.cluster_away,
            },
            sweeps: SweepOptions {
                grace: settings.cluster.cluster_keep_packs,
                away: settings.cluster.cluster_away,
            },
            front,
            back,
            cache,
        })
    }

    /// Serves what is here and forwards the rest, until nobody else leads and this node may.
    async fn serve_until_leading(
        &self,
        settings: &Settings,
        service_manager: &ServiceManager,
    ) -> anyhow::Result<Lease> {
        let (leader, known_leader) = watch::channel(None);
        let readiness = Readiness::ready();
        let following = self.follower.clone();
        let stop = self.back.token();
        self.back
            .spawn("cluster.follow", async move { following.run(stop).await });
        let (maintaining, stop) = (self.follower.clone(), self.back.token());
        self.back.spawn("cluster.repack", async move {
            maintaining.maintain(stop).await;
        });
        keep_packs(settings, &self.repositories, &self.cache);
        object_store::watch(&self.packs, &readiness, &self.back);
        // Who is alone leads at once; nobody is told to wait for that.
        if let Some(lease) = self.look(settings, &leader, &readiness).await? {
            return Ok(lease);
        }
        let (socket, address) = bind(settings.reach.bind_address)?;
        let listener = socket
            .listen(BACKLOG)
            .with_context(|| format!("cannot listen on {address}"))?;
        let identity = Identity::open(settings)?;
        let service = settings.service();
        let web = component_settings::web(settings, &service, &identity);
        let replica = Replica {
            repositories: self.repositories.clone(),
            settings: Arc::new(ArcSwap::from_pointee(web)),
            readiness: readiness.clone(),
            leader: known_leader,
            freshness: Arc::new(UpToDate(self.follower.clone())),
        };
        let group = self.front.clone();
        self.front.spawn("http", async move {
            grip_web::serve_replica(listener, replica, &group).await;
        });
        let url = local_url(address, service.base());
        let node = RunningNode::this(url.clone(), &settings.storage.data_dir)?;
        let _record = Record::write(&node, &ProcessEnvironment);
        tracing::info!(%address, "following the cluster");
        service_manager.ready(&format!("following the cluster at {url}"));
        anstream::println!("gripfast follows its cluster at {url}");
        let mut due = interval(LOOK_EVERY);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = due.tick() => service_manager.alive(),
                () = self.cluster.db().name_taken() => bail!(
                    "another gripfast has taken the name {:?} in the database (node_name)",
                    self.cluster.member().node
                ),
            }
            match self.look(settings, &leader, &readiness).await {
                Ok(Some(lease)) => return Ok(lease),
                Ok(None) => {}
                // The next start begins with a snapshot.
                Err(error) if is_trimmed(&error) => return Err(error),
                Err(error) => readiness.lacks(PART, format!("{error:#}")),
            }
        }
    }

    /// Looks who leads; takes the lead if nobody does and everything is here.
    async fn look(
        &self,
        settings: &Settings,
        leader: &watch::Sender<Option<SocketAddr>>,
        readiness: &Readiness,
    ) -> anyhow::Result<Option<Lease>> {
        let applied = self.follower.applied();
        self.follower.report().await?;
        let state = self.cluster.state().await?;
        let state = state.context("the database does not know the cluster any more")?;
        let own = &self.cluster.member().node;
        let is_led = state.is_led() && state.leader != *own;
        let address = state.address.parse().ok().filter(|_| is_led);
        leader.send_if_modified(|known| {
            let has_changed = *known != address;
            *known = address;
            has_changed
        });
        match self.follower.trouble() {
            Some(why) => readiness.lacks(PART, why),
            None => readiness.has(PART),
        }
        let leaderless = (!is_led).then(|| "no node leads the cluster".to_owned());
        readiness.degrade(PART, leaderless);
        state.check_copy(&applied)?;
        if is_led || applied.seq < state.tip().seq {
            return Ok(None);
        }
        let Some(lease) = self.cluster.acquire(settings.cluster.cluster_lease).await? else {
            return Ok(None);
        };
        let take_over = async {
            // Nobody else appends any more; this is the end of the log.
            self.follower.catch_up().await?;
            // The leader of before may have made them after this node joined.
            keys::take(&self.cluster, &settings.storage.data_dir).await
        };
        match take_over.await {
            Ok(()) => Ok(Some(lease)),
            Err(error) => {
                lease.release().await?;
                Err(error)
            }
        }
    }

    /// Stops to serve as a follower; goes on as the leader, if so.
    async fn end(self, lease: Option<Lease>) -> anyhow::Result<Option<Leadership>> {
        let leadership = match &lease {
            Some(lease) => {
                let epoch = lease.epoch();
                tracing::info!(epoch, "this node leads the cluster from now on");
                Some(Leadership::start(
                    lease.clone(),
                    self.packs.clone(),
                    self.store.clone(),
                    self.position,
                    self.follower.applied(),
                    (self.snapshots, self.sweeps),
                ))
            }
            None => None,
        };
        if let Ended::Aborted { left } = self.front.shutdown(HANDOVER_GRACE).await {
            tracing::info!(left, "cut requests that took too long");
        }
        if let Ended::Aborted { left } = self.cache.shutdown(HANDOVER_GRACE).await {
            if leadership.is_some() {
                bail!("packs were still being evicted; start the node again");
            }
            tracing::info!(left, "left packs that were being fetched or evicted");
        }
        if leadership.is_some() && !self.follower.remove_rest().await {
            // What a leader has and the log does not would be in no other copy.
            bail!("a store that the log removed is still read; start the node again");
        }
        if leadership.is_some() && !leave_outdated(&self.repositories, &self.back).await? {
            bail!("objects that the log removed are still read; start the node again");
        }
        if let Ended::Aborted { .. } = self.back.shutdown(HANDOVER_GRACE).await {
            bail!("a record of the cluster's log was still being applied; start the node again");
        }
        if leadership.is_none() {
            // It may have taken the lead at the moment in which it was told to stop.
            if let Err(error) = self.cluster.resign().await {
                tracing::warn!(%error, "failed to give up the lead, if this node has it");
            }
            self.cluster.db().close().await;
        }
        Ok(leadership)
    }
}

/// Removes objects that were collected and are still on this disk; false if somebody reads them.
async fn leave_outdated(repositories: &Repositories, group: &TaskGroup) -> anyhow::Result<bool> {
    let copy = repositories.clone();
    let leaving = move || copy.leave_outdated();
    let left = group.spawn_blocking("cluster.apply", leaving).await?;
    left.context("cannot remove objects that the log removed")
}

/// Keeps as many packs on this disk as the settings say, for as long as the group lives.
pub(super) fn keep_packs(settings: &Settings, repositories: &Repositories, group: &TaskGroup) {
    let keeping = grip_cluster::keep_packs(
        repositories.clone(),
        settings.cluster.cluster_cache_bytes,
        group.clone(),
        group.token(),
    );
    group.spawn("cluster.cache", keeping);
}

/// Says whether the log does not have any more what this node needs next.
fn is_trimmed(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(FollowError::Trimmed { .. }))
}

/// Refuses a data directory that is a copy of a cluster: what a node alone changes in it is in no log.
pub(super) fn refuse_copy(settings: &Settings) -> anyhow::Result<()> {
    let data_dir = &settings.storage.data_dir;
    if Position::is_noted_in(data_dir) {
        bail!(
            "{} is a node's copy of a cluster: start it with cluster_packs, or use another data_dir",
            data_dir.display()
        );
    }
    Ok(())
}

/// Says again and again how far a node has followed.
async fn report(follower: &Follower) -> Infallible {
    loop {
        if let Err(error) = follower.report().await {
            tracing::debug!(%error, "failed to report the position of this node");
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Refuses a data directory that holds something of its own.
fn refuse_other(store: &EventStore, repositories: &Repositories) -> anyhow::Result<()> {
    let is_empty = repositories
        .is_empty()
        .context("cannot list what is here")?;
    if !is_empty || store.stats()?.events > 0 {
        bail!(
            "this data directory holds repositories or events that are not the cluster's: start a \
             node of a cluster with an empty data directory"
        );
    }
    Ok(())
}

/// The follower, as the edge asks for it.
struct UpToDate(Follower);

impl Freshness for UpToDate {
    fn catch_up(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.0.is_fresh())
    }
}
