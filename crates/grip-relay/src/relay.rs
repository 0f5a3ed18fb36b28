//! Relay engine: the state that all connections share.

use std::{sync::Arc, time::Duration};

use futures_util::{Sink, Stream};
use grip_store::EventStore;
use grip_tasks::{CancellationToken, TaskGroup};
use tokio::{
    sync::Semaphore,
    time::{MissedTickBehavior, interval},
};

use crate::{
    Frame, Limits, Peer, Stats, WritePolicy, Writer, rate_limits::AddressRates, reconcile, session,
    stats::Raised, subscriptions::Subscriptions, thread_pool::ThreadPool,
};

/// How often expired events and idle rate buckets are cleared away.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Most expired events removed at once, so that a sweep holds up no answer for long.
const SWEEP_EVENTS: usize = 1_000;

/// Long scans at once. More of them would only slow each other down.
const SCANNERS: usize = 2;

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
    /// For REQs, so that a long one holds up neither the runtime nor the checks.
    pub(crate) readers: ThreadPool,
    /// For COUNT and NIP-77, which go through all that matches: they hold up no REQ.
    pub(crate) scanners: ThreadPool,
    /// For parsing and signatures.
    pub(crate) checkers: ThreadPool,
    pub(crate) rates: AddressRates,
    pub(crate) reconciliations: reconcile::Pool,
    /// Bytes of events that are read and not answered, over all connections.
    pub(crate) in_flight: Arc<Semaphore>,
    pub(crate) settling: Arc<Semaphore>,
    pub(crate) group: TaskGroup,
}

impl Shared {
    /// Runs a query off the runtime. `None` if it panicked.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _waiting = Raised::new(&self.stats.read_queue);
        self.readers.run(query).await
    }

    /// The same for a query that may go through very many events.
    pub(crate) async fn scan<T: Send + 'static>(
        &self,
        query: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _waiting = Raised::new(&self.stats.read_queue);
        self.scanners.run(query).await
    }
}

impl Relay {
    /// Starts the writer, the readers and the sweeping. Needs a runtime around it.
    ///
    /// When the token of `group` is cancelled, connections are told and closed; the writer works
    /// on until [`Relay::stop`], because others still have to finish what they promised.
    pub fn start(store: EventStore, limits: Limits, group: &TaskGroup) -> (Self, Writer) {
        let stats = Arc::new(Stats::default());
        let subscriptions = Arc::new(Subscriptions::new(Arc::clone(&stats)));
        let writer = Writer::start(
            store.clone(),
            Arc::clone(&subscriptions),
            Arc::clone(&stats),
            limits.write_queue,
        );
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let shared = Arc::new(Shared {
            // One more than cores, so that an endless scan does not take half of them.
            readers: ThreadPool::start("relay-reader", cores + 1, limits.read_queue),
            scanners: ThreadPool::start("relay-scanner", SCANNERS, limits.read_queue),
            checkers: ThreadPool::start("relay-checker", cores, limits.check_queue),
            rates: AddressRates::new(limits.address_rates),
            reconciliations: reconcile::Pool::new(&limits),
            in_flight: Arc::new(Semaphore::new(limits.in_flight_bytes_total)),
            settling: Arc::new(Semaphore::new(limits.settling)),
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
        session::serve(Arc::clone(&self.shared), policy, socket, peer).await;
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
        sweep_expired(&shared, &stop).await;
        shared.rates.forget_idle();
    }
}

/// Removes expired events until none is left, a bounded number at a time.
async fn sweep_expired(shared: &Shared, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        match shared.writer.sweep(SWEEP_EVENTS).await {
            Ok(SWEEP_EVENTS) => {}
            // Less than asked for: it was the last. A failure is logged where it happened.
            Ok(_) | Err(_) => return,
        }
    }
}
