//! How a walk ends.

use std::time::Duration;

use tokio::time::Instant;

use super::{Found, Walk};
use crate::{Manifest, ResolveError};

/// How the questions of a walk went.
#[derive(Default)]
pub(super) struct Tally {
    pub asked: u32,
    /// Peers that answered properly, with or without the thing.
    pub answered: u32,
    pub busy: u32,
    pub hops: u32,
    /// The earliest time at which a peer that was left alone may be asked.
    pub shut_until: Option<Instant>,
}

/// Why a walk ended.
pub(super) enum End {
    Satisfied,
    Exhausted,
    Deadline,
    /// The digest fits, and what has it is no manifest: there is none.
    NoManifest,
    Stopped,
}

impl Walk<'_> {
    pub(super) fn conclude(self, end: End) -> Result<Found, ResolveError> {
        let is_empty_handed = self.voices.is_empty() && !self.is_held;
        match end {
            End::Stopped => return Err(ResolveError::Canceled),
            End::NoManifest => return Err(ResolveError::Unknown),
            End::Deadline if is_empty_handed => return Err(ResolveError::Timeout),
            End::Exhausted if is_empty_handed => return Err(self.empty_handed()),
            End::Satisfied | End::Exhausted | End::Deadline => {}
        }
        let joint = Manifest::join_all(self.answers);
        Ok(Found {
            manifest: joint.ok_or(ResolveError::Unknown)?,
            providers: self.frontier.into_providers(),
            hops: self.tally.hops,
            asked: self.tally.asked,
        })
    }

    /// Nobody is left to ask, and nobody had it.
    fn empty_handed(&self) -> ResolveError {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        match (&self.tally, self.tally.shut_until) {
            (tally, _) if tally.answered > 0 => ResolveError::Unknown,
            (tally, _) if tally.busy > 0 => ResolveError::Busy {
                retry_after: second,
            },
            (_, Some(until)) => ResolveError::BreakerOpen {
                retry_after: until.saturating_duration_since(now),
            },
            // They were asked, and none could be reached.
            (tally, None) if tally.asked > 0 => ResolveError::BreakerOpen {
                retry_after: second,
            },
            // There is nobody.
            _ => ResolveError::Unknown,
        }
    }
}
