//! Moves of refs, kept as hidden refs so that no tip is lost by a rewrite.
//!
//! ```text
//! refs/archive/<unix milliseconds>/<created|moved|deleted>/<source>/<heads/main>  →  the tip
//! ```
//!
//! The tip is the one that the ref got when it was created, and the one that it had when it was moved
//! or deleted. A move and its record are one write of `packed-refs`; stock git sees refs, so that what
//! they lead to is neither collected nor missing from `git fsck`. No client is shown them.

use std::collections::{BTreeMap, BTreeSet};

use grip_types::{Oid, RefEdit, RefName};

use super::Ref;

/// What the hidden refs begin with.
const PREFIX: &str = "refs/archive/";
/// Digits of a time, so that names sort by it.
const TIME_DIGITS: usize = 13;

/// A change of a ref that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefMove {
    /// Unix milliseconds, by our clock.
    pub at: u64,
    pub change: RefChange,
    /// What made the change, as the caller named it.
    pub source: String,
    pub name: RefName,
    /// The new tip of a ref that was created, else the one that it had before.
    pub tip: Oid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefChange {
    Created,
    Moved,
    Deleted,
}

/// How a change of refs is recorded, and which older records go with it.
#[derive(Clone, Debug)]
pub struct MoveRecord {
    /// Unix milliseconds.
    pub at: u64,
    /// Letters, digits and single dots.
    pub source: String,
    /// Records of before are dropped.
    pub keep_since: u64,
    /// Records that are kept. Beyond it those go first whose tips stood for the shortest time, so that
    /// a flood of moves drops itself and not what stood before it.
    pub keep_max: usize,
}

impl RefChange {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Moved => "moved",
            Self::Deleted => "deleted",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let all = [Self::Created, Self::Moved, Self::Deleted];
        all.into_iter().find(|change| change.as_str() == text)
    }
}

/// Says whether a ref is a record of a move.
pub(crate) fn is_record(name: &RefName) -> bool {
    name.as_str().starts_with(PREFIX)
}

impl RefMove {
    /// Reads a hidden ref; none if another program wrote it.
    pub(crate) fn read(found: &Ref) -> Option<Self> {
        let mut parts = found.name.as_str().strip_prefix(PREFIX)?.splitn(4, '/');
        let (at, change, source) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            at: at.parse().ok()?,
            change: RefChange::parse(change)?,
            source: source.to_owned(),
            name: RefName::parse(&format!("refs/{}", parts.next()?)).ok()?,
            tip: found.oid,
        })
    }
}

/// What made the records of tips that are out of service, in a contributor repository.
const HOLDING: &str = "holding";

/// The record that stands for `name` while it is out of service.
pub(crate) fn hidden_name(name: &RefName, at: u64) -> RefName {
    record_name(at, RefChange::Deleted, HOLDING, name, 0)
}

/// The ref and its tip, if the record stands for one that is out of service.
pub(crate) fn hidden_tip(found: RefMove) -> Option<(RefName, Oid)> {
    let is_hidden = found.source == HOLDING && found.name.is_under_nostr();
    is_hidden.then_some((found.name, found.tip))
}

/// The edits of hidden refs that go with `edits` of branches and tags: new records, and the end of
/// those that are not kept any longer.
pub(crate) fn record(kept: &[Ref], edits: &[RefEdit], record: &MoveRecord) -> Vec<RefEdit> {
    let mut known: Vec<(RefMove, RefName)> = kept
        .iter()
        .filter_map(|found| Some((RefMove::read(found)?, found.name.clone())))
        .collect();
    known.sort_by_key(|(known, _)| known.at);
    // Later than all others, whatever the clock says.
    let last = known.last().map_or(0, |(last, _)| last.at);
    let at = record.at.max(last + 1);
    let moved = edits.iter().filter(|edit| edit.name.is_state_ref());
    let mut added = BTreeSet::new();
    for (index, edit) in moved.enumerate() {
        let (change, tip) = match (edit.old, edit.new) {
            (Some(old), Some(new)) if old != new => (RefChange::Moved, old),
            (Some(old), None) => (RefChange::Deleted, old),
            (None, Some(new)) => (RefChange::Created, new),
            _ => continue,
        };
        let name = record_name(at, change, &record.source, &edit.name, index);
        let entry = RefMove {
            at,
            change,
            source: record.source.clone(),
            name: edit.name.clone(),
            tip,
        };
        added.insert(name.clone());
        known.push((entry, name));
    }
    let gone = surplus(&known, at, record);
    let mut all = Vec::new();
    for (index, (known, name)) in known.into_iter().enumerate() {
        let (old, new) = match (added.contains(&name), gone.contains(&index)) {
            (true, false) => (None, Some(known.tip)),
            (false, true) => (Some(known.tip), None),
            _ => continue,
        };
        all.push(RefEdit { name, old, new });
    }
    all
}

fn record_name(at: u64, change: RefChange, source: &str, name: &RefName, index: usize) -> RefName {
    let start = format!("{PREFIX}{at:0TIME_DIGITS$}/{}/{source}", change.as_str());
    let rest = name.as_str().trim_start_matches("refs/");
    let named = RefName::parse(&format!("{start}/{rest}"));
    // A name that has no room behind all this is kept by its number: the tip is what matters.
    let numbered = || RefName::parse(&format!("{start}/unnamed/{index}"));
    let named = named.or_else(|_| numbered());
    named.expect("a time, a word and a source of letters make a ref name")
}

