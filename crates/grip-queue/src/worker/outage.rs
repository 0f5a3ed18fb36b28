//! Outage of the database: logged once when it begins and once when it ends.

use std::time::Duration;

use grip_db::DbError;
use grip_types::ErrorChain;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The first wait after a failure; it doubles up to the longest.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

pub(super) struct Outage {
    kind: String,
    since: Mutex<Option<Instant>>,
}

impl Outage {
    pub(super) fn new(kind: String) -> Self {
        Self {
            kind,
            since: Mutex::new(None),
        }
    }

    /// For how long it has lasted.
    pub(super) fn lasts(&self) -> Option<Duration> {
        self.since.lock().map(|since| since.elapsed())
    }

    /// Takes note of how a call went.
    pub(super) fn note<T>(&self, answer: &Result<T, DbError>) {
        let mut since = self.since.lock();
        match answer {
            Ok(_) => {
                if let Some(since) = since.take() {
                    let seconds = since.elapsed().as_secs();
                    tracing::info!(kind = %self.kind, seconds, "the database answers again");
                }
            }
            // Others were in the way of one statement: that says nothing about the database.
            Err(DbError::Closed | DbError::Conflict(_)) => {}
            Err(error) if since.is_none() => {
                *since = Some(Instant::now());
                let error = ErrorChain(error);
                tracing::warn!(kind = %self.kind, %error, "the database does not answer: jobs wait");
            }
            Err(_) => {}
        }
    }
}

/// The wait after so many failures in a row, with chance in it so that not all come at once.
pub(super) fn wait(failures: u32) -> Duration {
    let grown = FIRST.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    grown
        .min(LONGEST)
        .mul_f64(0.5 + rand::random::<f64>() / 2.0)
}
