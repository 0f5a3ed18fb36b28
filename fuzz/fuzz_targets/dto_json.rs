//! Any bytes as the JSON that strangers send: filters and events of relays, events and webhooks of
//! GitHub, answers of a resolver, orders to it, node records. No panic, what counts as a push names its
//! repository and its commits, a list of providers is written as it was read, an order names its key, and
//! a node record keeps to its bounds.
#![no_main]

use grip_ingest::extract;
use grip_nostr::{Announcement, Deletion, Event, Filter, PullRequest, State};
use grip_resolve::{Action, Command, NodeRecord, Pin, Ranked};
use grip_web::api_types::ResolvedManifest;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    if let Ok(extract::Event::Push(push)) = extract::event(data) {
        assert!(!push.head.is_empty() && !push.git_ref.is_empty());
    }
    if let Ok(push) = extract::delivery("fuzz", data) {
        assert!(!push.head.is_empty() && !push.git_ref.is_empty());
    }
    if let Ok(ranked) = serde_json::from_slice::<Ranked>(data) {
        let written = serde_json::to_vec(&ranked).expect("what was read can be written");
        let again: Ranked = serde_json::from_slice(&written).expect("and read again");
        assert_eq!(again.providers.len(), ranked.providers.len());
        assert_eq!((again.id, again.name), (ranked.id, ranked.name));
    }
    let _ = serde_json::from_slice::<Pin>(data);
    if let Ok(resolved) = serde_json::from_slice::<ResolvedManifest>(data) {
        let written = serde_json::to_vec(&resolved.facts).expect("what was read can be written");
        let again: ResolvedManifest = serde_json::from_slice(&written).expect("and read again");
        assert_eq!(
            (again.facts.id, again.facts.hops),
            (resolved.facts.id, resolved.facts.hops)
        );
    }
    for action in [Action::Pin, Action::Unpin, Action::Reindex] {
        if let Ok(command) = Command::read(action, data) {
            assert_eq!(command == Command::Reindex, action == Action::Reindex);
            assert!(!command.subject().is_empty());
        }
    }
    if let Ok(record) = NodeRecord::decode(data) {
        assert!(data.len() <= 4 << 10 && record.urls.len() <= 8);
    }
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    let _ = Filter::parse(&value);
    // Unsigned on purpose: what is signed is parsed by the same code.
    if let Ok(event) = serde_json::from_value::<Event>(value) {
        let _ = Announcement::parse(event.clone());
        let _ = State::parse(event.clone());
        let _ = PullRequest::parse(event.clone());
        let _ = Deletion::parse(event);
    }
});
