//! NIP-40: events with an end.

use grip_store::{EventView, Put, Query};
use nostr::prelude::Timestamp;

use crate::support::*;

fn expiring(number: u8, at: &str) -> nostr::prelude::Event {
    event(number, ALICE, 1, 10, &[&["expiration", at], &["t", "x"]])
}

#[test]
fn an_event_whose_time_is_over_is_not_taken() {
    let store = Fixture::new();
    for at in ["0", "5", "999999", "1000000"] {
        assert_eq!(store.put(&expiring(1, at)), Put::Expired, "{at}");
    }
    assert_eq!(store.put(&expiring(1, "1000001")), stored(&[]));
    for (number, at) in [(2, "soon"), (3, "-5"), (4, ""), (5, "18446744073709551615")] {
        assert_eq!(store.put(&expiring(number, at)), stored(&[]), "{at}");
    }
}

#[test]
fn expired_events_are_left_out_of_every_answer_before_they_are_swept() {
    let store = Fixture::new();
    store.put(&expiring(1, "1000010"));
    store.put(&expiring(2, "1000020"));
    store.put(&event(3, ALICE, 1, 9, &[&["t", "x"]]));
    let ids = format!(r##"{{"ids":["{}","{}","{}"]}}"##, id(1), id(2), id(3));
    for json in [
        "{}",
        r##"{"#t":["x"]}"##,
        r##"{"kinds":[1],"limit":9}"##,
        &ids,
    ] {
        for (now, expected) in [(1_000_009, 3), (1_000_010, 2), (1_000_020, 1)] {
            let now = Timestamp::from_secs(now);
            let query = filter(json);
            assert_eq!(
                store.ids_at(std::slice::from_ref(&query), now).len(),
                expected,
                "{json}"
            );
            assert_eq!(store.count(std::slice::from_ref(&query), now), expected);
            let items = store.run(Query::of_set(query.clone()), now, u64::MAX);
            assert_eq!(items.len(), expected);
        }
    }
}

#[test]
fn the_sweep_takes_the_longest_expired_first_and_no_more_than_asked() {
    let store = Fixture::new();
    for (number, at) in [
        (1, "1000030"),
        (2, "1000010"),
        (3, "1000020"),
        (4, "1000040"),
    ] {
        store.put(&expiring(number, at));
    }
    let sweep = |now, max| {
        let now = Timestamp::from_secs(now);
        store.store.write(|view| sweep(view, now, max)).unwrap()
    };
    assert!(sweep(1_000_009, 9).is_empty());
    assert_eq!(sweep(1_000_030, 2), [id(2), id(3)]);
    assert_eq!(sweep(1_000_030, 2), [id(1)]);
    assert!(sweep(1_000_030, 2).is_empty());
    assert_eq!(store.all(), [4]);
    assert!(!store.store.read().unwrap().contains(&id(1)).unwrap());
}

#[test]
fn the_sweep_frees_the_address_of_an_expired_version() {
    let store = Fixture::new();
    store.put(&event(
        1,
        ALICE,
        30_618,
        20,
        &[&["d", "r"], &["expiration", "1000010"]],
    ));
    let older = event(2, ALICE, 30_618, 10, &[&["d", "r"]]);
    assert_eq!(store.put(&older), Put::Superseded { by: id(1) });
    store
        .store
        .write(|view| sweep(view, Timestamp::from_secs(1_000_010), 10))
        .unwrap();
    assert_eq!(store.put(&older), stored(&[]));
}

#[test]
fn an_expired_version_no_longer_supersedes_even_before_it_is_swept() {
    let store = Fixture::new();
    let tags: &[&[&str]] = &[&["d", "r"], &["expiration", "1000010"]];
    store.put(&event(1, ALICE, 30_618, 20, tags));
    let older = event(2, ALICE, 30_618, 10, &[&["d", "r"]]);
    let put_at = |now| {
        let now = Timestamp::from_secs(now);
        store.store.write(|view| view.put(&older, now)).unwrap()
    };
    assert_eq!(put_at(1_000_009), Put::Superseded { by: id(1) });
    assert_eq!(put_at(1_000_010), stored(&[1]));
    assert_eq!(store.all(), [2]);
}
