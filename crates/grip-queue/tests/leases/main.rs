//! Many workers on one database, some of which are killed: nothing is lost, and nothing is done
//! by two at a time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod embedded;
mod fleet;
mod killed;
mod outage;
mod work;
mod work_log;
