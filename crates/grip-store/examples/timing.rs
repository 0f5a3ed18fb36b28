//! Prints what the store's main operations cost: `cargo run --release -p grip-store --example timing`.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement prints its figures and stops at the first fault"
)]

use std::{fs, ops::ControlFlow, time::Instant};

use grip_nostr::{Address, Filter};
use grip_store::{EventStore, EventView, Limits, Options};
use nostr::prelude::{Event, EventId, Kind, PublicKey, Signature, Tag, Timestamp};

const EVENTS: u64 = 60_000;
const AUTHORS: u64 = 200;
const REPOSITORIES: u64 = 100;
const NOW: Timestamp = Timestamp::from_secs(2_000_000_000);
const LIMITS: Limits = Limits {
    default_limit: 500,
    max_limit: 500,
};

fn main() {
    let events: Vec<Event> = (0..EVENTS).map(comment).collect();
    println!("{EVENTS} events of {} bytes", events[0].as_json().len());
    for batch in [32, 1_024] {
        let dir = tempfile::tempdir().unwrap();
        save(
            &EventStore::open(dir.path(), Options::default()).unwrap(),
            &events,
            batch,
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let store = EventStore::open(dir.path(), Options::default()).unwrap();
    save(&store, &events, 256);
    let stats = store.stats().unwrap();
    println!("file {} MiB, {}", stats.used_bytes >> 20, memory());

    let filter = |value: serde_json::Value| Filter::parse(&value).unwrap();
    let repository = repository(7).to_string();
    let author = author(7).to_hex();
    let id = events[1_234].id.to_hex();
    let from = events[30_000].created_at.as_secs();
    let ids: Vec<String> = events[..500]
        .iter()
        .map(|event| event.id.to_hex())
        .collect();
    let queries = [
        ("one id", serde_json::json!({ "ids": [id] })),
        ("500 ids", serde_json::json!({ "ids": ids })),
        (
            "#a, 500",
            serde_json::json!({ "#a": [repository], "limit": 500 }),
        ),
        (
            "#a + kind, 500",
            serde_json::json!({ "#a": [repository], "kinds": [1111], "limit": 500 }),
        ),
        (
            "#a + author",
            serde_json::json!({ "#a": [repository], "authors": [author] }),
        ),
        (
            "author + kind, 50",
            serde_json::json!({ "authors": [author], "kinds": [1111], "limit": 50 }),
        ),
        (
            "time range, 100",
            serde_json::json!({ "since": from, "limit": 100 }),
        ),
        ("no match", serde_json::json!({ "#a": ["nothing"] })),
    ];
    for (name, query) in queries {
        query_timing(&store, name, &filter(query));
    }
    count_timing(&store, "all", &Filter::default());
    count_timing(
        &store,
        "#a",
        &filter(serde_json::json!({ "#a": [repository] })),
    );
    let items = timed(|| {
        store
            .read()
            .unwrap()
            .items(&Filter::default(), 1 << 20, NOW)
            .unwrap()
    });
    println!("items, all: {items:.0} µs");
    let known = timed(|| store.read().unwrap().contains(&events[77].id).unwrap());
    println!("contains: {known:.2} µs");
    println!("{}", memory());
}

fn save(store: &EventStore, events: &[Event], batch: usize) {
    let (began, cpu_began) = (Instant::now(), cpu_us());
    for batch in events.chunks(batch) {
        store
            .write(|view| {
                batch
                    .iter()
                    .try_for_each(|event| view.put(event, NOW).map(drop))
            })
            .unwrap();
    }
    let count = f64::from(u32::try_from(events.len()).unwrap());
    println!(
        "save in batches of {batch}: {:.1} µs wall, {:.1} µs CPU an event",
        began.elapsed().as_secs_f64() * 1e6 / count,
        (cpu_us() - cpu_began) / count
    );
}

fn query_timing(store: &EventStore, name: &str, filter: &Filter) {
    let (mut events, mut bytes) = (0_u32, 0);
    let mut out = Vec::with_capacity(1 << 20);
    let us = timed(|| {
        (events, bytes) = (0, 0);
        out.clear();
        let view = store.read().unwrap();
        view.query(std::slice::from_ref(filter), LIMITS, NOW, &mut |stored| {
            events += 1;
            bytes += stored.json.len();
            out.extend_from_slice(stored.json);
            ControlFlow::Continue(())
        })
        .unwrap();
    });
    let each = us / f64::from(events.max(1));
    println!(
        "query {name}: {us:.1} µs, {events} events, {bytes} bytes copied, {each:.2} µs an event"
    );
}

fn count_timing(store: &EventStore, name: &str, filter: &Filter) {
    let filters = std::slice::from_ref(filter);
    let count = store.read().unwrap().count(filters, NOW).unwrap();
    let us = timed(|| store.read().unwrap().count(filters, NOW).unwrap());
    println!("count {name}: {us:.0} µs for {count}");
}

/// The middle of several rounds, in microseconds.
fn timed<T>(mut work: impl FnMut() -> T) -> f64 {
    let mut rounds: Vec<f64> = (0..51)
        .map(|_| {
            let began = Instant::now();
            std::hint::black_box(work());
            began.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    rounds.sort_unstable_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// CPU time of this thread, kernel included.
fn cpu_us() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns: u32 = 1_000;
    text.split(' ')
        .next()
        .and_then(|field| field.parse::<f64>().ok())
        .map_or(f64::NAN, |cpu| cpu / f64::from(ns))
}

fn memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status
        .lines()
        .filter(|line| line.starts_with("RssAnon") || line.starts_with("RssFile"));
    lines.collect::<Vec<_>>().join(", ").replace('\t', " ")
}

fn bytes(seed: u64) -> [u8; 32] {
    let mut out = [0; 32];
    for (n, part) in (1_u64..).zip(out.chunks_exact_mut(8)) {
        let mixed = (seed + n).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (n << 32));
        part.copy_from_slice(
            &(mixed ^ (mixed >> 29))
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
                .to_be_bytes(),
        );
    }
    out
}

fn author(number: u64) -> PublicKey {
    PublicKey::from_byte_array(bytes(number % AUTHORS))
}

fn repository(number: u64) -> Address {
    Address {
        kind: Kind::Custom(30_617),
        author: author(number),
        d: format!("repository-{}", number % REPOSITORIES),
    }
}

/// A comment on an issue of one of the repositories, about 830 bytes.
fn comment(number: u64) -> Event {
    let repository = repository(number % REPOSITORIES);
    let root = EventId::from_byte_array(bytes(number / 50)).to_hex();
    let tags = [
        vec!["a".to_owned(), repository.to_string()],
        vec!["E".to_owned(), root.clone()],
        vec!["e".to_owned(), root],
        vec!["p".to_owned(), repository.author.to_hex()],
        vec!["k".to_owned(), "1621".to_owned()],
    ];
    Event::new(
        EventId::from_byte_array(bytes(number + 1_000_000)),
        author(number / 3),
        Timestamp::from_secs(1_700_000_000 + number * 7),
        Kind::Custom(1111),
        tags.map(|tag| Tag::parse(tag).unwrap()),
        "A sentence of a comment. ".repeat(4),
        Signature::from_byte_array([7; 64]),
    )
}
