//! Plans: which events of one relay are wanted, as filters small enough for any relay.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use grip_nostr::{Filter, kinds};
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
}

impl Class {
    /// The filter for `values`; of announcements for everything.
    pub(crate) fn filter<'a>(self, values: impl IntoIterator<Item = &'a Arc<str>>) -> Filter {
        let mut values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
        values.sort_unstable();
        let authors = values.iter().filter(|_| self == Self::Profiles);
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
        }
    }

    /// Splits values into parts that each fit one filter.
    pub(crate) fn chunks(self, values: &[Arc<str>]) -> Vec<&[Arc<str>]> {
        match self {
            Self::Profiles => values.chunks(MAX_AUTHORS).collect(),
            _ => chunks(values),
        }
    }
}

/// What is wanted of one relay: the values of each class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) values: BTreeMap<Class, BTreeSet<Arc<str>>>,
    /// How many repositories it is for.
    pub(crate) repositories: usize,
    /// For each identifier what stands for its maintainers: other ones may make events acceptable
    /// that were refused before (G02-35).
    pub(crate) revisions: BTreeMap<Arc<str>, u64>,
}

impl Plan {
    pub(crate) fn add(&mut self, class: Class, value: &Arc<str>) {
        self.values
            .entry(class)
            .or_default()
            .insert(Arc::clone(value));
    }

    /// Wants what another plan wants, too.
    pub(crate) fn merge(&mut self, other: Self) {
        for (class, values) in other.values {
            self.values.entry(class).or_default().extend(values);
        }
    }

    pub(crate) fn revise(&mut self, identifier: &Arc<str>, revisions: &BTreeMap<Arc<str>, u64>) {
        if let Some(revision) = revisions.get(identifier) {
            self.revisions.insert(Arc::clone(identifier), *revision);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn contains(&self, class: Class, value: &Arc<str>) -> bool {
        let values = self.values.get(&class);
        values.is_some_and(|values| values.contains(value))
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
            for value in values {
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
