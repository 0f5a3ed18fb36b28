//! Choosing the index that leaves least to look at.

use grip_nostr::Filter;

use crate::{
    keys::{self, TagKey},
    record::Record,
    tables::{Table, Tables},
};

/// Most cursors spent on the product of authors and kinds; beyond it the authors alone are walked,
/// because index entries name the kind anyway.
const MAX_PAIRS: usize = 256;

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
#[derive(Default)]
pub(crate) struct Checks<'f> {
    pub(crate) kinds: Option<&'f [u16]>,
    pub(crate) authors: Option<&'f [[u8; 32]]>,
    /// One list of acceptable values, sorted, for every tag.
    pub(crate) tags: Vec<Vec<TagKey>>,
}

/// The part of a filter that picks the index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Ids,
    Tag(char),
    AuthorsAndKinds,
    Authors,
    Kinds,
    Time,
}

impl<'f> Plan<'f> {
    /// Plans with at most `cursors` ranges, but always at least one.
    pub(crate) fn of(filter: &'f Filter, tables: Tables, cursors: usize) -> Self {
        let choice = choose(filter, cursors);
        Self {
            access: access(choice, filter, tables),
            since: filter.since.unwrap_or(0),
            until: filter.until.unwrap_or(u64::MAX),
            checks: checks(choice, filter),
        }
    }

    pub(crate) fn cursors(&self) -> usize {
        match &self.access {
            Access::Ids(_) => 0,
            Access::Ranges { prefixes, .. } => prefixes.len(),
        }
    }
}

/// The candidates in the order ids, tag, author and kind, author, kind, time; a tag that many
/// unrelated events share comes after the author.
fn choose(filter: &Filter, cursors: usize) -> Choice {
    if filter.ids.is_some() {
        return Choice::Ids;
    }
    let authors = filter.authors.as_ref().map(Vec::len);
    let kinds = filter.kinds.as_ref().map(Vec::len);
    let tag = filter
        .tags
        .iter()
        .min_by_key(|(letter, values)| (is_common(**letter), values.len()))
        .map(|(letter, values)| (*letter, values.len()));
    let by_author = authors.map(|authors| match kinds {
        Some(kinds) if authors * kinds <= MAX_PAIRS => (Choice::AuthorsAndKinds, authors * kinds),
        _ => (Choice::Authors, authors),
    });
    let by_tag = tag.map(|(letter, values)| (Choice::Tag(letter), values));
    let by_kind = kinds.map(|kinds| (Choice::Kinds, kinds));
    let ranked = match tag {
        Some((letter, _)) if is_common(letter) => [by_author, by_tag, by_kind],
        _ => [by_tag, by_author, by_kind],
    };
    ranked
        .into_iter()
        .flatten()
        .find(|(_, needed)| *needed <= cursors)
        .map_or(Choice::Time, |(choice, _)| choice)
}

/// Tags whose values say little about which event is meant: topics, labels, kinds, people.
fn is_common(letter: char) -> bool {
    matches!(letter, 'k' | 'K' | 'l' | 'L' | 'm' | 'p' | 'P' | 't')
}

fn access(choice: Choice, filter: &Filter, tables: Tables) -> Access<'_> {
    let authors = filter.authors.as_deref().unwrap_or_default();
    let kinds = filter.kinds.as_deref().unwrap_or_default();
    let (table, prefixes) = match choice {
        Choice::Ids => return Access::Ids(filter.ids.as_deref().unwrap_or_default()),
        Choice::Tag(letter) => {
            let prefixes = tag_keys(filter, letter).into_iter();
            (tables.by_tag, prefixes.map(Vec::from).collect())
        }
        Choice::AuthorsAndKinds => {
            let pairs = authors
                .iter()
                .flat_map(|author| kinds.iter().map(|kind| keys::author_kind(author, *kind)));
            (tables.by_author_kind, pairs.map(Vec::from).collect())
        }
        Choice::Authors => {
            let prefixes = authors.iter().map(|author| author.to_vec());
            (tables.by_author, prefixes.collect())
        }
        Choice::Kinds => {
            let prefixes = kinds.iter().map(|kind| kind.to_be_bytes().to_vec());
            (tables.by_kind, prefixes.collect())
        }
        Choice::Time => (tables.by_time, vec![Vec::new()]),
    };
    Access::Ranges { table, prefixes }
}

fn checks(choice: Choice, filter: &Filter) -> Checks<'_> {
    let kinds_known = matches!(choice, Choice::AuthorsAndKinds | Choice::Kinds);
    let authors_known = matches!(choice, Choice::AuthorsAndKinds | Choice::Authors);
    Checks {
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

fn tag_keys(filter: &Filter, letter: char) -> Vec<TagKey> {
    let letter_byte = u8::try_from(letter).expect("filters name ASCII letters only");
    let values = filter.tags.get(&letter).map_or(&[][..], Vec::as_slice);
    let mut keys: Vec<TagKey> = values
        .iter()
        .map(|value| keys::tag_key(letter_byte, value))
        .collect();
    keys.sort_unstable();
    keys
}

impl Checks<'_> {
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
