//! Any bytes as a message with filters, and as a filter: no panic, and a filter that is understood is
//! written as it was read.
#![no_main]

use grip_nostr::Filter;
use grip_relay::fuzzing;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    fuzzing::parse_message(data);
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    if let Ok(filter) = Filter::parse(&value) {
        assert_eq!(Filter::parse(&Value::from(&filter)), Ok(filter));
    }
});
