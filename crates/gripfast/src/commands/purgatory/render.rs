//! What waits, for people.

use std::fmt::Write as _;

use anstyle::Style;
use serde::Deserialize;

use crate::commands::{table::Table, when::Now};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// What we read of the node's answer. Lenient, so that nodes of other versions can be asked.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct List {
    total: usize,
    pub(super) waiting: Vec<Waiting>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Waiting {
    pub(super) id: String,
    class: String,
    status: String,
    author: String,
    identifiers: Vec<String>,
    deadline: i64,
    missing: usize,
    next_attempt: Option<i64>,
    in_progress: bool,
}

impl Waiting {
    /// An event of which only the id is known.
    pub(super) fn of(id: String) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    pub(super) fn short(&self) -> &str {
        self.id.get(..8).unwrap_or(&self.id)
    }

    /// "state 99edac5d of tide-table"
    pub(super) fn name(&self) -> String {
        let class = match self.class.as_str() {
            "" => "event".to_owned(),
            class => class.replace('_', " "),
        };
        match self.identifiers.as_slice() {
            [] => format!("{class} {}", self.short()),
            identifiers => format!("{class} {} of {}", self.short(), identifiers.join(", ")),
        }
    }

    fn kind(&self) -> String {
        let class = match self.class.as_str() {
            "pull_request" => "PR",
            "announcement" => "announce",
            class => class,
        };
        match self.status.as_str() {
            "held" | "" => class.to_owned(),
            status => format!("{class}, {status}"),
        }
    }
}

pub(super) fn list(list: &List, now: Now) -> String {
    if list.waiting.is_empty() {
        return "nothing waits for git data\n".to_owned();
    }
    let mut out = format!("{BOLD}{}{BOLD:#} waiting for git data\n\n", list.total);
    let head = [
        "event",
        "what",
        "repository",
        "lacks",
        "next try",
        "given up",
    ];
    let mut table = Table::new(head, 2);
    for waiting in &list.waiting {
        let next = match waiting.next_attempt {
            _ if waiting.in_progress => "under way".to_owned(),
            Some(at) => now.millis(at),
            None => "–".to_owned(),
        };
        table.row([
            waiting.short().to_owned(),
            waiting.kind(),
            waiting.identifiers.join(", "),
            waiting.missing.to_string(),
            next,
            now.millis(waiting.deadline),
        ]);
    }
    out.push_str(&table.render());
    let more = list.total.saturating_sub(list.waiting.len());
    if more > 0 {
        let _ = writeln!(out, "  {DIM}and {more} more{DIM:#}");
    }
    out
}

/// What `drop` would do.
pub(super) fn plan(waiting: &Waiting, now: Now) -> String {
    let mut out = format!("would drop {BOLD}{}{BOLD:#}\n", waiting.name());
    if waiting.deadline > 0 {
        let until = now.millis(waiting.deadline);
        let lacks = match waiting.missing {
            1 => "1 object".to_owned(),
            n => format!("{n} objects"),
        };
        let _ = writeln!(out, "by {}", waiting.author);
        let _ = writeln!(out, "lacks {lacks}, given up {until} anyway");
    }
    let _ = writeln!(
        out,
        "{DIM}nothing was changed; add --yes to do it. Its author can send it again.{DIM:#}"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"total": 4, "waiting": [
        {"id": "99edac5dc5286a9c", "class": "state", "status": "held",
         "author": "npub15qydau2hjma6ngxkl2cyar74wzyjshvl65za5k5rl69264ar2exs5cyejr",
         "identifiers": ["tide-table"], "deadline": 2800000, "missing": 3,
         "next_attempt": 1012000, "in_progress": false},
        {"id": "aa11bb22cc33dd44", "class": "pull_request", "status": "wanted",
         "author": "npub15qydau2hjma6ngxkl2cyar74wzyjshvl65za5k5rl69264ar2exs5cyejr",
         "identifiers": ["a-repository-with-a-long-name", "another"], "deadline": 2592000000,
         "missing": 1, "next_attempt": 4600000, "in_progress": true},
        {"id": "0123456789abcdef", "class": "announcement", "status": "hidden",
         "author": "npub15qydau2hjma6ngxkl2cyar74wzyjshvl65za5k5rl69264ar2exs5cyejr",
         "identifiers": ["x"], "deadline": 1000000, "missing": 0}
    ]}"#;

    fn shown(text: String) -> String {
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn people_see_what_waits_and_until_when_in_eighty_columns() {
        let all: List = serde_json::from_str(LIST).unwrap();
        let text = shown(list(&all, Now::at(1000)));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        insta::assert_snapshot!(text);
        let none = shown(list(&List::default(), Now::at(1000)));
        assert_eq!(none, "nothing waits for git data\n");
    }

    #[test]
    fn a_dry_run_says_what_would_happen_and_how_to_do_it() {
        let all: List = serde_json::from_str(LIST).unwrap();
        insta::assert_snapshot!(shown(plan(&all.waiting[0], Now::at(1000))));
    }
}
