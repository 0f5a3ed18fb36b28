//! Jobs, for people.

use std::{fmt::Write as _, time::Duration};

use grip_queue::{JobFacts, KindStats, State};
use grip_web::api_types::{FailureCauses, Jobs, Revived};

use crate::commands::{
    table::{BOLD, DIM, Table, plain},
    when::{Now, span},
};

fn when(job: &JobFacts, now: Now) -> String {
    match (job.state, job.due_ms) {
        (State::Leased, _) => "running".to_owned(),
        (_, Some(due)) => now.millis(due),
        (_, None) => "failed for good".to_owned(),
    }
}

pub(super) fn list(list: &Jobs, is_narrowed: bool, now: Now) -> String {
    let mut out = String::new();
    if !list.kinds.is_empty() {
        out.push_str(&kinds(&list.kinds));
        out.push('\n');
    }
    if list.jobs.is_empty() {
        let such = if is_narrowed { "such " } else { "" };
        return format!("{out}no {such}jobs\n");
    }
    let mut table = Table::new(["kind", "key", "when", "attempts"], 1);
    for job in &list.jobs {
        table.row([&job.kind, &job.key, &when(job, now), &job.attempts]);
        table.note(job.last_error.clone());
    }
    out.push_str(&table.render());
    if list.next.is_some() {
        out.push_str(&format!(
            "  {DIM}and more: narrow it with --kind and --state{DIM:#}\n"
        ));
    }
    out
}

fn kinds(kinds: &[KindStats]) -> String {
    let head = ["kind", "due", "oldest", "running", "waiting", "dead"];
    let mut table = Table::new(head, 0);
    for kind in kinds {
        let oldest = match kind.oldest_due_age_ms {
            ..1000 => "–".to_owned(),
            ms => span(Duration::from_millis(ms.unsigned_abs())),
        };
        table.row([
            &kind.kind,
            &kind.due,
            &oldest,
            &kind.leased,
            &kind.waiting,
            &kind.dead,
        ]);
    }
    table.render()
}

/// What jobs failed for.
pub(super) fn causes(found: &FailureCauses, now: Now) -> String {
    if found.causes.is_empty() {
        return "no job has failed\n".to_owned();
    }
    let mut table = Table::new(["kind", "dead", "waiting", "latest"], 0);
    for cause in &found.causes {
        let latest = match cause.last_ms {
            0 => "–".to_owned(),
            at => now.millis(at),
        };
        table.row([&cause.kind, &cause.dead, &cause.waiting, &latest]);
        table.note(Some(cause.reason.clone()));
    }
    table.render()
}

/// What `revive` has done.
pub(super) fn revived(done: &Revived, _: Now) -> String {
    match done.revived {
        0 => "no such job has failed\n".to_owned(),
        count => format!("{count} jobs are due now; `gripfast queue ls` shows progress\n"),
    }
}

/// What `drop` would do.
pub(super) fn plan(job: &JobFacts, now: Now) -> String {
    let name = plain(&format!("{} {}", job.kind, job.key));
    let mut out = format!("would drop {BOLD}{name}{BOLD:#}\n");
    let _ = match (&job.holder, job.due_ms) {
        (Some(holder), Some(_)) if job.state == State::Leased => {
            writeln!(out, "{holder} runs it and would lose its lease")
        }
        (_, Some(due)) => writeln!(out, "due {}", now.millis(due)),
        (_, None) => writeln!(out, "it failed for good"),
    };
    if let Some(ms) = job.period_ms {
        let period = span(Duration::from_millis(ms.unsigned_abs()));
        let _ = writeln!(
            out,
            "it is periodic, every {period}, and would not run again"
        );
    }
    if let Some(error) = &job.last_error {
        let _ = writeln!(out, "last error: {}", plain(error));
    }
    let _ = writeln!(out, "{DIM}nothing was changed; add --yes to do it{DIM:#}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table::unstyled;

    fn sample() -> Jobs {
        serde_json::from_value(serde_json::json!({
            "kinds": [
                { "kind": "index-repo", "due": 12, "waiting": 3488, "leased": 4, "dead": 1,
                  "oldest_due_age_ms": 95_000 },
                { "kind": "wanted@harbour-1", "due": 0, "waiting": 2, "leased": 0, "dead": 0,
                  "oldest_due_age_ms": 0 },
            ],
            "jobs": [
                { "kind": "index-repo", "key": "github.com/acme/tides", "state": "leased",
                  "due": 1_060_000, "attempts": 0, "holder": "harbour-1", "period_ms": 86_400_000 },
                { "kind": "index-repo", "key": "github.com/acme/gone", "state": "dead",
                  "attempts": 1, "last_error": "github.com says that access is denied to us" },
                { "kind": "index-repo", "key": "github.com/acme/later", "state": "waiting",
                  "due": 4_600_000, "attempts": 2, "last_error": "502" },
            ],
            "next": 7,
        }))
        .unwrap()
    }

    #[test]
    fn a_queue_is_shown_as_tables() {
        let now = Now::at(1000);
        insta::assert_snapshot!(unstyled(&list(&sample(), false, now)));
        assert_eq!(list(&Jobs::default(), false, now), "no jobs\n");
        assert_eq!(list(&Jobs::default(), true, now), "no such jobs\n");
    }

    #[test]
    fn dropping_is_shown_before_it_is_done() {
        let plans: Vec<_> = sample()
            .jobs
            .iter()
            .map(|job| unstyled(&plan(job, Now::at(1000))))
            .collect();
        insta::assert_snapshot!(plans.join("\n"));
    }
}
