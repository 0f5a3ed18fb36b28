//! Schedule of publications and withdrawals: changes first, then retries, then the current scan.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use grip_nostr::RepoAddr;
use grip_tasks::Changed;
use tokio::time::{Instant, sleep_until};

use super::{MAX_DUE, publish};
use crate::resolver::Core;

/// Repositories in one page of the list of all.
const PAGE: usize = 256;

/// Records are stored at this many nodes; a network that has more needs no republication as it
/// grows.
const ENOUGH_PEERS: usize = 20;

/// Why a repository is published.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    Changed,
    /// Although it may not have changed.
    Refresh,
}

/// One scan of all repositories that are served or pinned.
struct Scan {
    number: u64,
    reason: Reason,
    after: Option<RepoAddr>,
    page: VecDeque<RepoAddr>,
    is_read: bool,
    seen: usize,
}

pub(super) struct Schedule {
    core: Arc<Core>,
    /// What to publish, and from when on.
    due: BTreeMap<RepoAddr, (Instant, Reason)>,
    /// Publications in flight. They may be due again, and then wait for the end of it.
    publishing: BTreeSet<RepoAddr>,
    scan: Option<Scan>,
    /// A scan that follows the current one.
    wanted: Option<Reason>,
    number: u64,
    next_scan: Instant,
    next_node_record: Instant,
    next_start: Instant,
    /// How many peers were known at the last republication for growth.
    published_peers: usize,
    next_growth_check: Instant,
}

impl Schedule {
    pub fn new(core: Arc<Core>) -> Self {
        let now = Instant::now();
        Self {
            due: BTreeMap::new(),
            publishing: BTreeSet::new(),
            scan: None,
            wanted: None,
            number: 0,
            next_scan: now,
            next_node_record: now,
            next_start: now,
            published_peers: 0,
            next_growth_check: now,
            core,
        }
    }

