//! Thread pool for work that must not hold up the runtime: checking events, and slices of queries.
//!
//! Whose turn it is goes by the time that each network of clients has had (start-time fair
//! queueing): who asks now and then goes before all who ask without end, however many those are.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    thread,
    time::Duration,
};

use grip_types::ClientNetwork;
use parking_lot::{Condvar, Mutex};
use tokio::{sync::oneshot, time::Instant};

type Job = Box<dyn FnOnce() + Send>;

/// What a job is taken to cost until it has ended.
const ESTIMATE: Duration = Duration::from_micros(200);
/// Networks that have had their time are forgotten when more than these are known.
const REMEMBERED: usize = 256;

/// The threads. They end when the handle is gone.
///
/// Not rayon's: others in the process use those too. Jobs are bounded by their senders: a connection
/// has one query under way, and one batch of events being checked.
pub(crate) struct ThreadPool {
    shared: Arc<Shared>,
    count: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Default)]
struct Queue {
    networks: HashMap<Option<ClientNetwork>, Lane>,
    /// The time had by the network whose job was begun last.
    now: Duration,
    has_ended: bool,
}

/// The jobs of one network.
#[derive(Default)]
struct Lane {
    jobs: VecDeque<Job>,
    /// The time it has had.
    had: Duration,
}

impl Queue {
    fn push(&mut self, network: Option<ClientNetwork>, job: Job) {
        let now = self.now;
        let lane = self.networks.entry(network).or_default();
        if lane.jobs.is_empty() {
            // Nobody saves up time while it asks for nothing, but goes before those who wait.
            lane.had = lane.had.max(now.saturating_sub(ESTIMATE));
        }
        lane.jobs.push_back(job);
    }

    /// The next job of the network that has had least.
    fn pop(&mut self) -> Option<(Option<ClientNetwork>, Job)> {
        let waiting = self.networks.iter_mut();
        let waiting = waiting.filter(|(_, lane)| !lane.jobs.is_empty());
        let (network, lane) = waiting.min_by_key(|(_, lane)| lane.had)?;
        self.now = self.now.max(lane.had);
        lane.had += ESTIMATE;
        let job = lane.jobs.pop_front()?;
        Some((*network, job))
    }

    /// Notes what a job took in truth.
    fn took(&mut self, network: &Option<ClientNetwork>, time: Duration) {
        if let Some(lane) = self.networks.get_mut(network) {
            lane.had = (lane.had + time).saturating_sub(ESTIMATE);
        }
        if self.networks.values().all(|lane| lane.jobs.is_empty()) {
            // Nobody waits: what was had takes nothing from anybody.
            self.networks.clear();
        } else if self.networks.len() > REMEMBERED {
            let now = self.now;
            self.networks
                .retain(|_, lane| !lane.jobs.is_empty() || lane.had > now);
        }
    }
}

impl ThreadPool {
    pub(crate) fn start(name: &str, count: usize) -> Self {
        let shared = Arc::new(Shared::default());
        for number in 0..count {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || shared.work())
                .expect("a thread can be started when the process begins");
        }
        Self { shared, count }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Runs `work` on one of the threads. `None` if it panicked. Work that nobody waits for any
    /// more is not begun.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        network: Option<ClientNetwork>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move || {
            if !reply.is_closed() {
                drop(reply.send(work()));
            }
        });
        self.shared.queue.lock().push(network, job);
        self.shared.filled.notify_one();
        answer.await.ok()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.queue.lock().has_ended = true;
        self.shared.filled.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = self.queue.lock();
        while !queue.has_ended {
            let Some((network, job)) = queue.pop() else {
                self.filled.wait(&mut queue);
                continue;
            };
            drop(queue);
            let began = Instant::now();
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                tracing::error!("relay thread panicked");
            }
            queue = self.queue.lock();
            queue.took(&network, began.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use grip_types::NetworkPrefixes;

    use super::*;

    fn network(last: u8) -> Option<ClientNetwork> {
        Some(NetworkPrefixes::default().network([203, 0, 113, last].into()))
    }

    fn nothing() -> Job {
        Box::new(|| {})
    }

    /// Takes the next job as a thread does.
    fn serve(queue: &mut Queue, time: Duration) -> Option<Option<ClientNetwork>> {
        let (network, _) = queue.pop()?;
        queue.took(&network, time);
        Some(network)
    }

    #[test]
    fn a_newcomer_goes_before_all_who_ask_without_end() {
        let mut queue = Queue::default();
        let slice = Duration::from_millis(5);
        for last in 0..50 {
            (0..20).for_each(|_| queue.push(network(last), nothing()));
        }
        for _ in 0..123 {
            serve(&mut queue, slice);
        }
        queue.push(network(99), nothing());
        assert_eq!(serve(&mut queue, slice), Some(network(99)));
    }

    #[test]
    fn time_counts_and_not_the_number_of_jobs() {
        let mut queue = Queue::default();
        for _ in 0..1_000 {
            queue.push(network(1), nothing());
            queue.push(network(2), nothing());
        }
        let mut had = [0, 0];
        for _ in 0..400 {
            let is_first = queue.pop().map(|(which, _)| which) == Some(network(1));
            let time = Duration::from_millis(if is_first { 9 } else { 1 });
            queue.took(&network(if is_first { 1 } else { 2 }), time);
            had[usize::from(!is_first)] += 1;
        }
        assert!((8..=10).contains(&(had[1] / had[0])), "{had:?}");
    }

    #[test]
    fn networks_that_have_gone_are_forgotten() {
        let mut queue = Queue::default();
        for n in 0..2_000_u32 {
            let ip = std::net::IpAddr::from(n.to_be_bytes());
            queue.push(Some(NetworkPrefixes::default().network(ip)), nothing());
            serve(&mut queue, Duration::from_micros(50));
        }
        assert!(queue.networks.is_empty());
    }

    #[tokio::test]
    async fn a_job_that_panics_ends_no_thread() {
        let pool = ThreadPool::start("test", 1);
        let panicked = pool.run(None, || panic!("made up")).await;
        assert!(panicked.is_none());
        assert_eq!(pool.run(None, || 7).await, Some(7));
    }
}
