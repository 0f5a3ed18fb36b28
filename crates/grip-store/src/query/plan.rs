//! Query plans: the index that leaves least to look at.

use grip_nostr::Filter;

use super::{Progress, authors, matches};
use crate::{
    StoreError,
    keys::{self, Position, TagKey},
    lookup::Lookup,
    record::Record,
    tables::Table,
};

/// How many entries are counted to compare two indexes: first few, which settles most, then more.
const PROBES: [usize; 3] = [64, 512, 4_096];

/// How the candidates of a filter are found, and what is left to check on each.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) access: Access,
    /// How many ids of the filter were looked up.
    resolved: usize,
    check_kinds: bool,
    check_authors: bool,
    /// One list of acceptable values, sorted, for every tag that the index does not imply.
    tags: Vec<Vec<TagKey>>,
}

pub(super) enum Access {
    /// The events at these positions, ascending once all ids were looked up.
    Ids(Vec<Position>),
    /// What stands in `table` behind each prefix.
    Ranges {
        table: Table,
        prefixes: Vec<Vec<u8>>,
    },
}

impl Default for Access {
    fn default() -> Self {
        Self::Ids(Vec::new())
    }
}

/// What planning took.
#[derive(Clone, Copy, Default)]
pub(super) struct Cost {
    /// Kinds of authors that were looked up.
    pub(super) hops: usize,
    pub(super) steps: u64,
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

impl Plan {
    /// Plans with at most `cursors` ranges, but always at least one.
    pub(super) fn of(
        filter: &Filter,
        lookup: Lookup<'_>,
        cursors: usize,
    ) -> Result<(Self, Cost), StoreError> {
        let mut cost = Cost::default();
        let (choice, access) = choose(filter, lookup, cursors, &mut cost)?;
        let kinds_known = matches!(choice, Choice::Authors | Choice::Kinds);
        let unknown = |letter: &&char| choice != Choice::Tag(**letter);
        let plan = Self {
            access,
            resolved: 0,
            check_kinds: filter.kinds.is_some() && !kinds_known,
            check_authors: filter.authors.is_some() && choice != Choice::Authors,
            tags: filter
                .tags
                .keys()
                .filter(unknown)
                .map(|letter| tag_keys(filter, *letter))
                .collect(),
        };
        Ok((plan, cost))
    }

    pub(super) fn cursors(&self) -> usize {
        match &self.access {
            Access::Ids(_) => 1,
            Access::Ranges { prefixes, .. } => prefixes.len(),
        }
    }

    /// Looks up where the ids of the filter stand, as far as the steps reach; says how many it took.
    pub(super) fn resolve_ids(
        &mut self,
        filter: &Filter,
        lookup: Lookup<'_>,
        from: u64,
        end: u64,
    ) -> Result<(u64, Progress), StoreError> {
        let Access::Ids(positions) = &mut self.access else {
            return Ok((0, Progress::Done));
        };
        let mut steps = 0;
        for id in &filter.ids.as_deref().unwrap_or_default()[self.resolved..] {
            if steps > 0 && from + steps >= end {
                return Ok((steps, Progress::More));
            }
            if let Some(serial) = lookup.serial_of(id)? {
                positions.push(*lookup.record(&serial)?.position());
            }
            self.resolved += 1;
            steps += 1;
        }
        if steps > 0 {
            positions.sort_unstable();
        }
        Ok((steps, Progress::Done))
    }

    pub(super) fn accepts_kind(&self, filter: &Filter, kind: u16) -> bool {
        let kinds = filter.kinds.as_ref().filter(|_| self.check_kinds);
        kinds.is_none_or(|kinds| kinds.binary_search(&kind).is_ok())
    }

    fn authors<'f>(&self, filter: &'f Filter) -> Option<&'f [[u8; 32]]> {
        filter.authors.as_deref().filter(|_| self.check_authors)
    }

    /// Says whether the index entry alone cannot decide.
    pub(super) fn needs_record(&self, filter: &Filter) -> bool {
        self.authors(filter).is_some() || !self.tags.is_empty()
    }

    pub(super) fn accepts_record(&self, filter: &Filter, record: Record<'_>) -> bool {
        self.authors(filter)
            .is_none_or(|authors| authors.binary_search(&record.author()).is_ok())
            && self.tags.iter().all(|wanted| meet(wanted, record.tags()))
    }
}

