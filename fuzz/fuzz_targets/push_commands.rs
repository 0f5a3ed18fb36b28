//! Any bytes as the head of a push: no panic, the same result wherever the stream is cut, and every
//! ref named once.
#![no_main]

use std::collections::HashSet;

use grip_git::push_request::Parser;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let parse = |step: usize| {
        let mut parser = Parser::default();
        for piece in data.chunks(step) {
            parser.feed(piece);
        }
        parser.finish()
    };
    let whole = parse(data.len().max(1));
    assert_eq!(whole, parse(7));
    if let Ok((push, _)) = whole {
        let names: HashSet<_> = push.commands.iter().map(|command| &command.name).collect();
        assert_eq!(names.len(), push.commands.len());
    }
});
