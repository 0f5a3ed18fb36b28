//! What happens on GitHub, for people.

use askama::Template;

use super::{CounterView, Frame, Notice, sync::Bar};

#[derive(Template)]
#[template(path = "github.html")]
pub(crate) struct GitHubPage {
    pub(crate) frame: Frame,
    pub(crate) notices: Vec<Notice>,
    /// None where nobody watches.
    pub(crate) activity: Option<Activity>,
}

pub(crate) struct Activity {
    pub(crate) counters: Vec<CounterView>,
    pub(crate) pushes: Vec<PushLine>,
    pub(crate) sources: Vec<SourceView>,
    pub(crate) budgets: Vec<BudgetLine>,
    pub(crate) work: Vec<WorkLine>,
    pub(crate) gaps: Vec<GapLine>,
    pub(crate) more_gaps: u64,
    pub(crate) rejected: Vec<RejectedLine>,
}

pub(crate) struct PushLine {
    pub(crate) repository: String,
    /// Where more of its pushes are told.
    pub(crate) href: String,
    pub(crate) branch: String,
    /// What happened to the branch, where it is more than a push.
    pub(crate) change: Option<&'static str>,
    pub(crate) head: String,
    /// The beginning of it; none where the branch is gone.
    pub(crate) short: Option<String>,
    pub(crate) who: String,
    pub(crate) when: String,
}

pub(crate) struct SourceView {
    pub(crate) name: String,
    pub(crate) badge: Option<&'static str>,
    pub(crate) counts: String,
    pub(crate) when: String,
    /// Why it was not read the last time.
    pub(crate) trouble: Option<String>,
}

pub(crate) struct BudgetLine {
    pub(crate) name: String,
    /// What an operator should know of it.
    pub(crate) warning: Option<String>,
    /// None before GitHub has said how much there is.
    pub(crate) bar: Option<Bar>,
    pub(crate) reset: String,
}

/// Work that waits or has failed.
pub(crate) struct WorkLine {
    pub(crate) name: String,
    pub(crate) waits: String,
    pub(crate) failed: Option<String>,
}

pub(crate) struct GapLine {
    pub(crate) source: String,
    pub(crate) span: String,
    pub(crate) found: String,
}

pub(crate) struct RejectedLine {
    pub(crate) source: String,
    pub(crate) reason: String,
    pub(crate) times: String,
    pub(crate) when: String,
}
