//! NIP-09: kind 5 and what it leaves behind.

use grip_store::{EventView, Put};

use crate::support::*;

fn hex(number: u8) -> String {
    id(number).to_hex()
}

#[test]
fn an_author_deletes_own_events_by_id_and_they_do_not_come_back() {
    let store = Fixture::new();
    let note = event(1, ALICE, 1, 10, &[]);
    store.put(&note);
    let request = event(2, ALICE, 5, 5, &[&["e", &hex(1)], &["k", "1"]]);
    assert_eq!(store.put(&request), stored(&[1]));
    assert_eq!(store.put(&note), Put::Deleted { by: id(2) });
    assert_eq!(store.all(), [2]);

    let store = store.reopen();
    assert_eq!(store.put(&note), Put::Deleted { by: id(2) });
    let view = store.store.read().unwrap();
    assert_eq!(view.deletion_of(&note).unwrap(), Some(id(2)));
}

#[test]
fn a_request_works_on_targets_that_arrive_later() {
    let store = Fixture::new();
    store.put(&event(
        2,
        ALICE,
        5,
        20,
        &[
            &["e", &hex(1)],
            &["a", &address(30_618, ALICE, "r").to_string()],
        ],
    ));
    assert_eq!(
        store.put(&event(1, ALICE, 1, 10, &[])),
        Put::Deleted { by: id(2) }
    );
    let held = event(3, ALICE, 30_618, 20, &[&["d", "r"]]);
    assert_eq!(store.put(&held), Put::Deleted { by: id(2) });
    let newer = event(4, ALICE, 30_618, 21, &[&["d", "r"]]);
    assert_eq!(store.put(&newer), stored(&[]));
}

#[test]
fn a_stranger_deletes_nothing_known_or_unknown() {
    let store = Fixture::new();
    let repo = address(30_617, ALICE, "r").to_string();
    store.put(&event(1, ALICE, 1, 10, &[]));
    store.put(&event(2, ALICE, 30_617, 10, &[&["d", "r"]]));
    let request = event(
        3,
        BOB,
        5,
        20,
        &[&["e", &hex(1)], &["e", &hex(4)], &["a", &repo]],
    );
    assert_eq!(store.put(&request), stored(&[]));
    assert_eq!(store.put(&event(4, ALICE, 1, 11, &[])), stored(&[]));
    assert_eq!(
        store.put(&event(5, ALICE, 30_617, 12, &[&["d", "r"]])),
        stored(&[2])
    );
    assert_eq!(store.all(), [3, 5, 4, 1]);
}

#[test]
fn a_request_cannot_be_deleted_before_or_after_its_arrival() {
    let store = Fixture::new();
    store.put(&event(1, ALICE, 5, 10, &[&["e", &hex(9)]]));
    assert_eq!(
        store.put(&event(2, ALICE, 5, 20, &[&["e", &hex(1)], &["e", &hex(3)]])),
        stored(&[])
    );
    assert_eq!(
        store.put(&event(3, ALICE, 5, 15, &[&["e", &hex(8)]])),
        stored(&[])
    );
    assert_eq!(store.all(), [2, 3, 1]);
    assert_eq!(
        store.put(&event(9, ALICE, 1, 1, &[])),
        Put::Deleted { by: id(1) }
    );
}

#[test]
fn an_address_is_deleted_up_to_the_time_of_the_request() {
    for (kind, d) in [(30_618, "r"), (10_317, "")] {
        let target = address(kind, ALICE, d).to_string();
        let version = |number, at| event(number, ALICE, kind, at, &[&["d", d]]);
        let request = |number, at| event(number, ALICE, 5, at, &[&["a", &target]]);

        let store = Fixture::new();
        store.put(&version(1, 20));
        assert_eq!(
            store.put(&request(2, 19)),
            stored(&[]),
            "a newer version stays"
        );
        assert_eq!(
            store.put(&request(3, 20)),
            stored(&[1]),
            "one of the same second goes"
        );
        assert_eq!(store.put(&version(4, 20)), Put::Deleted { by: id(3) });
        assert_eq!(
            store.put(&request(5, 10)),
            stored(&[]),
            "an older request lifts nothing"
        );
        assert_eq!(store.put(&version(6, 15)), Put::Deleted { by: id(3) });
        assert_eq!(store.put(&version(7, 21)), stored(&[]));
        assert_eq!(store.all()[0], 7);
    }
}

#[test]
fn deleting_one_version_by_id_leaves_the_address_open() {
    let store = Fixture::new();
    let version = |number, at| event(number, ALICE, 30_618, at, &[&["d", "r"]]);
    store.put(&version(1, 10));
    assert_eq!(
        store.put(&event(2, ALICE, 5, 30, &[&["e", &hex(1)]])),
        stored(&[1])
    );
    assert_eq!(store.put(&version(3, 20)), stored(&[]));
    assert_eq!(store.put(&version(1, 10)), Put::Deleted { by: id(2) });
    assert_eq!(store.put(&version(4, 31)), stored(&[3]));
}

#[test]
fn addresses_of_other_sorts_and_malformed_targets_do_nothing() {
    let store = Fixture::new();
    store.put(&event(1, ALICE, 1, 10, &[&["d", "r"]]));
    store.put(&event(2, ALICE, 10_317, 10, &[]));
    let targets = [
        address(1, ALICE, "r").to_string(),
        address(10_317, ALICE, "r").to_string(),
        "30618:nonsense:r".to_owned(),
        hex(1),
    ];
    let tags: Vec<[&str; 2]> = targets
        .iter()
        .map(|target| ["a", target.as_str()])
        .collect();
    let mut tags: Vec<&[&str]> = tags.iter().map(|tag| &tag[..]).collect();
    tags.extend([&["e", "beef"][..], &["e"], &["a"]]);
    assert_eq!(store.put(&event(3, ALICE, 5, 20, &tags)), stored(&[]));
    assert_eq!(store.all(), [3, 1, 2]);
}

#[test]
fn one_request_deletes_many_and_names_each_once() {
    let store = Fixture::new();
    store.put(&event(1, ALICE, 1, 10, &[]));
    store.put(&event(2, ALICE, 30_618, 10, &[&["d", "r"]]));
    let repo = address(30_618, ALICE, "r").to_string();
    let request = event(
        3,
        ALICE,
        5,
        20,
        &[
            &["e", &hex(1)],
            &["e", &hex(1)],
            &["e", &hex(2)],
            &["a", &repo],
        ],
    );
    assert_eq!(store.put(&request), stored(&[1, 2]));
}

#[test]
fn deletions_stay_in_force_when_the_request_is_removed() {
    let store = Fixture::new();
    store.put(&event(2, ALICE, 5, 20, &[&["e", &hex(1)]]));
    assert!(store.store.write(|view| view.remove(&id(2))).unwrap());
    assert_eq!(
        store.put(&event(1, ALICE, 1, 10, &[])),
        Put::Deleted { by: id(2) }
    );
}
