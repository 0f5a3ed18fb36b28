//! Asking the network: waves of questions, one key, one deadline.
//!
//! α peers are asked at once, those that claim to have the thing first, then the nearest. What they
//! name is asked in turn. Once the hedge is due, β more may be under way, as far as the budget
//! allows. The first satisfactory answer drops all other questions.
//!
//! Invariants:
//! - No answer counts that does not prove itself, so no peer can change a result into a false one.
//! - A peer and all whom only it has named are one voice. A name is settled by two voices, of which
//!   one has the thing itself if such a one is being asked; or else a hedge's time after the first,
//!   so nobody delays what an honest peer has answered by more than that.
//! - Questions are bounded in number, per voice and in all, and nothing outlives the deadline. What
//!   was found by then is handed over a little earlier, while somebody still waits for it.

mod end;
mod frontier;
mod hear;
mod patience;
mod question;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use grip_dht::{Dht, Peer, PeerName, RecordKey};
use grip_tasks::TaskGroup;
use tokio::time::{Instant, sleep_until, timeout_at};

pub(crate) use self::patience::soon;
use self::{
    end::{End, Tally},
    frontier::{Frontier, Next},
    patience::{at, jittered, last},
    question::{Named, Question},
};
use crate::{
    Key, Manifest, Options, ResolveError,
    breaker::{Breakers, Outcome},
    budget::HedgeBudget,
    counters::{Live, count},
};

/// What walks share.
pub(crate) struct Network {
    pub dht: Arc<dyn Dht>,
    pub own: PeerName,
    pub breakers: Arc<Breakers>,
    pub budget: HedgeBudget,
    pub counters: Arc<Live>,
    pub group: TaskGroup,
}

/// What a walk found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub manifest: Manifest,
    /// Nodes that are said to have it, those named by most first.
    pub providers: Vec<Peer>,
    /// How many peers lie between us and the one who had it, himself included.
    pub hops: u32,
    pub asked: u32,
}

impl Network {
    /// Looks for `key` until `deadline`, beginning with what is known already.
    ///
    /// Cancel safe: dropping it drops all its questions.
    pub async fn walk(
        &self,
        key: &Key,
        known: Option<Manifest>,
        options: &Options,
        deadline: Instant,
    ) -> Result<Found, ResolveError> {
        count(&self.counters.walks_total);
        let began = Instant::now();
        let record = key.record();
        let here = timeout_at(deadline, self.here(key, &record)).await;
        let (held, named) = here.map_err(|_| ResolveError::Timeout)?;
        let soon = soon(options, began, deadline);
        let walk = Walk {
            network: self,
            key,
            options,
            began,
            frontier: Frontier::new(record, &self.own, named, options),
            under_way: FuturesUnordered::new(),
            is_held: held.is_some(),
            settle_at: held.is_some().then_some(soon),
            answers: known.into_iter().chain(held).collect(),
            voices: Vec::new(),
            is_provider_heard: false,
            is_hedged: false,
            last: last(began, deadline),
            tally: Tally::default(),
        };
        let found = walk.run(deadline).await;
        self.counters.lookup.note(began.elapsed());
        found
    }

    /// What others have left with us, and whom we know.
    async fn here(&self, key: &Key, record: &RecordKey) -> (Option<Manifest>, Named) {
        let here = self.dht.here(record).await;
        let named = Named {
            providers: here.providers,
            closer: here.closer,
        };
        let held = match here.value {
            Some(value) => question::read(self, key, value).await.into_manifest(),
            None => None,
        };
        (held, named)
    }
}

