//! Lookup of one key over the network, in waves of requests until a deadline.
//!
//! α peers get a request at once: providers first, then the nearest. The peers that they name
//! follow. Once the hedge is due, β more may be in flight, as far as the budget allows. The first
//! satisfactory response drops all other requests.
//!
//! Invariants:
//! - No response counts that does not prove itself, so no peer can change a result into a false one.
//! - Responses of a peer and of all whom only it has named count as one. A name is settled by two
//!   independent responses, one of them a provider's if a provider is being asked, for which they
//!   wait until one hedge delay after the first. One alone settles it after [`ENOUGH_TIME`], or when
//!   no peer is left to ask: the quickest peer may give an older manifest. So no peer delays an
//!   honest response by more than that.
//! - Requests are bounded in number, per root and in all, and nothing outlives the deadline. What
//!   was found by then is returned a little earlier, while a caller still waits for it.

mod breakers;
mod frontier;
mod random;
mod request;
mod responses;

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use futures_util::{StreamExt as _, future::OptionFuture, stream::FuturesUnordered};
use grip_dht::{Dht, Peer, PeerName, RequestError, Response};
use grip_limits::BreakerOptions;
use grip_tasks::{CancellationToken, TaskGroup};
use tokio::time::{Instant, sleep_until, timeout_at};

use self::{
    breakers::Open,
    frontier::{Frontier, Next},
    request::PendingRequest,
    responses::{End, Tally},
};
pub(crate) use self::{
    breakers::{PeerBreakers, RequestPermit},
    random::Random,
};
use crate::{
    Key, Manifest, Options, ResolveError,
    counters::{LiveCounters, count},
    hedge_budget::HedgeBudget,
};

/// How long before its deadline a lookup that has found something ends, at least and at most.
/// Timers know nothing shorter than a millisecond.
const MARGIN: Range<Duration> = Duration::from_millis(2)..Duration::from_millis(25);

/// How long peers have to name a newer manifest where there is one already: one that this node has,
/// or one that a single peer vouches for.
///
/// A stale peer that answers at once decides a name if no honest one answers within this time. A
/// first request to a far peer takes four round trips, some 400 to 800 ms, and most are sent with
/// that of the liar or one hop later, so a hedge delay is too short. It is paid where a manifest has
/// a single live holder and some peers are dead: dead ones are silent for the whole request timeout,
/// and all of that would be most of the deadline. What was found is returned before the deadline
/// whatever this is, so it turns no result into a timeout.
const ENOUGH_TIME: Duration = Duration::from_millis(500);

/// State that all lookups share.
pub(crate) struct Network {
    pub dht: Arc<dyn Dht>,
    pub own: PeerName,
    pub breakers: PeerBreakers,
    pub budget: HedgeBudget,
    pub counters: Arc<LiveCounters>,
    pub random: Random,
    /// Ends every lookup.
    pub stop: CancellationToken,
    pub group: TaskGroup,
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub manifest: Manifest,
    /// Nodes that are said to have it, those named by most first.
    pub providers: Vec<Peer>,
    /// Hops to the peer that had it.
    pub hops: u32,
    pub asked: u32,
}

impl Network {
    /// `stop` ends every lookup, `group` owns the threads on which long values are read.
    pub fn new(
        dht: Arc<dyn Dht>,
        breaker: BreakerOptions,
        counters: Arc<LiveCounters>,
        stop: CancellationToken,
        group: TaskGroup,
    ) -> Self {
        Self {
            own: dht.status().peer,
            breakers: PeerBreakers::new(breaker),
            budget: HedgeBudget::default(),
            random: Random::default(),
            counters,
            stop,
            group,
            dht,
        }
    }

    /// Looks for `key` until `deadline`, beginning with what is known already.
    ///
    /// Cancel safe: dropping it drops all its requests.
    pub async fn lookup(
        &self,
        key: &Key,
        known: Option<Manifest>,
        options: &Options,
        deadline: Instant,
    ) -> Result<Found, ResolveError> {
        count(&self.counters.walks_total);
        let began = Instant::now();
        let stored = timeout_at(deadline, self.stored(key)).await;
        let (held, peers) = stored.map_err(|_| ResolveError::Timeout)?;
        let settle_at = held.as_ref().map(|_| soon(options, began, deadline));
        let lookup = Lookup {
            network: self,
            key,
            options,
            began,
            frontier: Frontier::new(key.record(), &self.own, peers, options),
            in_flight: FuturesUnordered::new(),
            is_held: held.is_some(),
            settle_at,
            first_response: None,
            manifests: known.into_iter().chain(held).collect(),
            responses: Vec::new(),
            has_provider_response: false,
            is_hedged: false,
            last: last(began, deadline),
            tally: Tally::default(),
        };
        let found = lookup.run(deadline).await;
        self.counters.lookup.note(began.elapsed());
        found
    }

    /// The right to one request to `peer`; else when to ask again.
    pub(crate) fn acquire(&self, peer: &Peer) -> Result<RequestPermit, Instant> {
        self.breakers.acquire(peer).map_err(|open| match open {
            Open::Peer(until) => {
                count(&self.counters.peer_breaker_open_total);
                until
            }
            Open::Route(until) => {
                count(&self.counters.route_breaker_open_total);
                until
            }
        })
    }

    /// Why `peer` was silent for as long as it had: it is not there, or it is and says nothing.
    pub(crate) fn silence(&self, peer: &Peer) -> RequestError {
        if self.dht.is_connected(&peer.id) {
            RequestError::Transient
        } else {
            RequestError::NoRoute
        }
    }

