//! Repositories, blocks and removals, for people.

use std::fmt::Write as _;

use grip_grasp::{RepositoryFacts, RepositoryStatus};
use grip_web::api_types::{BlockList, RemovalReport, RepositoryList};

use crate::commands::{
    progress::size,
    table::{BOLD, DIM, Table, counted, counted_as, more, plain},
    when::Now,
};

/// As other commands take it.
fn name(facts: &RepositoryFacts) -> String {
    format!("{}/{}", facts.npub, facts.identifier)
}

fn status(facts: &RepositoryFacts) -> &'static str {
    match facts.status {
        RepositoryStatus::Served => "served",
        RepositoryStatus::Held => "held",
    }
}

pub(super) fn list(list: &RepositoryList) -> String {
    if list.repositories.is_empty() {
        return "no repository is hosted here\n".to_owned();
    }
    let mut out = format!("{BOLD}{}{BOLD:#}\n\n", repositories(list.total));
    let mut table = Table::new(
        ["repository", "status", "branches", "tags", "PRs", "size"],
        0,
    );
    for facts in &list.repositories {
        table.row([
            &name(facts),
            &status(facts),
            &facts.branches,
            &facts.tags,
            &facts.pull_requests,
            &size(facts.object_bytes),
        ]);
    }
    out.push_str(&table.render());
    more(&mut out, list.total, list.repositories.len());
    out
}

fn repositories(count: usize) -> String {
    counted_as(count as u64, "repository", "repositories")
}

pub(super) fn sizes(list: &RepositoryList) -> String {
    if list.repositories.is_empty() {
        return "no repository is hosted here\n".to_owned();
    }
    let mut table = Table::new(["repository", "objects", "owners", "staged"], 0);
    for facts in &list.repositories {
        table.row([
            &name(facts),
            &size(facts.object_bytes),
            &facts.owners,
            &size(facts.staged_bytes),
        ]);
    }
    let mut out = table.render();
    more(&mut out, list.total, list.repositories.len());
    let _ = writeln!(
        out,
        "{DIM}objects are shared by all owners of a name{DIM:#}"
    );
    out
}

pub(super) fn one(facts: &RepositoryFacts) -> String {
    let mut out = String::new();
    let title = plain(&format!("{}/{}", facts.npub, facts.identifier));
    let _ = writeln!(out, "{BOLD}{title}{BOLD:#}");
    let _ = writeln!(out, "  status    {}", status(facts));
    let refs = format!(
        "{}, {}, {}",
        counted_as(facts.branches as u64, "branch", "branches"),
        counted(facts.tags as u64, "tag"),
        counted(facts.pull_requests as u64, "pull request")
    );
    let _ = writeln!(out, "  refs      {refs}");
    let owners = counted(facts.owners as u64, "owner");
    let objects = size(facts.object_bytes);
    let _ = writeln!(out, "  objects   {objects}, shared by {owners}");
    let _ = writeln!(out, "  staged    {}", size(facts.staged_bytes));
    out
}

pub(super) fn removal(what: &str, report: &RemovalReport) -> String {
    let removed = &report.removed;
    let mut parts = Vec::new();
    for (count, thing) in [
        (removed.served, "served event"),
        (removed.waiting, "waiting event"),
    ] {
        if count > 0 {
            parts.push(counted(count as u64, thing));
        }
    }
    if removed.repositories > 0 {
        parts.push(repositories(removed.repositories));
    }
    let (what, parts) = (plain(what), parts.join(", "));
    if report.dry_run {
        return format!("would remove {BOLD}{parts}{BOLD:#} of {what}\n{UNCHANGED}\n");
    }
    format!(
        "removed {parts} of {what}\n{DIM}whoever signed it can send it again; `gripfast repos \
         block` keeps it out{DIM:#}\n"
    )
}

const UNCHANGED: &str = "nothing was changed; add --execute to do it";

pub(super) fn plan(what: &str) -> String {
    format!("would {BOLD}{}{BOLD:#}\n{UNCHANGED}\n", plain(what))
}

pub(super) fn blocks(list: &BlockList, now: Now) -> String {
    if list.blocks.is_empty() {
        return "nothing is blocked by order; `gripfast config` shows the blacklists\n".to_owned();
    }
    let mut table = Table::new(["blocked", "since"], 0);
    for block in &list.blocks {
        table.row([&block.subject, &now.millis(block.since)]);
        table.note((!block.reason.is_empty()).then(|| block.reason.clone()));
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table::unstyled;

    fn facts(identifier: &str, object_bytes: u64) -> RepositoryFacts {
        RepositoryFacts {
            npub: "npub15qydau2hjma6ngxkl2cyar74wzyjshvl65za5k5rl69264ar2exs5cyejr".to_owned(),
            identifier: identifier.to_owned(),
            status: RepositoryStatus::Served,
            branches: 2,
            tags: 1,
            pull_requests: 3,
            owners: 2,
            object_bytes,
            staged_bytes: 1 << 20,
        }
    }

    #[test]
    fn tables_fit_a_terminal_and_name_what_they_leave_out() {
        let facts = [
            facts("tides", 3 << 30),
            facts(&"a-very-long-name".repeat(8), 900),
        ];
        let whole = RepositoryList {
            total: 12,
            repositories: facts.to_vec(),
        };
        for text in [list(&whole), sizes(&whole)] {
            let text = unstyled(&text);
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
            assert!(
                text.contains("3.0 GiB") && text.contains("900 bytes"),
                "{text}"
            );
            assert!(text.contains("and 10 more"), "{text}");
        }
        let one = unstyled(&one(&facts[0]));
        assert!(
            one.contains("shared by 2 owners") && one.contains("1.0 MiB"),
            "{one}"
        );
    }

    #[test]
    fn a_plan_says_that_nothing_was_changed() {
        let mut report = RemovalReport {
            dry_run: true,
            ..RemovalReport::default()
        };
        report.removed.served = 2;
        report.removed.repositories = 1;
        let text = unstyled(&removal("npub1…/tides", &report));
        assert!(
            text.starts_with("would remove 2 served events, 1 repository"),
            "{text}"
        );
        assert!(text.contains("--execute"), "{text}");
        report.dry_run = false;
        assert!(unstyled(&removal("x", &report)).starts_with("removed 2"));
    }
}
