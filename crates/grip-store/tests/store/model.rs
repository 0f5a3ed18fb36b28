//! Random histories and filters against a list that is searched from end to end.

use std::collections::BTreeMap;

use grip_nostr::{Deletion, Filter, address_of, expiration, supersedes};
use grip_store::{EventView, Item, Put, Query, StoreError, WriteView};
use nostr::prelude::{Event, EventId, Timestamp};
use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::support::*;

/// All that is served, every deletion request ever seen, and the versions that others replaced.
#[derive(Default)]
struct Model {
    served: Vec<Event>,
    requests: Vec<Deletion>,
    history: Vec<Event>,
}

impl Model {
    fn put(&mut self, event: &Event) -> Outcome {
        let asked = self.requests.iter().any(|it| it.event.id == event.id);
        if asked || self.served.iter().any(|other| other.id == event.id) {
            return Outcome::Duplicate;
        }
        if is_expired(event, NOW) {
            return Outcome::Expired;
        }
        if self.requests.iter().any(|request| request.covers(event)) {
            return Outcome::Deleted;
        }
        let address = address_of(event);
        let same_address =
            |other: &Event| address.is_some() && address_of(other).as_ref() == address.as_ref();
        if let Some(other) = self.served.iter().find(|other| same_address(other))
            && supersedes(other, event)
        {
            return Outcome::Superseded(other.id);
        }
        let replaced = self.served.iter().filter(|other| same_address(other));
        let replaced = replaced.filter(|it| has_history(it) && !is_expired(it, NOW));
        let replaced: Vec<Event> = replaced.cloned().collect();
        self.history.extend(replaced);
        let mut removed = self.take(same_address);
        self.served.push(event.clone());
        if let Some(request) = Deletion::parse(event.clone()) {
            let gone: Vec<Event> = self.served.clone();
            let gone = gone.into_iter().filter(|target| request.covers(target));
            let addresses: Vec<_> = gone
                .filter(has_history)
                .filter_map(|it| address_of(&it))
                .collect();
            removed.extend(self.take(|target| request.covers(target)));
            self.requests.push(request);
            let deleted = |it: &Event| self.requests.iter().any(|request| request.covers(it));
            self.history
                .retain(|it| !deleted(it) || !addresses.contains(&address_of(it).unwrap()));
            for address in addresses {
                let versions = self.history.iter();
                let versions = versions.filter(|it| address_of(it).as_ref() == Some(&address));
                let versions = versions.filter(|it| !is_expired(it, NOW));
                let Some(back) = versions.min_by_key(|it| order(it)).cloned() else {
                    continue;
                };
                self.history.retain(|it| it.id != back.id);
                self.served.push(back);
            }
        }
        Outcome::Stored(removed)
    }

    fn take(&mut self, which: impl Fn(&Event) -> bool) -> Vec<EventId> {
        let taken = self.served.extract_if(.., |event| which(event));
        let mut ids: Vec<EventId> = taken.map(|event| event.id).collect();
        ids.sort_unstable();
        ids
    }

