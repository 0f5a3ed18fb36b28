//! Relay engine: the state that all connections share.

use std::{sync::Arc, time::Duration};

use futures_util::{Sink, Stream};
use grip_store::{CompactError, Compacted, EventStore};
use grip_tasks::{TaskGroup, fault};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    Access, CommitLog, Frame, Limits, Peer, Share, Stats, WriteError, WritePolicy, Writer,
    in_flight::InFlight,
    quota::Quota,
    rate_limits::{AddressRates, BytesPerHour},
    session,
    subscriptions::Subscriptions,
    thread_pool::ThreadPool,
};

/// How often idle rate buckets are cleared away.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// A relay. Clones are handles to the same one.
#[derive(Clone)]
pub struct Relay {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) store: EventStore,
    pub(crate) stats: Arc<Stats>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) writer: Writer,
    /// For slices of queries, so that they hold up neither the runtime nor the checks.
    pub(crate) readers: ThreadPool,
    /// For parsing and signatures.
    pub(crate) checkers: ThreadPool,
    pub(crate) rates: AddressRates,
    pub(crate) unrelated: BytesPerHour,
    pub(crate) related: BytesPerHour,
    pub(crate) synced: BytesPerHour,
    /// Bytes of what waits to be sent, is subscribed to or half received, over all connections.
    pub(crate) memory: Arc<Quota>,
    /// Records of open NIP-77 exchanges, over all connections.
    pub(crate) records: Arc<Quota>,
    /// Bytes of events that are read and not decided, over all connections.
    pub(crate) in_flight: Arc<InFlight>,
    /// Deferred events that are being processed, over all connections.
    pub(crate) settling: Arc<InFlight>,
    pub(crate) group: TaskGroup,
}

impl Shared {
    pub(crate) fn bytes_of(&self, share: Share) -> &BytesPerHour {
        match share {
            Share::Unrelated => &self.unrelated,
            Share::Related => &self.related,
            Share::Synced => &self.synced,
        }
    }
}

impl Relay {
    /// Starts the writer, the readers and the sweeping. Needs a runtime around it.
    ///
    /// When the token of `group` is cancelled, connections are told and closed; the writer works
    /// on until [`Relay::stop`], because others still have to finish what they promised.
    pub fn start(store: EventStore, limits: Limits, group: &TaskGroup) -> (Self, Writer) {
        Self::start_logged(store, limits, group, None)
    }

    /// The same; each commit is logged first. The store notes its changes for that.
    pub fn start_logged(
        store: EventStore,
        limits: Limits,
        group: &TaskGroup,
        log: Option<Arc<dyn CommitLog>>,
    ) -> (Self, Writer) {
        let stats = Arc::new(Stats::default());
        let subscriptions = Arc::new(Subscriptions::new(Arc::clone(&stats)));
        let writer = Writer::start(
            store.clone(),
            Arc::clone(&subscriptions),
            Arc::clone(&stats),
            limits.write_queue,
            log,
        );
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let shared = Arc::new(Shared {
            // One more than cores, since some of them wait for the disk.
            readers: ThreadPool::start("relay-reader", cores + 1),
            checkers: ThreadPool::start("relay-checker", cores),
            rates: AddressRates::new(limits.address_rates),
            unrelated: BytesPerHour::new(limits.unrelated_bytes),
            related: BytesPerHour::new(limits.related_bytes),
            synced: BytesPerHour::new(limits.synced_bytes),
            memory: Quota::new(limits.memory_bytes),
            records: Quota::new(limits.reconciliation_records_total),
            in_flight: InFlight::new(limits.in_flight_bytes_total),
            settling: InFlight::new(limits.settling),
            group: group.child("relay"),
            writer: writer.clone(),
            subscriptions,
            stats,
            store,
            limits,
        });
        let swept = Arc::clone(&shared);
        shared.group.spawn("relay-sweep", sweep(swept));
        (Self { shared }, writer)
    }

    /// Serves one connection until it ends.
    ///
    /// Dropping the future closes its subscriptions; events under way are still decided.
    pub async fn serve<S, E>(&self, policy: Arc<dyn WritePolicy>, socket: S, peer: Peer)
    where
        S: Stream<Item = Result<Frame, E>> + Sink<Frame> + Send,
    {
        session::serve(Arc::clone(&self.shared), policy, None, socket, peer).await;
    }

    /// Serves one connection of a private relay: nothing is taken or told before the client has
    /// proved that it is a member.
    pub async fn serve_members<S, E>(
        &self,
        policy: Arc<dyn WritePolicy>,
        access: Access,
        socket: S,
        peer: Peer,
    ) where
        S: Stream<Item = Result<Frame, E>> + Sink<Frame> + Send,
    {
        session::serve(Arc::clone(&self.shared), policy, Some(access), socket, peer).await;
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub fn stats(&self) -> &Stats {
        &self.shared.stats
    }

    /// The bounds in force, for NIP-11.
    pub fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// Resolves with the reason when nothing can be stored any more; see [`Writer::failed`].
    pub async fn failed(&self) -> String {
        self.shared.writer.failed().await
    }

    /// Returns as soon as the writer has come round to this request, after those before it; never if it
    /// is stuck.
    pub async fn probe(&self) -> Result<(), WriteError> {
        self.shared.writer.probe().await
    }

    /// Writes the event store again without its free pages, while it is used; goes on to its end
    /// even if nobody waits for it.
    pub async fn compact(&self) -> Result<Compacted, CompactError> {
        let store = self.shared.store.clone();
        let compact = move || {
            fault::point("relay.compact");
            let compacted = store.compact();
            match &compacted {
                Ok(Compacted {
                    bytes_before,
                    bytes_after,
                }) => tracing::info!(bytes_before, bytes_after, "compacted the event store"),
                Err(error) => {
                    let error = error as &dyn std::error::Error;
                    tracing::error!(error, "failed to compact the event store");
                }
            }
            compacted
        };
        let compacting = self.shared.group.spawn_blocking("relay-compact", compact);
        compacting.await.unwrap_or(Err(CompactError::Stopped))
    }

    /// Ends the writer after what is queued now. For the end of the process, after the task group
    /// was shut down.
    pub async fn stop(&self) {
        self.shared.writer.stop().await;
    }
}

async fn sweep(shared: Arc<Shared>) {
    let stop = shared.group.token();
    let mut tick = interval(SWEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(tick.tick()).await.is_some() {
        shared.rates.forget_idle();
        shared.unrelated.forget_idle();
        shared.related.forget_idle();
        shared.synced.forget_idle();
    }
}
