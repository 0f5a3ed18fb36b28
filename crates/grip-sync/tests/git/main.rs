//! Fetches from real git behind a server that misbehaves as the test says.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod faults;
mod listing;
mod plain;
mod protocol_v0;
mod support;
