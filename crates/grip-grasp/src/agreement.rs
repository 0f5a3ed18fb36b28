//! Agreement of relay and git: what the repositories of one identifier have to look like by what is
//! served and held.
//!
//! Stated once, in [`Expected`]; [`crate::Grasp::audit`] compares it with what is there, and
//! [`crate::grasp::Core::settle`] makes it so. Whatever ends — by deletion, expiry, withdrawal, a ban, a changed
//! maintainer set, a crash — is settled by this and by nothing else, so that no ending is forgotten.

mod audit;
mod check;
mod disagreement;
mod ended;
mod expected;
mod pull_requests;
mod restore;
mod settle;
mod unsettled;

pub(crate) use audit::Auditor;
pub use check::{CheckOptions, CheckRange, Checked};
pub use disagreement::{Disagreement, Fault};
pub(crate) use expected::{Expected, Scope};
pub use restore::{RestoreError, RestoredObjects};
pub(crate) use settle::announced;
pub(crate) use unsettled::Unsettled;
