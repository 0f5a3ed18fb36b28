//! Collection of objects that nothing needs any more, after their grace time.
//!
//! A part of maintenance, a few identifiers at a time, round after round. A store that has not changed
//! since it was looked at, and of which nothing has become old enough, is not walked again.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
    time::{Duration, SystemTime},
};

use grip_git::{Collected, GarbageRemoval, RepackError};
use grip_nostr::{Event, PullRequest, State, address_of};
use grip_store::EventView as _;
use grip_types::{Identifier, Oid};
use parking_lot::Mutex;

use crate::{
    Grasp,
    admission::ViewError,
    error::GraspError,
    grasp::{Core, timestamp},
    maintenance::log_incomplete,
};

/// Identifiers looked at in one round.
const PER_ROUND: usize = 16;
/// How often one collection looks at what came meanwhile before it is left to the next round.
const MAX_LOOKS: usize = 5;

/// How long what nobody needs is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Objects, from when they came and from when the last ref to them went. Longer than any fetch.
    pub unreachable: Duration,
}

impl Default for Keep {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self {
            unreachable: 7 * day,
        }
    }
}

/// How far the rounds have come. Bounded by the stores on disk.
#[derive(Default)]
pub(crate) struct Collecting {
    rounds: Mutex<Rounds>,
    totals: Mutex<CollectionTotals>,
}

/// Collections since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionTotals {
    /// Objects that were removed.
    pub objects: u64,
    /// Bytes that packs became smaller by.
    pub bytes: u64,
    /// Stores that could not be collected.
    pub failures: u64,
    /// When the last round ended, in unix seconds.
    pub last_run: Option<u64>,
}

#[derive(Default)]
struct Rounds {
    after: Option<Identifier>,
    /// Those that could not be collected because packs came in.
    again: BTreeSet<Identifier>,
    /// What each store was like when nothing, or nothing more, was to be collected.
    looked: BTreeMap<Identifier, u64>,
}

impl Collecting {
    /// The identifiers of the next round.
    fn next(&self, stores: &BTreeSet<Identifier>) -> Vec<Identifier> {
        let mut rounds = self.rounds.lock();
        rounds
            .looked
            .retain(|identifier, _| stores.contains(identifier));
        let from = match &rounds.after {
            Some(after) => Bound::Excluded(after.clone()),
            None => Bound::Unbounded,
        };
        let mut next: Vec<Identifier> = std::mem::take(&mut rounds.again).into_iter().collect();
        let others = stores.range((from, Bound::Unbounded)).take(PER_ROUND);
        let others: Vec<Identifier> = others.cloned().collect();
        rounds.after = others.last().filter(|_| others.len() == PER_ROUND).cloned();
        next.extend(others);
        next
    }

    pub(crate) fn totals(&self) -> CollectionTotals {
        *self.totals.lock()
    }

    fn removed(&self, collected: Collected) {
        let mut totals = self.totals.lock();
        totals.objects += collected.objects;
        totals.bytes += collected.bytes;
    }

    fn failed(&self) {
        self.totals.lock().failures += 1;
    }

    fn ran(&self) {
        self.totals.lock().last_run = Some(timestamp().as_secs());
    }

    fn is_known(&self, identifier: &Identifier, stamp: u64) -> bool {
        self.rounds.lock().looked.get(identifier) == Some(&stamp)
    }

    fn note(&self, identifier: &Identifier, stamp: u64) {
        self.rounds.lock().looked.insert(identifier.clone(), stamp);
    }

    fn try_again(&self, identifier: &Identifier) {
        self.rounds.lock().again.insert(identifier.clone());
    }
}

impl Grasp {
    /// Removes the objects of an identifier that nothing has needed for the grace time before `now`.
    /// Maintenance does so for all, round after round.
    pub async fn collect(&self, identifier: &Identifier, now: SystemTime) -> Collected {
        match self.core.holding.about_git().await {
            Ok(kept) => self.core.collect(identifier, &Arc::new(kept), now).await,
            Err(error) => {
                GraspError::from(error).log("failed to collect unreachable objects");
                Collected::default()
            }
        }
    }
}

