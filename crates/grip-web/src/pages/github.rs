//! The page of GitHub activity.

use askama::Template;
use grip_db::DbError;
use grip_ingest::{EventQuery, Forecast, Gap, Ingest, RejectedEvent, SourceStatus, StoredEvent};
use grip_queue::KindStats;
use http::StatusCode;

use super::{CounterView, Frame, Notice, Now, count, counters, grouped, sync::Bar, unsigned};
use crate::{
    api::github::{PushQuery, pushes, unreadable},
    app::App,
    request_context::{HttpResult, RequestContext},
};

/// How much of each list is shown.
const PUSHES: usize = 12;
const SOURCES: usize = 50;
const BUDGETS: usize = 20;
const GAPS: usize = 10;
const REJECTED: usize = 10;

#[derive(Template)]
#[template(path = "github.html")]
struct GitHubPage {
    frame: Frame,
    notice: Option<Notice>,
    /// None where GitHub is not watched.
    activity: Option<Activity>,
}

struct Activity {
    now: Now,
    counters: Vec<CounterView>,
    pushes: Vec<PushLine>,
    sources: Vec<SourceStatus>,
    budgets: Vec<Forecast>,
    work: Vec<WorkLine>,
    gaps: Vec<Gap>,
    more_gaps: u64,
    rejected: Vec<RejectedEvent>,
}

struct PushLine {
    repository: String,
    /// Its pushes in the API.
    href: String,
    branch: String,
    /// What happened to the branch, where it is more than a push.
    change: Option<&'static str>,
    head: String,
    /// The beginning of it; none where the branch is gone.
    short: Option<String>,
    who: String,
    at: i64,
}

/// Work that waits or has failed.
struct WorkLine {
    name: &'static str,
    waits: String,
    failed: Option<String>,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let frame = cx.frame().about(
        "GitHub activity",
        "Pushes on GitHub as this node learns of them",
    );
    let page = match cx.app.watch() {
        Ok(watch) => {
            let activity = activity(cx.app, &watch.ingest, &frame).await;
            let (notice, activity) = activity.map_err(unreadable)?;
            GitHubPage {
                frame,
                notice,
                activity: Some(activity),
            }
        }
        Err(_) => GitHubPage {
            frame,
            notice: Some(Notice::new(
                "GitHub watching is off.",
                "Set watch_github to enable it.",
            )),
            activity: None,
        },
    };
    super::render(StatusCode::OK, &page)
}

async fn activity(
    app: &App,
    ingest: &Ingest,
    frame: &Frame,
) -> Result<(Option<Notice>, Activity), DbError> {
    let recent = PushQuery {
        events: EventQuery {
            limit: PUSHES,
            ..EventQuery::default()
        },
        ..PushQuery::default()
    };
    let recent = pushes(ingest, recent).await?.pushes.into_iter();
    let stats = app.samples.watch_stats(ingest).await?;
    let status = app.samples.watch_status(ingest).await?;
    let gaps = ingest.gaps(true, 0, GAPS).await?;
    let notice = (status.open_gaps > 0).then(|| {
        Notice::new(
            "Events may be missing.",
            "Where a list did not reach back to what was seen before, there is a gap below. \
             Files of archived events fill it: gripfast ingest backfill.",
        )
    });
    let mut activity = Activity {
        now: Now::new(),
        counters: counters([
            ("pushes seen", unsigned(stats.pushes_total)),
            ("in the last hour", unsigned(stats.pushes_last_hour)),
            ("repositories", unsigned(stats.repositories)),
            ("people", unsigned(stats.users)),
            ("open gaps", unsigned(stats.open_gaps)),
            ("unreadable events", unsigned(stats.rejected)),
        ]),
        pushes: recent.map(|p| push_line(p, frame)).collect(),
        budgets: status.budgets,
        work: status.work.iter().filter_map(work_line).collect(),
        more_gaps: unsigned(status.open_gaps).saturating_sub(gaps.len() as u64),
        gaps,
        rejected: status.rejected,
        sources: status.sources,
    };
    activity.budgets.truncate(BUDGETS);
    activity.rejected.truncate(REJECTED);
    activity.sources.truncate(SOURCES);
    Ok((notice, activity))
}

