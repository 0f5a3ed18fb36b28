//! What is taken in from GitHub, for people.

mod budget;

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use anstyle::Style;
use grip_ingest::backfill::FileDone;
use serde::Deserialize;

use self::budget::Budget;
use crate::commands::{
    table::{Table, plain},
    when::Now,
};

const BOLD: Style = Style::new().bold();
const PUSHES: &str = "PushEvent";
/// What could not be read, as far as it is shown.
const REJECTED: usize = 5;

/// What we read of the node's answer. Lenient, so that nodes of other versions can be asked.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    sources: Vec<Source>,
    work: Vec<Work>,
    budgets: Vec<Budget>,
    open_gaps: u64,
    rejected: Vec<Rejected>,
    progress: Vec<Progress>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Source {
    source: String,
    is_configured: bool,
    polled_at: Option<i64>,
    polls: u64,
    due_at: Option<i64>,
    trouble: Option<String>,
    counts: BTreeMap<String, u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Work {
    kind: String,
    due: u64,
    waiting: u64,
    leased: u64,
    dead: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Rejected {
    source: String,
    reason: String,
    times: u64,
    last_at: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Progress {
    work: String,
    done: u64,
    failed: u64,
    updated_at: i64,
    finished_at: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Gaps {
    gaps: Vec<Gap>,
    next: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Gap {
    source: String,
    after_at: Option<i64>,
    before_at: Option<i64>,
    found_at: i64,
    closed_at: Option<i64>,
    closed_by: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Retention {
    dry_run: bool,
    gone: BTreeMap<String, u64>,
}

impl Source {
    fn pushes(&self) -> u64 {
        self.counts.get(PUSHES).copied().unwrap_or(0)
    }

    fn next(&self, now: Now) -> String {
        match (self.is_configured, self.due_at) {
            (true, Some(due)) => now.millis(due),
            (true, None) => "–".to_owned(),
            (false, _) if self.polls > 0 => "not set here".to_owned(),
            (false, _) => "as they come".to_owned(),
        }
    }
}

pub(super) fn status(status: &Status, now: Now) -> String {
    let pushes: u64 = status.sources.iter().map(Source::pushes).sum();
    let mut out = format!("{BOLD}{pushes}{BOLD:#} pushes taken in\n");
    match status.open_gaps {
        0 => {}
        1 => out.push_str("1 hole may hide more; `gripfast ingest gaps` shows it\n"),
        n => {
            let _ = writeln!(
                out,
                "{n} holes may hide more; `gripfast ingest gaps` lists them"
            );
        }
    }
    out.push('\n');
    out.push_str(&sources(status, now));
    section(
        &mut out,
        "calls to GitHub",
        budget::table(&status.budgets, now),
    );
    section(&mut out, "work", work(status));
    section(&mut out, "read again", progress(status, now));
    section(&mut out, "could not be read", rejected(status, now));
    out
}

fn section(out: &mut String, title: &str, table: Option<String>) {
    if let Some(table) = table {
        let _ = write!(out, "\n{BOLD}{title}{BOLD:#}\n{table}");
    }
}

fn sources(status: &Status, now: Now) -> String {
    if status.sources.is_empty() {
        return "nothing has come yet\n".to_owned();
    }
    let mut table = Table::new(["source", "pushes", "other events", "read", "next"], 0);
    for source in &status.sources {
        let pushes = source.pushes();
        let all: u64 = source.counts.values().sum();
        let read = source.polled_at.map(|at| now.millis(at));
        table.row([
            source.source.clone(),
            pushes.to_string(),
            (all - pushes).to_string(),
            read.unwrap_or_else(|| "–".to_owned()),
            source.next(now),
        ]);
        table.note(source.trouble.clone());
    }
    table.render()
}

fn work(status: &Status) -> Option<String> {
    let some = |work: &&Work| work.due + work.waiting + work.leased + work.dead > 0;
    let mut table = Table::new(["kind", "due", "later", "under way", "given up"], 0);
    let mut all = status.work.iter().filter(some).peekable();
    all.peek()?;
    for work in all {
        table.row([
            work.kind.clone(),
            work.due.to_string(),
            work.waiting.to_string(),
            work.leased.to_string(),
            work.dead.to_string(),
        ]);
    }
    Some(table.render())
}

fn progress(status: &Status, now: Now) -> Option<String> {
    let mut table = Table::new(["what", "rows", "not readable", "state"], 0);
    status.progress.first()?;
    for part in &status.progress {
        let state = match part.finished_at {
            Some(at) => format!("done {}", now.millis(at)),
            None => format!("under way, last {}", now.millis(part.updated_at)),
        };
        table.row([
            part.work.clone(),
            part.done.to_string(),
            part.failed.to_string(),
            state,
        ]);
    }
    Some(table.render())
}

fn rejected(status: &Status, now: Now) -> Option<String> {
    let mut table = Table::new(["source", "why", "times", "last"], 1);
    status.rejected.first()?;
    for one in status.rejected.iter().take(REJECTED) {
        table.row([
            one.source.clone(),
            one.reason.clone(),
            one.times.to_string(),
            now.millis(one.last_at),
        ]);
    }
    Some(table.render())
}

pub(super) fn gaps(gaps: &Gaps, all: bool, now: Now) -> String {
    if gaps.gaps.is_empty() {
        let no = if all { "no holes" } else { "no open holes" };
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
            gap.source.clone(),
            moment(gap.after_at),
            moment(gap.before_at),
            now.millis(gap.found_at),
            filled,
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
    let some: Vec<_> = retention.gone.iter().filter(|(_, n)| **n > 0).collect();
    if some.is_empty() {
        return "nothing is older than it is kept\n".to_owned();
    }
    let mut table = Table::new(["what", "rows"], 0);
    for (what, count) in some {
        table.row([what.replace('_', " "), count.to_string()]);
    }
    match retention.dry_run {
        true => format!("{}would go; --yes lets them go\n", table.render()),
        false => format!("{}are gone\n", table.render()),
    }
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
        let _ = write!(out, "; went on after line {}", done.resumed_after);
    }
    let _ = writeln!(out, "{}", filled(done));
    out
}

fn filled(done: &FileDone) -> String {
    match done.gaps_closed {
        0 => String::new(),
        1 => "; 1 hole is filled".to_owned(),
        n => format!("; {n} holes are filled"),
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