struct Walk<'a> {
    network: &'a Network,
    key: &'a Key,
    options: &'a Options,
    began: Instant,
    frontier: Frontier,
    under_way: FuturesUnordered<Question<'a>>,
    /// What was known, and what peers answered since.
    answers: Vec<Manifest>,
    /// One of those was left here by others. It stands if nobody says more, and is no voice: who
    /// left it may be the one who answers.
    is_held: bool,
    /// Who answered, as the roots that led to each.
    voices: Vec<Vec<PeerName>>,
    /// One of those is said to have the thing itself.
    is_provider_heard: bool,
    is_hedged: bool,
    /// When what was heard so far is enough.
    settle_at: Option<Instant>,
    /// When whatever was heard so far is handed over.
    last: Instant,
    tally: Tally,
}

impl Walk<'_> {
    async fn run(mut self, deadline: Instant) -> Result<Found, ResolveError> {
        let end = self.ask_until(deadline).await;
        let abandoned = self.under_way.len() as u64;
        add(&self.network.counters.abandoned_total, abandoned);
        self.conclude(end)
    }

    async fn ask_until(&mut self, deadline: Instant) -> End {
        if self.is_satisfied() {
            return End::Satisfied;
        }
        let stop = self.network.group.token();
        let hedge_at = self.began + jittered(self.options.hedge);
        loop {
            self.fill();
            let retry_at = self.frontier.retry_at();
            let has_answer = !self.voices.is_empty();
            if self.under_way.is_empty() && (has_answer || retry_at.is_none()) {
                return End::Exhausted;
            }
            let settle_at = self.settle_at;
            tokio::select! {
                biased;
                () = stop.cancelled() => return End::Stopped,
                () = sleep_until(deadline) => return End::Deadline,
                Some(asked) = self.under_way.next() => {
                    if let Some(end) = self.take(asked) {
                        return end;
                    }
                }
                () = at(settle_at), if settle_at.is_some() => return End::Satisfied,
                () = sleep_until(hedge_at), if !self.is_hedged => self.is_hedged = true,
                () = at(retry_at), if retry_at.is_some() => self.frontier.wake(Instant::now()),
            }
        }
    }

    /// Asks as many further peers as may be under way.
    fn fill(&mut self) {
        let (alpha, beta) = (self.options.alpha.max(1), self.options.beta);
        while self.tally.asked < self.options.max_questions {
            let under_way = self.under_way.len();
            let is_hedge = under_way >= alpha;
            let room = match (self.is_hedged, self.voices.is_empty()) {
                (true, _) => alpha + beta,
                (false, true) => alpha,
                // One voice is missing: those under way will bring it.
                (false, false) => (alpha - 1).max(1),
            };
            if under_way >= room {
                return;
            }
            let Some(next) = self.frontier.next(is_hedge) else {
                return;
            };
            if !self.ask(next, is_hedge) {
                return;
            }
        }
    }

    /// Asks one peer, unless it is left alone; false if nobody may be asked now.
    fn ask(&mut self, next: Next, is_hedge: bool) -> bool {
        let network = self.network;
        let now = Instant::now();
        let slow_after = self.options.hedge;
        let pass = match network.breakers.admit(&next.peer.id, slow_after, now) {
            Ok(pass) => pass,
            Err(until) => {
                let earliest = self.tally.shut_until.get_or_insert(until);
                *earliest = until.min(*earliest);
                self.frontier.give_up(&next.peer.id);
                return true;
            }
        };
        if is_hedge {
            let (percent, burst) = (self.options.hedge_percent, self.options.hedge_burst);
            if !network.budget.take(percent, burst, now) {
                count(&network.counters.hedges_denied_total);
                pass.end(Outcome::Neither);
                return false;
            }
            count(&network.counters.hedges_total);
        } else {
            network.budget.count(now);
        }
        count(&network.counters.questions_total);
        if next.is_again {
            count(&network.counters.retries_total);
        }
        self.tally.asked += 1;
        self.frontier.asked(&next.peer.id);
        let record = self.frontier.record().clone();
        let question = question::ask(
            network,
            self.key,
            record,
            next.peer,
            pass,
            self.options.question,
        );
        self.under_way.push(question);
        true
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

#[cfg(test)]
mod tests;
