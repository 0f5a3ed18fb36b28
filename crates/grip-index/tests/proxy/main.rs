//! The module proxy with real git repositories, and with the real go command as its client.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod answers;
mod go;
mod hostile;
mod sumdb;
mod support;
mod upstream;
mod zips;
