//! Plans: which events of one relay are wanted, as filters small enough for any relay.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use grip_nostr::{Event, Filter, kinds};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Bytes of tag values in one filter (G02-16).
const FILTER_BYTES: usize = 32 << 10;
/// Bytes of one REQ.
pub(crate) const REQUEST_BYTES: usize = 96 << 10;
/// Authors of one filter (G03-6).
const MAX_AUTHORS: usize = 100;
/// What JSON adds to a value: quotes and a comma.
const VALUE_EXTRA: usize = 3;

/// A class of requests, the most important first (G02-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Class {
    /// Announcements and grasp lists of everybody.
    Announcements,
    /// Announcements and states by identifier.
    States,
    /// What tags a repository.
    Address,
    /// What tags an issue, a patch or a pull request.
    Event,
    /// Requests to vanish of maintainers and participants (G01-127).
    Vanish,
    /// As `States`, for announcements that are held: anybody can have many of these.
    Held,
    RootEvent,
    RootAddress,
    /// What quotes one of both.
    Quote,
    /// What tags an answer to an issue, a patch or a pull request.
    Descendant,
    /// What tags the address of such an answer.
    DescendantAddress,
    /// What quotes one of both.
    DescendantQuote,
    /// Profiles, lists of relays and of grasp servers, by author (GRASP-03).
    Profiles,
    /// All that a relay has, where almost all of it is wanted.
    Everything,
}

impl Class {
    /// The filter for `values`; of announcements for everything.
    pub(crate) fn filter<'a>(self, values: impl IntoIterator<Item = &'a Arc<str>>) -> Filter {
        let mut values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
        values.sort_unstable();
        let authors = values.iter().filter(|_| self.is_by_author());
        let authors: Vec<[u8; 32]> = authors.filter_map(|value| key(value)).collect();
        let tagged = |letter| Filter {
            tags: BTreeMap::from([(letter, values)]),
            ..Filter::default()
        };
        let of_kinds =
            |kinds: &[grip_nostr::Kind]| Some(kinds.iter().map(|k| k.as_u16()).collect());
        match self {
            Self::Announcements => Filter {
                kinds: of_kinds(&[kinds::GRASP_LIST, kinds::ANNOUNCEMENT]),
                ..Filter::default()
            },
            Self::States | Self::Held => Filter {
                kinds: of_kinds(&[kinds::ANNOUNCEMENT, kinds::STATE]),
                ..tagged('d')
            },
            Self::Address | Self::DescendantAddress => tagged('a'),
            Self::Event | Self::Descendant => tagged('e'),
            Self::RootEvent => tagged('E'),
            Self::RootAddress => tagged('A'),
            Self::Quote | Self::DescendantQuote => tagged('q'),
            Self::Profiles => Filter {
                authors: Some(authors),
                kinds: of_kinds(&[kinds::PROFILE, kinds::RELAY_LIST, kinds::GRASP_LIST]),
                ..Filter::default()
            },
            Self::Vanish => Filter {
                authors: Some(authors),
                kinds: of_kinds(&[kinds::VANISH]),
                ..Filter::default()
            },
            Self::Everything => Filter::default(),
        }
    }

    fn is_by_author(self) -> bool {
        matches!(self, Self::Profiles | Self::Vanish)
    }

    /// Splits values into parts that each fit one filter.
    pub(crate) fn chunks(self, values: &[Arc<str>]) -> Vec<&[Arc<str>]> {
        match self {
            _ if self.is_by_author() => values.chunks(MAX_AUTHORS).collect(),
            _ => chunks(values),
        }
    }
}

/// The values of one class, in order and each once. A plan, what is covered of it and what is remembered
/// of that share them: there are many thousand, of every relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values(Arc<[Arc<str>]>);

impl Values {
    /// The one that reads so.
    pub(crate) fn get(&self, value: &str) -> Option<&Arc<str>> {
        let found = self.0.binary_search_by(|known| (**known).cmp(value));
        found.ok().map(|at| &self.0[at])
    }

