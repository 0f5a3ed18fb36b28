//! Versions of announcements and states that others replaced, and how they come back.

use grip_store::{EventView as _, Kept, Put};

use crate::support::*;

fn version(number: u8, at: u64) -> nostr::prelude::Event {
    event(number, ALICE, 30_618, at, &[&["d", "r"]])
}

fn delete(number: u8, target: u8) -> nostr::prelude::Event {
    event(number, ALICE, 5, 90, &[&["e", &id(target).to_hex()]])
}

/// G01-104, G01-105, G01-128: roll back twice.
#[test]
fn deleting_the_served_version_brings_back_the_one_before_it_twice() {
    let store = Fixture::new();
    for (number, at) in [(1, 10), (2, 20), (3, 30)] {
        store.put(&version(number, at));
    }
    assert_eq!(store.put(&delete(8, 3)), stored(&[3]));
    assert_eq!(store.all(), [8, 2]);
    let store = store.reopen();
    assert_eq!(store.put(&version(3, 30)), Put::Deleted { by: id(8) });
    assert_eq!(store.put(&delete(9, 2)), stored(&[2]));
    assert_eq!(store.all(), [8, 9, 1]);
}

#[test]
fn a_version_that_is_deleted_itself_does_not_come_back() {
    let store = Fixture::new();
    for (number, at) in [(1, 10), (2, 20), (3, 30)] {
        store.put(&version(number, at));
    }
    store.put(&delete(8, 2));
    store.put(&delete(9, 3));
    assert_eq!(store.all(), [8, 9, 1]);
}

/// G01-107, G01-108: history is never brought back by a deletion of the address.
#[test]
fn deleting_an_address_ends_its_history() {
    let store = Fixture::new();
    for (number, at) in [(1, 10), (2, 20), (3, 30)] {
        store.put(&version(number, at));
    }
    let target = address(30_618, ALICE, "r").to_string();
    store.put(&event(8, ALICE, 5, 25, &[&["a", &target]]));
    assert_eq!(store.all(), [3, 8], "the version after it stays");
    store.put(&delete(9, 3));
    assert_eq!(store.all(), [9, 8]);
    let view = store.store.read().unwrap();
    let history = view.history(&address(30_618, ALICE, "r")).unwrap();
    assert!(history.is_empty());
}

#[test]
fn only_announcements_and_states_have_a_history_and_no_more_than_sixteen_versions() {
    let store = Fixture::new();
    store.put(&event(101, ALICE, 30_023, 1, &[&["d", "r"]]));
    store.put(&event(102, ALICE, 30_023, 2, &[&["d", "r"]]));
    store.put(&event(103, ALICE, 5, 90, &[&["e", &id(102).to_hex()]]));
    assert_eq!(store.all(), [103]);
    for number in 1..=40 {
        store.put(&version(number, u64::from(number)));
    }
    let view = store.store.read().unwrap();
    let history = view.history(&address(30_618, ALICE, "r")).unwrap();
    let numbers: Vec<u8> = history.iter().map(|it| it.id.as_bytes()[0]).collect();
    assert_eq!(numbers, (24..=39).rev().collect::<Vec<u8>>());
}

#[test]
fn what_has_expired_is_rolled_back_by_its_owner_and_its_history_ends_with_the_address() {
    let store = Fixture::new();
    store.put(&version(1, 10));
    store.put(&event(
        2,
        ALICE,
        30_618,
        20,
        &[&["d", "r"], &["expiration", "1000005"]],
    ));
    store.put(&version(3, 30));
    // The version before has expired by the time this one goes.
    let later = nostr::prelude::Timestamp::from_secs(1_000_005);
    let gone = store.store.write(|view| view.roll_back(&id(3), later));
    assert!(gone.unwrap());
    assert_eq!(store.all(), [1]);
    store.put(&version(4, 40));
    let stale = |view: &mut grip_store::WriteView<'_>| view.forget_stale_history(100);
    assert_eq!(store.store.write(stale).unwrap(), 0);
    store.store.write(|view| view.remove(&id(4))).unwrap();
    assert_eq!(store.store.write(stale).unwrap(), 1);
}

/// G01-106: a departure is never here itself. Of versions of one second the lowest id counts most (NIP-01).
#[test]
fn versions_up_to_a_departure_are_forgotten_and_later_ones_come_back() {
    let store = Fixture::new();
    for (number, at) in [(1, 10), (9, 20), (4, 20), (3, 30), (2, 40)] {
        store.put(&version(number, at));
    }
    let address = address(30_618, ALICE, "r");
    let departed = nostr::prelude::Timestamp::from_secs(20);
    let forget =
        |view: &mut grip_store::WriteView<'_>| view.forget_history(&address, departed, &id(6));
    store.store.write(forget).unwrap();
    let view = store.store.read().unwrap();
    let history = view.history(&address).unwrap();
    let numbers: Vec<u8> = history.iter().map(|it| it.id.as_bytes()[0]).collect();
    assert_eq!(numbers, [3, 4]);
}

/// L-7: what another server had replaced stands where it would stand if it had been replaced here.
#[test]
fn versions_of_another_server_are_kept_behind_the_one_that_is_served() {
    let store = Fixture::new();
    let keep = |event: &nostr::prelude::Event| {
        let kept = store.store.write(|view| view.keep_version(event));
        kept.unwrap()
    };
    assert_eq!(keep(&version(2, 20)), Kept::Unserved);
    store.put(&version(3, 30));
    store.put(&delete(8, 1));
    assert_eq!(keep(&version(1, 10)), Kept::Deleted);
    assert_eq!(keep(&version(2, 20)), Kept::Stored);
    assert_eq!(keep(&version(2, 20)), Kept::Duplicate);
    assert_eq!(keep(&version(3, 30)), Kept::Duplicate);
    assert_eq!(keep(&version(4, 40)), Kept::Unserved);
    let note = event(101, ALICE, 30_023, 1, &[&["d", "r"]]);
    assert_eq!(keep(&note), Kept::Unserved);
    store.put(&delete(9, 3));
    assert_eq!(store.all(), [8, 9, 2]);
}

#[test]
fn a_version_of_another_server_beyond_the_bound_is_not_kept() {
    let store = Fixture::new();
    for number in 10..=30 {
        store.put(&version(number, u64::from(number)));
    }
    let kept = store.store.write(|view| view.keep_version(&version(1, 1)));
    assert_eq!(kept.unwrap(), Kept::Beyond);
    let view = store.store.read().unwrap();
    let history = view.history(&address(30_618, ALICE, "r")).unwrap();
    assert_eq!(history.len(), 16);
}
