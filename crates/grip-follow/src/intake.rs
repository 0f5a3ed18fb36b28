//! The way of delivered events into the node: cheap looks first, then id and signature, then the
//! rules for all events (G02-33).

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use grip_nostr::{
    Event, EventId, Filter, FollowedRepositories, Timestamp, first_value,
    kinds::{self, Class},
};
use grip_relay::{Admission, Relay, WritePolicy};
use grip_store::{EventStore, EventView as _, StoreError};
use grip_tasks::TaskGroup;
use grip_types::EventSource;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::{
    RelayUrl,
    plan::Plan,
    refused_events::{Kept, KeptEvent},
    refused_ids::Refused,
    replication::Replication,
    session::{Asked, Delivery, Fate, Item, UNKNOWN_ID},
    threads,
    worker::now_ms,
};

/// Events of ours that one reconciliation compares.
const MAX_ITEMS: usize = 200_000;
/// Rounds of answers that an arrival brings.
const MAX_ROUNDS: usize = 8;

/// What every relay's events go through.
pub(crate) struct Intake {
    pub(crate) relay: Relay,
    pub(crate) policy: Arc<dyn WritePolicy>,
    pub(crate) store: EventStore,
    pub(crate) followed: Arc<dyn FollowedRepositories>,
    pub(crate) refused: Mutex<Refused>,
    pub(crate) orphans: Mutex<Kept>,
    /// Announcements and states that were refused a moment ago.
    pub(crate) hot: Mutex<Kept>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) group: TaskGroup,
}

/// What became of one delivery: its request, the id it claims, and its fate.
pub(crate) type Decided = (Option<u64>, [u8; 32], Fate);

/// The fate of every event by its claimed id, and those that are worth a signature check.
type Sorted = (Vec<([u8; 32], Fate)>, Vec<Candidate>);

/// An event that is worth a signature check.
struct Candidate {
    /// Place among the deliveries.
    at: usize,
    event: Event,
    text: Bytes,
    /// It came because everything was asked for.
    is_of_everything: bool,
}

