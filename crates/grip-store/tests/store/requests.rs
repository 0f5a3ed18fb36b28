//! Retention of requests (G01-103): one test for each row, with a moved clock.

use std::time::Duration;

use grip_store::{Aged, EventView as _, Options, Put, RequestCounts, Retention};
use nostr::prelude::{Event, Timestamp};

use crate::support::*;

const DAY: u64 = 24 * 3600;

fn days(count: u64) -> Timestamp {
    Timestamp::from_secs(NOW.as_secs() + count * DAY)
}

fn second_before(time: Timestamp) -> Timestamp {
    Timestamp::from_secs(time.as_secs() - 1)
}

impl Fixture {
    fn age(&self, now: Timestamp) -> Aged {
        let retention = Retention::default();
        let due = self.store.read().unwrap();
        let due = due.requests_due(now, &retention, 10_000).unwrap();
        let aged = self
            .store
            .write(|view| view.age_requests(&due, now, &retention));
        aged.unwrap()
    }

    fn put_at(&self, event: &Event, now: Timestamp) -> Put {
        self.store.write(|view| view.put(event, now)).unwrap()
    }

    fn counts(&self) -> (u64, u64) {
        let RequestCounts { served, gating } = self.store.read().unwrap().request_counts().unwrap();
        (served, gating)
    }
}

fn note() -> Event {
    event(1, ALICE, 1, 10, &[])
}

fn request() -> Event {
    event(2, ALICE, 5, 20, &[&["e", &id(1).to_hex()]])
}

#[test]
fn g01_103_a_request_of_no_use_is_served_for_30_days() {
    let store = Fixture::new();
    store.put(&request());
    store.age(second_before(days(30)));
    assert_eq!(store.counts(), (1, 0));
    store.age(days(30));
    assert_eq!((store.counts(), store.all()), ((0, 1), vec![]));
}

#[test]
fn g01_103_then_refuses_for_180_days_and_is_forgotten() {
    let store = Fixture::new();
    store.put(&request());
    store.age(days(30));
    store.age(second_before(days(210)));
    assert_eq!(store.counts(), (0, 1));
    let view = store.store.read().unwrap();
    assert_eq!(view.deletion_of(&note()).unwrap(), Some(id(2)));
    drop(view);
    assert_eq!(store.age(days(210)).forgotten, 1);
    assert_eq!(store.counts(), (0, 0));
    assert_eq!(
        store.put_at(&note(), days(210)),
        stored(&[]),
        "admissible again"
    );
}

#[test]
fn g01_103_a_request_that_deleted_something_is_served_for_270_days() {
    let store = Fixture::new();
    store.put(&note());
    store.put(&request());
    store.age(second_before(days(270)));
    assert_eq!(store.counts(), (1, 0));
    store.age(days(270));
    assert_eq!(store.counts(), (0, 1));
}

#[test]
fn g01_103_then_refuses_for_90_days_and_is_forgotten() {
    let store = Fixture::new();
    store.put(&note());
    store.put(&request());
    store.age(days(270));
    store.age(second_before(days(360)));
    assert_eq!(store.counts(), (0, 1));
    store.age(days(360));
    assert_eq!(store.put_at(&note(), days(360)), stored(&[]));
}

#[test]
fn g01_103_each_use_begins_the_time_again_and_brings_a_request_back_into_service() {
    let store = Fixture::new();
    store.put(&request());
    store.age(days(30));
    assert!(store.all().is_empty());
    assert_eq!(store.put_at(&note(), days(100)), Put::Deleted { by: id(2) });
    assert_eq!((store.counts(), store.all()), ((1, 0), vec![2]));
    let store = store.reopen();
    store.age(second_before(days(370)));
    assert_eq!(store.counts(), (1, 0));
    store.age(days(370));
    assert_eq!(store.counts(), (0, 1));
    assert_eq!(store.age(days(460)).forgotten, 1);
}

#[test]
fn g01_115_a_request_of_use_is_credited_else_the_one_seen_first() {
    let store = Fixture::new();
    let request = |number| event(number, ALICE, 5, 20, &[&["e", &id(1).to_hex()]]);
    store.put_at(&request(9), days(0));
    store.put_at(&request(3), days(1));
    store.put_at(&request(4), days(1));
    assert_eq!(store.put_at(&note(), days(2)), Put::Deleted { by: id(9) });
    let store = Fixture::new();
    store.put_at(&request(4), days(1));
    store.put_at(&request(3), days(1));
    store
        .store
        .write(|view| view.use_requests(&[id(4)], days(1)))
        .unwrap();
    assert_eq!(store.put_at(&note(), days(2)), Put::Deleted { by: id(4) });
    // The others end as if they were of no use.
    store.age(days(31));
    assert_eq!(store.counts(), (1, 1));
}

#[test]
fn g01_116_a_replay_of_a_request_that_is_not_served_changes_nothing() {
    let store = Fixture::new();
    store.put(&request());
    store.age(days(30));
    assert!(
        store
            .store
            .read()
            .unwrap()
            .is_request_retired(&id(2))
            .unwrap()
    );
    assert_eq!(store.put_at(&request(), days(200)), Put::Duplicate);
    assert_eq!(store.counts(), (0, 1));
    assert_eq!(store.age(days(210)).forgotten, 1);
}

