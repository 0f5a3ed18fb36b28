//! Responses of a lookup: what each of them changes, when they are enough, and the result.

use std::time::Duration;

use grip_dht::{PeerName, RequestError};
use grip_limits::Verdict;
use tokio::time::Instant;

use super::{
    Found, Lookup, enough_time,
    request::{Failure, PeerResponse, RequestOutcome},
};
use crate::{BusyCause, Key, Manifest, ResolveError, counters::count};

/// Numbers of one lookup.
#[derive(Default)]
pub(super) struct Tally {
    pub asked: u32,
    /// Peers that responded properly, with or without a manifest.
    pub responded: u32,
    /// Some peer refused as busy.
    pub refused: bool,
    /// A bound of our own kept a request back.
    pub overloaded: bool,
    pub hops: u32,
    /// When the first of the open breakers lets a request through.
    pub open_until: Option<Instant>,
}

/// Why a lookup ended.
pub(super) enum End {
    Satisfied,
    Exhausted,
    Deadline,
    /// The digest fits, and the bytes are no manifest: there is none.
    NoManifest,
    Stopped,
}

impl Lookup<'_> {
    pub(super) fn on_outcome(&mut self, outcome: RequestOutcome) -> Option<End> {
        let RequestOutcome {
            peer,
            permit,
            result,
        } = outcome;
        match &result {
            Ok(_) | Err(Failure::NoManifest) => permit.answered(Verdict::Success),
            Err(Failure::Lie) => permit.answered(Verdict::Failure),
            Err(Failure::Request(error)) => permit.failed(*error),
        }
        match result {
            Ok(response) => self.on_response(&peer, response),
            Err(Failure::Request(error)) => self.on_failure(&peer, error),
            Err(Failure::NoManifest) => return Some(End::NoManifest),
            Err(Failure::Lie) => {
                self.frontier.responded(&peer);
                count(&self.network.counters.lies_total);
            }
        }
        self.is_satisfied().then_some(End::Satisfied)
    }

    fn on_response(&mut self, peer: &PeerName, response: PeerResponse) {
        let roots = self.frontier.responded(peer);
        self.tally.responded += 1;
        self.frontier.learn(peer, response.peers);
        if let Some(manifest) = response.manifest {
            self.tally.hops = self.frontier.depth(peer);
            self.manifests.push(manifest);
            self.responses.push(roots);
            self.has_provider_response |= self.frontier.is_provider(peer);
            let first = *self.first_response.get_or_insert_with(Instant::now);
            let enough = (first + self.wait_for_more()).min(self.last);
            self.settle_at = Some(self.settle_at.map_or(enough, |at| at.min(enough)));
        }
    }

    /// How long after the first response further ones are awaited.
    fn wait_for_more(&self) -> Duration {
        let hedge = self.options.hedge;
        if self.has_independent_responses() {
            hedge
        } else {
            enough_time(self.options).max(hedge)
        }
    }

    fn on_failure(&mut self, peer: &PeerName, error: RequestError) {
        self.tally.refused |= error == RequestError::Refused;
        self.tally.overloaded |= error == RequestError::Overloaded;
        let now = Instant::now();
        let known = self.frontier.peer(peer);
        let is_open = known.is_none_or(|peer| self.network.breakers.is_open(peer));
        if error.may_retry() && !is_open {
            let at = now + self.network.random.retry_wait();
            self.frontier.retry(peer, at, self.options.retries);
        } else {
            self.frontier.give_up(peer);
        }
    }

    /// A digest is proven by one response. A name takes two independent ones, and a provider's if
    /// one is being asked: others may hold an older manifest.
    pub(super) fn is_satisfied(&self) -> bool {
        match self.key {
            Key::Manifest(_) => self.is_held || !self.responses.is_empty(),
            Key::Name(_) => {
                let is_awaited = !self.has_provider_response && self.frontier.awaits_provider();
                self.has_independent_responses() && !is_awaited
            }
        }
    }

    /// Whether two roots vouch for what was found: no single peer has made it up.
    pub(super) fn has_independent_responses(&self) -> bool {
        let is_one_root = match self.responses.as_slice() {
            [first, rest @ ..] => first.len() == 1 && rest.iter().all(|roots| roots == first),
            [] => true,
        };
        self.responses.len() >= 2 && !is_one_root
    }

    pub(super) fn conclude(self, end: End) -> Result<Found, ResolveError> {
        let is_empty_handed = self.responses.is_empty() && !self.is_held;
        match end {
            End::Stopped => return Err(ResolveError::Canceled),
            End::NoManifest => return Err(ResolveError::Unknown),
            End::Deadline if is_empty_handed => return Err(ResolveError::Timeout),
            End::Exhausted if is_empty_handed => return Err(self.not_found()),
            End::Satisfied | End::Exhausted | End::Deadline => {}
        }
        let joint = Manifest::join_all(self.manifests);
        Ok(Found {
            manifest: joint.ok_or(ResolveError::Unknown)?,
            providers: self.frontier.into_providers(),
            hops: self.tally.hops,
            asked: self.tally.asked,
        })
    }

    /// No peer is left to ask, and none had it.
    ///
    /// "Unknown" takes the responses of all peers: one that has nothing proves nothing while
    /// others cannot be asked.
    fn not_found(&self) -> ResolveError {
        let tally = &self.tally;
        let has_response = tally.responded > 0 || tally.asked == 0;
        if has_response && self.frontier.all_responded() {
            return ResolveError::Unknown;
        }
        let second = Duration::from_secs(1);
        if tally.overloaded {
            return ResolveError::Busy {
                cause: BusyCause::OutboundRequests,
                retry_after: second,
            };
        }
        if tally.refused {
            return ResolveError::PeersBusy {
                retry_after: second,
            };
        }
        let now = Instant::now();
        let rest = |until: Instant| until.saturating_duration_since(now);
        ResolveError::BreakerOpen {
            retry_after: tally.open_until.map_or(second, rest),
        }
    }
}
