//! One line each, in words. Pure.

use grip_ingest::{Forecast, Gap, RejectedEvent, SourceStatus, StoredEvent};
use grip_queue::KindStats;

use super::unsigned;
use crate::pages::{
    self, Frame,
    github::{BudgetLine, GapLine, PushLine, RejectedLine, SourceView, WorkLine},
    sync::Bar,
};

pub(super) fn push(push: StoredEvent, frame: &Frame, now: i64) -> PushLine {
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
        when: pages::distance(push.github_created_at.unwrap_or(push.created_at), now),
    }
}

pub(super) fn source(source: SourceStatus, now: i64) -> SourceView {
    let pushes = source.counts.get("PushEvent").copied().unwrap_or(0);
    let others = source.counts.values().sum::<i64>() - pushes;
    let is_list = source.polls > 0 || source.is_configured || source.due_at.is_some();
    let read = source.polled_at.map_or("never read".to_owned(), |at| {
        format!("read {}", pages::distance(at, now))
    });
    let when = match source.due_at.filter(|due| *due > now) {
        _ if !is_list => String::new(),
        Some(due) if source.is_configured => format!("{read}, again {}", pages::distance(due, now)),
        _ => read,
    };
    SourceView {
        name: source.source,
        badge: (is_list && !source.is_configured).then_some("not read by this node"),
        counts: format!(
            "{}, {}",
            many(pushes, "push", "pushes"),
            many(others, "other event", "other events")
        ),
        when,
        trouble: source.trouble.filter(|_| source.is_configured),
    }
}

pub(super) fn budget(budget: &Forecast, now: i64) -> BudgetLine {
    let name = match budget.token {
        Some(place) => format!("token {}, {}", place + 1, budget.resource),
        None => format!("without a token, {}", budget.resource),
    };
    let warning = match (budget.set_aside_until, budget.ends_at) {
        (Some(until), _) if until > now => {
            Some(format!("set aside, tried {}", pages::distance(until, now)))
        }
        (_, Some(end)) if end > now => Some(format!(
            "at this pace used up {}",
            pages::distance(end, now)
        )),
        (_, Some(_)) => Some("used up".to_owned()),
        _ => None,
    };
    let bar = budget.limit.zip(budget.remaining);
    let is_open = budget.reset_at.filter(|at| *at > now);
    BudgetLine {
        name,
        // What was said of a window that is over says nothing of this one.
        warning: warning.filter(|_| is_open.is_some() || budget.set_aside_until.is_some()),
        bar: bar.map(|(limit, remaining)| Bar {
            used: limit.saturating_sub(remaining),
            limit,
        }),
        reset: is_open.map_or_else(String::new, |at| {
            format!("full again {}", pages::distance(at, now))
        }),
    }
}

/// Work that is due or has failed for good; what only waits for its hour is left out.
pub(super) fn work(kind: &KindStats) -> Option<WorkLine> {
    let name = match kind.kind.as_str() {
        "push-event" => "pushes to tell of",
        "push-event-old" => "old pushes",
        "github-user" => "people to ask for",
        "github-repo" => "repositories to ask for",
        "github-refresh" => "to be asked for again",
        "github-avatar" => "pictures to fetch",
        "ingest-poll" => "lists to read",
        "ingest-reextract" => "what is kept to read again",
        _ => return None,
    };
    // Lists are always about to be read: they are shown as sources.
    let waits = match kind.kind.as_str() {
        "ingest-poll" => 0,
        _ => kind.due + kind.leased + kind.waiting,
    };
    (waits + kind.dead > 0).then(|| WorkLine {
        name: name.to_owned(),
        waits: pages::grouped(unsigned(waits)),
        failed: (kind.dead > 0).then(|| format!("{} failed", pages::grouped(unsigned(kind.dead)))),
    })
}

pub(super) fn gap(gap: Gap, now: i64) -> GapLine {
    let at = |moment: Option<i64>| moment.map(pages::when_ms);
    let span = match (at(gap.after_at), at(gap.before_at)) {
        (Some(from), Some(to)) => format!("{from} to {to}"),
        (Some(from), None) => format!("from {from}"),
        (None, Some(to)) => format!("until {to}"),
        (None, None) => "nobody knows when".to_owned(),
    };
    GapLine {
        source: gap.source,
        span,
        found: format!("found {}", pages::distance(gap.found_at, now)),
    }
}

pub(super) fn rejected(rejected: RejectedEvent, now: i64) -> RejectedLine {
    RejectedLine {
        source: rejected.source,
        reason: rejected.reason,
        times: match rejected.times {
            1 => "once".to_owned(),
            times => format!("{} times", pages::grouped(unsigned(times))),
        },
        when: pages::distance(rejected.last_at, now),
    }
}

fn many(count: i64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{} {many}", pages::grouped(unsigned(count))),
    }
}