    fn query(&self, filters: &[Filter], now: Timestamp, limited: bool) -> Vec<[u8; 32]> {
        let mut found = BTreeMap::new();
        for filter in filters {
            let mut matching: Vec<&Event> = self
                .served
                .iter()
                .filter(|event| !filter.matches_nothing() && filter.matches(event))
                .filter(|event| !is_expired(event, now))
                .collect();
            matching.sort_unstable_by_key(|event| order(event));
            if limited {
                matching.truncate(filter.limit.unwrap_or(LIMITS.default_limit));
            }
            found.extend(
                matching
                    .iter()
                    .map(|event| (order(event), event.id.to_bytes())),
            );
        }
        found.into_values().collect()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Stored(Vec<EventId>),
    Duplicate,
    Superseded(EventId),
    Deleted,
    Expired,
}

impl From<Put> for Outcome {
    fn from(put: Put) -> Self {
        match put {
            Put::Stored { mut removed } => {
                removed.sort_unstable();
                Self::Stored(removed)
            }
            Put::Duplicate => Self::Duplicate,
            Put::Superseded { by } => Self::Superseded(by),
            Put::Deleted { .. } => Self::Deleted,
            Put::Expired => Self::Expired,
        }
    }
}

fn has_history(event: &Event) -> bool {
    [30_617, 30_618].contains(&event.kind.as_u16())
}

fn order(event: &Event) -> (std::cmp::Reverse<u64>, EventId) {
    (std::cmp::Reverse(event.created_at.as_secs()), event.id)
}

fn is_expired(event: &Event, now: Timestamp) -> bool {
    expiration(event).is_some_and(|at| at <= now)
}

const AUTHORS: [u8; 3] = [ALICE, BOB, 0xc0];
const KINDS: [u16; 7] = [1, 5, 5, 1_621, 10_317, 30_617, 30_618];
const LETTERS: [&str; 6] = ["a", "d", "e", "t", "p", "E"];

/// Few values, so that they meet: words, ids of other events, and their addresses.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["", "one", "two"]).prop_map(str::to_owned),
        (0..40_u8).prop_map(|number| id(number).to_hex()),
        (
            select(&KINDS[..]),
            select(&AUTHORS[..]),
            select(vec!["", "one", "two"])
        )
            .prop_map(|(kind, author, d)| address(kind, author, d).to_string()),
        select(vec!["x", "y"]).prop_map(|letter| letter.repeat(600)),
    ]
}

fn tag() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        9 => (select(&LETTERS[..]), value()).prop_map(|(name, value)| vec![name.into(), value]),
        1 => select(vec!["999999", "1000005", "1000010", "never"])
            .prop_map(|at| vec!["expiration".into(), at.into()]),
        1 => Just(vec!["t".into()]),
    ]
}

/// An id stands for one author and kind, as a real one does; see [`one_event_an_id`].
fn any_event() -> impl Strategy<Value = Event> {
    (0..40_u8, 0..6_u64, vec(tag(), 0..5)).prop_map(|(number, at, tags)| {
        let author = AUTHORS[usize::from(number) % AUTHORS.len()];
        let kind = KINDS[usize::from(number) % KINDS.len()];
        // A request that was taken out comes back when it is of use: tests of its own say so.
        let lasts = |tag: &&Vec<String>| kind != 5 || tag[0] != "expiration";
        let tags: Vec<Vec<&str>> = tags
            .iter()
            .filter(lasts)
            .map(|tag| tag.iter().map(String::as_str).collect())
            .collect();
        let tags: Vec<&[&str]> = tags.iter().map(Vec::as_slice).collect();
        event(number, author, kind, at, &tags)
    })
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items.dedup();
    items
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let numbers = |items: std::ops::Range<u8>| items.prop_map(|number| [number; 32]);
    (
        option::weighted(0.2, vec(numbers(0..40), 0..6)),
        option::weighted(
            0.4,
            vec(select(&AUTHORS[..]).prop_map(|author| [author; 32]), 0..3),
        ),
        option::weighted(0.4, vec(select(&KINDS[..]), 0..4)),
        vec((select(&LETTERS[..]), vec(value(), 0..4)), 0..3),
        option::weighted(0.3, 0..6_u64),
        option::weighted(0.3, 0..6_u64),
        option::weighted(0.5, 0..12_usize),
    )
        .prop_map(|(ids, authors, kinds, tags, since, until, limit)| Filter {
            ids: ids.map(sorted),
            authors: authors.map(sorted),
            kinds: kinds.map(sorted),
            tags: tags
                .into_iter()
                .map(|(name, values)| (name.chars().next().unwrap(), sorted(values)))
                .collect(),
            since,
            until,
            limit,
        })
}

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    Put(Event),
    Remove(u8),
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => any_event().prop_map(Step::Put),
        1 => (0..40_u8).prop_map(Step::Remove),
        1 => Just(Step::Sweep),
    ]
}

