//! The index, for people.

use std::fmt::Write as _;

use grip_index::{RepoFacts, SumDbStatus};
use grip_queue::State;
use grip_web::api_types::{
    IndexSource, IndexStatus, IndexWork, IndexedRepo, IndexedTag, SumDbView,
};

use crate::commands::{
    table::{BOLD, DIM, Table, counted, counted_as, plain},
    when::Now,
};

fn next(work: &IndexWork, now: Now) -> String {
    match (work.state, work.next_due_ms) {
        (Some(State::Leased), _) => "running".to_owned(),
        (Some(State::Dead), _) => "failed for good".to_owned(),
        (Some(State::Due), _) => "now".to_owned(),
        (_, Some(due)) => now.millis(due),
        (_, None) => "–".to_owned(),
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn repositories(number: i64) -> String {
    counted_as(unsigned(number), "repository", "repositories")
}

pub(super) fn status(answer: &IndexStatus, now: Now) -> String {
    let (status, sources) = (&answer.status, &answer.sources);
    let mut out = format!(
        "{BOLD}{}{BOLD:#} of modules, from {} of {}\n",
        counted(unsigned(status.versions), "version"),
        counted(unsigned(status.tags), "tag"),
        repositories(status.repos),
    );
    let waiting = status.repos - status.repos_indexed;
    if waiting > 0 {
        let _ = writeln!(out, "{} not indexed yet", repositories(waiting));
    }
    if status.repos_gone > 0 {
        let _ = writeln!(out, "{} gone", repositories(status.repos_gone));
    }
    if status.stamp_ns > 0 {
        let at = now.millis(status.stamp_ns / 1_000_000);
        let _ = writeln!(out, "the feed last changed {at}");
    }
    out.push('\n');
    out.push_str(&source_table(sources, now));
    out
}

/// The sources alone, and how to take leave of those that left.
pub(super) fn sources(answer: &IndexStatus, now: Now) -> String {
    let mut out = source_table(&answer.sources, now);
    let has_left = |source: &IndexSource| !source.status.is_configured;
    if answer.sources.iter().any(has_left) {
        out.push_str(&format!(
            "  {DIM}`gripfast index forget SOURCE` removes what only a source lists that left the \
             settings of every instance{DIM:#}\n"
        ));
    }
    out
}

fn source_table(sources: &[IndexSource], now: Now) -> String {
    if sources.is_empty() {
        return "no sources\n".to_owned();
    }
    let mut table = Table::new(["source", "repositories", "listed", "next"], 0);
    for IndexSource { status, work } in sources {
        let source = status;
        let repos = match source.found_so_far {
            Some(found) => format!("{}, {found} so far", source.repos),
            None => source.repos.to_string(),
        };
        let next = match (source.is_configured, source.left_ms) {
            (true, _) => next(work, now),
            (false, Some(left)) => format!("hidden {}", now.millis(left)),
            (false, None) => "not configured".to_owned(),
        };
        table.row([
            &source.name,
            &repos,
            &source
                .finished_ms
                .map_or("never".into(), |at| now.millis(at)),
            &next,
        ]);
        table.note(work.last_error.clone());
    }
    table.render()
}

pub(super) fn sumdb(view: &SumDbView, now: Now) -> String {
    let SumDbStatus { verifier, .. } = &view.status;
    let mut out = format!(
        "{BOLD}{}{BOLD:#} versions are logged by {}\n\nGOSUMDB=\"{verifier} {}\"\n",
        view.status.records,
        plain(&view.status.name),
        view.url,
    );
    if view.moved_versions.is_empty() {
        return out;
    }
    let _ = writeln!(
        out,
        "\n{} tags have moved away from what was logged:",
        view.status.moved
    );
    let mut table = Table::new(["version", "logged at", "tag leads to", "noticed"], 0);
    for moved in &view.moved_versions {
        let version = format!("{}@{}", moved.path, moved.version);
        let short = |oid: &str| oid.get(..10).unwrap_or(oid).to_owned();
        let (logged, commit) = (short(&moved.logged), short(&moved.commit));
        table.row([&version, &logged, &commit, &now.millis(moved.seen_at_ms)]);
    }
    out.push_str(&table.render());
    out
}

pub(super) fn repo(repo: &IndexedRepo, now: Now) -> String {
    let mut out = format!("{BOLD}{}{BOLD:#}\n", plain(&repo.name));
    let unknown = RepoFacts::default();
    let facts = repo.facts.as_ref().unwrap_or(&unknown);
    let _ = match (facts.gone_ms, facts.finished_ms) {
        (Some(gone), _) => writeln!(out, "it is gone; that was noticed {}", now.millis(gone)),
        (None, Some(at)) => writeln!(
            out,
            "{} tags, {} of which claim a version; indexed {}, next {}",
            facts.tags,
            facts.claims,
            now.millis(at),
            next(&repo.work, now)
        ),
        (None, None) => writeln!(out, "not indexed yet, next {}", next(&repo.work, now)),
    };
    if let Some(error) = &repo.work.last_error {
        let _ = writeln!(out, "last error: {}", plain(error));
    }
    if repo.tags.is_empty() {
        return out;
    }
    out.push('\n');
    for IndexedTag { tag, in_feed } in &repo.tags {
        let mark = if *in_feed { "✓" } else { "–" };
        let claim = match (&tag.path, &tag.version) {
            (Some(path), Some(version)) => plain(&format!("  {path} {version}")),
            _ => String::new(),
        };
        let _ = writeln!(out, "  {mark} {}{claim}", plain(&tag.name));
        if let (false, Some(why)) = (in_feed, &tag.why) {
            let _ = writeln!(out, "      {DIM}{}{DIM:#}", plain(why));
        }
    }
    if let Some(last) = &repo.next {
        let (name, last) = (plain(&repo.name), plain(last));
        let _ = writeln!(
            out,
            "  {DIM}and more: /api/v1/index/repos/{name}?after={last} has them{DIM:#}"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::table::unstyled;

    #[test]
    fn the_index_is_shown_with_its_sources() {
        let sample: IndexStatus = serde_json::from_value(json!({
            "versions": 8214, "repos": 3500, "repos_indexed": 3120, "repos_gone": 2,
            "tags": 9001, "stamp_ns": 995_000_000_000_i64,
            "sources": [
                { "name": "github.com/orgs/acme", "is_configured": true, "repos": 3400,
                  "finished_ms": 900_000, "state": "waiting", "next_due_ms": 87_400_000 },
                { "name": "github.com/users/bob", "is_configured": true, "repos": 90,
                  "found_so_far": 100, "state": "waiting", "next_due_ms": 1_600_000,
                  "last_error": "github.com asks us to wait: the limit of 5000 calls is reached" },
                { "name": "hosted", "is_configured": true, "repos": 10, "finished_ms": 999_000,
                  "state": "leased", "next_due_ms": 1_300_000 },
                { "name": "ghe.old.example", "repos": 0 },
            ],
        }))
        .unwrap();
        insta::assert_snapshot!(unstyled(&status(&sample, Now::at(1000))));
        let empty = unstyled(&status(&IndexStatus::default(), Now::at(1000)));
        assert!(empty.contains("no sources"), "{empty}");
    }

    #[test]
    fn each_tag_of_a_repository_says_why_it_is_listed_or_not() {
        let sample: IndexedRepo = serde_json::from_value(json!({
            "name": "github.com/acme/tides",
            "facts": { "finished_ms": 400_000, "tags": 4, "claims": 2 },
            "work": { "state": "waiting", "next_due_ms": 87_400_000 },
            "tags": [
                { "name": "v1.0.0", "path": "github.com/acme/tides", "version": "v1.0.0",
                  "in_feed": true },
                { "name": "v1.1.0", "path": "github.com/acme/other", "version": "v1.1.0",
                  "in_feed": false,
                  "why": "tag v1.1.0 of github.com/acme/other has the better claim to this version" },
                { "name": "v2.0.0", "in_feed": false,
                  "why": "go.mod says github.com/acme/tides, which cannot have v2.0.0" },
                { "name": "nightly", "in_feed": false,
                  "why": "its name is no version of a module, such as v1.2.3" },
            ],
            "next": "nightly",
        }))
        .unwrap();
        insta::assert_snapshot!(unstyled(&repo(&sample, Now::at(1000))));
        let gone: IndexedRepo =
            serde_json::from_value(json!({ "name": "a/b", "facts": { "gone_ms": 1 } })).unwrap();
        assert!(repo(&gone, Now::at(1000)).contains("it is gone"));
        let new: IndexedRepo =
            serde_json::from_value(json!({ "name": "a/b", "facts": null })).unwrap();
        assert!(repo(&new, Now::at(1000)).contains("not indexed yet"));
    }
}
