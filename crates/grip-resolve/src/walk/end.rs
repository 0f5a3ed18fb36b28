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
    ///
    /// That is an answer only if all who were to be asked say so: one who says "nothing" while the
    /// others cannot be asked proves nothing.
    fn empty_handed(&self) -> ResolveError {
        let tally = &self.tally;
        let has_word = tally.answered > 0 || tally.asked == 0;
        if has_word && self.frontier.is_heard_out() {
            return ResolveError::Unknown;
        }
        let second = Duration::from_secs(1);
        if tally.busy > 0 {
            return ResolveError::Busy {
                retry_after: second,
            };
        }
        let now = Instant::now();
        let rest = |until: Instant| until.saturating_duration_since(now);
        ResolveError::BreakerOpen {
            retry_after: tally.shut_until.map_or(second, rest),
        }
    }
}