    /// The manifest that others stored at this node, and the peers that this node knows.
    async fn stored(&self, key: &Key) -> (Option<Manifest>, Response) {
        let mut stored = self.dht.local_response(&key.record()).await;
        let held = match stored.value.take() {
            Some(value) => request::decode(self, key, value).await.ok(),
            None => None,
        };
        (held, stored)
    }
}

struct Lookup<'a> {
    network: &'a Network,
    key: &'a Key,
    options: &'a Options,
    began: Instant,
    frontier: Frontier,
    in_flight: FuturesUnordered<PendingRequest<'a>>,
    /// The known one, and those that peers sent.
    manifests: Vec<Manifest>,
    /// One of them was stored here by others. It stands if no peer has a newer one, and counts as
    /// no response: its publisher may be the peer that responds.
    is_held: bool,
    /// For each response with a manifest, the roots that led to its peer.
    responses: Vec<Vec<PeerName>>,
    /// One of them came from a provider.
    has_provider_response: bool,
    is_hedged: bool,
    first_response: Option<Instant>,
    /// When the responses so far are enough.
    settle_at: Option<Instant>,
    /// When to return what was found, whatever is still missing.
    last: Instant,
    tally: Tally,
}

impl Lookup<'_> {
    async fn run(mut self, deadline: Instant) -> Result<Found, ResolveError> {
        let end = self.request_until(deadline).await;
        let abandoned = self.in_flight.len() as u64;
        let counter = &self.network.counters.abandoned_total;
        counter.fetch_add(abandoned, Relaxed);
        self.conclude(end)
    }

    async fn request_until(&mut self, deadline: Instant) -> End {
        if self.is_satisfied() {
            return End::Satisfied;
        }
        let stop = &self.network.stop;
        let hedge_at = self.began + self.network.random.jittered(self.options.hedge);
        loop {
            self.fill();
            let retry_at = self.frontier.retry_at();
            let is_enough = self.has_independent_responses();
            if self.in_flight.is_empty() && (is_enough || retry_at.is_none()) {
                return End::Exhausted;
            }
            let settle = OptionFuture::from(self.settle_at.map(sleep_until));
            let retry = OptionFuture::from(retry_at.map(sleep_until));
            tokio::select! {
                biased;
                () = stop.cancelled() => return End::Stopped,
                () = sleep_until(deadline) => return End::Deadline,
                Some(outcome) = self.in_flight.next() => {
                    if let Some(end) = self.on_outcome(outcome) {
                        return end;
                    }
                }
                Some(()) = settle => return End::Satisfied,
                () = sleep_until(hedge_at), if !self.is_hedged => self.is_hedged = true,
                Some(()) = retry => self.frontier.wake(Instant::now()),
            }
        }
    }

    /// Sends requests to as many further peers as may be in flight.
    fn fill(&mut self) {
        let (alpha, beta) = (self.options.alpha.max(1), self.options.beta);
        while self.tally.asked < self.options.max_requests {
            let in_flight = self.in_flight.len();
            let is_hedge = in_flight >= alpha;
            let limit = match (self.is_hedged, self.responses.is_empty()) {
                (true, _) => alpha + beta,
                (false, true) => alpha,
                // One response is missing: those in flight will bring it.
                (false, false) => (alpha - 1).max(1),
            };
            if in_flight >= limit {
                return;
            }
            let Some(next) = self.frontier.next(is_hedge) else {
                return;
            };
            if !self.send(next, is_hedge) {
                return;
            }
        }
    }

    /// Sends a request to one peer unless a breaker is open; false if no peer may get one now.
    fn send(&mut self, next: Next, is_hedge: bool) -> bool {
        let network = self.network;
        let now = Instant::now();
        let permit = match network.acquire(&next.peer) {
            Ok(permit) => permit,
            Err(until) => {
                let earliest = self.tally.open_until.get_or_insert(until);
                *earliest = until.min(*earliest);
                self.frontier.give_up(&next.peer.id);
                return true;
            }
        };
        if is_hedge {
            let (percent, burst) = (self.options.hedge_percent, self.options.hedge_burst);
            if !network.budget.take(percent, burst, now) {
                count(&network.counters.hedges_denied_total);
                return false;
            }
            count(&network.counters.hedges_total);
        } else {
            network.budget.count(now);
        }
        count(&network.counters.questions_total);
        if next.is_retry {
            count(&network.counters.retries_total);
        }
        self.tally.asked += 1;
        self.frontier.sent(&next.peer.id);
        let timeout = self.options.request_timeout;
        let request = request::send(network, self.key, next.peer, permit, timeout);
        self.in_flight.push(request);
        true
    }
}

/// Until when to wait for more where there is a manifest already.
pub(crate) fn soon(options: &Options, began: Instant, deadline: Instant) -> Instant {
    (began + enough_time(options)).min(last(began, deadline))
}

fn enough_time(options: &Options) -> Duration {
    options.request_timeout.min(ENOUGH_TIME)
}

/// When to return what was found, so that a caller with the same deadline still gets it.
fn last(began: Instant, deadline: Instant) -> Instant {
    let rest = deadline.saturating_duration_since(began);
    let margin = (rest / 20).clamp(MARGIN.start, MARGIN.end);
    deadline - margin.min(rest)
}

#[cfg(test)]
mod tests;
