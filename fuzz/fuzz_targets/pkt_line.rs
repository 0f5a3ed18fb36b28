//! Any bytes as pkt-lines: no panic, and what is decoded is encoded to as many bytes.
#![no_main]

use grip_git::pktline::{self, Packet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok(Some((packet, len))) = pktline::decode(rest) {
        if let Packet::Data(line) = packet {
            let mut encoded = Vec::new();
            pktline::put(&mut encoded, line);
            assert_eq!(pktline::decode(&encoded), Ok(Some((packet, len))));
        }
        rest = &rest[len..];
    }
});
