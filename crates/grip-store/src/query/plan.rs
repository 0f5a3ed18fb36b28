//! Query plans: the index that leaves least to look at.

use grip_nostr::Filter;

use super::authors;
use crate::{
    StoreError,
    keys::{self, TagKey},
    lookup::Lookup,
    record::Record,
    tables::Table,
};

/// How the candidates of a filter are found, and what is left to check on each.
pub(crate) struct Plan<'f> {
    pub(crate) access: Access<'f>,
    pub(crate) since: u64,
    pub(crate) until: u64,
    pub(crate) checks: Checks<'f>,
}

pub(crate) enum Access<'f> {
    /// These events.
    Ids(&'f [[u8; 32]]),
    /// What stands in `table` behind each prefix.
    Ranges {
        table: Table,
        prefixes: Vec<Vec<u8>>,
    },
}

/// Conditions that the chosen index does not imply.
pub(crate) struct Checks<'f> {
    kinds: Option<&'f [u16]>,
    authors: Option<&'f [[u8; 32]]>,
    /// One list of acceptable values, sorted, for every tag.
    tags: Vec<Vec<TagKey>>,
}

/// The part of a filter that picks the index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Ids,
    Tag(char),
    Authors,
    Kinds,
    Time,
}

impl<'f> Plan<'f> {
    /// Plans with at most `cursors` ranges, but always at least one.
    pub(crate) fn of(
        filter: &'f Filter,
        lookup: Lookup<'_>,
        cursors: usize,
    ) -> Result<Self, StoreError> {
        let (choice, access) = choose(filter, lookup, cursors)?;
        Ok(Self {
            access,
            since: filter.since.unwrap_or(0),
            until: filter.until.unwrap_or(u64::MAX),
            checks: Checks::after(choice, filter),
        })
    }

    pub(crate) fn cursors(&self) -> usize {
        match &self.access {
            Access::Ids(_) => 0,
            Access::Ranges { prefixes, .. } => prefixes.len(),
        }
    }
}

/// The first of ids, tag, author (with kind), kind that has few enough values; else all events of
/// the time range. A tag that many unrelated events share comes after the author.
fn choose<'f>(
    filter: &'f Filter,
    lookup: Lookup<'_>,
    cursors: usize,
) -> Result<(Choice, Access<'f>), StoreError> {
    let tag = filter
        .tags
        .iter()
        .min_by_key(|(letter, values)| (is_common(**letter), values.len()))
        .map(|(letter, _)| *letter);
    let tag = tag.map_or(Choice::Time, Choice::Tag);
    let ranked = match tag {
        Choice::Tag(letter) if is_common(letter) => [Choice::Authors, tag, Choice::Kinds],
        _ => [tag, Choice::Authors, Choice::Kinds],
    };
    if let Some(ids) = &filter.ids {
        return Ok((Choice::Ids, Access::Ids(ids)));
    }
    for choice in ranked {
        if let Some(access) = ranges(choice, filter, lookup, cursors)? {
            return Ok((choice, access));
        }
    }
    let everything = Access::Ranges {
        table: lookup.tables.by_time,
        prefixes: vec![Vec::new()],
    };
    Ok((Choice::Time, everything))
}

/// Tags whose values say little about which event is meant: topics, labels, kinds, people.
fn is_common(letter: char) -> bool {
    matches!(letter, 'k' | 'K' | 'l' | 'L' | 'm' | 'p' | 'P' | 't')
}

/// The ranges of a choice, if the filter has that condition and the ranges are few enough.
fn ranges<'f>(
    choice: Choice,
    filter: &'f Filter,
    lookup: Lookup<'_>,
    cursors: usize,
) -> Result<Option<Access<'f>>, StoreError> {
    let tables = lookup.tables;
    let (table, prefixes) = match choice {
        Choice::Tag(letter) if filter.tags[&letter].len() <= cursors => {
            let keys = tag_keys(filter, letter).into_iter();
            (tables.by_tag, Some(keys.map(Vec::from).collect()))
        }
        Choice::Authors => (
            tables.by_author,
            authors::prefixes(filter, lookup, cursors)?,
        ),
        Choice::Kinds => {
            let kinds = filter.kinds.as_ref().filter(|kinds| kinds.len() <= cursors);
            let prefix = |kind: &u16| kind.to_be_bytes().to_vec();
            let prefixes = kinds.map(|kinds| kinds.iter().map(prefix).collect());
            (tables.by_kind, prefixes)
        }
        Choice::Ids | Choice::Tag(_) | Choice::Time => return Ok(None),
    };
    Ok(prefixes.map(|prefixes| Access::Ranges { table, prefixes }))
}

fn tag_keys(filter: &Filter, letter: char) -> Vec<TagKey> {
    let letter_byte = u8::try_from(letter).expect("filters name ASCII letters only");
    let mut keys: Vec<TagKey> = filter.tags[&letter]
        .iter()
        .map(|value| keys::tag_key(letter_byte, &keys::digest(value)))
        .collect();
    keys.sort_unstable();
    keys
}

impl<'f> Checks<'f> {
    fn after(choice: Choice, filter: &'f Filter) -> Self {
        let kinds_known = matches!(choice, Choice::Authors | Choice::Kinds);
        let authors_known = choice == Choice::Authors;
        Self {
            kinds: filter.kinds.as_deref().filter(|_| !kinds_known),
            authors: filter.authors.as_deref().filter(|_| !authors_known),
            tags: filter
                .tags
                .keys()
                .filter(|letter| choice != Choice::Tag(**letter))
                .map(|letter| tag_keys(filter, *letter))
                .collect(),
        }
    }

    pub(crate) fn accept_kind(&self, kind: u16) -> bool {
        self.kinds
            .is_none_or(|kinds| kinds.binary_search(&kind).is_ok())
    }

    /// Says whether the index entry alone cannot decide.
    pub(crate) fn need_record(&self) -> bool {
        self.authors.is_some() || !self.tags.is_empty()
    }

    pub(crate) fn accept_record(&self, record: Record<'_>) -> bool {
        self.authors
            .is_none_or(|authors| authors.binary_search(&record.author()).is_ok())
            && self.tags.iter().all(|wanted| meet(wanted, record.tags()))
    }
}

/// Says whether two sorted lists have a value in common; the shorter one is looked up.
fn meet(a: &[TagKey], b: &[TagKey]) -> bool {
    let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    few.iter().any(|key| many.binary_search(key).is_ok())
}