    pub(crate) fn contains(&self, value: &str) -> bool {
        self.get(value).is_some()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Arc<str>> {
        self.0.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn as_slice(&self) -> &[Arc<str>] {
        &self.0
    }

    /// Those that come after `value`.
    pub(crate) fn after(&self, value: &str) -> &[Arc<str>] {
        let at = self.0.partition_point(|known| **known <= *value);
        &self.0[at..]
    }

    /// Says whether all are among `others`; most often they are the same.
    pub(crate) fn is_within(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.0, &others.0) || self.iter().all(|value| others.contains(value))
    }
}

impl FromIterator<Arc<str>> for Values {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(values: I) -> Self {
        let mut values: Vec<Arc<str>> = values.into_iter().collect();
        values.sort_unstable();
        values.dedup();
        Self(values.into())
    }
}

/// A plan that is being made.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    values: BTreeMap<Class, Vec<Arc<str>>>,
    pub(crate) repositories: usize,
    revisions: BTreeMap<Arc<str>, u64>,
}

impl Draft {
    pub(crate) fn add(&mut self, class: Class, value: &Arc<str>) {
        self.values
            .entry(class)
            .or_default()
            .push(Arc::clone(value));
    }

    /// Wants what a plan wants, too.
    pub(crate) fn merge(&mut self, plan: &Plan) {
        for (class, values) in &plan.values {
            let known = self.values.entry(*class).or_default();
            known.extend(values.iter().cloned());
        }
    }

    pub(crate) fn revise(&mut self, identifier: &Arc<str>, revisions: &BTreeMap<Arc<str>, u64>) {
        if let Some(revision) = revisions.get(identifier) {
            self.revisions.insert(Arc::clone(identifier), *revision);
        }
    }

    /// The plan. Classes with the same values, as those of one event by two tags, share them.
    pub(crate) fn finish(self) -> Plan {
        let mut values: BTreeMap<Class, Values> = BTreeMap::new();
        for (class, of_class) in self.values {
            let of_class: Values = of_class.into_iter().collect();
            let same = values.values().find(|known| **known == of_class).cloned();
            values.insert(class, same.unwrap_or(of_class));
        }
        Plan {
            values,
            repositories: self.repositories,
            revisions: self.revisions,
        }
    }
}

/// What is wanted of one relay: the values of each class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) values: BTreeMap<Class, Values>,
    /// How many repositories it is for.
    pub(crate) repositories: usize,
    /// For each identifier what stands for its maintainers: other ones may make events acceptable
    /// that were refused before (G02-35).
    pub(crate) revisions: BTreeMap<Arc<str>, u64>,
}

impl Plan {
    #[cfg(test)]
    pub(crate) fn add(&mut self, class: Class, value: &Arc<str>) {
        let known = self.values.remove(&class).unwrap_or_default();
        let all = known.iter().chain([value]).cloned().collect();
        self.values.insert(class, all);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn contains(&self, class: Class, value: &str) -> bool {
        self.get(class, value).is_some()
    }

    /// Events and addresses of which it is asked what tags them, and by `before` was not: what quotes them is
    /// asked for, too.
    pub(crate) fn new_names(&self, before: Option<&Self>) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        for class in [Class::Quote, Class::DescendantQuote] {
            let known = before.and_then(|plan| plan.values.get(&class));
            let known = known.cloned().unwrap_or_default();
            let values = self.values.get(&class).cloned().unwrap_or_default();
            if !values.is_within(&known) {
                let new = values.iter().filter(|value| !known.contains(value));
                names.extend(new.cloned());
            }
        }
        names
    }

    /// The value of a class that reads so.
    pub(crate) fn get(&self, class: Class, value: &str) -> Option<&Arc<str>> {
        self.values.get(&class)?.get(value)
    }

