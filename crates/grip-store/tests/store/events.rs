//! Storing and finding single events.

use std::ops::ControlFlow;

use grip_store::{EventView, Put, StoreError};
use nostr::prelude::{Event, EventBuilder, FinalizeEvent, Keys, Kind, Tag};

use crate::support::*;

#[test]
fn a_signed_event_comes_back_byte_for_byte() {
    let store = Fixture::new();
    let keys = Keys::generate();
    let event = EventBuilder::new(Kind::Custom(1621), "line\nbreak \u{1} \"q\" ∂")
        .tags([Tag::parse(["subject", "an issue"]).unwrap()])
        .finalize(&keys)
        .unwrap();
    assert_eq!(store.put(&event), stored(&[]));

    let view = store.store.read().unwrap();
    let found = view.get(&event.id).unwrap().unwrap();
    assert_eq!(found, event);
    assert!(found.verify().is_ok());
    let mut seen = 0;
    view.query(&[filter("{}")], LIMITS, NOW, &mut |stored| {
        assert_eq!(stored.json, event.as_json().as_bytes());
        assert_eq!(Event::from_json(stored.json).unwrap(), event);
        assert_eq!(&stored.id, event.id.as_bytes());
        assert_eq!(&stored.author, event.pubkey.as_bytes());
        assert_eq!(stored.kind, 1621);
        assert_eq!(stored.created_at, event.created_at.as_secs());
        seen += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn the_second_copy_is_a_duplicate() {
    let store = Fixture::new();
    let event = event(1, ALICE, 1, 10, &[]);
    assert_eq!(store.put(&event), stored(&[]));
    assert_eq!(store.put(&event), Put::Duplicate);
    assert_eq!(store.store.stats().unwrap().events, 1);
}

#[test]
fn ephemeral_events_are_refused_and_the_rest_of_the_batch_lives() {
    let store = Fixture::new();
    store
        .store
        .write(|view| {
            view.put(&event(1, ALICE, 1, 10, &[]), NOW)?;
            let refused = view.put(&event(2, ALICE, 20_001, 10, &[]), NOW);
            assert!(matches!(refused, Err(StoreError::Ephemeral(kind)) if kind.as_u16() == 20_001));
            view.put(&event(3, ALICE, 1, 11, &[]), NOW)
        })
        .unwrap();
    assert_eq!(store.all(), [3, 1]);
}

#[test]
fn a_write_sees_its_own_changes_and_a_snapshot_does_not() {
    let store = Fixture::new();
    let before = store.store.read().unwrap();
    store
        .store
        .write(|view| {
            view.put(&event(1, ALICE, 1, 10, &[]), NOW)?;
            assert!(view.contains(&id(1))?);
            Ok(())
        })
        .unwrap();
    assert!(!before.contains(&id(1)).unwrap());
    assert!(store.store.read().unwrap().contains(&id(1)).unwrap());
}

#[test]
fn a_snapshot_moves_between_threads() {
    let store = Fixture::new();
    store.put(&event(1, ALICE, 1, 10, &[]));
    let view = store.store.read().unwrap();
    std::thread::scope(|scope| {
        let found = scope.spawn(move || view.contains(&id(1)).unwrap()).join();
        assert!(found.unwrap());
    });
}

#[test]
fn removed_events_leave_no_trace_and_may_come_again() {
    let store = Fixture::new();
    let state = event(
        1,
        ALICE,
        30_618,
        10,
        &[&["d", "repo"], &["e", "x"], &["expiration", "9999999"]],
    );
    store.put(&state);
    let removed = |number| store.store.write(|view| view.remove(&id(number))).unwrap();
    assert!(!removed(2));
    assert!(removed(1));
    assert!(!removed(1));
    for json in ["{}", r##"{"kinds":[30618]}"##, r##"{"#d":["repo"]}"##] {
        assert!(store.ids(&[filter(json)]).is_empty(), "{json}");
    }
    let view = store.store.read().unwrap();
    assert_eq!(view.latest(&address(30_618, ALICE, "repo")).unwrap(), None);
    drop(view);
    assert_eq!(store.put(&state), stored(&[]));
}

/// §17: the target branch of a pull request is a tag of one letter, and found by it.
#[test]
fn pull_requests_are_found_by_their_target_branch() {
    let store = Fixture::new();
    store.put(&event(1, ALICE, 1_618, 10, &[&["b", "release"]]));
    store.put(&event(2, BOB, 1_618, 10, &[&["b", "main"]]));
    store.put(&event(3, BOB, 1_618, 11, &[]));
    let found = store.ids(&[filter(r##"{"kinds":[1618],"#b":["release"]}"##)]);
    assert_eq!(found, [id(1).to_bytes()]);
}

/// What is taken from anybody relates nothing to anything, however it tags it, and also within the
/// transaction that brought it.
#[test]
fn references_of_idle_kinds_do_not_count() {
    let store = Fixture::new();
    let idle = [
        nostr::prelude::Kind::from(0),
        nostr::prelude::Kind::from(10_317),
    ];
    let hex = id(9).to_hex();
    let tags: &[&[&str]] = &[&["e", &hex]];
    let write = |view: &mut grip_store::WriteView<'_>| {
        view.put(&event(1, ALICE, 0, 10, tags), NOW)?;
        view.put(&event(2, ALICE, 10_317, 10, tags), NOW)?;
        let only_idle = view.is_referenced(&id(9), &idle)?;
        view.put(&event(3, ALICE, 1, 10, tags), NOW)?;
        Ok((only_idle, view.is_referenced(&id(9), &idle)?))
    };
    assert_eq!(store.store.write(write).unwrap(), (false, true));
    let view = store.store.read().unwrap();
    assert!(view.is_referenced(&id(9), &idle).unwrap());
}

#[test]
fn ids_of_one_author_and_kind_are_listed_the_newest_first() {
    let store = Fixture::new();
    for (number, author, kind, at) in [(1, ALICE, 1, 10), (2, ALICE, 1, 30), (3, ALICE, 2, 20)] {
        store.put(&event(number, author, kind, at, &[]));
    }
    let view = store.store.read().unwrap();
    let ids = |kind: u16, max| {
        let author = event(1, ALICE, 1, 10, &[]).pubkey;
        view.ids_of(&author, nostr::prelude::Kind::from(kind), max)
            .unwrap()
    };
    assert_eq!(ids(1, 9), [id(2), id(1)]);
    assert_eq!(ids(1, 1), [id(2)]);
    assert_eq!(ids(2, 9), [id(3)]);
    assert!(ids(3, 9).is_empty());
}

#[test]
fn references_are_found_by_every_relation_tag() {
    let store = Fixture::new();
    let repo = address(30_617, ALICE, "a:b");
    let (by_id, by_address) = (id(9).to_hex(), repo.to_string());
    let referenced = |store: &Fixture| {
        let view = store.store.read().unwrap();
        (
            view.is_referenced(&id(9), &[]).unwrap(),
            view.is_address_referenced(&repo, &[]).unwrap(),
        )
    };
    assert_eq!(referenced(&store), (false, false));
    for (number, letter) in (1..).zip(["p", "r", "d", "refs/heads/a"]) {
        store.put(&event(
            number,
            ALICE,
            1,
            10,
            &[&[letter, &by_id], &[letter, &by_address]],
        ));
    }
    assert_eq!(referenced(&store), (false, false));

    for (letter, value, expected) in [
        ("e", &by_id, (true, false)),
        ("E", &by_id, (true, false)),
        ("q", &by_id, (true, false)),
        ("a", &by_address, (false, true)),
        ("A", &by_address, (false, true)),
        ("q", &by_address, (false, true)),
        // Only the tags that can hold such a value count.
        ("a", &by_id, (false, false)),
        ("e", &by_address, (false, false)),
    ] {
        store.put(&event(77, BOB, 1, 10, &[&[letter, value]]));
        assert_eq!(referenced(&store), expected, "{letter} {value}");
        store.store.write(|view| view.remove(&id(77))).unwrap();
        assert_eq!(referenced(&store), (false, false));
    }
}

#[test]
fn a_state_with_20_000_refs_is_stored_and_found() {
    let store = Fixture::new();
    let keys = Keys::generate();
    let refs = (0..20_000).map(|n| {
        let name = format!("refs/heads/feature/some-longer-branch-name-{n:05}");
        Tag::parse([name, format!("{n:040x}")]).unwrap()
    });
    let state = EventBuilder::new(Kind::Custom(30_618), "")
        .tag(Tag::parse(["d", "huge"]).unwrap())
        .tags(refs)
        .finalize(&keys)
        .unwrap();
    assert!(state.as_json().len() > 1_600_000);
    assert_eq!(store.put(&state), stored(&[]));

    let store = store.reopen();
    let view = store.store.read().unwrap();
    let found = view.with_d(Kind::Custom(30_618), "huge").unwrap();
    assert_eq!(found, std::slice::from_ref(&state));
    drop(view);
    assert_eq!(
        store.ids(&[filter(r##"{"#d":["huge"]}"##)]),
        [state.id.to_bytes()]
    );
    assert!(store.store.write(|view| view.remove(&state.id)).unwrap());
    assert!(store.all().is_empty());
}

#[test]
fn an_event_with_thousands_of_indexed_tags_is_stored_found_and_removed() {
    let store = Fixture::new();
    let values: Vec<String> = (0..5_000).map(|n| format!("topic {n}")).collect();
    let tags: Vec<[&str; 2]> = values.iter().map(|value| ["t", value.as_str()]).collect();
    let tags: Vec<&[&str]> = tags.iter().map(|tag| &tag[..]).collect();
    store.put(&event(1, ALICE, 1, 10, &tags));
    assert_eq!(store.numbers(&[filter(r##"{"#t":["topic 4999"]}"##)]), [1]);
    assert!(store.store.write(|view| view.remove(&id(1))).unwrap());
    assert!(
        store
            .numbers(&[filter(r##"{"#t":["topic 4999"]}"##)])
            .is_empty()
    );
}

#[test]
fn kind_and_presence_are_known_without_reading_the_event() {
    let store = Fixture::new();
    store.put(&event(1, ALICE, 30_617, 10, &[&["d", "r"]]));
    store.put(&event(2, ALICE, 1_621, 10, &[]));
    let view = store.store.read().unwrap();
    assert_eq!(view.kind(&id(1)).unwrap(), Some(Kind::Custom(30_617)));
    assert_eq!(view.kind(&id(2)).unwrap(), Some(Kind::Custom(1_621)));
    assert_eq!(view.kind(&id(3)).unwrap(), None);
    let latest = view.get(&id(1)).unwrap().unwrap();
    let mut address = grip_nostr::address_of(&latest).unwrap();
    assert!(view.contains_address(&address).unwrap());
    address.d = "other".into();
    assert!(!view.contains_address(&address).unwrap());
}

#[test]
fn bytes_of_an_author_and_kind_are_counted_up_to_a_bound() {
    let store = Fixture::new();
    for number in 1..=4 {
        store.put(&event(number, ALICE, 5, 10, &[&["e", &id(99).to_hex()]]));
    }
    store.put(&event(5, ALICE, 1, 10, &[]));
    store.put(&event(6, BOB, 5, 10, &[&["e", &id(99).to_hex()]]));
    let view = store.store.read().unwrap();
    let bytes = |author, most| {
        let kind = nostr::prelude::Kind::from(5);
        view.stored_bytes(&key(author), kind, most).unwrap()
    };
    let (alice, bob) = (bytes(ALICE, usize::MAX), bytes(BOB, usize::MAX));
    assert_eq!(alice, 4 * bob);
    assert!(bob > 300, "{bob}");
    assert_eq!(bytes(ALICE, 1_000), 1_000);
}
