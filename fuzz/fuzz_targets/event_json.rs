//! Any bytes as an EVENT message: no panic, and what is taken is authentic and stored as it was signed.
#![no_main]

use grip_nostr::Event;
use grip_relay::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(event) = fuzzing::check_event(data) {
        assert!(event.verify().is_ok());
        assert_eq!(Event::from_json(event.as_json()).ok(), Some(event));
    }
});