    /// Says whether a filter of this plan asks for an event.
    pub(crate) fn wants(&self, event: &Event) -> bool {
        let has = |class: Class, value: &str| self.contains(class, value);
        let kind = event.kind;
        let is_announcement = kind == kinds::ANNOUNCEMENT;
        let is_list = [kinds::PROFILE, kinds::RELAY_LIST, kinds::GRASP_LIST].contains(&kind);
        (has(Class::Announcements, "") && (is_announcement || kind == kinds::GRASP_LIST))
            || (is_list && has(Class::Profiles, &event.pubkey.to_hex()))
            || (kind == kinds::VANISH && has(Class::Vanish, &event.pubkey.to_hex()))
            || event.tags.iter().any(|tag| {
                let Some(value) = tag.content() else {
                    return false;
                };
                let classes: &[Class] = match tag.kind() {
                    "d" if is_announcement || kind == kinds::STATE => &[Class::States, Class::Held],
                    "a" => &[Class::Address, Class::DescendantAddress],
                    "A" => &[Class::RootAddress],
                    "e" => &[Class::Event, Class::Descendant],
                    "E" => &[Class::RootEvent],
                    "q" => &[Class::Quote, Class::DescendantQuote],
                    _ => &[],
                };
                classes.iter().any(|class| has(*class, value))
            })
    }

    /// Bytes of all values, as requests would have them.
    pub(crate) fn size_bytes(&self) -> usize {
        let values = self.values.values().flat_map(|values| values.iter());
        values.map(|value| value.len() + VALUE_EXTRA).sum()
    }

    /// The filters of everything that is wanted, each made when it is needed: as texts, values are many
    /// times as long.
    pub(crate) fn filters(self: Arc<Self>) -> impl Iterator<Item = Filter> {
        let mut parts = Vec::new();
        for (class, values) in &self.values {
            let mut start = 0;
            for part in class.chunks(values.as_slice()) {
                parts.push((*class, start..start + part.len()));
                start += part.len();
            }
        }
        let filter = move |(class, range): (Class, Range<usize>)| {
            class.filter(&self.values[&class].as_slice()[range])
        };
        parts.into_iter().map(filter)
    }

    /// What stands for the maintainers of an identifier, where `value` is one.
    pub(crate) fn revision(&self, class: Class, value: &Arc<str>) -> Option<u64> {
        let is_identifier = matches!(class, Class::States | Class::Held);
        let revision = self.revisions.get(value).copied();
        revision.filter(|_| is_identifier)
    }

    /// Tells plans with other values in some classes apart.
    pub(crate) fn digest_of(&self, counts: impl Fn(Class) -> bool) -> String {
        let mut hash = Sha256::new();
        for (class, values) in self.values.iter().filter(|(class, _)| counts(**class)) {
            hash.update([*class as u8, 0]);
            for value in values.iter() {
                hash.update(value.as_bytes());
                hash.update([0]);
            }
        }
        faster_hex::hex_string(&hash.finalize()[..16])
    }
}

fn key(hex: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    faster_hex::hex_decode(hex.as_bytes(), &mut key).ok()?;
    Some(key)
}

