//! What is left to tell Redis after a permit has gone.

use grip_types::Domain;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::Instant,
};

use super::scripts::StartName;
use crate::{Advice, Lane, Verdict};

/// How many are kept for a Redis that is slow or away. One more is dropped: its slot comes back
/// when its lease ends, and what its host answered stays unknown to the other instances.
const BOUND: usize = 4_096;

/// A slot that goes back.
#[derive(Clone, Debug)]
pub(super) struct Settle {
    pub domain: Domain,
    pub lane: Lane,
    pub token: u64,
    /// The start that goes back as well.
    pub unused: Option<StartName>,
    pub verdict: Option<Verdict>,
    pub advice: Option<Advice>,
    pub probe: Option<u64>,
    /// When it happened: advice ages while it waits.
    pub at: Instant,
}

pub(super) type Jobs = Receiver<Settle>;

pub(super) fn queue() -> (Sender<Settle>, Jobs) {
    channel(BOUND)
}

/// A question to Redis whose answer may never be heard.
///
/// Dropped without [`Unanswered::heard`], it gives back whatever Redis may have given out.
pub(super) struct Unanswered<'a> {
    jobs: &'a Sender<Settle>,
    job: Option<Settle>,
}

impl<'a> Unanswered<'a> {
    pub fn new(jobs: &'a Sender<Settle>, domain: &Domain, lane: Lane, token: u64) -> Self {
        let job = Settle {
            domain: domain.clone(),
            lane,
            token,
            unused: Some(StartName { token, number: 1 }),
            verdict: None,
            advice: None,
            probe: None,
            at: Instant::now(),
        };
        let job = Some(job);
        Self { jobs, job }
    }

    pub fn heard(mut self) {
        self.job = None;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            // At the bound the lease gives it back.
            let _ = self.jobs.try_send(job);
        }
    }
}
