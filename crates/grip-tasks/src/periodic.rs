//! Periodic work, run by timer or on request.

use std::{
    fmt::Display,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use crate::{TaskGroup, panic};

/// An idempotent function that runs at the start, then every so often, and whenever it is poked.
///
/// The group owns its loop; this handle only pokes and looks. Cheap to clone.
#[derive(Clone)]
pub struct Periodic {
    shared: Arc<Shared>,
}

/// How a run ended, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done(String),
    Failed(String),
}

/// What a page or a metric shows of periodic work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodicStatus {
    pub kind: &'static str,
    pub every: Duration,
    pub running: bool,
    pub runs_total: u64,
    pub failed_total: u64,
    pub last_started: Option<SystemTime>,
    pub last_duration: Option<Duration>,
    pub last_outcome: Option<Outcome>,
}

struct Shared {
    poke: Notify,
    status: Mutex<PeriodicStatus>,
}

impl Periodic {
    /// Starts the loop. A failed run is logged and tried again at the next time; so is a run that
    /// panics. The stop of the group is seen between runs, never inside one.
    pub fn start<F, Fut, T, E>(
        group: &TaskGroup,
        kind: &'static str,
        every: Duration,
        mut work: F,
    ) -> Self
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send,
        T: Display + Send,
        E: Display + Send,
    {
        let shared = Arc::new(Shared::new(kind, every));
        let stop = group.token();
        let handle = Self {
            shared: Arc::clone(&shared),
        };
        group.spawn(kind, async move {
            while !stop.is_cancelled() {
                shared.run(&mut work).await;
                let wake = async {
                    tokio::select! {
                        () = shared.poke.notified() => {}
                        () = sleep(every) => {}
                    }
                };
                if stop.run_until_cancelled(wake).await.is_none() {
                    return;
                }
            }
        });
        handle
    }

    /// Asks for a run now. Pokes during a run make one more run after it, not one each.
    pub fn poke(&self) {
        self.shared.poke.notify_one();
    }

    pub fn status(&self) -> PeriodicStatus {
        self.shared.status.lock().clone()
    }
}

impl Shared {
    fn new(kind: &'static str, every: Duration) -> Self {
        let status = PeriodicStatus {
            kind,
            every,
            running: false,
            runs_total: 0,
            failed_total: 0,
            last_started: None,
            last_duration: None,
            last_outcome: None,
        };
        Self {
            poke: Notify::new(),
            status: Mutex::new(status),
        }
    }

    async fn run<F, Fut, T, E>(&self, work: &mut F)
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Display,
        E: Display,
    {
        // Pokes until now are served by this run.
        pin!(self.poke.notified()).enable();
        let began = Instant::now();
        {
            let mut status = self.status.lock();
            status.running = true;
            status.last_started = Some(SystemTime::now());
        }
        // The call itself may panic as well as the future it returns.
        let outcome = match panic::caught(async { work().await }).await {
            Ok(Ok(done)) => Outcome::Done(done.to_string()),
            Ok(Err(error)) => Outcome::Failed(error.to_string()),
            Err(payload) => Outcome::Failed(format!("panicked: {}", panic::message(&payload))),
        };
        let mut status = self.status.lock();
        if let Outcome::Failed(reason) = &outcome {
            tracing::warn!(kind = status.kind, reason, "a periodic run failed");
            status.failed_total += 1;
        }
        status.running = false;
        status.runs_total += 1;
        status.last_duration = Some(began.elapsed());
        status.last_outcome = Some(outcome);
    }
}

#[cfg(test)]
mod tests;
