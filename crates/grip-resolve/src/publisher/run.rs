//! The loop: what has changed, what is due, what comes round again.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use grip_nostr::RepoAddr;
use tokio::time::{Instant, sleep_until};

use super::{MAX_DUE, tell};
use crate::{Changed, Key, resolver::Core, shelf::Told};

/// Repositories read at once from the list of all.
const PAGE: usize = 256;

/// Records are kept by as many nodes; a network that knows more of them need not be watched grow.
const ENOUGH_PEERS: usize = 20;

/// Whether something is told again although it has not changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    Changed,
    Again,
}

/// One go through everything that is served or pinned.
struct Pass {
    number: u64,
    why: Why,
    after: Option<RepoAddr>,
    page: VecDeque<RepoAddr>,
    is_read: bool,
    seen: usize,
}

pub(super) struct Run {
    core: Arc<Core>,
    /// What to tell, and from when on.
    due: BTreeMap<RepoAddr, (Instant, Why)>,
    /// Those that are told of at this moment, as many as may be at once. They may be due again, and
    /// then wait for the end of it.
    telling: BTreeSet<RepoAddr>,
    pass: Option<Pass>,
    /// A pass that is wanted once this one is over.
    wanted: Option<Why>,
    number: u64,
    next_pass: Instant,
    next_card: Instant,
    next_start: Instant,
    /// How many peers were known when everything was told last.
    told_peers: usize,
    next_look: Instant,
}

impl Run {
    pub fn new(core: Arc<Core>) -> Self {
        let now = Instant::now();
        Self {
            due: BTreeMap::new(),
            telling: BTreeSet::new(),
            pass: None,
            wanted: None,
            number: 0,
            next_pass: now,
            next_card: now,
            next_start: now,
            told_peers: 0,
            next_look: now,
            core,
        }
    }

