//! Options of the ingest.

use std::time::Duration;

use grip_github::EventSource;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How events are taken in; every field has a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The lists that are read again and again. Default: none.
    pub sources: Vec<EventSource>,
    /// How often a list is read; not more often than the host wants. Default: 60 s.
    pub poll_every: Duration,
    /// Whether people and repositories behind pushes are asked for. Default: yes.
    pub enrich: bool,
    /// How long what is known about a person or a repository counts as fresh. Default: a day.
    pub fresh_for: Duration,
    /// Older pushes wake nobody, and who is behind them is asked for last. Default: a day.
    pub live_for: Duration,
    /// Part of a budget in percent that is left to new events: refreshing stops there.
    /// Default: 25.
    pub refresh_reserve_percent: u32,
    pub keep: Keep,
    /// People, and repositories, that are asked for at a time. Default: 2 each.
    pub workers: usize,
    /// How long a worker may hold a piece of work without a sign of life. Default: 5 minutes.
    pub lease: Duration,
    /// How often workers look for work when they hear of none. Default: 15 s.
    pub look_every: Duration,
}

/// How long things are kept, counted from when they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Default: for ever.
    pub events: Option<Duration>,
    /// People and repositories that no kept event names. Default: for ever.
    pub enriched: Option<Duration>,
    /// What could not be read, from when it came last. Default: 30 days.
    pub rejected: Option<Duration>,
    /// Holes, from when they were filled. Default: a year.
    pub closed_gaps: Option<Duration>,
    /// Holes that nobody has filled, from when they were found. Default: five years.
    pub open_gaps: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            poll_every: Duration::from_secs(60),
            enrich: true,
            fresh_for: DAY,
            live_for: DAY,
            refresh_reserve_percent: 25,
            keep: Keep::default(),
            workers: 2,
            lease: Duration::from_secs(5 * 60),
            look_every: Duration::from_secs(15),
        }
    }
}

impl Default for Keep {
    fn default() -> Self {
        Self {
            events: None,
            enriched: None,
            rejected: Some(DAY * 30),
            closed_gaps: Some(DAY * 365),
            open_gaps: Some(DAY * 365 * 5),
        }
    }
}
