use grip_ingest::{Accepted, Retained};
use serde_json::json;

use super::*;
use crate::commands::table::unstyled as shown;

#[test]
fn the_status_says_what_comes_from_where_and_when_the_budget_ends() {
    let answer = json!({
        "sources": [
            { "source": "orgs/acme", "is_configured": true, "polled_at": 990_000, "polls": 3,
              "due_at": 1_050_000, "trouble": "the list cannot be reached",
              "counts": { "PushEvent": 12, "WatchEvent": 30 } },
            { "source": "webhook", "counts": { "PushEvent": 5, "star": 1 } },
        ],
        "work": [
            { "kind": "github-user", "due": 2, "waiting": 1, "leased": 1, "dead": 0 },
            { "kind": "github-repo", "due": 0, "waiting": 0, "leased": 0, "dead": 0 },
        ],
        "budgets": [
            { "token": null, "resource": "core", "limit": 60, "remaining": 20,
              "reset_at": 4_000_000, "per_hour": 240.0, "ends_at": 1_300_000 },
            { "token": 0, "resource": "core", "limit": 5000, "remaining": 0, "reset_at": 1_900_000,
              "per_hour": 5000.0, "ends_at": 1_000_000 },
            { "token": 1, "resource": "core", "limit": 5000, "remaining": 4990,
              "reset_at": 1_900_000, "per_hour": 12.4, "ends_at": null },
        ],
        "open_gaps": 2,
        "rejected": [ { "source": "orgs/acme", "reason": "id is missing", "times": 3,
                        "last_at": 940_000, "bytes": 3 } ],
        "progress": [ { "work": "events", "done": 400, "failed": 1, "updated_at": 999_000 } ],
    });
    let status: Status = serde_json::from_value(answer).unwrap();
    insta::assert_snapshot!(shown(&super::status(&status, Now::at(1_000))));
    let empty = super::status(&Status::default(), Now::at(1_000));
    assert_eq!(shown(&empty), "0 pushes stored\n\nno events yet\n");
}

#[test]
fn gaps_are_listed_with_what_fills_them() {
    let answer = json!({ "gaps": [
        { "source": "events", "after_at": 1_000_000, "before_at": 2_000_000,
          "found_at": 2_000_000, "closed_at": null },
        { "source": "orgs/acme", "after_at": null, "before_at": 2_000_000, "found_at": 2_000_000,
          "closed_at": 2_400_000, "closed_by": "file 2026-01-01-15.json.gz" },
    ], "next": null });
    let gaps: Gaps = serde_json::from_value(answer).unwrap();
    insta::assert_snapshot!(shown(&super::gaps(&gaps, true, Now::at(3_000))));
    let none = super::gaps(&Gaps::default(), false, Now::at(1));
    assert_eq!(none, "no open gaps: nothing was missed\n");
}

#[test]
fn a_dry_run_of_retention_differs_from_a_deletion() {
    let retention = |dry_run| Retention {
        dry_run,
        gone: Retained {
            events: 5,
            open_gaps: 1,
            ..Retained::default()
        },
    };
    let would = shown(&super::retention(&retention(true)));
    assert!(
        would.ends_with("would be deleted; --yes deletes them\n"),
        "{would}"
    );
    assert!(
        would.contains("open gaps  1") && !would.contains("users"),
        "{would}"
    );
    assert!(super::retention(&retention(false)).ends_with("are deleted\n"));
    assert!(super::retention(&Retention::default()).starts_with("no row is older"));
}

#[test]
fn a_file_is_told_of_in_one_line() {
    let done = FileDone {
        was_known: false,
        resumed_after: 2_000,
        lines: 3_000,
        accepted: Accepted {
            new: 800,
            known: 100,
            other: 99,
            rejected: 1,
        },
        span: None,
        gaps_closed: 1,
    };
    let path = Path::new("/x/2015-01-01-15.json.gz");
    assert_eq!(
        shown(&file(path, &done)),
        "2015-01-01-15.json.gz: 800 new pushes, 100 known, 99 other events, 1 that cannot be read; \
         continued after line 2000; 1 gap is filled\n"
    );
    let known = FileDone {
        was_known: true,
        gaps_closed: 0,
        ..done
    };
    assert_eq!(
        file(path, &known),
        "2015-01-01-15.json.gz: was read before\n"
    );
}
