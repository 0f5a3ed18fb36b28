//! An explanation as a page for people.

use std::{fmt::Write as _, time::Duration};

use anstyle::{AnsiColor, Color, Style};
use grip_grasp::{EventFacts, Explanation, Missing, Refusal, RepositorySummary, Status};
use grip_web::{
    ReplicaReport,
    api_types::{Explained, Search},
};

use crate::commands::{
    sync::attempts,
    table::{BOLD, DIM, plain, short},
    when::{Now, span},
};

/// Lays it out; `now` turns times into distances.
pub(super) fn page(explained: &Explained, now: Now) -> String {
    let explanation = &explained.explanation;
    let mut page = Page {
        out: String::new(),
        now,
    };
    page.head(explanation);
    page.next_step(explained.next_step.as_deref());
    page.list("why", explanation.chain.iter().map(String::as_str));
    page.missing(explanation);
    for search in &explained.sync {
        page.search(search);
    }
    page.not_asked(explained);
    if let Some(repository) = &explanation.repository {
        page.repository(repository);
    }
    page.replicas(&explained.replicas);
    page.held("held for this identifier", &explanation.held);
    page.held("expired, still looked for", &explanation.wanted);
    page.refusals(&explanation.refusals);
    page.out
}

struct Page {
    out: String,
    now: Now,
}

/// Writing to a string cannot fail.
macro_rules! line {
    ($page:expr, $($text:tt)*) => { let _ = writeln!($page.out, $($text)*); };
}

impl Page {
    fn head(&mut self, e: &Explanation) {
        let (colour, status) = match e.status {
            Status::Served => (AnsiColor::Green, "served"),
            Status::Held => (AnsiColor::Yellow, "held"),
            Status::Awaited => (AnsiColor::Yellow, "awaited"),
            Status::Wanted => (AnsiColor::Yellow, "wanted"),
            Status::Refused => (AnsiColor::Red, "refused"),
            Status::Kept => (AnsiColor::Yellow, "kept"),
            Status::Unknown => (AnsiColor::BrightBlack, "unknown"),
        };
        let style = Style::new().bold().fg_color(Some(Color::Ansi(colour)));
        line!(self, "{style}{status}{style:#}  {}", e.subject);
        line!(self, "{}", e.summary);
        if let Some(event) = &e.event {
            line!(self, "{}", self.event(event));
        }
        if let Some(deadline) = e.deadline {
            line!(self, "expires {}", self.now.millis(deadline));
        }
    }

    fn next_step(&mut self, step: Option<&str>) {
        if let Some(step) = step {
            line!(self, "{BOLD}next step{BOLD:#}  {step}");
        }
    }

