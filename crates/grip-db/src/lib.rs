//! SQL state: connections, migrations, the purgatory journal.
//!
//! Invariant: SQL is written in this crate and nowhere else, and nothing of it shows at the
//! border: rows go in and out as plain types. There is one writer connection, so that writes are
//! never in each other's way; what it acknowledged is on the disk.

mod database;
mod error;
mod journal;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod writer;

pub use database::{Db, WriterStats};
pub use error::{JournalError, OpenError};
pub use journal::{Change, Journal, Row};
#[cfg(any(test, feature = "testing"))]
pub use testing::TestDatabase;
