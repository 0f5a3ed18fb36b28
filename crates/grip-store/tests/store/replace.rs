//! NIP-01: one version per address; the latest wins, ties go to the lowest id.

use grip_store::{EventView, Put};
use nostr::prelude::Kind;

use crate::support::*;

const D: &[&[&str]] = &[&["d", "repo"]];

#[test]
fn a_later_version_replaces_the_earlier_one() {
    for kind in [0, 3, 10_317, 30_618] {
        let store = Fixture::new();
        assert_eq!(store.put(&event(1, ALICE, kind, 10, D)), stored(&[]));
        assert_eq!(store.put(&event(2, ALICE, kind, 11, D)), stored(&[1]));
        let late = store.put(&event(3, ALICE, kind, 10, D));
        assert_eq!(late, Put::Superseded { by: id(2) });
        assert_eq!(store.all(), [2], "kind {kind}");
    }
}

#[test]
fn of_two_versions_in_one_second_the_lowest_id_stays_in_either_order() {
    for kind in [10_317, 30_618] {
        let (low, high) = (event(1, ALICE, kind, 10, D), event(2, ALICE, kind, 10, D));
        let store = Fixture::new();
        store.put(&low);
        assert_eq!(store.put(&high), Put::Superseded { by: id(1) });
        let store = Fixture::new();
        store.put(&high);
        let store = store.reopen();
        assert_eq!(store.put(&low), stored(&[2]));
        assert_eq!(store.all(), [1]);
    }
}

#[test]
fn versions_are_told_apart_by_kind_author_and_first_d() {
    let store = Fixture::new();
    let events = [
        event(1, ALICE, 30_618, 10, D),
        event(2, ALICE, 30_617, 10, D),
        event(3, BOB, 30_618, 10, D),
        event(4, ALICE, 30_618, 10, &[&["d", "other"], &["d", "repo"]]),
        event(5, ALICE, 30_618, 10, &[]),
    ];
    for event in &events {
        assert_eq!(store.put(event), stored(&[]), "{}", event.id);
    }
    // A missing `d`, an empty one and one without value are the same address.
    let empty = store.put(&event(6, ALICE, 30_618, 11, &[&["d", ""]]));
    assert_eq!(empty, stored(&[5]));
    let bare = store.put(&event(7, ALICE, 30_618, 12, &[&["d"]]));
    assert_eq!(bare, stored(&[6]));

    let view = store.store.read().unwrap();
    let latest = view.latest(&address(30_618, ALICE, "other")).unwrap();
    assert_eq!(latest, Some(events[3].clone()));
    let authors = view.with_d(Kind::Custom(30_618), "repo").unwrap();
    assert_eq!(authors, [events[0].clone(), events[2].clone()]);
    assert!(view.with_d(Kind::Custom(1), "repo").unwrap().is_empty());
}

#[test]
fn a_replaceable_kind_has_one_address_whatever_its_d() {
    let store = Fixture::new();
    store.put(&event(1, ALICE, 10_317, 10, &[&["d", "x"]]));
    assert_eq!(
        store.put(&event(2, ALICE, 10_317, 11, &[&["d", "y"]])),
        stored(&[1])
    );
    let view = store.store.read().unwrap();
    let latest = view.latest(&address(10_317, ALICE, "")).unwrap().unwrap();
    assert_eq!(latest.id, id(2));
}

#[test]
fn regular_kinds_are_all_kept() {
    let store = Fixture::new();
    for (number, kind) in [
        (1, 1),
        (2, 1),
        (3, 1_618),
        (4, 45),
        (5, 40_000),
        (6, 40_000),
    ] {
        assert_eq!(store.put(&event(number, ALICE, kind, 10, D)), stored(&[]));
    }
    assert_eq!(store.all(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn an_identifier_longer_than_a_key_is_an_address_like_any_other() {
    let store = Fixture::new();
    let long = "x".repeat(5_000);
    let longer = format!("{long}y");
    store.put(&event(1, ALICE, 30_618, 10, &[&["d", &long]]));
    store.put(&event(2, ALICE, 30_618, 10, &[&["d", &longer]]));
    assert_eq!(
        store.put(&event(3, ALICE, 30_618, 11, &[&["d", &long]])),
        stored(&[1])
    );
    let query = filter(&format!(r##"{{"#d":["{longer}"]}}"##));
    assert_eq!(store.numbers(&[query]), [2]);
}