impl Intake {
    /// Decides on a batch of `relay`. The decisions come in the order of the deliveries; events under way are
    /// decided even if the future is dropped.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        batch: Vec<Delivery>,
        relay: &RelayUrl,
        source: EventSource,
    ) -> Vec<Decided> {
        let jobs: Vec<Option<u64>> = batch.iter().map(|delivery| delivery.job).collect();
        let (intake, from) = (Arc::clone(self), relay.clone());
        let look = move || intake.look(batch, &from);
        let looked = self.group.spawn_blocking("follow.look", look).await;
        let looked = looked.unwrap_or_else(|_| Ok(Sorted::default()));
        let (mut decided, candidates) = looked.unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "failed to look events up"
            );
            Sorted::default()
        });
        decided.resize(jobs.len(), (UNKNOWN_ID, Fate::Failed));
        for (at, fate) in self.admit(candidates, relay, source).await {
            decided[at].1 = fate;
        }
        let whole = jobs.into_iter().zip(decided);
        whole.map(|(job, (id, fate))| (job, id, fate)).collect()
    }

    /// Sorts out what was not asked for and what is known. Blocks.
    fn look(&self, batch: Vec<Delivery>, relay: &RelayUrl) -> Result<Sorted, StoreError> {
        let view = self.store.read()?;
        let mut states = Vec::new();
        let mut fates = Vec::with_capacity(batch.len());
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut seen = HashSet::new();
        for (at, delivery) in batch.into_iter().enumerate() {
            let event = match wanted(&delivery) {
                Ok(event) => event,
                Err(decided) => {
                    fates.push(decided);
                    continue;
                }
            };
            let id = event.id;
            let now = Instant::now();
            // By the claimed id: it marks nothing, and a forged copy of what we have costs nothing.
            let is_known = view.contains(&id)? || self.followed.is_held(&id);
            let is_refused = || self.refused.lock().contains(&id, now);
            let waits = || self.orphans.lock().contains(&id);
            let fate = if is_known {
                // That the relay has it is known by its signature alone.
                let is_state = event.kind == kinds::STATE;
                if is_state
                    && self.replication.is_news(relay, &id, now_ms())
                    && event.verify().is_ok()
                {
                    states.push(id);
                }
                Fate::Known
            } else if is_refused() || waits() {
                Fate::Refused
            } else if seen.contains(&(id, event.sig)) {
                Fate::Known
            } else {
                seen.insert((id, event.sig));
                let text = Bytes::from(format!("[\"EVENT\",{}]", delivery.json));
                candidates.push(Candidate {
                    at,
                    event,
                    text,
                    is_of_everything: matches!(delivery.asked, Asked::Everything(_)),
                });
                Fate::Failed
            };
            fates.push((id.to_bytes(), fate));
        }
        self.replication.seen(relay, &states, now_ms());
        candidates.sort_by_key(|candidate| order(&candidate.event));
        Ok((fates, candidates))
    }

    async fn admit(
        self: &Arc<Self>,
        candidates: Vec<Candidate>,
        relay: &RelayUrl,
        source: EventSource,
    ) -> Vec<(usize, Fate)> {
        let texts = candidates.iter().map(|it| it.text.clone()).collect();
        let admitting = self.relay.admit(&self.policy, texts, source);
        let span = tracing::info_span!("relay", from = %relay);
        let admissions = admitting.instrument(span).await;
        let mut fates = Vec::new();
        let mut arrived = Vec::new();
        let mut states = Vec::new();
        for (candidate, admission) in candidates.into_iter().zip(admissions) {
            let Candidate {
                at,
                event,
                text,
                is_of_everything,
            } = candidate;
            let fate = fate(&event, &admission);
            // What is refused is remembered until the next start alone, and compared after it.
            let shown = match fate {
                Fate::Refused if is_of_everything => Fate::Foreign(event.created_at.as_secs()),
                fate => fate,
            };
            fates.push((at, shown));
            let is_here = matches!(fate, Fate::Taken | Fate::Known);
            states.extend((is_here && event.kind == kinds::STATE).then_some(event.id));
            self.note(event, text, source, fate, &mut arrived);
        }
        self.replication.seen(relay, &states, now_ms());
        self.admit_answers(arrived).await;
        fates
    }

    /// Remembers a decision on an event whose signature was checked.
    fn note(
        &self,
        event: Event,
        text: Bytes,
        source: EventSource,
        fate: Fate,
        arrived: &mut Vec<Event>,
    ) {
        let now = Instant::now();
        match fate {
            Fate::Taken => arrived.push(event),
            // It may belong to something that comes later.
            Fate::Refused if may_wait(&event) => self.orphans.lock().add(event, text, source, now),
            Fate::Refused => {
                self.refused.lock().add(&event, now);
                if [kinds::ANNOUNCEMENT, kinds::STATE].contains(&event.kind) {
                    self.hot.lock().add(event, text, source, now);
                }
            }
            Fate::Known | Fate::Foreign(_) | Fate::Worthless | Fate::Failed | Fate::OverShare => {}
        }
    }

    /// Admits what has waited for the arrived events, and what has waited for those.
    async fn admit_answers(&self, mut arrived: Vec<Event>) {
        for _ in 0..MAX_ROUNDS {
            if arrived.is_empty() {
                return;
            }
            let answers = self.orphans.lock().take_answers(&arrived, Instant::now());
            arrived = self.admit_kept(answers).await;
        }
    }

    /// Says whether anything waits for what it belongs to.
    pub(crate) fn has_answers(&self) -> bool {
        !self.orphans.lock().is_empty()
    }

    /// Judges again what has waited for something that is here now, by whichever way it came: nobody sends
    /// again what is known to wait (G02-36).
    pub(crate) async fn judge_answers(&self, here: &HashSet<Arc<str>>) {
        let answers = self.orphans.lock().take_naming(here, Instant::now());
        let arrived = self.admit_kept(answers).await;
        self.admit_answers(arrived).await;
    }

    /// Judges again what was refused for identifiers that are new here or have other maintainers
    /// (G02-35).
    pub(crate) async fn judge_again(&self, identifiers: &HashSet<&str>) {
        self.refused.lock().forget(identifiers);
        let kept = self.hot.lock().take_of(identifiers, Instant::now());
        let arrived = self.admit_kept(kept).await;
        self.admit_answers(arrived).await;
    }

    /// Admits events that were kept, each as its relay sent it; returns those that were taken.
    async fn admit_kept(&self, mut kept: Vec<KeptEvent>) -> Vec<Event> {
        kept.sort_by_key(|kept| order(&kept.event));
        let mut by_source: BTreeMap<_, Vec<KeptEvent>> = BTreeMap::new();
        for kept in kept {
            let EventSource {
                network,
                is_configured,
                ..
            } = kept.source;
            let from_there = by_source.entry((network, is_configured));
            from_there.or_default().push(kept);
        }
        let mut arrived = Vec::new();
        for kept in by_source.into_values() {
            let Some(source) = kept.first().map(|kept| kept.source) else {
                continue;
            };
            let texts = kept.iter().map(|kept| kept.text.clone()).collect();
            let admissions = self.relay.admit(&self.policy, texts, source).await;
            for (kept, admission) in kept.into_iter().zip(admissions) {
                let KeptEvent { event, text, .. } = kept;
                let fate = fate(&event, &admission);
                self.note(event, text, source, fate, &mut arrived);
            }
        }
        arrived
    }

    /// Time and id of all that is here and matches; none if there is too much.
    pub(crate) async fn load(self: &Arc<Self>, filter: Filter) -> Option<Vec<Item>> {
        self.load_all(move || std::iter::once(filter)).await
    }

    /// The same of all that a plan wants.
    pub(crate) async fn load_plan(self: &Arc<Self>, plan: Arc<Plan>) -> Option<Vec<Item>> {
        self.load_all(move || plan.filters()).await
    }

    async fn load_all<I>(
        self: &Arc<Self>,
        filters: impl FnOnce() -> I + Send + 'static,
    ) -> Option<Vec<Item>>
    where
        I: Iterator<Item = Filter>,
    {
        let intake = Arc::clone(self);
        let load = move || intake.items(filters());
        match self.group.spawn_blocking("follow.look", load).await {
            Ok(Ok(items)) => items,
            Ok(Err(error)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to read events"
                );
                None
            }
            Err(_) => None,
        }
    }

    fn items(
        &self,
        filters: impl Iterator<Item = Filter>,
    ) -> Result<Option<Vec<Item>>, StoreError> {
        let view = self.store.read()?;
        let mut items = Vec::new();
        for filter in filters {
            let Some(found) = threads::items(&view, &filter, MAX_ITEMS)? else {
                return Ok(None);
            };
            items.extend(found);
            items.extend(self.followed.held(&filter));
            items.extend(self.refused.lock().items(&filter, Instant::now()));
            items.extend(self.orphans.lock().items(&filter));
            items.sort_unstable();
            items.dedup();
            if items.len() > MAX_ITEMS {
                return Ok(None);
            }
        }
        Ok(Some(items))
    }
}

