//! Memory of held entries. A binary of its own, so that nothing else is measured.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use grip_nostr::{EventId, Timestamp, kinds};
use grip_purgatory::{Bounds, Millis, Purgatory};
use grip_types::{Identifier, Origin};
use nostr::prelude::{Event, EventBuilder, FinalizeEvent, Keys, Tag};

const NOW: Millis = Millis::new(1_700_000_000_000);
const IDENTIFIERS: usize = 100_000;
const MIB: usize = 1 << 20;

/// The memory of this process that is in use.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

fn signed() -> Event {
    let event = EventBuilder::new(kinds::STATE, "").custom_created_at(Timestamp::from_secs(1));
    event.finalize(&Keys::generate()).unwrap()
}

/// The `n`th state: of its own identifier, with one branch. Nobody checks its signature here.
fn state(like: &Event, n: usize) -> (Event, Identifier) {
    let name = format!("repository-{n}");
    let tags = [["d", &name], ["refs/heads/main", &"a".repeat(40)]];
    let mut id = [0; 32];
    id[..8].copy_from_slice(&n.to_be_bytes());
    let mut event = like.clone();
    event.id = EventId::from_byte_array(id);
    event.tags = tags
        .map(|tag| Tag::parse(tag).unwrap())
        .into_iter()
        .collect();
    (event, Identifier::parse(&name).unwrap())
}

#[test]
#[cfg(target_os = "linux")]
fn a_hundred_thousand_waiting_identifiers_fit_into_64_mib() {
    let bounds = Bounds {
        per_author: IDENTIFIERS,
        per_author_bytes: usize::MAX,
        total: IDENTIFIERS,
        ..Bounds::default()
    };
    let like = signed();
    let before = resident_bytes();
    let mut purgatory = Purgatory::new(bounds);
    for n in 0..IDENTIFIERS {
        let (event, identifier) = state(&like, n);
        let added = purgatory.add_state(event, identifier, Origin::Submitted, NOW);
        drop(added.unwrap());
    }
    let used = resident_bytes() - before;
    println!(
        "{IDENTIFIERS} identifiers: {} MiB, {} bytes each",
        used / MIB,
        used / IDENTIFIERS
    );
    assert_eq!(purgatory.count().sync_queue, IDENTIFIERS);
    assert!(used <= 64 * MIB, "{} MiB", used / MIB);
}
