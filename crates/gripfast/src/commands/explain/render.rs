//! An explanation as a page for people.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Color, Style};
use serde::Deserialize;

use crate::commands::{
    sync::{Tried, tried},
    when::Now,
};

/// What we read of the node's answer. Lenient: a field of an older node may be missing, one of a
/// newer node is left to `--json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Explanation {
    subject: String,
    status: String,
    summary: String,
    event: Option<Event>,
    chain: Vec<String>,
    missing: Vec<Missing>,
    missing_total: usize,
    deadline: Option<i64>,
    repository: Option<Repository>,
    held: Vec<Event>,
    refusals: Vec<Refusal>,
    sync: Vec<Search>,
    /// The clone URLs that may have what is missing.
    urls: Vec<String>,
    wanted: Vec<Event>,
}

/// How the data of one identifier is looked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Search {
    identifier: String,
    attempts: u32,
    next_attempt: Option<i64>,
    in_progress: bool,
    tried: Vec<Tried>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    id: String,
    kind: u16,
    author: String,
    created_at: u64,
    deadline: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Missing {
    name: String,
    oid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Repository {
    clone_url: String,
    nostr_url: String,
    maintainers: Vec<String>,
    head: Option<String>,
    branches: usize,
    tags: usize,
    pull_requests: usize,
    state: Option<Event>,
    withdrawn_until: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Refusal {
    event: Option<String>,
    kind: Option<u16>,
    reason: String,
    at: u64,
}

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// Lays it out; `now` turns times into distances.
pub(super) fn page(explanation: &Explanation, now: Now) -> String {
    let mut page = Page {
        out: String::new(),
        now,
    };
    page.head(explanation);
    page.list("why", explanation.chain.iter().map(String::as_str));
    page.missing(explanation);
    for search in &explanation.sync {
        page.search(search);
    }
    page.not_asked(explanation);
    if let Some(repository) = &explanation.repository {
        page.repository(repository);
    }
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
        let style = Style::new()
            .bold()
            .fg_color(Some(Color::Ansi(match e.status.as_str() {
                "served" => AnsiColor::Green,
                "held" | "awaited" | "wanted" => AnsiColor::Yellow,
                "refused" => AnsiColor::Red,
                _ => AnsiColor::BrightBlack,
            })));
        line!(self, "{style}{}{style:#}  {}", e.status, e.subject);
        line!(self, "{}", e.summary);
        if let Some(event) = &e.event {
            line!(self, "{}", self.event(event));
        }
        if let Some(deadline) = e.deadline {
            line!(self, "given up {}", self.when_ms(deadline));
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
        line!(self, "\n{BOLD}waits for{BOLD:#}");
        let width = e
            .missing
            .iter()
            .map(|m| m.name.chars().count())
            .max()
            .unwrap_or(0);
        for Missing { name, oid } in &e.missing {
            line!(self, "  {name:width$}  {oid}");
        }
        let more = e.missing_total.saturating_sub(e.missing.len());
        if more > 0 {
            line!(self, "  {DIM}and {more} more{DIM:#}");
        }
    }

    fn search(&mut self, search: &Search) {
        let name = &search.identifier;
        line!(
            self,
            "\n{BOLD}looked for elsewhere{BOLD:#}  {DIM}{name}{DIM:#}"
        );
        let tries = match search.attempts {
            0 => String::new(),
            1 => ", once in vain so far".to_owned(),
            n => format!(", {n} times in vain so far"),
        };
        match search.next_attempt {
            _ if search.in_progress => {
                line!(self, "  at this moment{tries}");
            }
            Some(at) => {
                line!(self, "  next {}{tries}", self.when_ms(at));
            }
            None => {}
        }
        if let Some(table) = tried(&search.tried, self.now) {
            self.out.push_str(&table);
        }
    }

    /// The URLs that may have it and were not asked, as far as the node remembers.
    fn not_asked(&mut self, e: &Explanation) {
        let asked = |url: &String| {
            let mut tried = e.sync.iter().flat_map(|search| &search.tried);
            tried.any(|tried| tried.url() == url)
        };
        let rest: Vec<_> = e.urls.iter().filter(|url| !asked(url)).collect();
        if !rest.is_empty() {
            line!(self, "\n{BOLD}not asked yet{BOLD:#}");
        }
        for url in rest {
            line!(self, "  {url}");
        }
    }

    fn repository(&mut self, r: &Repository) {
        line!(self, "\n{BOLD}repository{BOLD:#}");
        let head = r.head.as_deref().unwrap_or("none");
        let (branches, tags) = (r.branches, r.tags);
        let requests = r.pull_requests;
        line!(
            self,
            "  HEAD {head}, branches {branches}, tags {tags}, pull request refs {requests}"
        );
        match &r.state {
            Some(state) => {
                let when = self.when(state.created_at);
                line!(
                    self,
                    "  state {} of {when} by {}",
                    short(&state.id),
                    state.author
                );
            }
            None => {
                line!(self, "  no state is served");
            }
        }
        if let Some(until) = r.withdrawn_until {
            line!(
                self,
                "  withdrawn: read-only, archived {}",
                self.when_ms(until)
            );
        }
        for url in [&r.clone_url, &r.nostr_url] {
            line!(self, "  {url}");
        }
        self.list("maintainers", r.maintainers.iter().map(String::as_str));
    }

    fn held(&mut self, title: &str, events: &[Event]) {
        let lines: Vec<_> = events
            .iter()
            .map(|event| match event.deadline {
                Some(deadline) => {
                    format!("{}, given up {}", self.event(event), self.when_ms(deadline))
                }
                None => self.event(event),
            })
            .collect();
        self.list(title, lines.iter().map(String::as_str));
    }

    fn refusals(&mut self, refusals: &[Refusal]) {
        let lines: Vec<_> = refusals
            .iter()
            .map(|refusal| {
                let what = match (&refusal.event, refusal.kind) {
                    (Some(id), Some(kind)) => format!("kind {kind} {}", short(id)),
                    (Some(id), None) => format!("event {}", short(id)),
                    (None, _) => "push".to_owned(),
                };
                format!("{what}, {}: {}", self.when(refusal.at), refusal.reason)
            })
            .collect();
        self.list("refused of late", lines.iter().map(String::as_str));
    }

    fn event(&self, event: &Event) -> String {
        let when = self.when(event.created_at);
        format!(
            "kind {} {} of {when} by {}",
            event.kind,
            short(&event.id),
            event.author
        )
    }

    fn when(&self, seconds: u64) -> String {
        self.now.seconds(seconds)
    }

    fn when_ms(&self, millis: i64) -> String {
        self.now.millis(millis)
    }
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_state_says_what_it_waits_for_and_until_when() {
        let answer = r#"{
            "subject": "99edac5dc5286a9c", "status": "held", "summary": "waits for git data",
            "event": {"id": "99edac5dc5286a9c", "kind": 30618, "author": "npub1x", "created_at": 940},
            "chain": ["the author is a maintainer", "an object is missing"],
            "missing": [{"name": "refs/heads/main", "oid": "ce6ce6e3"}], "missing_total": 3,
            "deadline": 2800000, "held": [], "later": {"unknown": true},
            "refusals": [{"event": null, "reason": "no state names it", "at": 990}],
            "urls": ["https://git.example/tides.git", "https://new.example/tides.git"],
            "sync": [{"identifier": "tides", "attempts": 2, "next_attempt": 1040000,
                "in_progress": false, "tried": [
                {"url": "https://git.example/tides.git", "at": 980000, "duration_ms": 840,
                 "outcome": "brought 2 of 5 objects"},
                {"url": "https://dead.example/a/long/path/to/the/repository/tides.git",
                 "at": 940000, "duration_ms": 10020, "outcome": "no answer within 10s"}]}]
        }"#;
        let explanation = serde_json::from_str(answer).unwrap();
        let text = page(&explanation, Now::at(1000));
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
    }
}
