//! Several instances, one host, one real Redis.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod expiry;
mod killed;
mod outage;
mod password;
mod rules;
mod shared_limits;
mod support;
