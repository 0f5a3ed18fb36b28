//! Live subscriptions within the budget of a relay; what does not fit is polled (G02-13 … G02-17).

use std::{collections::HashSet, sync::Arc, time::Duration};

use grip_nostr::Filter;
use tokio::time::Instant;

use super::{Names, Now, Output, Progress, close};
use crate::{
    message,
    plan::{Class, Plan, REQUEST_BYTES, Values},
    refusal::Refusal,
};

/// Most filters of one REQ, and what it falls to when a relay refuses (G02-17).
const CEILINGS: [usize; 4] = [10, 5, 2, 1];
/// Places that are kept for history (G02-14).
const RESERVED: usize = 2;
/// Bytes that are kept for one request of history where all requests together are limited (G02-18).
const RESERVED_BYTES: u64 = REQUEST_BYTES as u64 + 256;
/// How long after a close for no known reason a subscription is opened again; it doubles (G02-31).
const REPAIR: Duration = Duration::from_secs(65);
const MAX_REPAIR: Duration = Duration::from_secs(3_600);

/// One filter of a live subscription, by its values: written out, it is many times as long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) class: Class,
    pub(super) values: Arc<[Arc<str>]>,
    size_bytes: usize,
}

impl Wanted {
    pub(super) fn new(class: Class, values: &[Arc<str>]) -> Self {
        Self {
            class,
            values: values.into(),
            size_bytes: class.filter(values).size_bytes(),
        }
    }

    pub(crate) fn filter(&self) -> Filter {
        self.class.filter(self.values.iter())
    }
}

pub(super) struct Live {
    budget: usize,
    ceiling: usize,
    plan: Arc<Plan>,
    requests: Vec<Request>,
    /// What does not fit, and how often that changed.
    polled: Vec<Wanted>,
    regrouped: u64,
    must_regroup: bool,
    /// Classes without subscriptions, because the relay refused them.
    left_out: Vec<Class>,
    /// One subscription to all that the relay has stands for those to values.
    has_everything: bool,
    /// Subscriptions that end when those that stand for them are open: nothing is missed between.
    ending: Vec<Ending>,
    /// The least time between two openings, where the relay asked for one.
    spacing: Duration,
    not_before: Option<Instant>,
}

/// A subscription that ends.
struct Ending {
    name: String,
    size_bytes: u64,
}

struct Request {
    wanted: Vec<Wanted>,
    state: State,
    /// Bytes of the other subscriptions that were open when it was opened.
    beside: u64,
    /// How often it was closed for no known reason.
    repairs: u32,
}

enum State {
    /// To be opened, not before the moment if there is one.
    Closed(Option<Instant>),
    Open(String),
}

impl Live {
    pub(super) fn new(budget: usize) -> Self {
        Self {
            budget,
            ceiling: CEILINGS[0],
            plan: Arc::default(),
            requests: Vec::new(),
            polled: Vec::new(),
            regrouped: 0,
            must_regroup: false,
            left_out: Vec::new(),
            has_everything: false,
            ending: Vec::new(),
            spacing: Duration::ZERO,
            not_before: None,
        }
    }

    pub(super) fn set_spacing(&mut self, spacing: Duration) {
        self.spacing = spacing;
    }

    /// Arranges everything again when something is opened next.
    pub(super) fn rearrange(&mut self) {
        self.must_regroup = true;
    }

    /// Subscribes to all that the relay has, or to the values of the plan.
    pub(super) fn set_everything(&mut self, has_everything: bool) {
        if self.has_everything != has_everything {
            self.has_everything = has_everything;
            self.must_regroup = true;
        }
    }

    /// Says whether what a subscription delivers may be anything.
    pub(super) fn is_everything(&self, subscription: &str) -> bool {
        let mut requests = self.requests.iter();
        let request = requests.find(|request| request.is_open_as(subscription));
        request.is_some_and(|it| it.wanted.iter().any(|it| it.class == Class::Everything))
    }

    pub(super) fn budget(&self) -> usize {
        self.budget
    }

    pub(super) fn ceiling(&self) -> usize {
        self.ceiling
    }

    /// Subscriptions that are open.
    pub(super) fn count(&self) -> usize {
        self.requests.iter().filter(|it| it.is_open()).count()
    }

    /// Bytes of all that is open.
    pub(super) fn open_bytes(&self) -> u64 {
        let open = self.requests.iter().filter(|it| it.is_open());
        let ending = self.ending.iter().map(|it| it.size_bytes);
        open.map(Request::size_bytes).chain(ending).sum()
    }

