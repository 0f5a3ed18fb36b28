//! The JSON API: what operators' tools read and order.

pub(crate) mod archive;
pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod github;
pub(crate) mod holding;
pub(crate) mod index;
pub(crate) mod long_work;
pub(crate) mod openapi;
pub(crate) mod operations;
pub(crate) mod purgatory;
pub(crate) mod queue;
pub(crate) mod repos;
pub(crate) mod resolve;
pub(crate) mod status;
pub(crate) mod sync;
pub(crate) mod tasks;
pub mod types;

use http::{StatusCode, header};
use serde::Serialize;

use crate::{
    error::WebError,
    query::{query_value, wrong},
    request_context::HttpResult,
    respond::{self, WithHeader as _},
};

/// Entries of a list where nobody asks for more, and the most.
const LISTED: usize = 100;
const MOST_LISTED: usize = 1000;

/// Reads `limit`, cut down to the most.
fn limit(query: Option<&str>) -> Result<usize, WebError> {
    let Some(text) = query_value(query, "limit") else {
        return Ok(LISTED);
    };
    let limit: usize = text.parse().map_err(|_| wrong("limit", "it is a number"))?;
    Ok(limit.min(MOST_LISTED))
}

/// The state of this moment: no cache keeps it.
fn json(status: StatusCode, value: &impl Serialize) -> HttpResult {
    let response = respond::json(status, value)?;
    Ok(response.with(header::CACHE_CONTROL, "no-cache"))
}

/// Where the next page begins: behind the last entry of a page that is full.
fn next_page<T, K>(page: &[T], limit: usize, key: impl FnOnce(&T) -> K) -> Option<K> {
    let is_full = limit > 0 && page.len() == limit;
    page.last().filter(|_| is_full).map(key)
}
