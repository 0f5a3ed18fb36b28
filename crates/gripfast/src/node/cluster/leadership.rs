//! The lead of a cluster, while this node has it.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use grip_cluster::{
    Lease, Log, PackStore, Position, SnapshotOptions, Snapshots, SweepOptions, Tip,
};
use grip_db::Fence;
use grip_git::LoggedBy;
use grip_relay::CommitLog;
use grip_store::EventStore;
use grip_tasks::{CancellationToken, Ended, TaskGroup};
use tokio::{sync::watch, time::sleep};

use super::keys;
use crate::config::Settings;

/// How often it is noted how far the log is on this disk.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// How long the last notes may take.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// What a leader has beside all that a node has.
pub(crate) struct Leadership {
    lease: Lease,
    log: Arc<Log>,
    packs: PackStore,
    store: EventStore,
    position: Arc<Position>,
    /// Why the lease is over.
    lost: watch::Receiver<Option<String>>,
    group: TaskGroup,
}

impl Leadership {
    /// Begins to renew the lease.
    pub(super) fn start(
        lease: Lease,
        packs: PackStore,
        store: EventStore,
        position: Arc<Position>,
        tip: Tip,
        (snapshots, sweeps): (SnapshotOptions, SweepOptions),
    ) -> Self {
        let log = Arc::new(Log::new(&lease, packs.clone(), tip));
        let group = TaskGroup::new("leader");
        let (losing, lost) = watch::channel(None);
        let (kept, stop) = (lease.clone(), group.token());
        group.spawn("cluster.lease", async move {
            if let Some(reason) = stop.run_until_cancelled(kept.keep()).await {
                // Nobody listens if the node stops for another reason.
                let _ = losing.send(Some(reason));
            }
        });
        let noting = note_positions(
            Arc::clone(&log),
            Arc::clone(&position),
            group.token(),
            group.clone(),
        );
        group.spawn("cluster.position", noting);
        let snapshots = Snapshots::new(
            &lease,
            packs.clone(),
            (store.clone(), Arc::clone(&log)),
            position.directory().to_owned(),
            snapshots,
            group.clone(),
        );
        let stop = group.token();
        group.spawn("cluster.snapshot", async move {
            snapshots.run(sweeps, stop).await;
        });
        Self {
            lease,
            log,
            packs,
            store,
            position,
            lost,
            group,
        }
    }

    /// What every transaction of the node holds.
    pub(crate) fn fence(&self) -> Fence {
        self.lease.fence()
    }

    /// Says whether this node leads, at any moment: one that slept may not.
    pub(crate) fn leads(&self) -> Arc<dyn grip_web::Leads> {
        Arc::new(Held(self.lease.clone()))
    }

    pub(crate) fn commit_log(&self) -> Arc<dyn CommitLog> {
        Arc::clone(&self.log) as Arc<dyn CommitLog>
    }

    pub(crate) fn change_log(&self) -> LoggedBy {
        LoggedBy::new(Arc::clone(&self.log) as Arc<dyn grip_git::ChangeLog>)
    }

    /// The packs of all nodes.
    pub(crate) fn packs(&self) -> &PackStore {
        &self.packs
    }

    /// The event store, which stays open when a follower begins to lead.
    pub(crate) fn store(&self) -> EventStore {
        self.store.clone()
    }

    /// Shares what the node has made for itself.
    pub(crate) async fn begin(&self, settings: &Settings) -> anyhow::Result<()> {
        keys::give(self.lease.cluster(), &settings.storage.data_dir).await
    }

    /// Notes how far this disk is and gives the lead up, once nothing is written any more.
    pub(crate) async fn end(&self) {
        if let Ended::Aborted { .. } = self.group.shutdown(END_TIMEOUT).await {
            tracing::warn!("a renewal of the lease did not end in time");
        }
        note(&self.log, &self.position);
        if let Err(error) = self.lease.release().await {
            tracing::warn!(%error, "failed to give up the lead; it runs out");
        }
        self.lease.cluster().db().close().await;
    }
}

/// The lease, as the edge asks for it.
struct Held(Lease);

impl grip_web::Leads for Held {
    fn holds(&self) -> bool {
        self.0.holds()
    }

    fn runs_out(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.runs_out())
    }
}

/// Gives the lead up, where this node has it.
pub(crate) async fn end(leadership: Option<&Leadership>) {
    if let Some(leadership) = leadership {
        leadership.end().await;
    }
}

/// Waits until this node does not lead any more, and says why; for ever where it is alone.
pub(crate) async fn lost(leadership: Option<&Leadership>) -> String {
    let Some(leadership) = leadership else {
        return std::future::pending().await;
    };
    let mut lost = leadership.lost.clone();
    let lease = async {
        match lost.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "the lease of the leader is not renewed any more".to_owned(),
        }
    };
    let cluster = leadership.lease.cluster();
    tokio::select! {
        reason = lease => reason,
        reason = leadership.log.failed() => reason,
        () = cluster.db().name_taken() => {
            let node = &cluster.member().node;
            format!("another gripfast has taken the name {node:?} in the database (node_name)")
        }
    }
}

/// Notes again and again how far this disk is, here and for everybody.
async fn note_positions(
    log: Arc<Log>,
    position: Arc<Position>,
    stop: CancellationToken,
    group: TaskGroup,
) {
    let noting = async {
        let mut noted = None;
        loop {
            let now = log.position();
            if noted.as_ref() != Some(&now) {
                let (log, position) = (Arc::clone(&log), Arc::clone(&position));
                let writing = group.spawn_blocking("cluster.note", move || note(&log, &position));
                if writing.await.is_ok() {
                    noted = Some(now.clone());
                }
            }
            if let Err(error) = log.report(&now).await {
                tracing::debug!(%error, "failed to report the position of the leader");
            }
            sleep(NOTE_EVERY).await;
        }
    };
    stop.run_until_cancelled(noting).await;
}

fn note(log: &Log, position: &Position) {
    if let Err(error) = position.write(&log.position()) {
        tracing::warn!(%error, "failed to note how far this node has followed the cluster");
    }
}
