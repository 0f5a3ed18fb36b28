//! The search for the data of one identifier, step by step.
//!
//! Two ways lead here and share these functions: the attempt of an identifier that is due
//! ([`sync_identifier`]), and the turn of one that stood in line for a host
//! ([`process_queued_identifier`]). Each has its own set of tried URLs. An attempt never asks a
//! host for which anybody stands in line, so the two never ask one host for one identifier at
//! the same time, and nobody is overtaken.

mod attempt;
mod from_url;
mod next_url;
mod progress;
mod queued_turn;

pub(crate) use attempt::sync_identifier;
pub(crate) use from_url::sync_identifier_from_url;
pub(crate) use next_url::sync_identifier_next_url;
pub(crate) use progress::{Next, Progress, SearchOutcome, ThrottledDomain, UrlOutcome};
pub(crate) use queued_turn::process_queued_identifier;

#[cfg(test)]
mod tests;
