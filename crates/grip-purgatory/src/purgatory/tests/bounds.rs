use super::*;
use crate::{Full, Which};

const FEW: Bounds = Bounds {
    per_author: 2,
    per_identifier: 3,
    total: 5,
    total_bytes: 1 << 20,
    expired_ids: 2,
    lifetime: LIFETIME,
    placeholder_lifetime: PLACEHOLDER_LIFETIME,
    wanted: 2,
    wanted_bytes: 1 << 20,
    wanted_lifetime: WANTED_LIFETIME,
    wanted_interval: WANTED_INTERVAL,
    sync_delays: SyncDelays {
        submitted: SYNC_DELAY_DEFAULT,
        synced: SYNC_DELAY_IMMEDIATE,
    },
};

fn add(purgatory: &mut Purgatory, keys: &Keys, at: u64, name: &str) -> Result<(), Full> {
    let event = state(keys, at, &[]);
    let added = purgatory.add_state(event, identifier(name), Origin::Submitted, NOW);
    added.map(|_| ())
}

fn full(which: Which, limit: usize) -> Result<(), Full> {
    Err(Full { which, limit })
}

#[test]
fn g01_22_one_author_cannot_hold_more_than_its_share() {
    let mut purgatory = Purgatory::new(FEW);
    let keys = Keys::generate();
    add(&mut purgatory, &keys, 1, "a").unwrap();
    add(&mut purgatory, &keys, 2, "b").unwrap();
    let before = purgatory.clone();
    assert_eq!(add(&mut purgatory, &keys, 3, "c"), full(Which::Author, 2));
    assert_eq!(purgatory, before, "a refusal changes nothing");
    // The same event again is no new one.
    add(&mut purgatory, &keys, 1, "a").unwrap();
    let _ = purgatory.cleanup(NOW + LIFETIME);
    add(&mut purgatory, &keys, 3, "c").unwrap();
}

#[test]
fn g01_22_one_identifier_cannot_hold_more_than_its_share_of_a_class() {
    let mut purgatory = Purgatory::new(FEW);
    for _ in 0..3 {
        add(&mut purgatory, &Keys::generate(), 1, "a").unwrap();
    }
    let stranger = Keys::generate();
    assert_eq!(
        add(&mut purgatory, &stranger, 1, "a"),
        full(Which::Identifier, 3)
    );
    // States do not keep pull requests out, nor these them.
    let identifiers = vec![identifier("a")];
    let event = pr(&stranger, 1);
    let added = purgatory.add_pr(event, oid('a'), identifiers, Origin::Submitted, NOW);
    assert!(added.is_ok());
}

#[test]
fn g01_22_the_whole_is_bounded_in_entries_and_bytes() {
    let mut purgatory = Purgatory::new(FEW);
    let repo = addr(&Keys::generate());
    for n in 0..3 {
        let added = purgatory.add_pr_placeholder(id(n), oid('a'), repo.clone(), NOW);
        let _ = added.unwrap();
    }
    add(&mut purgatory, &Keys::generate(), 1, "a").unwrap();
    add(&mut purgatory, &Keys::generate(), 1, "a").unwrap();
    assert_eq!(
        add(&mut purgatory, &Keys::generate(), 1, "b"),
        full(Which::Total, 5)
    );

    let keys = Keys::generate();
    let mut purgatory = Purgatory::new(Bounds {
        total_bytes: 1000,
        ..FEW
    });
    let long = "x".repeat(1000);
    let large = event(&keys, kinds::STATE, 1, &[["d", &long]]);
    let added = purgatory.add_state(large, identifier("a"), Origin::Submitted, NOW);
    assert_eq!(added.map(|_| ()), full(Which::Bytes, 1000));
    assert_eq!(purgatory.count(), Counts::default());
}

#[test]
fn a_push_of_a_known_ref_and_a_newer_announcement_need_no_new_room() {
    let keys = Keys::generate();
    let mut purgatory = Purgatory::new(Bounds {
        per_author: 1,
        per_identifier: 1,
        total: 2,
        ..FEW
    });
    for at in [1, 2] {
        let event = announcement(&keys, at);
        let added = purgatory.add_announcement(event, identifier("repo"), Origin::Submitted, NOW);
        assert!(added.is_ok());
        let pushed = purgatory.add_pr_placeholder(id(1), oid('a'), addr(&keys), NOW);
        assert!(pushed.is_ok());
    }
    let mut stricter = purgatory.clone();
    stricter.bounds = Bounds {
        total_bytes: 10,
        ..FEW
    };
    let before = stricter.clone();
    let event = announcement(&keys, 3);
    let added = stricter.add_announcement(event, identifier("repo"), Origin::Submitted, NOW);
    assert_eq!(added.map(|_| ()), full(Which::Bytes, 10));
    assert_eq!(stricter, before);
}

#[test]
fn the_memory_of_expired_ids_forgets_the_oldest() {
    let mut purgatory = Purgatory::new(FEW);
    let events: Vec<Event> = (0..3).map(|n| state(&Keys::generate(), n, &[])).collect();
    let mut changes = Vec::new();
    for (n, event) in events.iter().enumerate() {
        let at = NOW + LIFETIME * u32::try_from(n).unwrap();
        let added = purgatory.add_state(event.clone(), identifier("a"), Origin::Synced, at);
        let _ = added.unwrap();
        changes = purgatory.cleanup(at + LIFETIME).1;
    }
    let known: Vec<bool> = events
        .iter()
        .map(|e| purgatory.was_expired(&e.id))
        .collect();
    assert_eq!(known, [false, true, true]);
    let key = events[0].id.to_hex();
    let class = "expired".to_owned();
    assert!(changes.contains(&Change::Remove { class, key }));
}

#[test]
fn every_refusal_is_a_sentence_for_the_client() {
    for which in [Which::Author, Which::Identifier, Which::Total, Which::Bytes] {
        let text = format!("rate-limited: {}", Full { which, limit: 100 });
        assert!(text.contains("100") && !text.contains('\n') && !text.ends_with('.'));
    }
}