    pub async fn go(mut self) {
        let core = Arc::clone(&self.core);
        let mut under_way = FuturesUnordered::new();
        loop {
            let options = core.options.load_full();
            let settings = &options.publish;
            let now = Instant::now();
            self.look_around(now, settings.retry);
            self.begin_pass(now, settings.record_ttl / 2);
            let has_room = under_way.len() < settings.at_once.max(1);
            if has_room
                && now >= self.next_start
                && let Some((name, why)) = self.next(now).await
            {
                if !self.telling.insert(name.clone()) {
                    self.put(name, now, why);
                    continue;
                }
                self.next_start = now + settings.spacing;
                under_way.push(tell::tell(&core, name, why, self.number));
                continue;
            }
            self.show(under_way.len());
            let wake = self.wake(has_room);
            tokio::select! {
                Some((name, result)) = under_way.next() => {
                    self.telling.remove(&name);
                    if let Err(why) = result {
                        self.put(name, Instant::now() + settings.retry, why);
                    }
                }
                changed = core.shelf.changed() => self.changed(changed).await,
                () = core.publisher.reindex.notified() => self.want(Why::Again),
                () = core.publisher.touch.notified() => {
                    let touched = std::mem::take(&mut core.publisher.state.lock().touched);
                    self.changed(Changed::These(touched.into_iter().collect())).await;
                }
                () = sleep_until(self.next_card) => {
                    self.next_card = Instant::now() + settings.card.max(Duration::from_secs(1));
                    tell::card(&core).await;
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    /// What was told while few or none were there to hear it is told again as the network grows.
    fn look_around(&mut self, now: Instant, every: Duration) {
        let Some(network) = &self.core.network else {
            return;
        };
        if !self.is_growing() || now < self.next_look {
            return;
        }
        self.next_look = now + every;
        let known = network.dht.status().known_peers;
        if known > 0 && known >= 2 * self.told_peers {
            self.told_peers = known;
            self.next_card = now;
            self.want(Why::Again);
        }
    }

    fn begin_pass(&mut self, now: Instant, every: Duration) {
        if now >= self.next_pass {
            self.want(Why::Again);
            self.next_pass = now + every.max(Duration::from_secs(1));
        }
        if self.pass.is_none()
            && let Some(why) = self.wanted.take()
        {
            self.number += 1;
            self.pass = Some(Pass {
                number: self.number,
                why,
                after: None,
                page: self.core.shelf.pinned_names().into(),
                is_read: false,
                seen: 0,
            });
        }
    }

    /// Two wishes for a pass are one; a thorough one wins.
    fn want(&mut self, why: Why) {
        self.wanted = self.wanted.max(Some(why));
    }

    /// When there may be something to do without anything having happened.
    fn wake(&self, has_room: bool) -> Instant {
        let due = self
            .due
            .iter()
            .filter(|(name, _)| !self.telling.contains(name));
        let due = due.map(|(_, (at, _))| *at).min();
        let pass = self.pass.as_ref().map(|_| self.next_start);
        let work = due.into_iter().chain(pass).min();
        let work = work.map(|at| at.max(self.next_start)).filter(|_| has_room);
        work.into_iter()
            .chain([self.next_pass])
            .chain(self.is_growing().then_some(self.next_look))
            .min()
            .unwrap_or(self.next_pass)
    }

    fn is_growing(&self) -> bool {
        self.core.network.is_some() && self.told_peers < ENOUGH_PEERS
    }

    async fn changed(&mut self, changed: Changed) {
        match changed {
            Changed::TooMany => {
                self.core.cache.clear();
                self.want(Why::Changed);
            }
            Changed::These(names) => {
                let now = Instant::now();
                for name in names {
                    self.core.shelf.forget(&name).await;
                    self.core.cache.forget(&Key::Name(name.clone())).await;
                    self.put(name, now, Why::Changed);
                }
            }
        }
    }

    fn put(&mut self, name: RepoAddr, at: Instant, why: Why) {
        if self.due.len() >= MAX_DUE && !self.due.contains_key(&name) {
            self.want(why);
            return;
        }
        let entry = self.due.entry(name).or_insert((at, why));
        *entry = (at.min(entry.0), why.max(entry.1));
    }

    /// The next to tell of: what has changed before what is only told again.
    async fn next(&mut self, now: Instant) -> Option<(RepoAddr, Why)> {
        let is_next = |name: &RepoAddr, at: Instant| at <= now && !self.telling.contains(name);
        let due = self.due.iter().find(|(name, (at, _))| is_next(name, *at));
        if let Some(name) = due.map(|(name, _)| name.clone()) {
            let (_, why) = self.due.remove(&name)?;
            return Some((name, why));
        }
        let pass = self.pass.as_mut()?;
        if pass.page.is_empty() && !pass.is_read {
            match self.core.shelf.page(pass.after.as_ref(), PAGE).await {
                Ok(page) => {
                    pass.is_read = page.len() < PAGE;
                    pass.after = page.last().cloned().or(pass.after.take());
                    pass.page = page.into();
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "the served repositories could not be listed");
                    let retry = self.core.options.load().publish.retry;
                    self.next_pass = self.next_pass.min(now + retry);
                    self.pass = None;
                    return None;
                }
            }
        }
        while let Some(name) = pass.page.pop_front() {
            pass.seen += 1;
            // It changed while the pass went on, and was told of then.
            let was_told = |told: &mut Told| told.was_told_in(&name, pass.number);
            if !self.core.shelf.told(was_told) {
                return Some((name, pass.why));
            }
        }
        if pass.is_read {
            self.end_pass(now);
        }
        None
    }

    /// What was told once and was not seen in a whole pass may be gone.
    fn end_pass(&mut self, now: Instant) {
        let Some(pass) = self.pass.take() else {
            return;
        };
        self.core.publisher.state.lock().passes += 1;
        let unseen = self.core.shelf.told(|told| told.unseen_since(pass.number));
        for name in unseen {
            self.put(name, now, Why::Changed);
        }
    }

    fn show(&self, under_way: usize) {
        let mut state = self.core.publisher.state.lock();
        state.due = self.due.len() + under_way;
        state.pass = self.pass.as_ref().map(|pass| pass.seen);
    }
}
