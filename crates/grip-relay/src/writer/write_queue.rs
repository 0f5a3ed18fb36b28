//! Requests to the writer that wait, by the network of their sender.

use std::collections::{HashMap, VecDeque};

use grip_types::ClientNetwork;

use super::Job;

/// Requests of all networks, served in turn. Bounded by the senders: a connection waits for the answer
/// to one before it sends the next.
#[derive(Default)]
pub(super) struct Waiting {
    networks: HashMap<Option<ClientNetwork>, VecDeque<Job>>,
    /// Those that have some, in the order of their turns.
    turns: VecDeque<Option<ClientNetwork>>,
    /// The request to end, which is answered after all others.
    stop: Option<Job>,
    has_stopped: bool,
}

impl Waiting {
    pub(super) fn push(&mut self, job: Job) {
        if matches!(job, Job::Stop { .. }) {
            self.stop = Some(job);
            return;
        }
        let network = job.network();
        let jobs = self.networks.entry(network).or_default();
        if jobs.is_empty() {
            self.turns.push_back(network);
        }
        jobs.push_back(job);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.stop.is_none()
    }

    /// Says whether the end was asked for.
    pub(super) fn stops(&self) -> bool {
        self.stop.is_some() || self.has_stopped
    }

    /// Says whether the request to end was taken.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// One request of each network, and so on, until there are about `events` of them.
    pub(super) fn take(&mut self, events: usize) -> Vec<Job> {
        let mut group = Vec::new();
        let mut taken = 0;
        while taken < events {
            let Some(job) = self.next() else {
                self.has_stopped = self.stop.is_some();
                group.extend(self.stop.take());
                break;
            };
            taken += job.len();
            group.push(job);
        }
        group
    }

    fn next(&mut self) -> Option<Job> {
        let network = self.turns.pop_front()?;
        let jobs = self.networks.get_mut(&network)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            self.networks.remove(&network);
        } else {
            self.turns.push_back(network);
        }
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use grip_types::NetworkPrefixes;
    use tokio::sync::oneshot;

    use super::*;

    fn job(last: Option<u8>) -> Job {
        let (reply, _) = oneshot::channel();
        match last {
            Some(last) => Job::Judge {
                events: Vec::new(),
                policy: std::sync::Arc::new(Nobody),
                network: Some(NetworkPrefixes::default().network([203, 0, 113, last].into())),
                reply,
            },
            None => Job::Stop {
                reply: oneshot::channel().0,
            },
        }
    }

    struct Nobody;

    impl crate::WritePolicy for Nobody {
        fn judge(
            &self,
            _: &grip_nostr::Event,
            _: &dyn grip_store::EventView,
            _: grip_nostr::Timestamp,
        ) -> Result<crate::Verdict, grip_store::StoreError> {
            Ok(crate::Verdict::Store)
        }

        fn process_deferred<'a>(
            &'a self,
            _: grip_nostr::Event,
            _: grip_types::EventSource,
        ) -> futures_util::future::BoxFuture<'a, crate::Answer> {
            Box::pin(std::future::pending())
        }

        fn defers(&self, _: &grip_nostr::Event) -> bool {
            false
        }
    }

    #[test]
    fn a_flood_of_one_network_waits_behind_itself() {
        let mut waiting = Waiting::default();
        (0..100).for_each(|_| waiting.push(job(Some(1))));
        waiting.push(job(None));
        waiting.push(job(Some(2)));
        let group = waiting.take(3);
        let second = group
            .iter()
            .position(|taken| taken.network() == job(Some(2)).network());
        assert_eq!(second, Some(1));
        assert!(waiting.stops() && !waiting.has_stopped());
        // The end comes after all that waited.
        assert_eq!(waiting.take(1_000).len(), 98 + 1);
        assert!(waiting.has_stopped() && waiting.is_empty());
    }
}
