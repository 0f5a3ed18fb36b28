//! Compaction: the same events in a smaller file, while they are read and written.

use std::sync::atomic::{AtomicBool, Ordering};

use grip_store::{EventView, Query};
use nostr::prelude::{Event, EventId};

use crate::support::*;

fn numbered(number: u32, kind: u16, text: &str) -> Event {
    let mut event = event(
        1,
        ALICE,
        kind,
        u64::from(number),
        &[&["subject", text], &["t", "x"]],
    );
    let mut id = [7; 32];
    id[..4].copy_from_slice(&number.to_be_bytes());
    event.id = EventId::from_byte_array(id);
    event
}

fn file_bytes(store: &Fixture) -> u64 {
    store.dir.path().join("data.mdb").metadata().unwrap().len()
}

/// Writes many events and removes all but a few.
fn churned() -> Fixture {
    let store = Fixture::new();
    let text = "x".repeat(4_000);
    for batch in 0..10 {
        let put = |view: &mut grip_store::WriteView<'_>| {
            for number in 0..100 {
                view.put(&numbered(batch * 100 + number, 1, &text), NOW)?;
            }
            Ok(())
        };
        store.store.write(put).unwrap();
    }
    let remove = |view: &mut grip_store::WriteView<'_>| {
        for number in 10..1_000 {
            view.remove(&numbered(number, 1, "").id)?;
        }
        Ok(())
    };
    store.store.write(remove).unwrap();
    store.put(&event(200, ALICE, 5, 10, &[&["e", &id(201).to_hex()]]));
    store
}

#[test]
fn a_compacted_store_is_smaller_and_holds_the_same_before_and_after_a_restart() {
    let store = churned();
    let before = store.ids(&[filter("{}")]);
    let large = file_bytes(&store);
    // A snapshot from before goes on seeing what it saw.
    let old = store.store.clone();
    let view = old.read().unwrap();
    let compacted = store.store.compact().unwrap();
    assert_eq!(
        (compacted.bytes_before, compacted.bytes_after),
        (large, file_bytes(&store))
    );
    assert!(compacted.bytes_after * 4 < large, "{compacted:?}");
    assert!(view.contains(&numbered(3, 1, "").id).unwrap());
    drop(view);
    drop(old);
    assert_eq!(store.ids(&[filter("{}")]), before);
    store.put(&event(1, BOB, 1, 50, &[]));
    // Again, since the second has another directory.
    store.store.compact().unwrap();
    store.put(&event(2, BOB, 1, 51, &[]));
    let store = store.reopen();
    assert_eq!(store.ids(&[filter("{}")]).len(), before.len() + 2);
    assert!(matches!(
        store.put(&event(201, ALICE, 1, 5, &[])),
        grip_store::Put::Deleted { .. }
    ));
    let left = std::fs::read_dir(store.dir.path()).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name());
    let left = left.filter(|name| name.to_string_lossy().starts_with(".compact"));
    assert_eq!(left.count(), 0);
}

#[test]
fn what_is_written_while_the_store_is_compacted_is_not_lost() {
    let store = churned();
    let stop = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 5_000;
            while !stop.load(Ordering::Relaxed) {
                // New ones, replaced ones and removed ones.
                store.put(&numbered(number, 1, "new"));
                store.put(&numbered(number + 1_000_000, 30_618, "version"));
                let gone = numbered(number - 3, 1, "").id;
                store.store.write(|view| view.remove(&gone)).unwrap();
                number += 1;
            }
            number
        });
        for _ in 0..5 {
            store.store.compact().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    let check = |store: &Fixture| {
        let all = store.run(
            Query::of_all(vec![filter(r##"{"#t":["x"],"since":5000}"##)]),
            NOW,
            500,
        );
        let mut expected: Vec<u64> = (written - 3..written).map(u64::from).collect();
        expected.push(u64::from(written - 1 + 1_000_000));
        let mut found: Vec<u64> = all.iter().map(|(at, _)| *at).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
    };
    check(&store);
    check(&store.reopen());
}

#[test]
fn a_compaction_that_was_cut_off_leaves_the_store_as_it_was() {
    let store = churned();
    let before = store.ids(&[filter("{}")]);
    let unfinished = store.dir.path().join(".compact-1");
    std::fs::create_dir(&unfinished).unwrap();
    std::fs::write(unfinished.join("data.mdb"), b"half a copy").unwrap();
    let store = store.reopen();
    assert!(!unfinished.exists());
    assert_eq!(store.ids(&[filter("{}")]), before);
}

#[test]
fn a_query_in_slices_lets_pages_be_used_again() {
    let store = churned();
    let mut query = Query::of_all(vec![filter("{}")]);
    let before = store.store.stats().unwrap().used_bytes;
    let text = "y".repeat(4_000);
    // A version after another, while the query is under way.
    for number in 0..400 {
        let mut room = number % 50 == 0;
        let view = store.store.read().unwrap();
        query
            .run(&view, NOW, 1, &mut |_| Ok(std::mem::take(&mut room)))
            .unwrap();
        drop(view);
        store.put(&numbered(2_000 + number, 30_618, &text));
    }
    let after = store.store.stats().unwrap().used_bytes;
    assert!(after < before + (1 << 20), "{before} {after}");
    // The same under one snapshot takes new pages with every write.
    let view = store.store.read().unwrap();
    for number in 400..800 {
        store.put(&numbered(2_000 + number, 30_618, &text));
    }
    let pinned = store.store.stats().unwrap().used_bytes;
    assert!(pinned > after + (4 << 20), "{after} {pinned}");
    drop(view);
}
