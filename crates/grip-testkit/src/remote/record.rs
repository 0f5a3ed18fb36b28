//! Requests as a git host sees them.

use std::time::Duration;

use hyper::HeaderMap;
use tokio::time::Instant;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub method: String,
    /// The path below the host, without the slash, up to where git's own part begins.
    pub repository: String,
    /// Git's own part: `info/refs` or `git-upload-pack`.
    pub action: String,
    pub headers: HeaderMap,
    /// `fetch` or `ls-refs`, of a protocol v2 body.
    pub command: Option<String>,
    /// The objects that were asked for.
    pub wants: Vec<String>,
    /// Requests under way on the host when this one came, itself included.
    pub in_flight: usize,
}

pub(super) type UnderWay = crate::record::UnderWay<Seen>;

/// The most of `times`, which are in order, that lie within any span of this length.
pub(super) fn most_within(times: &[Instant], window: Duration) -> usize {
    let from = |(first, start): (usize, &Instant)| {
        let rest = times[first..].iter();
        rest.take_while(|at| **at < *start + window).count()
    };
    times.iter().enumerate().map(from).max().unwrap_or_default()
}