/// Splits values by their bytes.
fn chunks(values: &[Arc<str>]) -> Vec<&[Arc<str>]> {
    let mut parts = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, value) in values.iter().enumerate() {
        let size = value.len() + VALUE_EXTRA;
        if bytes + size > FILTER_BYTES && at > start {
            parts.push(&values[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += size;
    }
    if start < values.len() {
        parts.push(&values[start..]);
    }
    parts
}

/// Tells filters apart across restarts.
pub(crate) fn digest(filter: &Filter) -> String {
    let json = serde_json::Value::from(filter).to_string();
    faster_hex::hex_string(&Sha256::digest(json)[..16])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn g02_16_no_filter_is_too_long_and_no_value_is_lost(
            sizes in proptest::collection::vec(1_usize..9_000, 0..60)
        ) {
            let values: Vec<Arc<str>> = sizes.iter().map(|size| "x".repeat(*size).into()).collect();
            let parts = chunks(&values);
            let bytes = |part: &&[Arc<str>]| -> usize {
                part.iter().map(|value| value.len() + VALUE_EXTRA).sum()
            };
            prop_assert!(parts.iter().all(|part| !part.is_empty() && bytes(part) <= FILTER_BYTES));
            prop_assert_eq!(parts.concat(), values);
        }
    }

    /// What a filter of the plan matches is wanted, and nothing else is.
    #[test]
    fn an_event_is_wanted_exactly_if_a_filter_of_the_plan_asks_for_it() {
        use crate::testing::event;
        let mut plan = Plan::default();
        let of = [
            (Class::States, "tides"),
            (Class::Held, "held"),
            (Class::Address, "30617:x:tides"),
            (Class::RootAddress, "30617:x:tides"),
            (Class::Event, "e1"),
            (Class::RootEvent, "e1"),
            (Class::Quote, "e1"),
            (Class::Descendant, "d1"),
            (Class::DescendantAddress, "32267:x:app"),
            (Class::DescendantQuote, "d1"),
        ];
        for (class, value) in of {
            plan.add(class, &value.into());
        }
        let author = event(0, "", &[]);
        let key: Arc<str> = author.pubkey.to_hex().into();
        plan.add(Class::Profiles, &key);
        let filters: Vec<Filter> = Arc::new(plan.clone()).filters().collect();
        let mut wanted = 0;
        let vanish = event(62, "", &[["relay", "ALL_RELAYS"]]);
        assert!(!plan.wants(&vanish));
        plan.add(Class::Vanish, &vanish.pubkey.to_hex().into());
        assert!(plan.wants(&vanish));
        for kind in [0, 1, 5, 1111, 1621, 10_002, 10_317, 30_617, 30_618] {
            for name in ["d", "a", "A", "e", "E", "q", "p"] {
                for value in [
                    "tides",
                    "held",
                    "30617:x:tides",
                    "e1",
                    "d1",
                    "32267:x:app",
                    "no",
                ] {
                    let event = event(kind, "", &[[name, value]]);
                    let is_asked = filters.iter().any(|filter| filter.matches(&event));
                    assert_eq!(plan.wants(&event), is_asked, "{kind} {name} {value}");
                    wanted += usize::from(is_asked);
                }
            }
        }
        assert!(wanted > 20 && plan.wants(&author));
        plan.add(Class::Announcements, &"".into());
        assert!(plan.wants(&event(30_617, "", &[["d", "no"]])));
    }

    /// What is followed of many thousand events on many relays is kept once for each of them.
    #[test]
    fn classes_with_the_same_values_share_them() {
        let mut draft = Draft::default();
        for value in ["b", "a", "b"] {
            draft.add(Class::Event, &value.into());
            draft.add(Class::RootEvent, &value.into());
        }
        draft.add(Class::Quote, &"a".into());
        let plan = draft.finish();
        let [event, root, quote] =
            [Class::Event, Class::RootEvent, Class::Quote].map(|class| &plan.values[&class]);
        let texts = |values: &[Arc<str>]| values.join(" ");
        assert_eq!(texts(event.as_slice()), "a b");
        assert!(Arc::ptr_eq(&event.0, &root.0));
        assert!(quote.is_within(event) && !event.is_within(quote));
        assert_eq!(texts(event.after("a")), "b");
    }

    #[test]
    fn plans_with_other_values_have_other_digests() {
        let mut plan = Plan::default();
        plan.add(Class::States, &"ab".into());
        let one = plan.digest_of(|_| true);
        plan.add(Class::States, &"c".into());
        let two = plan.digest_of(|_| true);
        assert_ne!(one, two);
        assert_ne!(two, plan.digest_of(|class| class != Class::States));
        let mut other = Plan::default();
        other.add(Class::Address, &"ab".into());
        assert_ne!(one, other.digest_of(|_| true));
    }
}