impl Core {
    /// Collects in the next few stores.
    pub(crate) async fn collect_some(self: &Arc<Self>) -> Collected {
        let now = SystemTime::now();
        let mut collected = Collected::default();
        let stores = self.blocking("git.stores", |core| core.repositories.stores());
        let Ok(Ok(stores)) = stores.await else {
            return collected;
        };
        let kept = match self.holding.about_git().await {
            Ok(kept) => Arc::new(kept),
            Err(error) => {
                GraspError::from(error).log("failed to collect unreachable objects");
                return collected;
            }
        };
        for identifier in self.collecting.next(&stores) {
            let done = self.collect(&identifier, &kept, now);
            let Some(done) = self.group.token().run_until_cancelled(done).await else {
                break;
            };
            collected.objects += done.objects;
            collected.bytes += done.bytes;
        }
        self.collecting.ran();
        collected
    }

    /// `kept` are the events out of service that may come back.
    async fn collect(
        self: &Arc<Self>,
        identifier: &Identifier,
        kept: &Arc<Vec<Event>>,
        now: SystemTime,
    ) -> Collected {
        match self.try_collect(identifier, kept, now).await {
            Ok(collected) => {
                if collected.objects > 0 {
                    let Collected { objects, bytes } = collected;
                    tracing::info!(%identifier, objects, bytes, "removed unreachable objects");
                    // Its packs are others now, and may want a bitmap.
                    self.maintenance.add(identifier);
                    self.collecting.removed(collected);
                }
                return collected;
            }
            Err(Failed::Repack(RepackError::Busy(_) | RepackError::MemoryFull(_))) => {
                self.collecting.try_again(identifier);
            }
            Err(Failed::Repack(error @ RepackError::Incomplete { .. })) => {
                self.collecting.failed();
                log_incomplete(&error);
            }
            Err(Failed::Repack(error)) => {
                self.collecting.failed();
                tracing::warn!(%identifier, error = &error as &dyn std::error::Error, "failed to collect unreachable objects");
            }
            Err(Failed::Grasp(error)) => {
                self.collecting.failed();
                error.log("failed to collect unreachable objects");
            }
        }
        Collected::default()
    }

    async fn try_collect(
        self: &Arc<Self>,
        identifier: &Identifier,
        kept: &Arc<Vec<Event>>,
        now: SystemTime,
    ) -> Result<Collected, Failed> {
        // Its refs do not say yet what its events say.
        if self.unsettled.contains(identifier) {
            return Ok(Collected::default());
        }
        let keep = self.keep.unreachable;
        let turns = self.turns(vec![identifier.clone()]).await?;
        let (named, stamp) = {
            let (identifier, kept) = (identifier.clone(), Arc::clone(kept));
            let look = move |core: &Self| {
                let _turns = turns;
                let named = core.named(&identifier, &kept)?;
                let stamp = core
                    .repositories
                    .collection_stamp(&identifier, &named, keep, now);
                let stamp = stamp.map_err(|error| GraspError::Stores(Box::new(error)))?;
                Ok::<_, GraspError>((named, stamp))
            };
            self.blocking("git.stores", look).await??
        };
        let Some(stamp) = stamp.filter(|stamp| !self.collecting.is_known(identifier, *stamp))
        else {
            return Ok(Collected::default());
        };
        let found = self
            .repositories
            .find_garbage(identifier, &named, keep, now);
        let mut found = found.await?;
        for _ in 0..MAX_LOOKS {
            let Some(garbage) = found else {
                self.collecting.note(identifier, stamp);
                return Ok(Collected::default());
            };
            let turns = self.turns(vec![identifier.clone()]).await?;
            let remove = {
                let (identifier, kept) = (identifier.clone(), Arc::clone(kept));
                move |core: &Self| {
                    // Ours until the packs are swapped, whatever becomes of who waits for it.
                    let _turns = turns;
                    let named = core.named(&identifier, &kept)?;
                    let removal = garbage.remove(&named)?;
                    Ok::<_, Failed>((named, removal))
                }
            };
            let (named, removal) = self.blocking("git.collect", remove).await??;
            match removal {
                GarbageRemoval::Removed(collected) => return Ok(collected),
                GarbageRemoval::Changed(garbage) => found = garbage.look_again(&named).await?,
            }
        }
        self.collecting.try_again(identifier);
        Ok(Collected::default())
    }