fn push_line(push: StoredEvent, frame: &Frame) -> PushLine {
    let id = push.repository_id;
    let branch = match push.git_ref.strip_prefix("refs/tags/") {
        Some(tag) => format!("tag {tag}"),
        None => {
            let name = push.git_ref.strip_prefix("refs/heads/");
            name.unwrap_or(&push.git_ref).to_owned()
        }
    };
    let is_zero = |oid: &str| oid.bytes().all(|byte| byte == b'0');
    let is_removed = is_zero(&push.head);
    PushLine {
        at: push.at(),
        href: format!("{}api/v1/github/events?repo={id}", frame.root()),
        repository: push
            .repository_name
            .unwrap_or_else(|| format!("repository {id}")),
        branch,
        change: match (is_removed, push.before.as_deref().map(is_zero)) {
            (true, _) => Some("removed"),
            (false, Some(true)) => Some("new"),
            (false, _) => None,
        },
        short: (!is_removed).then(|| push.head.chars().take(10).collect()),
        head: push.head,
        who: push.actor_login.unwrap_or_else(|| "somebody".to_owned()),
    }
}

impl Activity {
    fn counts(&self, source: &SourceStatus) -> String {
        let pushes = source.counts.get("PushEvent").copied().unwrap_or(0);
        let others = source.counts.values().sum::<i64>() - pushes;
        let pushes = count(unsigned(pushes), "push", "pushes");
        let others = count(unsigned(others), "other event", "other events");
        format!("{pushes}, {others}")
    }

    /// Whether a source is a list that is read, and not events as they come.
    fn is_list(&self, source: &SourceStatus) -> bool {
        source.polls > 0 || source.is_configured || source.due_at.is_some()
    }

    /// When a list was read, and when it is again.
    fn read(&self, source: &SourceStatus) -> String {
        let read = source.polled_at.map_or("never read".to_owned(), |at| {
            format!("read {}", self.now.distance(&at))
        });
        match source.due_at.filter(|due| self.now.is_before(*due)) {
            Some(due) if source.is_configured => {
                format!("{read}, again {}", self.now.distance(&due))
            }
            _ => read,
        }
    }

    fn token(&self, budget: &Forecast) -> String {
        match budget.token {
            Some(place) => format!("token {}, {}", place + 1, budget.resource),
            None => format!("without a token, {}", budget.resource),
        }
    }

    /// The end of the window, unless it is over.
    fn reset(&self, budget: &Forecast) -> Option<String> {
        let reset = budget.reset_at.filter(|at| self.now.is_before(*at))?;
        Some(format!("resets {}", self.now.distance(&reset)))
    }

    fn warning(&self, budget: &Forecast) -> Option<String> {
        // A warning about a window that is over says nothing of this one.
        if self.reset(budget).is_none() && budget.set_aside_until.is_none() {
            return None;
        }
        let set_aside = budget.set_aside_until.filter(|at| self.now.is_before(*at));
        match (set_aside, budget.ends_at) {
            (Some(until), _) => Some(format!("refused, retried {}", self.now.distance(&until))),
            (None, Some(end)) if self.now.is_before(end) => {
                Some(format!("at this rate used up {}", self.now.distance(&end)))
            }
            (None, Some(_)) => Some("used up".to_owned()),
            (None, None) => None,
        }
    }

    /// How much of a budget is used; not known before the first call.
    fn used(&self, budget: &Forecast) -> Option<Bar> {
        let (limit, remaining) = budget.limit.zip(budget.remaining)?;
        Some(Bar::new(&limit.saturating_sub(remaining), &limit))
    }

    fn span(&self, gap: &Gap) -> String {
        let at = |moment: Option<i64>| moment.map(super::when_ms);
        match (at(gap.after_at), at(gap.before_at)) {
            (Some(from), Some(to)) => format!("{from} to {to}"),
            (Some(from), None) => format!("from {from}"),
            (None, Some(to)) => format!("until {to}"),
            (None, None) => "at an unknown time".to_owned(),
        }
    }

    fn times(&self, rejected: &RejectedEvent) -> String {
        match rejected.times {
            1 => "once".to_owned(),
            times => format!("{} times", grouped(unsigned(times))),
        }
    }
}

/// Work that is due or has failed for good; what only waits for its hour is left out.
fn work_line(kind: &KindStats) -> Option<WorkLine> {
    let name = match kind.kind.as_str() {
        "push-event" => "pushes to process",
        "push-event-old" => "old pushes",
        "github-user" => "people to fetch",
        "github-repo" => "repositories to fetch",
        "github-refresh" => "to fetch again",
        "github-avatar" => "avatars to fetch",
        "ingest-poll" => "lists to read",
        "ingest-reextract" => "stored events to extract again",
        "ingest-json" => "stored events to fill jsonb in for",
        _ => return None,
    };
    // Lists are always about to be read: they are shown as sources.
    let waits = match kind.kind.as_str() {
        "ingest-poll" => 0,
        _ => kind.due + kind.leased + kind.waiting,
    };
    (waits + kind.dead > 0).then(|| WorkLine {
        name,
        waits: grouped(unsigned(waits)),
        failed: (kind.dead > 0).then(|| format!("{} failed", grouped(unsigned(kind.dead)))),
    })
}
