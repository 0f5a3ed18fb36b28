//! Copies that are brought up to date with the changes of another.

use grip_store::{EventStore, EventView as _, Options};
use tempfile::TempDir;

use crate::support::*;

fn open(dir: &TempDir, notes_changes: bool) -> EventStore {
    let options = Options {
        map_bytes: 256 << 20,
        notes_changes,
        ..Options::default()
    };
    EventStore::open(dir.path(), options).unwrap()
}

/// Events put, replaced, deleted, taken out and rolled back lead to the same copy, also where the last
/// changes are made again.
#[test]
fn a_copy_that_makes_the_same_changes_is_the_same() {
    let dirs = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let (first, copy) = (open(&dirs[0], true), open(&dirs[1], false));
    let mut changes = Vec::new();
    let mut write = |work: &dyn Fn(&mut grip_store::WriteView<'_>)| {
        let encoded = first.write(|view| {
            work(view);
            Ok(view.encoded_changes())
        });
        changes.push(encoded.unwrap());
    };
    let versions = [
        event(1, ALICE, 30617, 100, &[&["d", "x"]]),
        event(2, ALICE, 30617, 200, &[&["d", "x"]]),
    ];
    for version in &versions {
        write(&|view| drop(view.put(version, NOW).unwrap()));
    }
    let note = event(3, BOB, 1, 100, &[]);
    let target = note.id.to_hex();
    write(&|view| drop(view.put(&note, NOW).unwrap()));
    let request = event(4, BOB, 5, 150, &[&["e", &target]]);
    write(&|view| drop(view.put(&request, NOW).unwrap()));
    write(&|view| drop(view.put(&note, NOW).unwrap()));
    write(&|view| assert!(view.roll_back(&versions[1].id, NOW).unwrap()));
    write(&|view| assert!(view.remove(&versions[0].id).unwrap()));
    write(&|view| drop(view.put(&event(5, BOB, 1, 300, &[]), NOW).unwrap()));
    for again in [0, 1, 4] {
        let from = changes.len() - again;
        let all = changes.iter().chain(&changes[from..]);
        for encoded in all {
            copy.write(|view| view.apply_changes(encoded)).unwrap();
        }
        let (ours, theirs) = (first.read().unwrap(), copy.read().unwrap());
        for number in 1..=5 {
            let id = id(number);
            assert_eq!(theirs.get(&id).unwrap(), ours.get(&id).unwrap(), "{number}");
        }
        assert_eq!(
            theirs.deletion_of(&note).unwrap(),
            ours.deletion_of(&note).unwrap()
        );
        assert_eq!(copy.stats().unwrap().events, first.stats().unwrap().events);
    }
    assert!(copy.write(|view| view.apply_changes(b"\xff")).is_err());
    // So does all that is there, in however many pieces.
    for piece_bytes in [1, 1 << 20] {
        let dir = TempDir::new().unwrap();
        let whole = open(&dir, false);
        let ours = first.read().unwrap();
        let passed_on = ours.encoded(piece_bytes, |piece| {
            whole.write(|view| view.apply_changes(&piece))
        });
        passed_on.unwrap();
        let contents = |store: &EventStore| {
            let mut all = Vec::new();
            let read = store.read().unwrap();
            let passed_on = read.encoded(usize::MAX, |piece| {
                all.extend(piece);
                Ok::<_, grip_store::StoreError>(())
            });
            passed_on.unwrap();
            all
        };
        assert_eq!(contents(&whole), contents(&first), "{piece_bytes}");
    }
}
