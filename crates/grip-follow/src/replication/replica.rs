//! One replica: a listed server and what is known of it. Pure: times go in.

use std::sync::Arc;

use grip_nostr::FollowedState;
use serde::{Deserialize, Serialize};

use super::ReplicaStatus;
use crate::RelayUrl;

/// How soon a server is looked at that is not known to have a state; the pause is four times as
/// long each time.
pub(super) const FIRST_CHECK: i64 = 5_000;
const CHECK_FACTOR: i64 = 4;
const MAX_STEPS: u32 = 10;
/// Longest pause for a relay, and for a clone URL.
const MAX_RELAY_PAUSE: i64 = 6 * 3_600_000;
pub(super) const MAX_GIT_PAUSE: i64 = 24 * 3_600_000;
/// When one that has the state is looked at again. A relay's history is read within this time anyway.
pub(super) const RELAY_AGAIN: i64 = 26 * 3_600_000;
pub(super) const GIT_AGAIN: i64 = 24 * 3_600_000;
/// Least time between two looks, however often the state changes.
const RELAY_GAP: i64 = 10_000;
pub(super) const GIT_GAP: i64 = 600_000;

/// Where a repository is listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Relay(RelayUrl),
    Git(Arc<str>),
}

impl Place {
    /// Reads what [`Place::as_str`] wrote.
    pub(super) fn parse(text: &str) -> Self {
        match RelayUrl::parse(text) {
            Ok(relay) => Self::Relay(relay),
            Err(_) => Self::Git(text.into()),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Relay(relay) => relay.as_str(),
            Self::Git(url) => url,
        }
    }

    pub(super) fn pause(&self, failures: u32) -> i64 {
        let most = match self {
            Self::Relay(_) => MAX_RELAY_PAUSE,
            Self::Git(_) => MAX_GIT_PAUSE,
        };
        (FIRST_CHECK * CHECK_FACTOR.pow(failures.min(MAX_STEPS))).min(most)
    }

    pub(super) fn again(&self) -> i64 {
        match self {
            Self::Relay(_) => RELAY_AGAIN,
            Self::Git(_) => GIT_AGAIN,
        }
    }

    pub(super) fn gap(&self) -> i64 {
        match self {
            Self::Relay(_) => RELAY_GAP,
            Self::Git(_) => GIT_GAP,
        }
    }
}

/// What is known of one server. All times are unix milliseconds, of states seconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Replica {
    pub(super) status: ReplicaStatus,
    pub(super) since: i64,
    pub(super) checked_at: Option<i64>,
    /// Of the newest state that was seen there.
    pub(super) state_at: Option<u64>,
    pub(super) note: Option<String>,
    pub(super) failures: u32,
    pub(super) next_check: i64,
}

impl Replica {
    pub(super) fn new(place: &Place, now: i64) -> Self {
        Self {
            since: now,
            next_check: now + place.pause(0),
            ..Self::default()
        }
    }

    fn become_status(&mut self, status: ReplicaStatus, now: i64) {
        if self.status != status {
            self.status = status;
            self.since = now;
        }
    }

    /// Another state is effective from now on.
    pub(super) fn outdate(&mut self, place: &Place, now: i64) {
        self.become_status(ReplicaStatus::Unknown, now);
        self.note = None;
        self.failures = 0;
        let soon = self.next_check.min(now + place.pause(0));
        let gap = self.checked_at.map_or(soon, |at| at + place.gap());
        self.next_check = soon.max(gap);
    }

    pub(super) fn is_there(&mut self, place: &Place, state: &FollowedState, now: i64) {
        self.become_status(ReplicaStatus::Current, now);
        self.checked_at = Some(now);
        self.state_at = Some(state.created_at.as_secs());
        self.note = None;
        self.failures = 0;
        self.next_check = now + place.again();
    }

    pub(super) fn is_not_there(
        &mut self,
        place: &Place,
        status: ReplicaStatus,
        note: Option<String>,
        now: i64,
    ) {
        self.become_status(status, now);
        self.checked_at = Some(now);
        self.note = note;
        self.next_check = now + place.pause(self.failures);
        self.failures = self.failures.saturating_add(1);
    }
}
