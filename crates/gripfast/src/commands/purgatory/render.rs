//! Waiting events, for people.

use std::fmt::Write as _;

use grip_grasp::{WaitingFacts, WaitingStatus};
use grip_web::api_types::WaitingEvents;

use super::NamedEvent;
use crate::commands::{
    table::{BOLD, DIM, Table, counted, more, short},
    when::Now,
};

impl NamedEvent {
    pub(super) fn short(&self) -> &str {
        short(&self.id)
    }

    /// "state 99edac5d of tide-table"
    pub(super) fn name(&self) -> String {
        match &self.facts {
            Some(facts) => {
                let class = facts.class.replace('_', " ");
                let repositories = facts.identifiers.join(", ");
                format!("{class} {} of {repositories}", self.short())
            }
            None => format!("event {}", self.short()),
        }
    }
}

fn kind(facts: &WaitingFacts) -> String {
    let class = match &*facts.class {
        "pull_request" => "PR",
        "announcement" => "announce",
        class => class,
    };
    match facts.status {
        WaitingStatus::Held => class.to_owned(),
        WaitingStatus::Hidden => format!("{class}, hidden"),
        WaitingStatus::Wanted => format!("{class}, wanted"),
    }
}

pub(super) fn list(list: &WaitingEvents, now: Now) -> String {
    if list.waiting.is_empty() {
        return "no event waits for git data\n".to_owned();
    }
    let mut out = format!("{BOLD}{}{BOLD:#} waiting for git data\n\n", list.total);
    let (next, until) = ("next attempt", "expires");
    let mut table = Table::new(["event", "kind", "repository", "missing", next, until], 2);
    for facts in &list.waiting {
        let next = match facts.next_attempt {
            _ if facts.in_progress => "fetching".to_owned(),
            Some(at) => now.millis(at),
            None => "–".to_owned(),
        };
        table.row([
            &short(&facts.id),
            &kind(facts),
            &facts.identifiers.join(", "),
            &facts.missing,
            &next,
            &now.millis(facts.deadline),
        ]);
    }
    out.push_str(&table.render());
    more(&mut out, list.total, list.waiting.len());
    out
}

/// What `drop` would do.
pub(super) fn plan(event: &NamedEvent, now: Now) -> String {
    let mut out = format!("would drop {BOLD}{}{BOLD:#}\n", event.name());
    if let Some(facts) = &event.facts {
        let missing = counted(facts.missing as u64, "object");
        let _ = writeln!(out, "by {}", facts.author);
        let expiry = now.millis(facts.deadline);
        let _ = writeln!(out, "{missing} missing, expires {expiry} anyway");
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
    use crate::commands::table::unstyled;

    const LIST: &str = r#"{"total": 4, "waiting": [
        {"id": "99edac5dc5286a9c", "kind": 30618, "class": "state", "status": "held", "source": "submitted",
         "author": "npub15qydau2hjma6ngxkl2cyar74wzyjshvl65za5k5rl69264ar2exs5cyejr",
         "identifiers": ["tide-table"], "since": 990000, "deadline": 2800000,
         "missing": 3, "attempts": 0,
         "next_attempt": 1012000, "in_progress": false},
        {"id": "aa11bb22cc33dd44", "kind": 1618, "class": "pull_request", "status": "wanted", "source": "synced",
         "author": "npub15qydau2hjma6ngxkl2cyar74wzyjshvl65za5k5rl69264ar2exs5cyejr",
         "identifiers": ["a-repository-with-a-long-name", "another"], "since": 990000,
         "deadline": 2592000000, "missing": 1, "attempts": 2, "next_attempt": 4600000, "in_progress": true},
        {"id": "0123456789abcdef", "kind": 30617, "class": "announcement", "status": "hidden", "source": "synced",
         "author": "npub15qydau2hjma6ngxkl2cyar74wzyjshvl65za5k5rl69264ar2exs5cyejr",
         "identifiers": ["x"], "since": 990000, "deadline": 1000000, "missing": 0, "attempts": 0,
         "in_progress": false}
    ]}"#;

    #[test]
    fn people_see_what_waits_and_until_when_in_eighty_columns() {
        let all: WaitingEvents = serde_json::from_str(LIST).unwrap();
        let text = unstyled(&list(&all, Now::at(1000)));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        insta::assert_snapshot!(text);
        let none = unstyled(&list(&WaitingEvents::default(), Now::at(1000)));
        assert_eq!(none, "no event waits for git data\n");
    }

    #[test]
    fn a_dry_run_says_what_would_happen_and_how_to_do_it() {
        let all: WaitingEvents = serde_json::from_str(LIST).unwrap();
        let facts = all.waiting.into_iter().next().unwrap();
        let event = NamedEvent {
            id: facts.id.clone(),
            facts: Some(facts),
        };
        insta::assert_snapshot!(unstyled(&plan(&event, Now::at(1000))));
        let unknown = NamedEvent {
            id: "99edac5dc5286a9c".into(),
            facts: None,
        };
        assert!(plan(&unknown, Now::at(1000)).contains("event 99edac5d"));
    }
}