/// The event of a delivery, if it is what was asked for and may be taken from another relay.
fn wanted(delivery: &Delivery) -> Result<Event, ([u8; 32], Fate)> {
    let worthless = (UNKNOWN_ID, Fate::Worthless);
    let event: Event = serde_json::from_str(&delivery.json).map_err(|_| worthless)?;
    // Ephemeral and protected events are never taken from elsewhere (G02-4).
    let is_lasting = kinds::class(event.kind) != Class::Ephemeral;
    let may_come = is_lasting && event.tags.iter().all(|tag| tag.kind() != "-");
    let (is_asked, otherwise) = match &delivery.asked {
        Asked::Filters(filters) => {
            let is_asked = filters.iter().any(|filter| filter.matches(&event));
            (is_asked, worthless)
        }
        Asked::Plan(plan) => (plan.wants(&event), worthless),
        Asked::Everything(plan) => {
            // Nobody keeps those that are not lasting, so that none is found again.
            let fate = if is_lasting {
                Fate::Foreign(event.created_at.as_secs())
            } else {
                Fate::Refused
            };
            (plan.wants(&event), (event.id.to_bytes(), fate))
        }
    };
    if is_asked && may_come {
        Ok(event)
    } else {
        Err(otherwise)
    }
}

/// Requests to vanish, by which the rest is judged (G01-127), then announcements before states before
/// the rest, each by age: what others depend on comes first.
fn order(event: &Event) -> (u8, Timestamp, EventId) {
    let rank = match event.kind {
        kind if kind == kinds::VANISH => 0,
        kind if kind == kinds::ANNOUNCEMENT => 1,
        kind if kind == kinds::STATE => 2,
        _ => 3,
    };
    (rank, event.created_at, event.id)
}

