//! Any text as a key: no panic, and a key is written in a form that is read as the same key.
#![no_main]

use grip_resolve::Key;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(key) = Key::parse(text) {
        let written = key.to_string();
        if text.starts_with("name:") || text.starts_with("b3:") {
            assert_eq!(written, text, "the written form is the one form of these");
        }
        assert_eq!(Key::parse(&written), Ok(key));
    }
});
