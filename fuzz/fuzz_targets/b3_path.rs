//! Any text as a key: no panic, and what is read is written as it was read.
#![no_main]

use grip_resolve::Key;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(key) = Key::parse(text) {
        let written = key.to_string();
        assert!(text.starts_with("naddr1") || written == text);
        assert_eq!(Key::parse(&written), Ok(key));
    }
});