fn fate(event: &Event, admission: &Admission) -> Fate {
    let answer = &admission.answer;
    match answer.prefix() {
        _ if !admission.is_authentic => Fate::Worthless,
        // Lists and profiles of everybody within the share of the relay; the rest is not missed.
        Some("rate-limited")
            if [kinds::GRASP_LIST, kinds::PROFILE, kinds::RELAY_LIST].contains(&event.kind) =>
        {
            Fate::Refused
        }
        _ if admission.is_over_share => Fate::OverShare,
        Some("error" | "rate-limited") => Fate::Failed,
        Some("duplicate") => Fate::Known,
        _ if answer.accepted => Fate::Taken,
        _ => Fate::Refused,
    }
}

/// Says whether an event is refused for want of a relation that may still come.
fn may_wait(event: &Event) -> bool {
    let has_rules_of_its_own = [
        kinds::ANNOUNCEMENT,
        kinds::STATE,
        kinds::DELETION,
        kinds::VANISH,
    ];
    let names_something = ["e", "E", "a", "A", "q"]
        .into_iter()
        .any(|name| first_value(event, name).is_some());
    !has_rules_of_its_own.contains(&event.kind) && names_something
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::event;

    fn delivery(event: &Event, asked: Asked) -> Delivery {
        Delivery {
            json: serde_json::to_string(event).unwrap(),
            asked,
            job: None,
        }
    }

    #[test]
    fn g02_4_ephemeral_and_protected_events_are_never_taken_from_other_relays() {
        let mut plan = Plan::default();
        plan.add(crate::plan::Class::Event, &"x".into());
        let plan = Arc::new(plan);
        let all = || Asked::Filters(Arc::from([Filter::default()]));
        let live = || Asked::Plan(Arc::clone(&plan));
        let everything = || Asked::Everything(Arc::clone(&plan));
        let plain = event(1_111, "", &[["e", "x"]]);
        let other = event(1_111, "", &[["e", "y"]]);
        let ephemeral = event(20_001, "", &[["e", "x"]]);
        let protected = event(1_111, "", &[["e", "x"], ["-", ""]]);
        for asked in [all(), live(), everything()] {
            assert!(wanted(&delivery(&plain, asked)).is_ok());
        }
        for asked in [all(), live()] {
            for unfit in [&ephemeral, &protected] {
                let (_, fate) = wanted(&delivery(unfit, asked.clone())).unwrap_err();
                assert_eq!(fate, Fate::Worthless);
            }
        }
        // Who is asked for everything may send everything; it is remembered, and not taken.
        let fate = |event: &Event| wanted(&delivery(event, everything())).unwrap_err().1;
        assert_eq!(fate(&other), Fate::Foreign(other.created_at.as_secs()));
        assert_eq!(
            fate(&protected),
            Fate::Foreign(protected.created_at.as_secs())
        );
        assert_eq!(fate(&ephemeral), Fate::Refused);
    }

    /// The share of a relay in what needs no relation ends; what it has beyond is not missed, so that
    /// its pages count. What else is refused by rate may be taken later.
    #[test]
    fn profiles_beyond_the_share_of_a_relay_are_not_asked_for_again() {
        let refused = Admission {
            is_authentic: true,
            answer: grip_relay::Answer {
                accepted: false,
                message: "rate-limited: too many".to_owned(),
            },
            is_over_share: true,
        };
        for kind in [0, 10_002, 10_317] {
            assert_eq!(
                fate(&event(kind, "", &[]), &refused),
                Fate::Refused,
                "{kind}"
            );
        }
        assert_eq!(fate(&event(1_621, "", &[]), &refused), Fate::OverShare);
        // Others may have filled what else is short.
        let refused = Admission {
            is_over_share: false,
            ..refused
        };
        assert_eq!(fate(&event(1_621, "", &[]), &refused), Fate::Failed);
    }

    /// G01-127: what a key wants gone is known before what it signed.
    #[test]
    fn requests_to_vanish_are_decided_before_the_rest() {
        let mut kinds = [1, 30_618, 30_617, 62].map(|kind| event(kind, "", &[]));
        kinds.sort_by_key(order);
        assert_eq!(
            kinds.map(|event| event.kind.as_u16()),
            [62, 30_617, 30_618, 1]
        );
    }
}
