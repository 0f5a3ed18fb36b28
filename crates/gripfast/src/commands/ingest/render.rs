//! The state of ingest, for people.

mod budget;

use std::{fmt::Write as _, path::Path};

use grip_ingest::{SourceStatus, Status, backfill::FileDone};
use grip_queue::KindStats;
use grip_web::api_types::{Gaps, Retention};

use crate::commands::{
    table::{BOLD, Table, plain, section},
    when::Now,
};

const PUSHES: &str = "PushEvent";
/// What could not be read, as far as it is shown.
const REJECTED: usize = 5;

fn pushes(source: &SourceStatus) -> i64 {
    source.counts.get(PUSHES).copied().unwrap_or(0)
}

fn next(source: &SourceStatus, now: Now) -> String {
    match (source.is_configured, source.due_at) {
        (true, Some(due)) => now.millis(due),
        (true, None) => "–".to_owned(),
        (false, _) if source.polls > 0 => "not configured".to_owned(),
        (false, _) => "as they arrive".to_owned(),
    }
}

pub(super) fn status(status: &Status, now: Now) -> String {
    let pushes: i64 = status.sources.iter().map(pushes).sum();
    let mut out = format!("{BOLD}{pushes}{BOLD:#} pushes stored\n");
    match status.open_gaps {
        0 => {}
        1 => out.push_str("1 gap may hide more; `gripfast ingest gaps` shows it\n"),
        n => out += &format!("{n} gaps may hide more; `gripfast ingest gaps` lists them\n"),
    }
    out.push('\n');
    out.push_str(&sources(status, now));
    let budgets = budget::table(&status.budgets, now);
    section(&mut out, "calls to GitHub", budgets);
    section(&mut out, "work", work(status));
    section(&mut out, "extracted again", progress(status, now));
    section(&mut out, "unreadable events", rejected(status, now));
    out
}

fn sources(status: &Status, now: Now) -> String {
    if status.sources.is_empty() {
        return "no events yet\n".to_owned();
    }
    let mut table = Table::new(["source", "pushes", "other events", "read", "next"], 0);
    for source in &status.sources {
        let pushes = pushes(source);
        let all: i64 = source.counts.values().sum();
        let read = source.polled_at.map(|at| now.millis(at));
        table.row([
            &source.source,
            &pushes,
            &(all - pushes),
            &read.unwrap_or_else(|| "–".to_owned()),
            &next(source, now),
        ]);
        table.note(source.last_error.clone());
    }
    table.render()
}

fn work(status: &Status) -> Option<String> {
    let some = |work: &&KindStats| work.due + work.waiting + work.leased + work.dead > 0;
    let mut table = Table::new(["kind", "due", "later", "running", "failed"], 0);
    let mut all = status.work.iter().filter(some).peekable();
    all.peek()?;
    for work in all {
        table.row([
            &work.kind,
            &work.due,
            &work.waiting,
            &work.leased,
            &work.dead,
        ]);
    }
    Some(table.render())
}

fn progress(status: &Status, now: Now) -> Option<String> {
    let mut table = Table::new(["what", "rows", "unreadable", "state"], 0);
    status.progress.first()?;
    for part in &status.progress {
        let state = match part.finished_at {
            Some(at) => format!("done {}", now.millis(at)),
            None => format!("running, last {}", now.millis(part.updated_at)),
        };
        table.row([&part.work, &part.done, &part.failed, &state]);
    }
    Some(table.render())
}

fn rejected(status: &Status, now: Now) -> Option<String> {
    let mut table = Table::new(["source", "why", "times", "last"], 1);
    status.rejected.first()?;
    for one in status.rejected.iter().take(REJECTED) {
        table.row([
            &one.source,
            &one.reason,
            &one.times,
            &now.millis(one.last_at),
        ]);
    }
    Some(table.render())
}

pub(super) fn gaps(gaps: &Gaps, all: bool, now: Now) -> String {
    if gaps.gaps.is_empty() {
        let no = if all { "no gaps" } else { "no open gaps" };
        return format!("{no}: nothing was missed\n");
    }
    let mut table = Table::new(["source", "from", "to", "found", "filled"], 0);
    let moment = |at: Option<i64>| at.map_or_else(|| "?".to_owned(), rfc3339);
    for gap in &gaps.gaps {
        let filled = match gap.closed_at {
            Some(at) => now.millis(at),
            None => "no".to_owned(),
        };
        table.row([
            &gap.source,
            &moment(gap.after_at),
            &moment(gap.before_at),
            &now.millis(gap.found_at),
            &filled,
        ]);
        table.note(gap.closed_by.as_ref().map(|by| format!("by {by}")));
    }
    let mut out = table.render();
    if gaps.next.is_some() {
        out.push_str("  … and more\n");
    }
    if gaps.gaps.iter().any(|gap| gap.closed_at.is_none()) {
        out.push_str("\n`gripfast ingest backfill FILE…` fills them from files of gharchive.org\n");
    }
    out
}

pub(super) fn retention(retention: &Retention) -> String {
    let gone = &retention.gone;
    let mut table = Table::new(["rows of", "count"], 0);
    let mut total = 0;
    let counts = [
        ("closed gaps", gone.closed_gaps),
        ("events", gone.events),
        ("open gaps", gone.open_gaps),
        ("rejected", gone.rejected),
        ("repositories", gone.repositories),
        ("users", gone.users),
    ];
    for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        total += count;
        table.row([&what, &count]);
    }
    if total == 0 {
        return "no row is older than it is kept\n".to_owned();
    }
    let outcome = if retention.dry_run {
        "would be deleted; --yes deletes them"
    } else {
        "are deleted"
    };
    format!("{}{outcome}\n", table.render())
}

/// What became of a file.
pub(super) fn file(path: &Path, done: &FileDone) -> String {
    let name = file_name(path);
    if done.was_known {
        return format!("{name}: was read before{}\n", filled(done));
    }
    let accepted = done.accepted;
    let mut out = format!(
        "{name}: {BOLD}{}{BOLD:#} new pushes, {} known, {} other events",
        accepted.new, accepted.known, accepted.other
    );
    if accepted.rejected > 0 {
        let _ = write!(out, ", {} that cannot be read", accepted.rejected);
    }
    if done.resumed_after > 0 {
        let _ = write!(out, "; continued after line {}", done.resumed_after);
    }
    let _ = writeln!(out, "{}", filled(done));
    out
}

fn filled(done: &FileDone) -> String {
    match done.gaps_closed {
        0 => String::new(),
        1 => "; 1 gap is filled".to_owned(),
        n => format!("; {n} gaps are filled"),
    }
}

pub(super) fn file_name(path: &Path) -> String {
    plain(&path.file_name().unwrap_or_default().to_string_lossy())
}

/// To the second, as programs and people read it.
fn rfc3339(ms: i64) -> String {
    let seconds = u64::try_from(ms / 1_000).unwrap_or(0);
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    humantime::format_rfc3339_seconds(at).to_string()
}

#[cfg(test)]
mod tests;