/// Gives an id the event that it had first: that of a real one is its hash.
fn one_event_an_id(mut history: Vec<Step>) -> Vec<Step> {
    let mut known: BTreeMap<EventId, Event> = BTreeMap::new();
    for step in &mut history {
        if let Step::Put(event) = step {
            *event = known
                .entry(event.id)
                .or_insert_with(|| event.clone())
                .clone();
        }
    }
    history
}

const SWEPT: Timestamp = Timestamp::from_secs(1_000_005);

fn play(view: &mut WriteView<'_>, model: &mut Model, step: &Step) -> Result<(), StoreError> {
    match step {
        Step::Put(event) => {
            let put = Outcome::from(view.put(event, NOW)?);
            assert_eq!(put, model.put(event), "{event:?}");
        }
        Step::Remove(number) if KINDS[usize::from(*number) % KINDS.len()] == 5 => {}
        Step::Remove(number) => {
            let expected = model.take(|event| event.id == id(*number));
            assert_eq!(view.remove(&id(*number))?, !expected.is_empty());
        }
        Step::Sweep => {
            let swept = sweep(view, SWEPT, 1_000)?;
            assert_eq!(sorted(swept), model.take(|event| is_expired(event, SWEPT)));
        }
    }
    Ok(())
}

fn compare(store: &Fixture, model: &Model, filters: &[Filter]) {
    for now in [NOW, SWEPT] {
        assert_eq!(store.ids_at(filters, now), model.query(filters, now, true));
        assert_eq!(
            store.count(filters, now),
            model.query(filters, now, false).len()
        );
        // In slices as small as can be the answer is the same.
        for steps in [0, 5] {
            let sliced = store.run(Query::new(filters.to_vec(), LIMITS), now, steps);
            assert_eq!(ids(sliced), model.query(filters, now, true));
        }
        for filter in filters {
            let items = store.run(Query::of_set(filter.clone()), now, 2);
            assert_eq!(
                ids(items),
                model.query(std::slice::from_ref(filter), now, true)
            );
        }
    }
}

fn ids(items: Vec<Item>) -> Vec<[u8; 32]> {
    items.into_iter().map(|(_, id)| id).collect()
}

/// Nothing but the served events is found by any name.
fn compare_names(store: &Fixture, model: &Model) {
    let view = store.store.read().unwrap();
    for number in 0..40 {
        let expected = model.served.iter().find(|event| event.id == id(number));
        assert_eq!(view.get(&id(number)).unwrap().as_ref(), expected);
        let tagged = model
            .served
            .iter()
            .any(|event| grip_nostr::references(event).ids.contains(&id(number)));
        assert_eq!(view.is_referenced(&id(number), &[]).unwrap(), tagged);
    }
    for event in &model.served {
        if let Some(address) = address_of(event) {
            assert_eq!(view.latest(&address).unwrap().as_ref(), Some(event));
            assert_eq!(view.latest_id(&address).unwrap(), Some(event.id));
            let with_d = view.with_d(address.kind, &address.d).unwrap();
            let same = |other: &&Event| {
                address_of(other).is_some_and(|a| (a.kind, &a.d) == (address.kind, &address.d))
            };
            assert_eq!(with_d.len(), model.served.iter().filter(same).count());
        }
    }
    let served = u64::try_from(model.served.len()).unwrap();
    assert_eq!(store.store.stats().unwrap().events, served);
}

proptest! {
    #[test]
    fn the_store_does_what_the_model_does(
        history in vec(step(), 1..80).prop_map(one_event_an_id),
        queries in vec(vec(any_filter(), 1..4), 1..40),
    ) {
        let store = Fixture::with_map(16 << 20);
        let mut model = Model::default();
        for batch in history.chunks(13) {
            let write = |view: &mut WriteView<'_>| {
                batch.iter().try_for_each(|step| play(view, &mut model, step))
            };
            store.store.write(write).unwrap();
        }
        for filters in &queries {
            compare(&store, &model, filters);
        }
        compare_names(&store, &model);
    }
}
