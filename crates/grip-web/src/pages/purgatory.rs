//! What waits, for people.

use askama::Template;

use super::{CounterView, Frame};

#[derive(Template)]
#[template(path = "purgatory.html")]
pub(crate) struct PurgatoryPage {
    pub(crate) frame: Frame,
    pub(crate) counters: Vec<CounterView>,
    pub(crate) waiting: Vec<WaitingLine>,
    pub(crate) more: usize,
}

/// An event that waits for its other half.
pub(crate) struct WaitingLine {
    /// `state`, `pull request`, `announcement`.
    pub(crate) what: &'static str,
    pub(crate) identifiers: String,
    pub(crate) author: String,
    pub(crate) short: String,
    /// Where its decisions are told.
    pub(crate) explain: String,
    /// It expired: only its data is still looked for.
    pub(crate) is_wanted: bool,
    /// What it lacks, when that is looked for, since when it waits.
    pub(crate) details: String,
    pub(crate) until: String,
}
