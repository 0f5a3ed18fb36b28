//! Bounds of the store.

use std::time::Duration;

use super::*;
use crate::kademlia::address;

fn store(records: usize, bytes: usize, providers: usize) -> RecordStore {
    let own = PeerId::random();
    let bounds = Bounds {
        records,
        bytes,
        providers,
    };
    RecordStore::new(own, address::name(&own).unwrap(), bounds)
}

fn record(i: u32, bytes: usize) -> Record {
    Record::new(i.to_be_bytes().to_vec(), vec![0; bytes])
}

fn distance(store: &RecordStore, i: u32) -> Distance {
    store.distance(&record(i, 0).key).unwrap()
}

/// A peer of its own name at `host`.
fn source(host: &str) -> Source {
    Source::new(PeerId::random(), Some(host.parse().unwrap()))
}

/// The numbers of so many records, those nearest to us first.
fn by_distance(store: &RecordStore, count: u32) -> Vec<u32> {
    let mut nearest: Vec<u32> = (0..count).collect();
    nearest.sort_by_key(|i| distance(store, *i));
    nearest
}

fn holds(store: &RecordStore, i: u32) -> bool {
    store.get(&record(i, 0).key).is_some()
}

#[test]
fn at_the_bound_the_farthest_records_go() {
    let mut store = store(10, usize::MAX, 0);
    for i in 0..100 {
        let _ = store.put(record(i, 10));
    }
    let nearest = by_distance(&store, 100);
    for (rank, i) in nearest.into_iter().enumerate() {
        assert_eq!(store.get(&record(i, 0).key).is_some(), rank < 10, "{rank}");
    }
    assert_eq!((store.record_count(), store.bytes), (10, 100));
}

#[test]
fn bytes_are_bounded_and_counted_when_a_value_changes() {
    let mut store = store(100, 1000, 0);
    store.put(record(1, 600)).unwrap();
    store.put(record(1, 300)).unwrap();
    assert_eq!(store.bytes, 300);
    for i in 2..50 {
        let _ = store.put(record(i, 300));
        assert!(store.bytes <= 1000);
    }
    assert_eq!(store.record_count(), 3);
    let long = record(1, limits::RECORD_BYTES + 1);
    assert!(matches!(store.put(long), Err(Error::ValueTooLarge)));
}

#[test]
fn records_of_our_own_stay_whatever_others_bring() {
    let mut store = store(2, usize::MAX, 2);
    let ours = |i| Record {
        publisher: Some(store.own),
        ..record(i, 10)
    };
    let (one, two) = (ours(1000), ours(1001));
    store.put(one).unwrap();
    store.put(two).unwrap();
    let own = store.own;
    let key = record(1000, 0).key;
    store
        .add_provider(ProviderRecord::new(key.clone(), own, vec![]))
        .unwrap();
    for i in 0..50 {
        let _ = store.put(record(i, 10));
        let provider = ProviderRecord::new(record(i, 0).key, PeerId::random(), vec![]);
        let _ = store.add_provider(provider);
    }
    assert_eq!((store.record_count(), store.far.len()), (4, 2));
    assert!(store.is_own(&key));
    assert_eq!(store.providers.key_count(), 2);
    assert_eq!(store.providers(&key)[0].provider, own);
    store.remove_provider(&key, &own);
    assert_eq!(store.providers(&key), []);
}

fn provider(i: u32, provider: PeerId, expires: Instant) -> ProviderRecord {
    ProviderRecord {
        expires: Some(expires),
        ..ProviderRecord::new(record(i, 0).key, provider, vec![])
    }
}

fn names(store: &RecordStore, i: u32) -> Vec<PeerId> {
    let providers = store.providers(&record(i, 0).key);
    providers.iter().map(|it| it.provider).collect()
}

