//! The one request for history that is under way.

use std::{collections::HashSet, sync::Arc, time::Duration};

use grip_nostr::Filter;
use negentropy::{Id, Negentropy, NegentropyStorageVector};
use tokio::time::Instant;

use super::{
    super::{Fate, Now, Output},
    job::{Job, MAX_IDS, Work},
};
use crate::{message, plan::Class};

/// Silence after which a request counts as unanswered.
const SILENCE: Duration = Duration::from_secs(120);
/// The same for one message of a reconciliation.
const DIFFERENCE: Duration = Duration::from_secs(15);
/// Longest time of one request.
const MAX_TIME: Duration = Duration::from_secs(300);
/// Events of one page.
const MAX_PAGE_EVENTS: u64 = 20_000;
/// Messages of one reconciliation.
const MAX_ROUNDS: u32 = 100;
/// Events that one reconciliation may find missing; where there are more, pages are as cheap.
const MAX_NEEDED: usize = 20_000;
/// Bytes of one of our messages of a reconciliation, before they become hex.
const FRAME_BYTES: u64 = 60_000;

/// What stands for the id of an event that could not even be looked at.
pub(crate) const UNKNOWN_ID: [u8; 32] = [0; 32];

/// `created_at` and id of an event we have.
pub(crate) type Item = (u64, [u8; 32]);

pub(super) struct Request {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) job: Job,
    pub(super) phase: Phase,
    /// What its events must match.
    filters: Arc<[Filter]>,
    began: Instant,
    pub(super) heard: Instant,
    /// Events that came, whatever they were worth.
    pub(super) delivered: u64,
    /// Those that are not decided.
    pub(super) pending: usize,
    /// The oldest time among those that are not newer than was asked for.
    pub(super) oldest: Option<u64>,
    /// Its EOSE came.
    pub(super) is_ended: bool,
    /// Something could not be decided of which not even the id is known.
    pub(super) has_failed: bool,
    /// Ids of events of a page that could not be decided: they are asked for again (G02-22).
    pub(super) undecided: Vec<[u8; 32]>,
}

pub(super) enum Phase {
    /// Waits for our own set.
    Loading,
    Reconciling(Box<Reconciliation>),
    Page,
    Ids {
        /// Those that have not come.
        asked: HashSet<[u8; 32]>,
        /// How many were asked for.
        wanted: usize,
    },
}

pub(super) struct Reconciliation {
    side: Negentropy<'static, NegentropyStorageVector>,
    needed: Vec<Id>,
    lacking: Vec<Id>,
    rounds: u32,
}

/// What a message of a reconciliation led to.
pub(super) enum Round {
    Next(String),
    Done {
        /// These are missing here.
        needed: Vec<[u8; 32]>,
        /// These are here, and the relay lacks them.
        lacking: Vec<[u8; 32]>,
    },
    Broken,
    /// None is under way.
    Stray,
}

impl Request {
    pub(super) fn new(id: u64, name: String, job: Job, now: Now) -> Self {
        Self {
            id,
            name,
            job,
            phase: Phase::Loading,
            filters: Arc::default(),
            began: now.at,
            heard: now.at,
            delivered: 0,
            pending: 0,
            oldest: None,
            is_ended: false,
            has_failed: false,
            undecided: Vec::new(),
        }
    }

    /// Asks by REQ; the message to send. `cursor` is how far an earlier attempt has come.
    pub(super) fn begin(&mut self, cursor: Option<u64>) -> String {
        let filter = self.job.filter();
        let filter = match &mut self.job.work {
            Work::History { until, .. } | Work::Poll { until, .. } => {
                *until = until.or(cursor);
                self.phase = Phase::Page;
                Filter {
                    until: *until,
                    ..filter
                }
            }
            Work::Fetch { left, .. } => {
                let rest = left.split_off(MAX_IDS.min(left.len()));
                let mut ids = std::mem::replace(left, rest);
                ids.sort_unstable();
                self.phase = Phase::Ids {
                    asked: ids.iter().copied().collect(),
                    wanted: ids.len(),
                };
                Filter {
                    ids: Some(ids),
                    ..Filter::default()
                }
            }
            Work::Check { items } => {
                self.phase = Phase::Ids {
                    asked: items.iter().map(|(_, id)| *id).collect(),
                    wanted: items.len(),
                };
                filter
            }
            // It is never asked for by pages: nothing of it is kept that would match.
            Work::Everything => Filter {
                limit: Some(0),
                ..Filter::default()
            },
        };
        self.filters = Arc::from([filter]);
        message::req(&self.name, self.filters.iter())
    }