    pub async fn run(mut self) {
        let core = Arc::clone(&self.core);
        let mut in_flight = FuturesUnordered::new();
        loop {
            let options = core.options.get();
            let settings = &options.publish;
            let now = Instant::now();
            self.check_growth(now, settings.retry);
            self.begin_scan(now, settings.record_ttl / 3);
            let has_room = in_flight.len() < settings.at_once.max(1);
            if has_room
                && now >= self.next_start
                && let Some((name, reason)) = self.next(now)
            {
                if !self.publishing.insert(name.clone()) {
                    self.put(name, now, reason);
                    continue;
                }
                self.next_start = now + settings.spacing;
                in_flight.push(publish::repository(&core, name, reason, self.number));
                continue;
            }
            self.update_status(in_flight.len());
            let wake = self.wake(has_room);
            tokio::select! {
                Some((name, result)) = in_flight.next() => {
                    self.publishing.remove(&name);
                    if let Err(reason) = result {
                        self.put(name, Instant::now() + settings.retry, reason);
                    }
                }
                changed = core.local_manifests.changed() => self.changed(changed).await,
                () = core.publisher.reindex.notified() => self.want(Reason::Refresh),
                () = core.publisher.touch.notified() => {
                    let touched = std::mem::take(&mut core.publisher.state.lock().touched);
                    self.changed(Changed::These(touched.into_iter().collect())).await;
                }
                () = sleep_until(self.next_node_record) => {
                    let interval = settings.node_record_interval.max(Duration::from_secs(1));
                    self.next_node_record = Instant::now() + interval;
                    publish::node_record(&core).await;
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Republishes everything as the network grows: few or no peers may have stored it so far.
    fn check_growth(&mut self, now: Instant, interval: Duration) {
        let Some(network) = &self.core.network else {
            return;
        };
        if !self.is_growing() || now < self.next_growth_check {
            return;
        }
        self.next_growth_check = now + interval;
        let known = network.dht.status().known_peers;
        if known > 0 && known >= 2 * self.published_peers {
            self.published_peers = known;
            self.next_node_record = now;
            self.want(Reason::Refresh);
        }
    }

    fn begin_scan(&mut self, now: Instant, interval: Duration) {
        if now >= self.next_scan {
            self.want(Reason::Refresh);
            self.next_scan = now + interval.max(Duration::from_secs(1));
        }
        if self.scan.is_none()
            && let Some(reason) = self.wanted.take()
        {
            self.number += 1;
            self.scan = Some(Scan {
                number: self.number,
                reason,
                after: None,
                page: self.core.local_manifests.pinned_names().into(),
                is_read: false,
                seen: 0,
            });
        }
    }

    /// Two wanted scans are one; a refresh wins.
    fn want(&mut self, reason: Reason) {
        self.wanted = self.wanted.max(Some(reason));
    }

    /// When there may be something to do without an event.
    fn wake(&self, has_room: bool) -> Instant {
        let due = self.due.iter();
        let due = due.filter(|(name, _)| !self.publishing.contains(name));
        let due = due.map(|(_, (at, _))| *at).min();
        let scan = self.scan.as_ref().map(|_| self.next_start);
        let work = due.into_iter().chain(scan).min();
        let work = work.map(|at| at.max(self.next_start)).filter(|_| has_room);
        let growth = self.is_growing().then_some(self.next_growth_check);
        let others = work.into_iter().chain(growth);
        others.fold(self.next_scan, Instant::min)
    }

    fn is_growing(&self) -> bool {
        self.core.network.is_some() && self.published_peers < ENOUGH_PEERS
    }

    async fn changed(&mut self, changed: Changed<RepoAddr>) {
        match changed {
            Changed::TooMany => {
                self.core.forget_all();
                self.want(Reason::Changed);
            }
            Changed::These(names) => {
                let now = Instant::now();
                for name in names {
                    self.core.forget(&name).await;
                    self.put(name, now, Reason::Changed);
                }
            }
        }
    }

    fn put(&mut self, name: RepoAddr, at: Instant, reason: Reason) {
        if self.due.len() >= MAX_DUE && !self.due.contains_key(&name) {
            self.want(reason);
            return;
        }
        let entry = self.due.entry(name).or_insert((at, reason));
        *entry = (at.min(entry.0), reason.max(entry.1));
    }

    /// The next repository to publish: those that are due before those of the scan.
    fn next(&mut self, now: Instant) -> Option<(RepoAddr, Reason)> {
        let is_next = |name: &RepoAddr, at: Instant| at <= now && !self.publishing.contains(name);
        let due = self.due.iter().find(|(name, (at, _))| is_next(name, *at));
        if let Some(name) = due.map(|(name, _)| name.clone()) {
            let (_, reason) = self.due.remove(&name)?;
            return Some((name, reason));
        }
        let scan = self.scan.as_mut()?;
        let local = &self.core.local_manifests;
        if scan.page.is_empty() && !scan.is_read {
            let page = local.page(scan.after.as_ref(), PAGE);
            scan.is_read = page.len() < PAGE;
            scan.after = page.last().cloned().or(scan.after.take());
            scan.page = page.into();
        }
        while let Some(name) = scan.page.pop_front() {
            scan.seen += 1;
            // It may have changed during the scan, and was published then.
            if !local.published(|published| published.was_published_in(&name, scan.number)) {
                return Some((name, scan.reason));
            }
        }
        if scan.is_read {
            self.end_scan(now);
        }
        None
    }

    /// A published repository that the whole scan did not see may be gone.
    fn end_scan(&mut self, now: Instant) {
        let Some(scan) = self.scan.take() else {
            return;
        };
        self.core.publisher.state.lock().scans += 1;
        let local = &self.core.local_manifests;
        let unseen = local.published(|published| published.unseen_since(scan.number));
        for name in unseen {
            self.put(name, now, Reason::Changed);
        }
    }

    fn update_status(&self, in_flight: usize) {
        let mut state = self.core.publisher.state.lock();
        state.due = self.due.len() + in_flight;
        state.scan = self.scan.as_ref().map(|scan| scan.seen);
    }
}
