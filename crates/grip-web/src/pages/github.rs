//! The page of GitHub activity.

use askama::Template;
use grip_db::DbError;
use grip_ingest::{EventQuery, Forecast, Gap, Ingest, RejectedEvent, SourceStatus, StoredEvent};
use grip_queue::KindStats;
use http::StatusCode;

use super::{CounterView, Frame, Notice, count, counters, distance, grouped, sync::Bar, unsigned};
use crate::{
    api::github::{PushQuery, pushes, unreadable},
    app::App,
    metrics::unix_now_ms,
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
    counters: Vec<CounterView>,
    pushes: Vec<PushLine>,
    sources: Vec<SourceView>,
    budgets: Vec<BudgetLine>,
    work: Vec<WorkLine>,
    gaps: Vec<GapLine>,
    more_gaps: u64,
    rejected: Vec<RejectedLine>,
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
    when: String,
}

struct SourceView {
    name: String,
    badge: Option<&'static str>,
    counts: String,
    when: String,
    /// Why it was not read the last time.
    error: Option<String>,
}

struct BudgetLine {
    name: String,
    warning: Option<String>,
    /// None before the first call.
    bar: Option<Bar>,
    reset: String,
}

/// Work that waits or has failed.
struct WorkLine {
    name: &'static str,
    waits: String,
    failed: Option<String>,
}

struct GapLine {
    source: String,
    span: String,
    found: String,
}

struct RejectedLine {
    source: String,
    reason: String,
    times: String,
    when: String,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let frame = cx.frame();
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
    let now = unix_now_ms();
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
    let (budgets, sources) = (status.budgets.iter(), status.sources.into_iter());
    let rejected = status.rejected.into_iter().take(REJECTED);
    let activity = Activity {
        counters: counters([
            ("pushes seen", unsigned(stats.pushes_total)),
            ("in the last hour", unsigned(stats.pushes_last_hour)),
            ("repositories", unsigned(stats.repositories)),
            ("people", unsigned(stats.users)),
            ("open gaps", unsigned(stats.open_gaps)),
            ("unreadable events", unsigned(stats.rejected)),
        ]),
        pushes: recent.map(|p| push_line(p, frame, now)).collect(),
        budgets: budgets.take(BUDGETS).map(|b| budget_line(b, now)).collect(),
        work: status.work.iter().filter_map(work_line).collect(),
        more_gaps: unsigned(status.open_gaps).saturating_sub(gaps.len() as u64),
        gaps: gaps.into_iter().map(|gap| gap_line(gap, now)).collect(),
        rejected: rejected.map(|r| rejected_line(r, now)).collect(),
        sources: sources.take(SOURCES).map(|s| source_view(s, now)).collect(),
    };
    Ok((notice, activity))
}

fn push_line(push: StoredEvent, frame: &Frame, now: i64) -> PushLine {
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
        when: distance(push.github_created_at.unwrap_or(push.created_at), now),
    }
}

fn source_view(source: SourceStatus, now: i64) -> SourceView {
    let pushes = source.counts.get("PushEvent").copied().unwrap_or(0);
    let others = source.counts.values().sum::<i64>() - pushes;
    let is_list = source.polls > 0 || source.is_configured || source.due_at.is_some();
    let read = source.polled_at.map_or("never read".to_owned(), |at| {
        format!("read {}", distance(at, now))
    });
    let when = match source.due_at.filter(|due| *due > now) {
        _ if !is_list => String::new(),
        Some(due) if source.is_configured => format!("{read}, again {}", distance(due, now)),
        _ => read,
    };
    SourceView {
        name: source.source,
        badge: (is_list && !source.is_configured).then_some("not read by this node"),
        counts: format!(
            "{}, {}",
            count(unsigned(pushes), "push", "pushes"),
            count(unsigned(others), "other event", "other events")
        ),
        when,
        error: source.last_error.filter(|_| source.is_configured),
    }
}

fn budget_line(budget: &Forecast, now: i64) -> BudgetLine {
    let name = match budget.token {
        Some(place) => format!("token {}, {}", place + 1, budget.resource),
        None => format!("without a token, {}", budget.resource),
    };
    let warning = match (budget.set_aside_until, budget.ends_at) {
        (Some(until), _) if until > now => {
            Some(format!("refused, retried {}", distance(until, now)))
        }
        (_, Some(end)) if end > now => Some(format!("at this rate used up {}", distance(end, now))),
        (_, Some(_)) => Some("used up".to_owned()),
        _ => None,
    };
    let bar = budget.limit.zip(budget.remaining);
    let is_open = budget.reset_at.filter(|at| *at > now);
    BudgetLine {
        name,
        // A warning about a window that is over says nothing of this one.
        warning: warning.filter(|_| is_open.is_some() || budget.set_aside_until.is_some()),
        bar: bar.map(|(limit, remaining)| Bar {
            used: limit.saturating_sub(remaining),
            limit,
        }),
        reset: is_open.map_or_else(String::new, |at| format!("resets {}", distance(at, now))),
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

fn gap_line(gap: Gap, now: i64) -> GapLine {
    let at = |moment: Option<i64>| moment.map(super::when_ms);
    let span = match (at(gap.after_at), at(gap.before_at)) {
        (Some(from), Some(to)) => format!("{from} to {to}"),
        (Some(from), None) => format!("from {from}"),
        (None, Some(to)) => format!("until {to}"),
        (None, None) => "at an unknown time".to_owned(),
    };
    GapLine {
        source: gap.source,
        span,
        found: format!("found {}", distance(gap.found_at, now)),
    }
}

fn rejected_line(rejected: RejectedEvent, now: i64) -> RejectedLine {
    RejectedLine {
        source: rejected.source,
        reason: rejected.reason,
        times: match rejected.times {
            1 => "once".to_owned(),
            times => format!("{} times", grouped(unsigned(times))),
        },
        when: distance(rejected.last_at, now),
    }
}
