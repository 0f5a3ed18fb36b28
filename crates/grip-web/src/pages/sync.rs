//! What is fetched from elsewhere, for people.

use askama::Template;

use super::{CounterView, Frame, Notice};

#[derive(Template)]
#[template(path = "sync.html")]
pub(crate) struct SyncPage {
    pub(crate) frame: Frame,
    pub(crate) notice: Option<Notice>,
    pub(crate) counters: Vec<CounterView>,
    pub(crate) hosts: Vec<HostLine>,
    pub(crate) more_hosts: usize,
    pub(crate) queue: Vec<QueueLine>,
    pub(crate) more_queue: usize,
    pub(crate) tried: Vec<TriedLine>,
}

/// A host with its budgets.
pub(crate) struct HostLine {
    pub(crate) name: String,
    /// None while nothing keeps us from asking it.
    pub(crate) closed: Option<String>,
    pub(crate) slots: Bar,
    pub(crate) window: Bar,
    pub(crate) totals: String,
}

/// A budget as a picture: how much of it is used.
pub(crate) struct Bar {
    pub(crate) used: u32,
    pub(crate) limit: u32,
}

impl Bar {
    /// The width of the filled part, out of 100.
    pub(super) fn percent(&self) -> u64 {
        match self.limit {
            0 => 100,
            limit => (u64::from(self.used) * 100 / u64::from(limit)).min(100),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.used >= self.limit
    }
}

pub(crate) struct QueueLine {
    pub(crate) identifier: String,
    pub(crate) next: String,
    pub(crate) attempts: u32,
    pub(crate) in_progress: bool,
}

pub(crate) struct TriedLine {
    pub(crate) identifier: String,
    pub(crate) url: String,
    pub(crate) when: String,
    pub(crate) took: String,
    pub(crate) outcome: String,
    pub(crate) is_success: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_never_longer_than_its_frame() {
        let percent = |used, limit| Bar { used, limit }.percent();
        assert_eq!(percent(2, 5), 40);
        assert_eq!(percent(7, 5), 100);
        assert_eq!(percent(0, 0), 100);
        assert_eq!(percent(u32::MAX, u32::MAX), 100);
    }
}
