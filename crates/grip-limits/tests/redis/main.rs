//! Several instances, one host, one real Redis.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod away;
mod books;
mod joint;
mod killed;
mod rules;
mod secret;
mod support;