#[test]
fn a_provider_that_renews_its_record_is_not_pushed_out_by_newcomers() {
    let mut store = store(0, 0, 1000);
    let (now, hour) = (Instant::now(), Duration::from_secs(60 * 60));
    let peers: Vec<PeerId> = (0..20).map(|_| PeerId::random()).collect();
    // The first was last renewed most of a day ago, the next a third of one.
    store
        .add_provider(provider(1, peers[0], now + 2 * hour))
        .unwrap();
    for peer in &peers[1..] {
        store
            .add_provider(provider(1, *peer, now + 16 * hour))
            .unwrap();
    }
    let newcomers: Vec<PeerId> = (0..20).map(|_| PeerId::random()).collect();
    let let_in = newcomers.iter().filter(|peer| {
        let record = provider(1, **peer, now + 24 * hour);
        store.add_provider(record).is_ok()
    });
    assert_eq!(let_in.count(), 1, "in the place of the one that is late");
    let expected: Vec<PeerId> = peers[1..].iter().chain([&newcomers[0]]).copied().collect();
    assert_eq!(names(&store, 1), expected);

    // A renewed provider is the latest.
    store
        .add_provider(provider(1, peers[1], now + 24 * hour))
        .unwrap();
    assert_eq!(names(&store, 1).last(), Some(&peers[1]));
    assert_eq!(store.providers.sizes(), [20, 20, 1, 20, 20]);
    for peer in names(&store, 1) {
        store.remove_provider(&record(1, 0).key, &peer);
    }
    assert_eq!(store.provided_count(), 0);
    assert_eq!(store.providers.sizes(), [0; 5]);
}

#[test]
fn providers_are_bounded_in_all_however_many_there_are_of_a_key() {
    let mut store = store(0, 0, 64);
    for i in 0..100 {
        for _ in 0..20 {
            let provider = ProviderRecord::new(record(i, 0).key, PeerId::random(), vec![]);
            let _ = store.add_provider(provider);
        }
        assert!(store.providers.sizes()[0] <= 64);
    }
    assert_eq!(store.providers.sizes()[..2], [64, 64]);
    let nearest = by_distance(&store, 100);
    for i in &nearest[..3] {
        assert_eq!(names(&store, *i).len(), 20, "those near us stay");
    }
}

#[test]
fn a_provider_with_more_than_its_share_is_the_first_to_lose_some() {
    let mut store = store(0, 0, 64);
    let nearest = by_distance(&store, 200);
    let honest = PeerId::random();
    let far = &nearest[196..];
    for i in far {
        let record = ProviderRecord::new(record(*i, 0).key, honest, vec![]);
        store.add_provider(record).unwrap();
    }
    let greedy = PeerId::random();
    for i in &nearest[..196] {
        let record = ProviderRecord::new(record(*i, 0).key, greedy, vec![]);
        let _ = store.add_provider(record);
    }
    assert_eq!(store.providers.sizes()[0], 64);
    for i in far {
        assert_eq!(names(&store, *i), [honest]);
    }
    assert_eq!(
        names(&store, nearest[0]),
        [greedy],
        "it keeps what is near us"
    );
    assert_eq!(names(&store, nearest[100]), []);
}

#[test]
fn records_near_us_push_out_those_of_their_own_host_first() {
    let mut store = store(64, usize::MAX, 0);
    let nearest = by_distance(&store, 200);
    let (near, far) = nearest.split_at(196);
    for i in far {
        store.put_from(record(*i, 10), source("1.1.1.1")).unwrap();
    }
    for i in near {
        let _ = store.put_from(record(*i, 10), source("2.2.2.2"));
    }
    assert_eq!(store.record_count(), 64);
    assert!(far.iter().all(|i| holds(&store, *i)));
    assert!(holds(&store, near[0]), "it keeps what is near us");
    assert!(!holds(&store, near[100]));
}

#[test]
fn long_records_push_out_those_of_their_own_host_first() {
    let mut store = store(64, 6_400, 0);
    let nearest = by_distance(&store, 20);
    let (near, far) = nearest.split_at(18);
    for i in far {
        store.put_from(record(*i, 100), source("1.1.1.1")).unwrap();
    }
    for i in near {
        let _ = store.put_from(record(*i, 1_600), source("2.2.2.2"));
    }
    assert!(far.iter().all(|i| holds(&store, *i)));
    assert_eq!((store.record_count(), store.bytes), (2 + 3, 200 + 4_800));
    for i in &nearest {
        store.remove(&record(*i, 0).key);
    }
    assert_eq!((store.bytes, store.shares.sizes()), (0, [0; 2]));
}

#[test]
fn a_record_is_not_charged_to_a_host_that_brings_a_newer_value() {
    let mut store = store(64, usize::MAX, 0);
    let nearest = by_distance(&store, 200);
    let (near, far) = nearest.split_at(199);
    let newer = record(far[0], 11);
    store
        .put_from(record(far[0], 10), source("1.1.1.1"))
        .unwrap();
    store.put_from(newer.clone(), source("2.2.2.2")).unwrap();
    for i in near {
        let _ = store.put_from(record(*i, 10), source("2.2.2.2"));
    }
    let held = store.get(&newer.key).map(|held| held.value.clone());
    assert_eq!(held, Some(newer.value));
}