#[test]
fn g01_118_a_key_that_vanished_is_refused_up_to_its_request() {
    let store = Fixture::new();
    let vanish = event(7, ALICE, 62, 20, &[&["relay", "ALL_RELAYS"]]);
    let put = store.store.write(|view| view.put_vanish(&vanish, NOW));
    assert_eq!(put.unwrap(), stored(&[]));
    assert_eq!(store.put(&note()), Put::Deleted { by: id(7) });
    let deletion = event(3, ALICE, 5, 15, &[&["e", &id(1).to_hex()]]);
    assert_eq!(store.put(&deletion), Put::Deleted { by: id(7) });
    assert_eq!(store.put(&event(4, ALICE, 1, 21, &[])), stored(&[]));
    assert_eq!(store.put(&event(5, BOB, 1, 10, &[])), stored(&[]));
    let delete_it = event(6, ALICE, 5, 30, &[&["e", &id(7).to_hex()]]);
    store.put(&delete_it);
    store.age(days(360));
    assert_eq!(store.put(&note()), stored(&[]));
}

#[test]
fn g01_118_a_request_to_vanish_is_pending_until_it_is_carried_out_and_never_again() {
    let store = Fixture::new();
    let vanish = event(7, ALICE, 62, 20, &[&["relay", "ALL_RELAYS"]]);
    let put = || store.store.write(|view| view.put_vanish(&vanish, NOW));
    let pending = || store.store.read().unwrap().vanishing().unwrap();
    let is_vanishing = || {
        let view = store.store.read().unwrap();
        view.is_vanishing(&vanish.pubkey).unwrap()
    };
    assert!(!is_vanishing());
    put().unwrap();
    put().unwrap();
    let [vanished] = pending()[..] else {
        panic!("one request waits: {:?}", pending());
    };
    assert_eq!(
        (vanished.author, vanished.request),
        (vanish.pubkey, vanish.id)
    );
    assert_eq!(vanished.until, vanish.created_at);
    assert!(is_vanishing());
    let done = store.store.write(|view| view.end_vanishing(&vanished));
    done.unwrap();
    assert_eq!(put().unwrap(), Put::Duplicate);
    assert!(pending().is_empty() && !is_vanishing());
    assert_eq!(
        store.put(&note()),
        Put::Deleted { by: id(7) },
        "it still refuses"
    );
    // One that is forgotten before it was carried out leaves nothing.
    let second = event(8, BOB, 62, 20, &[&["relay", "ALL_RELAYS"]]);
    store
        .store
        .write(|view| view.put_vanish(&second, NOW))
        .unwrap();
    store.age(days(360));
    assert!(pending().is_empty());
}

/// G01-121.
#[test]
fn where_deletions_are_ignored_requests_are_kept_and_do_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        map_bytes: 16 << 20,
        ignores_deletions: true,
        ..Options::default()
    };
    let store = Fixture {
        store: grip_store::EventStore::open(dir.path(), options).unwrap(),
        dir,
    };
    store.put(&note());
    assert_eq!(store.put(&request()), stored(&[]));
    let later = event(3, ALICE, 1, 10, &[]);
    store.put(&event(4, ALICE, 5, 20, &[&["e", &id(3).to_hex()]]));
    assert_eq!(store.put(&later), stored(&[]));
}

/// On a production server 50,000 of 60,000 stored events were deletion requests.
#[test]
fn the_store_after_thousands_of_requests_is_as_it_was_before_them() {
    let store = Fixture::new();
    let events = |view: &mut grip_store::WriteView<'_>, at: u64| {
        for number in 0..3_000_u64 {
            let event = numbered(number, 1, at, &[]);
            view.put(&event, NOW)?;
            let target = event.id.to_hex();
            view.put(
                &numbered(10_000 + number, 5, at + 1, &[&["e", &target]]),
                NOW,
            )?;
        }
        Ok(())
    };
    let before = store.store.stats().unwrap().events;
    store.store.write(|view| events(view, 10)).unwrap();
    assert_eq!(
        (store.counts(), store.store.stats().unwrap().events),
        ((3_000, 0), 3_000)
    );
    store.store.compact().unwrap();
    let served = store.store.stats().unwrap().used_bytes;
    assert_eq!(store.age(days(270)).retired, 3_000);
    store.store.compact().unwrap();
    let gating = store.store.stats().unwrap().used_bytes;
    assert_eq!(store.age(days(360)).forgotten, 3_000);
    store.store.compact().unwrap();
    let stats = store.store.stats().unwrap();
    println!(
        "served {served}, gating {gating}, forgotten {} bytes",
        stats.used_bytes
    );
    assert_eq!(stats.events, before);
    assert!(
        gating * 10 < served * 7,
        "{gating} of {served} bytes while they only refuse"
    );
    assert!(
        stats.used_bytes < 1 << 17,
        "{} bytes are left",
        stats.used_bytes
    );
}

fn numbered(number: u64, kind: u16, at: u64, tags: &[&[&str]]) -> Event {
    let mut event = event(0, ALICE, kind, at, tags);
    let mut id = [0; 32];
    id[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    id[8..16].copy_from_slice(&number.to_be_bytes());
    event.id = nostr::prelude::EventId::from_byte_array(id);
    event
}

#[test]
fn spans_are_settings() {
    let store = Fixture::new();
    store.put(&request());
    let retention = Retention {
        unused_served: Duration::from_secs(1),
        unused_gating: Duration::ZERO,
        ..Retention::default()
    };
    let now = Timestamp::from_secs(NOW.as_secs() + 1);
    let due = store.store.read().unwrap().requests_due(now, &retention, 9);
    assert_eq!(due.unwrap(), [id(2)]);
}