    fn list<'a>(&mut self, title: &str, items: impl Iterator<Item = &'a str>) {
        for (index, item) in items.enumerate() {
            if index == 0 {
                line!(self, "\n{BOLD}{title}{BOLD:#}");
            }
            line!(self, "  {DIM}{}.{DIM:#} {item}", index + 1);
        }
    }

    fn missing(&mut self, e: &Explanation) {
        if e.missing_total == 0 {
            return;
        }
        line!(self, "\n{BOLD}missing{BOLD:#}");
        let widths = e.missing.iter().map(|m| m.name.chars().count());
        let width = widths.max().unwrap_or(0);
        for Missing { name, oid } in &e.missing {
            line!(self, "  {name:width$}  {}", oid.to_hex());
        }
        let more = e.missing_total.saturating_sub(e.missing.len());
        if more > 0 {
            line!(self, "  {DIM}and {more} more{DIM:#}");
        }
    }

    fn search(&mut self, search: &Search) {
        let (title, name) = ("search on other hosts", &search.identifier);
        line!(self, "\n{BOLD}{title}{BOLD:#}  {DIM}{name}{DIM:#}");
        let failed = match search.attempts {
            0 => String::new(),
            1 => ", 1 failed attempt".to_owned(),
            n => format!(", {n} failed attempts"),
        };
        if search.in_progress {
            line!(self, "  fetching now{failed}");
        } else if let Some(at) = search.next_attempt {
            line!(self, "  next attempt {}{failed}", self.now.millis(at));
        }
        self.out.extend(attempts(&search.tried, self.now));
    }

    /// The URLs that may have it and were not asked, as far as the node remembers.
    fn not_asked(&mut self, e: &Explained) {
        let asked = |url: &str| {
            let mut tried = e.sync.iter().flat_map(|search| &search.tried);
            tried.any(|tried| tried.url == url)
        };
        let urls = e.explanation.urls.iter().map(|url| url.as_str());
        let rest: Vec<_> = urls.filter(|url| !asked(url)).collect();
        if !rest.is_empty() {
            line!(self, "\n{BOLD}not asked yet{BOLD:#}");
        }
        for url in rest {
            line!(self, "  {url}");
        }
    }

    fn repository(&mut self, r: &RepositorySummary) {
        line!(self, "\n{BOLD}repository{BOLD:#}");
        let head = r.head.as_ref().map_or("none", |head| head.as_str());
        let (branches, tags, requests) = (r.branches, r.tags, r.pull_requests);
        let refs = format!("branches {branches}, tags {tags}, pull request refs {requests}");
        line!(self, "  HEAD {head}, {refs}");
        if let Some(state) = &r.state {
            let (id, when) = (short(&state.id), self.now.seconds(state.created_at));
            line!(self, "  state {id} of {when} by {}", state.author);
        } else {
            line!(self, "  no state is served");
        }
        if let Some(until) = r.withdrawn_until {
            let until = self.now.millis(until);
            line!(self, "  withdrawn: read-only, archived {until}");
        }
        for url in [&r.clone_url, &r.nostr_url] {
            line!(self, "  {url}");
        }
        self.list("maintainers", r.maintainers.iter().map(String::as_str));
        self.list("roles", r.roles.iter().map(String::as_str));
    }

    /// Which other servers have the effective state, and since when not.
    fn replicas(&mut self, replicas: &[ReplicaReport]) {
        let line = |replica: &ReplicaReport| {
            let mut line = format!("{}  {}", replica.url, replica.status.label());
            if let Some(seconds) = replica.behind_seconds.filter(|seconds| *seconds > 0) {
                let _ = write!(line, " by {}", span(Duration::from_secs(seconds)));
            }
            if let Some(since) = replica.since {
                let _ = write!(line, ", since {}", self.now.millis(since));
            }
            if let Some(at) = replica.checked_at {
                let _ = write!(line, ", looked at {}", self.now.millis(at));
            }
            if let Some(note) = &replica.note {
                let _ = write!(line, ": {}", plain(note));
            }
            line
        };
        let lines: Vec<_> = replicas.iter().map(line).collect();
        self.list("other servers", lines.iter().map(String::as_str));
    }

    fn held(&mut self, title: &str, events: &[EventFacts]) {
        let line = |event: &EventFacts| match event.deadline {
            Some(at) => format!("{}, expires {}", self.event(event), self.now.millis(at)),
            None => self.event(event),
        };
        let lines: Vec<_> = events.iter().map(line).collect();
        self.list(title, lines.iter().map(String::as_str));
    }

    fn refusals(&mut self, refusals: &[Refusal]) {
        let line = |refusal: &Refusal| {
            let what = match (&refusal.event, refusal.kind) {
                (Some(id), Some(kind)) => format!("kind {kind} {}", short(&id.to_hex())),
                (Some(id), None) => format!("event {}", short(&id.to_hex())),
                (None, _) => "push".to_owned(),
            };
            let when = self.now.seconds(refusal.at.as_secs());
            format!("{what}, {when}: {}", refusal.reason)
        };
        let lines: Vec<_> = refusals.iter().map(line).collect();
        self.list("recent refusals", lines.iter().map(String::as_str));
    }

    fn event(&self, event: &EventFacts) -> String {
        let (kind, id, author) = (event.kind, short(&event.id), &event.author);
        let when = self.now.seconds(event.created_at);
        format!("kind {kind} {id} of {when} by {author}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table::unstyled;

    #[test]
    fn a_repository_says_which_other_servers_have_its_state() {
        let answer = serde_json::json!({
            "subject": "npub1x/tides", "status": "served", "summary": "its announcement is served",
            "chain": [], "missing": [], "missing_total": 0, "urls": [], "in_progress": false,
            "identifiers": ["tides"], "held": [], "wanted": [], "refusals": [], "sync": [],
            "replicas": [
                {"url": "wss://a.example", "kind": "relay", "status": "current", "since": 400000,
                 "checked_at": 990000, "state_at": 400},
                {"url": "wss://b.example", "kind": "relay", "status": "behind", "since": 940000,
                 "checked_at": 980000, "state_at": 100, "behind_seconds": 300},
                {"url": "https://b.example/npub1x/tides.git", "kind": "git",
                 "status": "unreachable", "since": 700000, "checked_at": 900000,
                 "note": "no answer within 10s"},
                {"url": "https://c.example/npub1x/tides.git", "kind": "git", "status": "unknown"},
            ],
        });
        let explained = serde_json::from_value(answer).unwrap();
        insta::assert_snapshot!(unstyled(&page(&explained, Now::at(1000))));
    }

    #[test]
    fn a_held_state_says_what_it_waits_for_and_until_when() {
        let tried = |url: &str, at: u64, duration_ms: u64, outcome: &str| {
            serde_json::json!({
                "identifier": "tides", "url": url, "at": at, "duration_ms": duration_ms,
                "outcome": outcome, "oids_fetched": 0, "is_success": false,
            })
        };
        let answer = serde_json::json!({
            "subject": "99edac5dc5286a9c", "status": "held", "summary": "waits for git data",
            "event": {"id": "99edac5dc5286a9c", "kind": 30618, "author": "npub1x", "created_at": 940},
            "chain": ["the author is a maintainer", "an object is missing"],
            "missing": [{"name": "refs/heads/main", "oid": "ce6c".repeat(10)}],
            "missing_total": 3, "deadline": 2800000, "held": [], "wanted": [],
            "later": {"unknown": true}, "attempts": 2, "in_progress": false, "identifiers": [],
            "refusals": [{"reason": "no state names it", "chain": [], "at": 990}],
            "urls": ["https://git.example/tides.git", "https://new.example/tides.git"],
            "sync": [{"identifier": "tides", "attempts": 2, "next_attempt": 1040000,
                "in_progress": false, "tried": [
                tried("https://git.example/tides.git", 980000, 840, "brought 2 of 5 objects"),
                tried("https://dead.example/a/long/path/to/the/repository/tides.git",
                    940000, 10020, "no answer within 10s")]}]
        });
        let explained = serde_json::from_value(answer).unwrap();
        insta::assert_snapshot!(unstyled(&page(&explained, Now::at(1000))));
    }
}