/// The ids if there are any; else the condition with fewest entries in its index, counted as far as
/// it takes to tell; else all events of the time range.
fn choose(
    filter: &Filter,
    lookup: Lookup<'_>,
    cursors: usize,
    cost: &mut Cost,
) -> Result<(Choice, Access), StoreError> {
    if filter.ids.is_some() {
        return Ok((Choice::Ids, Access::default()));
    }
    let mut options = Vec::new();
    for choice in ranked(filter) {
        if let Some(access) = ranges(choice, filter, lookup, cursors, cost)? {
            options.push((choice, access));
        }
    }
    let everything = Access::Ranges {
        table: lookup.tables.by_time,
        prefixes: vec![Vec::new()],
    };
    let best = most_selective(&options, filter, lookup, cost)?;
    let chosen = options.into_iter().nth(best);
    Ok(chosen.unwrap_or((Choice::Time, everything)))
}

/// The conditions of a filter that have an index, those that promise fewest entries first: tags that
/// many unrelated events share come after the author, whose index knows kinds too.
fn ranked(filter: &Filter) -> impl Iterator<Item = Choice> {
    let mut tags: Vec<(bool, usize, char)> = filter
        .tags
        .iter()
        .map(|(letter, values)| (is_common(*letter), values.len(), *letter))
        .collect();
    tags.sort_unstable();
    let common = tags.iter().position(|(common, ..)| *common);
    let common = tags.split_off(common.unwrap_or(tags.len()));
    let author = if filter.authors.is_some() {
        Some(Choice::Authors)
    } else {
        None
    };
    let kinds = (filter.authors.is_none() && filter.kinds.is_some()).then_some(Choice::Kinds);
    let choices = |tags: Vec<(bool, usize, char)>| tags.into_iter().map(|tag| Choice::Tag(tag.2));
    let narrow = choices(tags).chain(author);
    narrow.chain(choices(common)).chain(kinds)
}

/// Tags whose values say little about which event is meant: topics, labels, kinds, people.
fn is_common(letter: char) -> bool {
    matches!(letter, 'k' | 'K' | 'l' | 'L' | 'm' | 'p' | 'P' | 't')
}

fn most_selective(
    options: &[(Choice, Access)],
    filter: &Filter,
    lookup: Lookup<'_>,
    cost: &mut Cost,
) -> Result<usize, StoreError> {
    if options.len() < 2 {
        return Ok(0);
    }
    for most in PROBES {
        for (number, (_, access)) in options.iter().enumerate() {
            let entries = count(access, filter, lookup, most)?;
            cost.steps += entries as u64;
            if entries < most {
                return Ok(number);
            }
        }
    }
    Ok(0)
}

/// Counts the entries and ranges of an index that a filter would have to look at, up to `most`.
fn count(
    access: &Access,
    filter: &Filter,
    lookup: Lookup<'_>,
    most: usize,
) -> Result<usize, StoreError> {
    let Access::Ranges { table, prefixes } = access else {
        return Ok(0);
    };
    let first = keys::position(filter.until.unwrap_or(u64::MAX), &[0; 32]);
    let last = keys::position(filter.since.unwrap_or(0), &[0xff; 32]);
    let mut entries = prefixes.len();
    for prefix in prefixes {
        if entries >= most {
            break;
        }
        let range = matches::range(*table, lookup, prefix, &first, &last)?;
        for entry in range.take(most - entries) {
            entry?;
            entries += 1;
        }
    }
    Ok(entries.min(most))
}

/// The ranges of a choice, if the filter has that condition and the ranges are few enough.
fn ranges(
    choice: Choice,
    filter: &Filter,
    lookup: Lookup<'_>,
    cursors: usize,
    cost: &mut Cost,
) -> Result<Option<Access>, StoreError> {
    let tables = lookup.tables;
    let (table, prefixes) = match choice {
        Choice::Tag(letter) if filter.tags[&letter].len() <= cursors => {
            let keys = tag_keys(filter, letter).into_iter();
            (tables.by_tag, Some(keys.map(Vec::from).collect()))
        }
        Choice::Authors => {
            let (prefixes, hops) = authors::prefixes(filter, lookup, cursors)?;
            cost.hops += hops;
            cost.steps += hops as u64;
            (tables.by_author, prefixes)
        }
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

/// Says whether two sorted lists have a value in common; the shorter one is looked up.
fn meet(a: &[TagKey], b: &[TagKey]) -> bool {
    let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    few.iter().any(|key| many.binary_search(key).is_ok())
}
