//! Bounds of the shelf.

use std::time::Duration;

use super::*;
use crate::kademlia::address;

fn shelf(records: usize, bytes: usize, provided_keys: usize) -> Shelf {
    let own = PeerId::random();
    let bounds = Bounds {
        records,
        bytes,
        provided_keys,
    };
    Shelf::new(own, address::name(&own).unwrap(), bounds)
}

fn record(i: u32, bytes: usize) -> Record {
    Record::new(i.to_be_bytes().to_vec(), vec![0; bytes])
}

fn distance(shelf: &Shelf, i: u32) -> Distance {
    shelf.distance(&record(i, 0).key).unwrap()
}

#[test]
fn at_the_bound_the_farthest_records_go() {
    let mut shelf = shelf(10, usize::MAX, 0);
    for i in 0..100 {
        let _ = shelf.put(record(i, 10));
    }
    let mut nearest: Vec<u32> = (0..100).collect();
    nearest.sort_by_key(|i| distance(&shelf, *i));
    for (rank, i) in nearest.into_iter().enumerate() {
        assert_eq!(shelf.get(&record(i, 0).key).is_some(), rank < 10, "{rank}");
    }
    assert_eq!((shelf.record_count(), shelf.bytes), (10, 100));
}

#[test]
fn bytes_are_bounded_and_counted_when_a_value_changes() {
    let mut shelf = shelf(100, 1000, 0);
    shelf.put(record(1, 600)).unwrap();
    shelf.put(record(1, 300)).unwrap();
    assert_eq!(shelf.bytes, 300);
    for i in 2..50 {
        let _ = shelf.put(record(i, 300));
        assert!(shelf.bytes <= 1000);
    }
    assert_eq!(shelf.record_count(), 3);
    let long = record(1, limits::RECORD_BYTES + 1);
    assert!(matches!(shelf.put(long), Err(Error::ValueTooLarge)));
}

#[test]
fn records_of_our_own_stay_whatever_others_bring() {
    let mut shelf = shelf(2, usize::MAX, 2);
    let ours = |i| Record {
        publisher: Some(shelf.own),
        ..record(i, 10)
    };
    let (one, two) = (ours(1000), ours(1001));
    shelf.put(one).unwrap();
    shelf.put(two).unwrap();
    let own = shelf.own;
    let key = record(1000, 0).key;
    shelf
        .add_provider(ProviderRecord::new(key.clone(), own, vec![]))
        .unwrap();
    for i in 0..50 {
        let _ = shelf.put(record(i, 10));
        let provider = ProviderRecord::new(record(i, 0).key, PeerId::random(), vec![]);
        let _ = shelf.add_provider(provider);
    }
    assert_eq!((shelf.record_count(), shelf.far.len()), (4, 2));
    assert!(shelf.is_own(&key));
    assert_eq!(shelf.providers.len(), 2);
    assert_eq!(shelf.providers(&key)[0].provider, own);
    shelf.remove_provider(&key, &own);
    assert_eq!(shelf.providers(&key), []);
}

#[test]
fn a_key_has_at_most_twenty_providers_the_latest() {
    let mut shelf = shelf(0, 0, 10);
    let key = record(1, 0).key;
    let peers: Vec<PeerId> = (0..30).map(|_| PeerId::random()).collect();
    for peer in &peers {
        let provider = ProviderRecord::new(key.clone(), *peer, vec![]);
        shelf.add_provider(provider).unwrap();
    }
    let held: Vec<PeerId> = shelf.providers(&key).iter().map(|p| p.provider).collect();
    assert_eq!(held, peers[10..]);
    for peer in &held {
        shelf.remove_provider(&key, peer);
    }
    assert_eq!((shelf.provided_count(), shelf.far_provided.len()), (0, 0));
}

#[test]
fn what_has_expired_is_swept_away() {
    let mut shelf = shelf(10, 1000, 10);
    let now = Instant::now();
    let later = now + Duration::from_secs(9);
    for (i, expires) in [(1, now), (2, later)] {
        let value = Record {
            expires: Some(expires),
            ..record(i, 5)
        };
        shelf.put(value).unwrap();
        let provider = ProviderRecord {
            expires: Some(expires),
            ..ProviderRecord::new(record(i, 0).key, PeerId::random(), vec![])
        };
        shelf.add_provider(provider).unwrap();
    }
    shelf.sweep(now);
    assert_eq!((shelf.record_count(), shelf.provided_count()), (1, 1));
    shelf.sweep(later);
    assert_eq!((shelf.record_count(), shelf.provided_count()), (0, 0));
    assert_eq!(
        (shelf.bytes, shelf.far.len(), shelf.far_provided.len()),
        (0, 0, 0)
    );
}
