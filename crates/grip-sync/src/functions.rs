//! The search for the data of one identifier, step by step.
//!
//! Two ways lead here and share these functions: the attempt of an identifier that is due
//! ([`sync_identifier`]), and the turn of one that stood in line for a host
//! ([`process_queued_identifier`]). Each has its own set of tried URLs. An attempt never asks a
//! host for which anybody stands in line, so the two never ask one host for one identifier at
//! the same time, and nobody is overtaken.

mod ask;
mod attempt;
mod choose;
mod progress;
mod queued;

pub(crate) use ask::sync_identifier_from_url;
pub(crate) use attempt::sync_identifier;
pub(crate) use choose::sync_identifier_next_url;
pub(crate) use progress::{Brought, Ended, Next, Progress, ThrottledDomain};
pub(crate) use queued::process_queued_identifier;

#[cfg(test)]
mod tests;
