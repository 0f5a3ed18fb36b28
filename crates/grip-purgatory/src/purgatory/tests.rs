//! Tests of the verbs, and what they share.

mod announcements;
mod bounds;
mod placeholders;
mod replay;
mod states;
mod sync;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};

use grip_nostr::{Event, EventId, Kind, RepoAddr, Timestamp, kinds};
use grip_types::{Identifier, Oid};
use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Tag};

use super::*;
use crate::{
    HIDDEN_LIFETIME, LIFETIME, PLACEHOLDER_LIFETIME, Phase, RESTART_GRACE, Row, SYNC_DELAY_DEFAULT,
    SYNC_DELAY_IMMEDIATE, SyncDelays, WANTED_INTERVAL, WANTED_LIFETIME,
};

const NOW: Millis = Millis::new(1_700_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn identifier(name: &str) -> Identifier {
    Identifier::parse(name).unwrap()
}

fn oid(digit: char) -> Oid {
    digit.to_string().repeat(40).parse().unwrap()
}

fn id(byte: u8) -> EventId {
    EventId::from_byte_array([byte; 32])
}

fn event(keys: &Keys, kind: Kind, created_at: u64, tags: &[[&str; 2]]) -> Event {
    EventBuilder::new(kind, "")
        .tags(tags.iter().map(|tag| Tag::parse(*tag).unwrap()))
        .custom_created_at(Timestamp::from_secs(created_at))
        .finalize(keys)
        .unwrap()
}

fn state(keys: &Keys, created_at: u64, refs: &[[&str; 2]]) -> Event {
    let tags: Vec<[&str; 2]> = [["d", "repo"]].iter().chain(refs).copied().collect();
    event(keys, kinds::STATE, created_at, &tags)
}

fn announcement(keys: &Keys, created_at: u64) -> Event {
    event(keys, kinds::ANNOUNCEMENT, created_at, &[["d", "repo"]])
}

fn pr(keys: &Keys, created_at: u64) -> Event {
    event(keys, kinds::PULL_REQUEST, created_at, &[["c", "x"]])
}

fn addr(keys: &Keys) -> RepoAddr {
    RepoAddr::new(keys.public_key(), identifier("repo"))
}

/// Removes all states that wait for an identifier.
fn remove_states(purgatory: &mut Purgatory, identifier: &Identifier) -> Vec<Change> {
    let states = purgatory.find_state(identifier).iter();
    let ids: Vec<EventId> = states.map(|state| state.held.id()).collect();
    let removals = ids
        .iter()
        .map(|id| purgatory.remove_state_event(identifier, id));
    removals.collect::<Vec<_>>().concat()
}

/// The journal as a database keeps it.
#[derive(Default)]
struct Journal(BTreeMap<(String, String), Row>);

impl Journal {
    fn apply(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Put(row) => {
                    self.0.insert((row.class.clone(), row.key.clone()), row);
                }
                Change::Remove { class, key } => {
                    self.0.remove(&(class, key));
                }
            }
        }
    }

    fn restore(&self, now: Millis) -> Restored {
        Purgatory::restore(self.0.values().cloned(), Bounds::default(), now)
    }
}

#[test]
fn an_idle_sweep_of_100_000_entries_costs_nothing() {
    let mut purgatory = Purgatory::new(Bounds {
        total: 100_000,
        per_identifier: 100_000,
        ..Bounds::default()
    });
    let repo = addr(&Keys::generate());
    for n in 0..100_000u32 {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        let id = EventId::from_byte_array(bytes);
        let added = purgatory.add_pr_placeholder(id, oid('a'), repo.clone(), None, NOW);
        let _ = added.unwrap();
    }
    // A scan would look at ten thousand million entries here.
    for _ in 0..100_000 {
        assert!(purgatory.cleanup(NOW).0.is_empty());
        assert!(purgatory.oldest_age(NOW).is_some());
    }
    assert_eq!(purgatory.count().placeholders, 100_000);
    let (expired, changes) = purgatory.cleanup(NOW + PLACEHOLDER_LIFETIME);
    assert_eq!((expired.len(), changes.len()), (100_000, 100_000));
    assert_eq!(purgatory.count(), Counts::default());
    assert_eq!(purgatory.next_deadline(), None);
}

#[test]
fn g01_21_an_entry_that_ended_while_the_node_was_down_gets_five_minutes_once() {
    let mut journal = Journal::default();
    let mut purgatory = Purgatory::default();
    let event = state(&Keys::generate(), 1, &[]);
    let id = event.id;
    let added = purgatory.add_state(event, identifier("repo"), Origin::Submitted, NOW);
    journal.apply(added.unwrap());

    let later = NOW + LIFETIME * 2;
    let restored = journal.restore(later);
    let deadline = restored.purgatory.next_deadline().unwrap();
    assert_eq!(deadline, later + RESTART_GRACE);
    journal.apply(restored.changes);
    // A second restart soon after gives nothing on top.
    let again = journal.restore(later + MINUTE);
    assert_eq!(again.purgatory.next_deadline(), Some(deadline));
    assert!(again.changes.is_empty());
    assert!(again.purgatory.find_event(&id).is_some());
}

#[test]
fn an_entry_that_is_still_in_time_keeps_its_deadline_over_a_restart() {
    let mut journal = Journal::default();
    let mut purgatory = Purgatory::default();
    let event = state(&Keys::generate(), 1, &[]);
    let added = purgatory.add_state(event, identifier("repo"), Origin::Synced, NOW);
    journal.apply(added.unwrap());
    let restored = journal.restore(NOW + LIFETIME / 2);
    assert_eq!(restored.purgatory.next_deadline(), Some(NOW + LIFETIME));
    assert!(restored.changes.is_empty() && restored.unreadable.is_empty());
}

#[test]
fn rows_that_cannot_be_read_are_handed_back() {
    let row = |class: &str, key: &str, payload: &str| Row {
        class: class.into(),
        key: key.into(),
        identifier: "repo".into(),
        payload: payload.into(),
        expires_at: 0,
    };
    let rows = [
        row("state", "a", "not JSON"),
        row("announcement", "b", "{}"),
        row("of a later version", "c", "{}"),
        row("expired", "no id", "{}"),
        row("sync", "repo", "{\"attempt_count\": 3}"),
    ];
    let restored = Purgatory::restore(rows.clone(), Bounds::default(), NOW);
    let unreadable: Vec<&Row> = restored.unreadable.iter().map(|bad| &bad.row).collect();
    assert_eq!(unreadable, rows[..4].iter().collect::<Vec<_>>());
    assert!(restored.unreadable[0].to_string().contains("\"a\""));
    // The search for data nothing waits for has ended.
    assert_eq!(restored.purgatory, Purgatory::default());
    assert_eq!(restored.changes.len(), 1);
}