    /// Bytes that were open beside a subscription when it was opened; none where it is not ours.
    pub(super) fn beside(&self, subscription: &str) -> Option<u64> {
        let mut requests = self.requests.iter();
        let request = requests.find(|request| request.is_open_as(subscription));
        request.map(|request| request.beside)
    }

    /// Says whether everything that is wanted is subscribed to.
    pub(super) fn is_whole(&self) -> bool {
        self.polled.is_empty() && self.count() == self.requests.len()
    }

    /// What has no subscription, with a number that changes when it may have.
    pub(super) fn polled(&self) -> (u64, &[Wanted]) {
        (self.regrouped, &self.polled)
    }

    /// Bytes of the filters of each subscription.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> Vec<u64> {
        self.requests.iter().map(Request::size_bytes).collect()
    }

    pub(super) fn set_plan(&mut self, plan: &Arc<Plan>) {
        self.plan = Arc::clone(plan);
        self.must_regroup = true;
    }

    /// The values of a class in the order in which they came, so that new ones change few requests: those
    /// that are asked for already, then the others.
    fn ordered(&self, class: Class, values: &Values) -> Vec<Arc<str>> {
        let requests = self.requests.iter().flat_map(|request| &request.wanted);
        let asked = requests.chain(&self.polled).filter(|it| it.class == class);
        let asked = asked.flat_map(|wanted| wanted.values.iter());
        // As the plan of now has them: those of the one before are not kept for it.
        let mut order: Vec<Arc<str>> = asked
            .filter_map(|value| values.get(value))
            .cloned()
            .collect();
        let known: HashSet<Arc<str>> = order.iter().cloned().collect();
        let new = values.iter().filter(|value| !known.contains(*value));
        order.extend(new.cloned());
        order
    }

    /// Arranges the filters in as few requests as the relay allows. Requests that stay the same
    /// stay open.
    fn regroup(&mut self, progress: &Progress, out: &mut Vec<Output>) {
        self.must_regroup = false;
        self.left_out.clear();
        self.regrouped += 1;
        let mut groups: Vec<Vec<Wanted>> = Vec::new();
        let mut bytes = 0;
        if self.has_everything {
            groups.push(vec![Wanted::new(Class::Everything, &[])]);
        }
        let plan = Arc::clone(&self.plan);
        for (class, values) in plan.values.iter().filter(|_| !self.has_everything) {
            if progress.is_left_out(*class) {
                self.left_out.push(*class);
                continue;
            }
            let ordered = self.ordered(*class, values);
            for part in class.chunks(&ordered) {
                let wanted = Wanted::new(*class, part);
                let size = wanted.size_bytes;
                let fits = bytes + size <= REQUEST_BYTES;
                match groups.last_mut() {
                    Some(group) if group.len() < self.ceiling && fits => {
                        group.push(wanted);
                        bytes += size;
                    }
                    _ => {
                        groups.push(vec![wanted]);
                        bytes = size;
                    }
                }
            }
        }
        let most = progress.active_bytes();
        let places = self.budget.saturating_sub(RESERVED).max(self.budget / 2);
        let places = places.min(fitting(&groups, most));
        let rest = groups.split_off(places.min(groups.len()));
        self.polled = rest.into_iter().flatten().collect();
        let mut old = std::mem::take(&mut self.requests);
        for group in groups {
            let same = old.iter().position(|request| request.wanted == group);
            let request = match same {
                Some(at) => Request {
                    wanted: group,
                    ..old.swap_remove(at)
                },
                None => Request::new(group),
            };
            self.requests.push(request);
        }
        let old = old.into_iter().filter_map(|request| {
            let size_bytes = request.size_bytes();
            match request.state {
                State::Open(name) => Some(Ending { name, size_bytes }),
                State::Closed(_) => None,
            }
        });
        self.ending.extend(old);
        // Where there is no room for both, the old ones have to end first.
        let ending: u64 = self.ending.iter().map(|it| it.size_bytes).sum();
        let all = self.requests.iter().map(Request::size_bytes).sum::<u64>() + ending;
        let is_tight = most.is_some_and(|most| all + RESERVED_BYTES > most);
        if is_tight || self.requests.len() + self.ending.len() + 1 > self.budget {
            self.end_old(out);
        }
    }

    fn end_old(&mut self, out: &mut Vec<Output>) {
        for Ending { name, .. } in self.ending.drain(..) {
            close(&name, out);
        }
    }

    /// Opens what is to be open. Live requests wait for no turn, but for pauses by rate.
    pub(super) fn open(
        &mut self,
        names: &mut Names,
        progress: &Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let is_back = |class: &Class| !progress.is_left_out(*class);
        if self.must_regroup || self.left_out.iter().any(is_back) {
            self.regroup(progress, out);
        }
        if progress.rate_limited(now.unix).is_some() {
            return;
        }
        let mut open = self.open_bytes();
        for request in &mut self.requests {
            let State::Closed(not_before) = request.state else {
                continue;
            };
            if not_before.is_some_and(|at| at > now.at) {
                continue;
            }
            if self.not_before.is_some_and(|at| at > now.at) {
                return;
            }
            self.not_before = (!self.spacing.is_zero()).then(|| now.at + self.spacing);
            let name = names.next();
            let mut filters: Vec<Filter> = request.wanted.iter().map(Wanted::filter).collect();
            filters.iter_mut().for_each(|filter| filter.limit = Some(0));
            out.push(Output::Send(message::req(&name, &filters)));
            request.state = State::Open(name);
            request.beside = open;
            open += request.size_bytes();
        }
        self.end_old(out);
    }

    fn find(&mut self, subscription: &str) -> Option<&mut Request> {
        let is_it = |request: &&mut Request| request.is_open_as(subscription);
        self.requests.iter_mut().find(is_it)
    }

    pub(super) fn knows(&self, subscription: &str) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| request.is_open_as(subscription))
    }

    /// Hears that the relay closed a subscription; returns the class that it refuses by that.
    pub(super) fn closed(
        &mut self,
        subscription: &str,
        refusal: Refusal,
        progress: &mut Progress,
        now: Now,
    ) -> Option<Class> {
        let ceiling = self.ceiling;
        let request = self.find(subscription)?;
        let size = request.wanted.len();
        request.state = State::Closed(None);
        match refusal {
            // Reopened when the pause ends, or at once.
            Refusal::RateLimited | Refusal::TooManyQueries | Refusal::AuthRequired => {}
            // What does not fit is polled.
            Refusal::TooManyBytes(_) => self.must_regroup = true,
            // Several filters: each is asked for alone, to see which of them it is.
            Refusal::TooManyFilters | Refusal::Policy if size > 1 => {
                let lower = |refused: usize| CEILINGS.into_iter().find(|c| *c < refused);
                let next = if refusal == Refusal::Policy {
                    1
                } else {
                    lower(size.min(ceiling)).unwrap_or(1)
                };
                self.ceiling = next.min(ceiling);
                self.must_regroup = true;
            }
            Refusal::TooManyFilters | Refusal::Policy => {
                let class = request.wanted[0].class;
                progress.refuse(class, now.unix);
                self.must_regroup = true;
                return Some(class);
            }
            Refusal::Unknown => {
                let pause = REPAIR * 2_u32.pow(request.repairs.min(10));
                request.repairs += 1;
                request.state = State::Closed(Some(now.at + pause.min(MAX_REPAIR)));
            }
        }
        None
    }

    pub(super) fn wake_at(&self, progress: &Progress, now: Now) -> Instant {
        let far = now.at + Duration::from_secs(3_600);
        let rate = progress.rate_limited(now.unix);
        let start = self.not_before.unwrap_or(now.at);
        let start = start.max(now.at + rate.unwrap_or_default());
        let due = self
            .requests
            .iter()
            .filter_map(|request| match request.state {
                State::Closed(at) => Some(at.unwrap_or(now.at).max(start)),
                State::Open(_) => None,
            });
        due.min().unwrap_or(far)
    }
}

impl Request {
    fn new(wanted: Vec<Wanted>) -> Self {
        Self {
            wanted,
            state: State::Closed(None),
            beside: 0,
            repairs: 0,
        }
    }

    fn size_bytes(&self) -> u64 {
        size_bytes(&self.wanted)
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    fn is_open_as(&self, subscription: &str) -> bool {
        matches!(&self.state, State::Open(name) if name == subscription)
    }
}

/// How many of the first groups fit into the bytes that all subscriptions may have.
fn fitting(groups: &[Vec<Wanted>], most: Option<u64>) -> usize {
    let Some(most) = most else {
        return groups.len();
    };
    let mut left = most.saturating_sub(RESERVED_BYTES);
    let fits = |group: &&Vec<Wanted>| {
        let rest = left.checked_sub(size_bytes(group));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    groups.iter().take_while(fits).count()
}

fn size_bytes(wanted: &[Wanted]) -> u64 {
    wanted.iter().map(|it| it.size_bytes as u64).sum()
}