    /// What events that are served, held, wanted or `kept` name of an identifier's objects, and states
    /// that their author may return to (G01-104). Refs name the tips of served pull requests. The caller has
    /// the turn. Blocks.
    pub(crate) fn named(
        &self,
        identifier: &Identifier,
        kept: &[Event],
    ) -> Result<Vec<Oid>, GraspError> {
        let mut events = self.look(|view| view.served_states(identifier))?;
        events.extend(self.replaced_states(&events)?);
        let kept = kept.iter().filter(|event| is_about(event, identifier));
        events.extend(self.undeleted(kept.cloned())?);
        let waiting = self.waiting_for_data(identifier);
        events.extend(waiting.into_iter().map(|event| event.unpack()));
        let mut named = BTreeSet::new();
        for event in events {
            if let Ok(state) = State::parse(event.clone()) {
                named.extend(state.oids());
            } else if let Ok(request) = PullRequest::parse(event) {
                named.insert(request.tip);
            }
        }
        Ok(named.into_iter().collect())
    }
}

impl Core {
    fn replaced_states(&self, served: &[Event]) -> Result<Vec<Event>, ViewError> {
        let view = self.store.read().map_err(ViewError::new)?;
        let mut replaced = Vec::new();
        for state in served.iter().filter_map(address_of) {
            replaced.extend(view.history(&state).map_err(ViewError::new)?);
        }
        drop(view);
        self.undeleted(replaced)
    }

    /// Leaves out what was deleted: nobody returns to it.
    fn undeleted(&self, events: impl IntoIterator<Item = Event>) -> Result<Vec<Event>, ViewError> {
        let view = self.store.read().map_err(ViewError::new)?;
        let mut found = Vec::new();
        for event in events {
            let deletion = view.deletion_of(&event);
            if deletion.map_err(ViewError::new)?.is_none() {
                found.push(event);
            }
        }
        Ok(found)
    }
}

fn is_about(event: &Event, identifier: &Identifier) -> bool {
    if let Ok(state) = State::parse(event.clone()) {
        return state.identifier == *identifier;
    }
    let request = PullRequest::parse(event.clone());
    request.is_ok_and(|request| {
        // An update may name its pull request alone.
        let targets = &request.targets;
        targets.is_empty() || targets.iter().any(|to| to.identifier == *identifier)
    })
}

/// Why a collection was given up.
#[derive(Debug)]
enum Failed {
    Repack(RepackError),
    Grasp(GraspError),
}

impl From<RepackError> for Failed {
    fn from(error: RepackError) -> Self {
        Self::Repack(error)
    }
}

impl From<GraspError> for Failed {
    fn from(error: GraspError) -> Self {
        Self::Grasp(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_has_its_turn_and_those_that_were_busy_come_first() {
        let collecting = Collecting::default();
        let name = |n: usize| Identifier::parse(&format!("n{n:03}")).unwrap();
        let stores: BTreeSet<Identifier> = (0..20).map(name).collect();
        let first: Vec<Identifier> = (0..16).map(name).collect();
        assert_eq!(collecting.next(&stores), first);
        collecting.try_again(&name(3));
        let second: Vec<Identifier> = [3].into_iter().chain(16..20).map(name).collect();
        assert_eq!(collecting.next(&stores), second);
        assert_eq!(collecting.next(&stores), first);
    }
}