    /// Asks by NIP-77; the message to send, or none if it cannot be.
    pub(super) fn reconcile_with(&mut self, items: Option<Vec<Item>>, now: Now) -> Option<String> {
        let items = items?;
        let mut storage = NegentropyStorageVector::with_capacity(items.len());
        for (created_at, id) in items {
            storage.insert(created_at, Id::from_byte_array(id)).ok()?;
        }
        storage.seal().ok()?;
        let mut side = Negentropy::owned(storage, FRAME_BYTES).ok()?;
        let first = side.initiate().ok()?;
        self.heard = now.at;
        self.phase = Phase::Reconciling(Box::new(Reconciliation {
            side,
            needed: Vec::new(),
            lacking: Vec::new(),
            rounds: 0,
        }));
        Some(message::neg_open(&self.name, &self.job.filter(), &first))
    }

    pub(super) fn reconciled(&mut self, message: &[u8], now: Now) -> Round {
        let Phase::Reconciling(reconciliation) = &mut self.phase else {
            return Round::Stray;
        };
        self.heard = now.at;
        let Reconciliation {
            side,
            needed,
            lacking,
            rounds,
        } = reconciliation.as_mut();
        *rounds += 1;
        let answer = side.reconcile_with_ids(message, lacking, needed);
        if needed.len() > MAX_NEEDED || *rounds > MAX_ROUNDS {
            return Round::Broken;
        }
        match answer {
            Ok(Some(answer)) => Round::Next(message::neg_msg(&self.name, &answer)),
            Ok(None) => Round::Done {
                needed: bytes_of(needed),
                lacking: bytes_of(lacking),
            },
            Err(_) => Round::Broken,
        }
    }

    /// Tells which events of the history that was compared are here alone.
    pub(super) fn report_lacking(&self, lacking: Vec<[u8; 32]>, out: &mut Vec<Output>) {
        let has_states = matches!(self.job.class, Class::States | Class::Held);
        // A part of the history says nothing of what is older.
        if has_states && self.job.since.is_none() {
            out.push(Output::Compared {
                identifiers: Arc::clone(&self.job.values),
                lacking,
            });
        }
    }

    pub(super) fn is_open_as(&self, subscription: &str) -> bool {
        let is_req = matches!(self.phase, Phase::Page | Phase::Ids { .. });
        is_req && !self.is_ended && self.name == subscription
    }

    pub(super) fn until(&self) -> Option<u64> {
        self.filters.first().and_then(|filter| filter.until)
    }

    pub(super) fn deliver(
        &mut self,
        subscription: &str,
        created_at: u64,
        now: Now,
    ) -> Option<(Arc<[Filter]>, u64)> {
        if !self.is_open_as(subscription) {
            return None;
        }
        self.heard = now.at;
        self.delivered += 1;
        self.pending += 1;
        if self.until().is_none_or(|until| created_at <= until) {
            let oldest = self.oldest.get_or_insert(created_at);
            *oldest = created_at.min(*oldest);
        }
        Some((Arc::clone(&self.filters), self.id))
    }

    pub(super) fn decided(&mut self, id: &[u8; 32], fate: Fate) {
        self.pending = self.pending.saturating_sub(1);
        match &mut self.phase {
            Phase::Ids { asked, .. } if fate.is_authentic() => {
                asked.remove(id);
            }
            Phase::Page if fate.is_undecided() && *id != UNKNOWN_ID => self.undecided.push(*id),
            _ => self.has_failed |= fate.is_undecided() && *id == UNKNOWN_ID,
        }
    }

    /// What was to be done, as if nothing of it had been.
    pub(super) fn into_job(self) -> Job {
        let mut job = self.job;
        if let (Phase::Ids { asked, .. }, Work::Fetch { left, .. }) = (self.phase, &mut job.work) {
            left.extend(asked);
        }
        job
    }

    /// Says whether more came than any page holds.
    pub(super) fn is_flooded(&self) -> bool {
        self.delivered > MAX_PAGE_EVENTS
    }

    /// When it counts as unanswered.
    pub(super) fn deadline(&self) -> Instant {
        let silence = match self.phase {
            Phase::Reconciling(_) => DIFFERENCE,
            Phase::Loading | Phase::Page | Phase::Ids { .. } => SILENCE,
        };
        // What is ours to decide is no silence of the relay.
        let is_ours = self.is_ended || matches!(self.phase, Phase::Loading);
        let whole = self.began + MAX_TIME * if is_ours { 4 } else { 1 };
        if is_ours {
            whole
        } else {
            whole.min(self.heard + silence)
        }
    }
}

fn bytes_of(ids: &[Id]) -> Vec<[u8; 32]> {
    ids.iter().map(|id| id.to_bytes()).collect()
}
