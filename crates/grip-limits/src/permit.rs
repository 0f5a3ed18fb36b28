//! The right to ask a host once.

use std::{fmt, sync::Arc, time::Duration};

use grip_types::Domain;
use tokio::time::Instant;

use crate::{
    Advice, Lane,
    ledger::{Ledger, Outcome, Slot},
};

/// The right to have one request under way to one host.
///
/// Dropping it means that the request was given up: the slot is free again, the start stays
/// counted, and the breaker learns nothing.
#[must_use = "the slot is free again as soon as the permit is dropped"]
pub struct Permit {
    /// None only once it has been given back.
    slot: Option<Slot>,
    ledger: Arc<dyn Ledger>,
}

/// What a request says about the health of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Success,
    Failure,
    /// The host answered, which says nothing about its health: 401, 404, 429.
    Neutral,
}

/// A host may not be asked right now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{domain} cannot be asked now: {reason}")]
pub struct Refused {
    pub domain: Domain,
    pub reason: Reason,
    /// When asking again may help. Only an estimate for [`Reason::InFlight`], which ends when a
    /// request under way does.
    pub retry_at: Instant,
}

/// Why a host may not be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// As many requests as it may have are under way; for a host that is being probed, probes.
    InFlight,
    /// As many requests as may start within its window did.
    Window,
    /// It failed too often.
    Shut,
    /// It asked us to wait.
    Advised,
    /// It is unknown, and no more hosts can be remembered.
    TooManyHosts,
}

impl Permit {
    pub(crate) fn new(slot: Slot, ledger: Arc<dyn Ledger>) -> Self {
        let slot = Some(slot);
        Self { slot, ledger }
    }

    pub fn domain(&self) -> &Domain {
        &self.slot().domain
    }

    pub fn lane(&self) -> Lane {
        self.slot().lane
    }

    /// Pays for one more request under the same slot, as for a redirect on the same host.
    ///
    /// A refusal leaves the permit as it was.
    pub async fn again(&mut self) -> Result<(), Refused> {
        let slot = self.slot.as_mut().expect(HELD);
        self.ledger.again(slot).await
    }

    /// Gives the slot back with what the host answered.
    pub fn finish(mut self, verdict: Verdict, advice: Option<Advice>) {
        self.release(Outcome::Done { verdict, advice });
    }

    /// Gives slot and start back: no request was made. After [`Permit::again`] this is about
    /// that request only.
    pub fn unused(mut self) {
        self.release(Outcome::Unused);
    }

    fn slot(&self) -> &Slot {
        self.slot.as_ref().expect(HELD)
    }

    fn release(&mut self, outcome: Outcome) {
        if let Some(slot) = self.slot.take() {
            self.ledger.release(slot, outcome);
        }
    }
}

const HELD: &str = "because only what consumes the permit takes its slot";

impl Drop for Permit {
    fn drop(&mut self) {
        self.release(Outcome::Cancelled);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("slot", &self.slot).finish()
    }
}

impl Refused {
    /// How long from `now` until asking again may help.
    pub fn retry_in(&self, now: Instant) -> Duration {
        self.retry_at.saturating_duration_since(now)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InFlight => "enough requests are under way",
            Self::Window => "enough requests started recently",
            Self::Shut => "it failed too often",
            Self::Advised => "it asked us to wait",
            Self::TooManyHosts => "too many other hosts are in use",
        })
    }
}
