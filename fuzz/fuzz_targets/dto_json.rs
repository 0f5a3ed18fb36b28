//! Any bytes as the JSON that strangers send: filters and events of relays, events and webhooks of
//! GitHub, answers of a resolver. No panic, what counts as a push names its repository and its
//! commits, and a list of providers is written as it was read.
#![no_main]

use grip_ingest::extract;
use grip_nostr::{Announcement, Deletion, Event, Filter, PullRequest, State};
use grip_resolve::{Pin, Ranked};
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