#[test]
fn a_record_of_a_host_with_more_than_its_share_is_charged_to_the_next_that_brings_it() {
    let mut store = store(64, usize::MAX, 0);
    let nearest = by_distance(&store, 200);
    let (near, far) = nearest.split_at(199);
    for i in far.iter().chain(&near[..10]) {
        store.put_from(record(*i, 10), source("2.2.2.2")).unwrap();
    }
    store
        .put_from(record(far[0], 11), source("1.1.1.1"))
        .unwrap();
    for i in &near[10..] {
        let _ = store.put_from(record(*i, 10), source("2.2.2.2"));
    }
    assert!(holds(&store, far[0]));
}

#[test]
fn many_names_of_one_host_have_one_share_of_the_providers() {
    let mut store = store(0, 0, 64);
    let nearest = by_distance(&store, 200);
    let (near, far) = nearest.split_at(196);
    let honest = PeerId::random();
    let add = |store: &mut RecordStore, i: u32, provider, host: &str| {
        let record = ProviderRecord::new(record(i, 0).key, provider, vec![]);
        store.add_provider_from(record, source(host))
    };
    for i in far {
        add(&mut store, *i, honest, "1.1.1.1").unwrap();
    }
    for i in near {
        for _ in 0..3 {
            let _ = add(&mut store, *i, PeerId::random(), "2.2.2.2");
        }
    }
    assert_eq!(store.providers.sizes(), [64, 64, 4 + 20, 2, 2]);
    for i in far {
        assert_eq!(names(&store, *i), [honest]);
    }
    // At another host, the provider is no longer charged to the first.
    add(&mut store, far[0], honest, "3.3.3.3").unwrap();
    assert_eq!(store.providers.sizes(), [64, 64, 4 + 20, 3, 3]);
    for i in nearest {
        for provider in names(&store, i) {
            store.remove_provider(&record(i, 0).key, &provider);
        }
    }
    assert_eq!(store.providers.sizes(), [0; 5]);
}

#[test]
fn many_names_of_one_host_leave_places_of_a_key_to_other_hosts() {
    let mut store = store(0, 0, 1000);
    let mut add = |host: &str| {
        let provider = PeerId::random();
        let record = ProviderRecord::new(record(1, 0).key, provider, vec![]);
        let added = store.add_provider_from(record, source(host));
        added.map(|()| provider)
    };
    let many: Vec<PeerId> = (0..20).map(|_| add("2.2.2.2").unwrap()).collect();
    add("2.2.2.2").unwrap_err();
    let honest: Vec<PeerId> = (0..10).map(|_| add("1.1.1.1").unwrap()).collect();
    // As many of each host: neither pushes out the other.
    add("1.1.1.1").unwrap_err();
    add("2.2.2.2").unwrap_err();
    let expected: Vec<PeerId> = many[..10].iter().chain(&honest).copied().collect();
    assert_eq!(names(&store, 1), expected);
    assert_eq!(store.providers.sizes(), [20, 20, 1, 2, 2]);
}

#[test]
fn few_addresses_of_a_provider_are_kept() {
    let mut store = store(0, 0, 10);
    let address = |port| format!("/ip4/1.1.1.1/tcp/{port}").parse().unwrap();
    let addresses = (1..9).map(address).collect();
    let key = record(1, 0).key;
    let many = ProviderRecord::new(key.clone(), PeerId::random(), addresses);
    store.add_provider(many).unwrap();
    assert_eq!(store.providers(&key)[0].addresses.len(), 3);
}

#[test]
fn what_has_expired_is_swept_away() {
    let mut store = store(10, 1000, 10);
    let now = Instant::now();
    let later = now + Duration::from_secs(9);
    for (i, expires) in [(1, now), (2, later)] {
        let value = Record {
            expires: Some(expires),
            ..record(i, 5)
        };
        store.put(value).unwrap();
        let provider = ProviderRecord {
            expires: Some(expires),
            ..ProviderRecord::new(record(i, 0).key, PeerId::random(), vec![])
        };
        store.add_provider(provider).unwrap();
    }
    store.remove_expired(now);
    assert_eq!((store.record_count(), store.provided_count()), (1, 1));
    store.remove_expired(later);
    assert_eq!((store.record_count(), store.provided_count()), (0, 0));
    assert_eq!((store.bytes, store.far.len()), (0, 0));
    assert_eq!(store.shares.sizes(), [0; 2]);
    assert_eq!(store.providers.sizes(), [0; 5]);
}