/// Those of `known`, sorted by time, that are not kept.
fn surplus(known: &[(RefMove, RefName)], now: u64, record: &MoveRecord) -> BTreeSet<usize> {
    let mut since: BTreeMap<&RefName, u64> = BTreeMap::new();
    let mut worth = Vec::new();
    let mut gone = BTreeSet::new();
    for (index, (known, _)) in known.iter().enumerate() {
        // How long the tip stood; one whose beginning is not known any more was of no worth either.
        let set = since.insert(&known.name, known.at);
        let stood = match known.change {
            RefChange::Created => now - known.at.min(now),
            RefChange::Moved | RefChange::Deleted => set.map_or(0, |set| known.at - set),
        };
        if known.at < record.keep_since {
            gone.insert(index);
        } else {
            worth.push((stood, index));
        }
    }
    let beyond = worth.len().saturating_sub(record.keep_max);
    worth.sort_unstable();
    gone.extend(worth.into_iter().take(beyond).map(|(_, index)| index));
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(n: u32) -> Oid {
        format!("{n:040x}").parse().unwrap()
    }

    fn edit(name: &str, old: Option<u32>, new: Option<u32>) -> RefEdit {
        RefEdit {
            name: RefName::parse(name).unwrap(),
            old: old.map(oid),
            new: new.map(oid),
        }
    }

    fn at(at: u64, keep_max: usize) -> MoveRecord {
        MoveRecord {
            at,
            source: "repair".into(),
            keep_since: 0,
            keep_max,
        }
    }

    /// The hidden refs after `edits`.
    fn apply(mut kept: Vec<Ref>, edits: Vec<RefEdit>) -> Vec<Ref> {
        for edit in edits {
            kept.retain(|found| found.name != edit.name);
            kept.extend(edit.new.map(|oid| Ref {
                name: edit.name,
                oid,
                peeled: None,
            }));
        }
        kept.sort_by(|a, b| a.name.cmp(&b.name));
        kept
    }

    fn moves(kept: &[Ref]) -> Vec<(u64, RefChange, u32)> {
        let read = kept.iter().map(|found| RefMove::read(found).unwrap());
        read.map(|it| {
            let tip = u32::from_str_radix(&it.tip.to_string()[32..], 16).unwrap();
            (it.at, it.change, tip)
        })
        .collect()
    }

    #[test]
    fn a_move_keeps_the_tip_that_was_lost_and_a_creation_the_new_one() {
        let main = "refs/heads/main";
        let kept = record(&[], &[edit(main, None, Some(1))], &at(10, 9));
        let kept = apply(Vec::new(), kept);
        // The clock went back: the order does not.
        let more = record(&kept, &[edit(main, Some(1), Some(2))], &at(5, 9));
        let kept = apply(kept, more);
        let more = record(&kept, &[edit(main, Some(2), None)], &at(30, 9));
        let kept = apply(kept, more);
        assert_eq!(
            moves(&kept),
            [
                (10, RefChange::Created, 1),
                (11, RefChange::Moved, 1),
                (30, RefChange::Deleted, 2)
            ]
        );
        assert!(kept.iter().all(|found| is_record(&found.name)));
        let read = RefMove::read(&kept[1]).unwrap();
        assert_eq!((read.name.as_str(), read.source.as_str()), (main, "repair"));
    }

    #[test]
    fn other_refs_and_edits_that_change_nothing_are_not_recorded() {
        let edits = [
            edit(&format!("refs/nostr/{}", "a".repeat(64)), None, Some(1)),
            edit("refs/heads/main", Some(1), Some(1)),
        ];
        assert_eq!(record(&[], &edits, &at(10, 9)), []);
    }

    #[test]
    fn a_name_without_room_for_its_record_keeps_its_tip() {
        let long = format!("refs/heads/{}", "x".repeat(1000));
        let kept = record(&[], &[edit(&long, Some(7), None)], &at(10, 9));
        assert_eq!(
            moves(&apply(Vec::new(), kept)),
            [(10, RefChange::Deleted, 7)]
        );
    }

    #[test]
    fn a_flood_of_moves_drops_itself_and_not_the_tip_that_stood() {
        let mut kept = Vec::new();
        let mut change = |name: &str, old, new, time| {
            let more = record(&kept, &[edit(name, old, new)], &at(time, 8));
            kept = apply(std::mem::take(&mut kept), more);
            kept.len()
        };
        change("refs/heads/main", None, Some(1), 1_000);
        // A day later a thief rewrites it, and then moves and makes whatever he can.
        let day = 86_400_000;
        change("refs/heads/main", Some(1), Some(2), day);
        for n in 0..200_u32 {
            let time = day + 10 * u64::from(n);
            change("refs/heads/main", Some(2 + n), Some(3 + n), time);
            let junk = format!("refs/heads/junk{n}");
            change(&junk, None, Some(9), time + 1);
            let count = change(&junk, Some(9), None, time + 2);
            assert!(count <= 8);
        }
        let kept = moves(&kept);
        assert!(kept.contains(&(day, RefChange::Moved, 1)), "{kept:?}");
    }

    #[test]
    fn what_is_older_than_it_is_kept_goes_without_a_new_move() {
        let kept = record(&[], &[edit("refs/tags/a", Some(1), None)], &at(10, 9));
        let kept = apply(Vec::new(), kept);
        let record_of = |keep_since| MoveRecord {
            keep_since,
            ..at(100, 9)
        };
        assert_eq!(record(&kept, &[], &record_of(10)), []);
        let gone = record(&kept, &[], &record_of(11));
        assert_eq!(apply(kept, gone), []);
    }
}
