//! Durability: commits survive, and nothing but commits.

use grip_store::{EventStore, EventView, OpenError, Options, StoreError};

use crate::support::*;

#[test]
fn everything_is_there_after_reopening() {
    let store = Fixture::new();
    for number in 1..=50 {
        store.put(&event(number, ALICE, 1, u64::from(number), &[&["t", "x"]]));
    }
    let before = store.ids(&[filter(r##"{"#t":["x"]}"##)]);
    let store = store.reopen();
    assert_eq!(store.ids(&[filter(r##"{"#t":["x"]}"##)]), before);
    assert_eq!(store.put(&event(51, ALICE, 1, 51, &[])), stored(&[]));
    assert_eq!(store.all().len(), 51);
}

#[test]
fn a_write_that_fails_changes_nothing() {
    let store = Fixture::new();
    store.put(&event(1, ALICE, 30_618, 10, &[&["d", "r"]]));
    let failed = store.store.write(|view| {
        view.put(&event(2, ALICE, 30_618, 11, &[&["d", "r"]]), NOW)?;
        view.put(
            &event(
                3,
                ALICE,
                5,
                12,
                &[&["e", &id(1).to_hex()], &["e", &id(4).to_hex()]],
            ),
            NOW,
        )?;
        view.remove(&id(1))?;
        Err::<(), _>(StoreError::Corrupt("made up"))
    });
    assert!(failed.is_err());
    assert_eq!(store.all(), [1]);
    assert_eq!(store.put(&event(4, ALICE, 1, 10, &[])), stored(&[]));
}

#[test]
fn a_write_that_panics_changes_nothing_and_the_next_one_works() {
    let store = Fixture::new();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.store.write(|view| -> Result<(), StoreError> {
            view.put(&event(1, ALICE, 1, 10, &[]), NOW)?;
            panic!("made up");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(store.put(&event(2, ALICE, 1, 10, &[])), stored(&[]));
    assert_eq!(store.all(), [2]);
}

#[test]
fn a_full_store_says_so_and_keeps_what_it_has() {
    let store = Fixture::with_map(1 << 20);
    let big = "x".repeat(100_000);
    let note = |number: u8| event(number, ALICE, 1, u64::from(number), &[&["subject", &big]]);
    let mut kept = 0;
    let error = loop {
        match store.store.write(|view| view.put(&note(kept + 1), NOW)) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full), "{error}");
    assert!(kept > 3);
    let expected: Vec<u8> = (1..=kept).rev().collect();
    assert_eq!(store.all(), expected);

    // Hiding the failure does not commit half a batch.
    let hidden = store.store.write(|view| {
        let small = view.put(&event(200, BOB, 1, 500, &[]), NOW);
        let refused = view.put(&note(kept + 1), NOW);
        assert!(matches!(refused, Err(StoreError::Full)), "{small:?}");
        Ok(())
    });
    assert!(matches!(hidden, Err(StoreError::Incomplete)));
    assert_eq!(store.all(), expected);

    // With a larger map it goes on.
    let store = store.reopen();
    assert_eq!(store.put(&note(kept + 1)), stored(&[]));
    assert_eq!(store.all().len(), usize::from(kept) + 1);
}

#[test]
fn a_large_batch_is_one_commit() {
    let store = Fixture::new();
    let numbers: Vec<u8> = (0..=255).collect();
    store
        .store
        .write(|view| {
            for number in &numbers {
                view.put(&event(*number, ALICE, 1, 10, &[]), NOW)?;
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(store.all(), numbers);
}

#[test]
fn the_same_directory_opens_once_at_a_time() {
    let store = Fixture::new();
    let options = Options {
        map_bytes: 1 << 20,
        ..Options::default()
    };
    let second = EventStore::open(store.dir.path(), options);
    assert!(matches!(second, Err(OpenError::AlreadyOpen)));
    drop(second);
    store.put(&event(1, ALICE, 1, 10, &[]));
    assert!(
        store
            .reopen()
            .store
            .read()
            .unwrap()
            .contains(&id(1))
            .unwrap()
    );
}

#[test]
fn too_many_readers_are_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        max_readers: 2,
        map_bytes: 1 << 20,
        ..Options::default()
    };
    let store = EventStore::open(dir.path(), options).unwrap();
    let views = (store.read().unwrap(), store.read().unwrap());
    let third = store.read().err().unwrap();
    assert!(matches!(third, StoreError::TooManyReaders) && third.is_passing());
    drop(views);
    assert!(store.read().is_ok());
}

#[test]
fn the_figures_name_what_is_held() {
    let store = Fixture::with_map(1 << 20);
    store.put(&event(1, ALICE, 1, 10, &[]));
    let stats = store.store.stats().unwrap();
    assert_eq!((stats.events, stats.map_bytes), (1, 1 << 20));
    assert!(stats.used_bytes > 0 && stats.used_bytes < stats.map_bytes);
}

#[test]
fn the_default_map_takes_no_room_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = EventStore::open(dir.path(), Options::default()).unwrap();
    store
        .write(|view| view.put(&event(1, ALICE, 1, 10, &[]), NOW))
        .unwrap();
    let on_disk: u64 = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(on_disk < 1 << 20, "{on_disk} bytes");
    assert_eq!(store.stats().unwrap().map_bytes, 64 << 30);
}
