//! The worker of one relay: dials when it may, follows while it can, remembers how it went.

use std::{
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use grip_nostr::Timestamp;
use grip_tasks::TaskGroup;
use grip_types::{EventSource, Origin};
use nostr::prelude::Keys;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};

use crate::{
    Options, PrivatePeers, RelayUrl, RemoteRefs,
    connection::{Connection, Ending},
    dial::{AGAIN, ANNOUNCE, DialError, Dialler},
    health::Loss,
    intake::Intake,
    memory::{Memories, Memory},
    plan::Plan,
    relay_permits::RelayPermits,
    replication::Replication,
    session::{Now, Session, SessionStatus},
    status::{Board, Failure, Report},
};

/// What all workers share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) dialler: Dialler,
    pub(crate) private: Arc<PrivatePeers>,
    pub(crate) intake: Arc<Intake>,
    pub(crate) memories: Memories,
    pub(crate) board: Board,
    pub(crate) replication: Arc<Replication>,
    pub(crate) remote_refs: Arc<dyn RemoteRefs>,
    /// The key of this service.
    pub(crate) keys: Keys,
    /// Turns for reading history.
    pub(crate) turns: RelayPermits,
    /// Something was taken: there may be more to follow.
    pub(crate) arrived: Notify,
    pub(crate) group: TaskGroup,
}

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) relay: RelayUrl,
    pub(crate) memory: Memory,
    pub(crate) report: Report,
}

impl Worker {
    /// Follows a relay until its plan is gone or empty, or the node stops.
    pub(crate) async fn run(
        shared: Arc<Shared>,
        relay: RelayUrl,
        mut plans: watch::Receiver<Arc<Plan>>,
    ) {
        let memory = shared.memories.load(&relay).await;
        if memory.is_private {
            shared.private.note(&relay, Some(None));
        }
        let mut worker = Self {
            shared,
            relay,
            memory,
            report: Report::default(),
        };
        worker.report.repositories = plans.borrow().repositories;
        worker.follow(&mut plans).await;
        worker.save().await;
        worker.shared.board.remove(&worker.relay);
        worker.shared.replication.forget_relay(&worker.relay);
    }

    async fn follow(&mut self, plans: &mut watch::Receiver<Arc<Plan>>) {
        let stop = self.shared.group.token();
        loop {
            self.show(None);
            let pause = self.memory.health.wait(unix());
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                gone = gone(plans) => {
                    if gone {
                        return;
                    }
                    continue;
                }
                () = sleep(pause) => {}
            }
            let dialled = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                dialled = self.dial(plans) => dialled,
            };
            let Some(connection) = dialled else {
                continue;
            };
            if self.talk(connection, plans.clone()).await == Ending::Dropped {
                return;
            }
        }
    }

    async fn dial(
        &mut self,
        plans: &watch::Receiver<Arc<Plan>>,
    ) -> Option<(grip_egress::Socket, Session)> {
        let shared = Arc::clone(&self.shared);
        shared.board.dials.fetch_add(1, Ordering::Relaxed);
        let is_configured = shared.options.is_configured(&self.relay);
        let error = match shared.dialler.dial(&self.relay, is_configured).await {
            Ok((socket, limits)) => {
                let now = Now {
                    at: Instant::now(),
                    unix: unix(),
                };
                self.memory.health.connected(now.unix);
                self.memory.is_private = false;
                self.report.failure = None;
                let plan = Arc::clone(&plans.borrow());
                let progress = std::mem::take(&mut self.memory.progress);
                let uses_nip77 = shared.options.uses_nip77;
                let session = Session::start(limits, uses_nip77, plan, progress, now);
                self.memory.progress = session.progress.clone();
                tracing::info!(relay = %self.relay, "following relay");
                return Some((socket, session));
            }
            Err(error) => error,
        };
        shared.board.dials_failed.fetch_add(1, Ordering::Relaxed);
        self.memory.is_private |= matches!(error, DialError::Private);
        let failure = Failure {
            reason: grip_types::ErrorChain(&error).to_string(),
            next_step: error.next_step(),
        };
        match error.loss() {
            Ok(loss) => self.lost(loss, failure).await,
            Err(wait) => {
                self.memory.health.put_off(wait, unix());
                self.note(failure);
            }
        }
        None
    }

    async fn talk(
        &mut self,
        (socket, session): (grip_egress::Socket, Session),
        plans: watch::Receiver<Arc<Plan>>,
    ) -> Ending {
        let networks = self.shared.options.networks;
        let source = EventSource {
            origin: Origin::Synced,
            // What a relay sends counts for its network, as what a client sends does.
            network: socket.address.map(|address| networks.network(address.ip())),
            is_configured: self.shared.options.is_configured(&self.relay),
        };
        let connection = Connection {
            worker: self,
            socket: socket.stream,
            session,
            source,
            plans,
            judged: Vec::new(),
        };
        let ending = connection.run().await;
        match ending {
            Ending::Lost(why) => {
                let failure = Failure {
                    reason: why.to_owned(),
                    next_step: AGAIN,
                };
                self.lost(Loss::Failed, failure).await;
            }
            Ending::Hostile => {
                let failure = Failure {
                    reason: "it sends forged events and such as were not asked for".to_owned(),
                    next_step: ANNOUNCE,
                };
                self.lost(Loss::Faulty, failure).await;
            }
            Ending::Dropped => {}
        }
        ending
    }

    async fn lost(&mut self, loss: Loss, failure: Failure) {
        let now = unix();
        self.memory
            .health
            .lost(loss, &self.shared.options.backoff, now);
        self.note(failure);
        self.save().await;
    }

    /// Keeps why the relay is not reached; it is logged when it changes, not at each dial.
    fn note(&mut self, failure: Failure) {
        let next = self.memory.health.wait(unix());
        let Failure { reason, next_step } = &failure;
        if self.report.failure.as_ref() == Some(&failure) {
            tracing::debug!(relay = %self.relay, reason, ?next, "relay is still not reached");
        } else {
            tracing::info!(relay = %self.relay, reason, next_step, ?next, "relay is not reached");
        }
        self.report.failure = Some(failure);
    }

    pub(crate) fn show(&self, session: Option<SessionStatus>) {
        let report = Report {
            session,
            ..self.report.clone()
        };
        self.shared
            .board
            .show(&self.relay, &self.memory, &report, unix());
    }

    pub(crate) async fn save(&self) {
        self.shared.memories.save(&self.relay, &self.memory).await;
    }
}

/// Waits for another plan; says whether nothing is wanted any more.
async fn gone(plans: &mut watch::Receiver<Arc<Plan>>) -> bool {
    let changed = plans.changed().await;
    changed.is_err() || plans.borrow_and_update().is_empty()
}

/// Seconds since 1970.
pub(crate) fn unix() -> u64 {
    Timestamp::now().as_secs()
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
