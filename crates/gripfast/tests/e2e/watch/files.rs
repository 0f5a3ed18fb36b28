//! Old events from files, which fill holes.

use std::{fmt::Write as _, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use flate2::{Compression, write::GzEncoder};
use grip_testkit::{FakeGitHub, Node, until};
use serde_json::{Value, json};
use std::io::Write as _;

use crate::{BINARY, EVERY_LINE, watch::scene::watching};

/// Events of one hour in a file as gharchive.org has them.
fn write_file(node: &Node, name: &str, events: &[Value]) -> Result<PathBuf> {
    let mut text = String::new();
    for event in events {
        writeln!(text, "{event}")?;
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text.as_bytes())?;
    let path = node.work_dir().join(name);
    std::fs::write(&path, packed.finish()?)?;
    Ok(path)
}

#[tokio::test]
async fn a_hole_in_a_list_is_filled_from_a_file() -> Result<()> {
    let github = FakeGitHub::enterprise("127.0.0.100", true).await?;
    let first = github.push("jo", "acme/one");
    let mut node = watching(&github, &[("GRIPFAST_WATCH_ENRICH", "false")])?;
    node.launch().await?;
    let total = async |wanted: u64| {
        until("so many pushes are kept", || async {
            let stats = node.json("/api/v1/github/stats").await.ok()?;
            (stats["pushes_total"] == wanted).then_some(())
        })
        .await
        .with_context(|| format!("{wanted}; log:\n{}", node.log()))
    };
    total(1).await?;
    // More than the list shows happens at once.
    let one = |_| github.push_event("jo", "acme/one");
    let missed: Vec<Value> = (0..320).map(one).collect();
    github.emit_between_pages([missed.clone()]);
    total(301).await?;
    let gaps = node.run(&["ingest", "gaps"]).await?;
    ensure!(
        gaps.contains("orgs/acme") && gaps.contains("backfill"),
        "{gaps}"
    );

    let mut all = vec![first];
    all.extend(missed);
    let moment = all[0]["created_at"].as_str().context("a moment")?;
    let hour = format!("{}-{}", &moment[..10], moment[11..13].parse::<u32>()?);
    let file = write_file(&node, &format!("{hour}.json.gz"), &all)?;
    let file = file.to_string_lossy().into_owned();
    let said = node.run(&["ingest", "backfill", &file]).await?;
    ensure!(said.contains("20 new pushes, 301 known"), "{said}");
    ensure!(said.contains("1 gap is filled"), "{said}");
    total(321).await?;
    let gaps = node.run(&["ingest", "gaps"]).await?;
    ensure!(gaps.starts_with("no open gaps"), "{gaps}");
    let gaps = node.run(&["ingest", "gaps", "--all", "--json"]).await?;
    let gaps: Value = serde_json::from_str(&gaps)?;
    ensure!(
        gaps["gaps"][0]["closed_by"] == format!("file {hour}.json.gz"),
        "{gaps}"
    );
    let again = node.run(&["ingest", "backfill", &file]).await?;
    ensure!(again.contains("was read before"), "{again}");
    Ok(())
}

#[tokio::test]
async fn a_reader_that_is_killed_goes_on_beside_the_running_node() -> Result<()> {
    const EVENTS: u64 = 40_000;
    let node = Node::start_with(BINARY, &[("GRIPFAST_GITHUB_WEBHOOK_SECRET", "x")]).await?;
    let event = |number: u64| {
        json!({
            "id": (2_000_000_000 + number).to_string(), "type": "PushEvent",
            "actor": {"id": 7, "login": "mona", "url": "https://api.github.com/users/mona[bot]"},
            "repo": {"id": 5, "name": "acme/one"},
            "payload": {
                "push_id": number + 1, "ref": "refs/heads/main",
                "head": format!("{number:040x}"), "before": "0".repeat(40),
            },
            "created_at": "2015-01-01T15:00:00Z",
        })
    };
    let events: Vec<Value> = (0..EVENTS).map(event).collect();
    let file = write_file(&node, "2015-01-01-15.json.gz", &events)?;
    let file = file.to_string_lossy().into_owned();
    let kept = async || {
        let stats = node.json("/api/v1/github/stats").await.ok()?;
        stats["pushes_total"].as_u64()
    };
    let mut reader = node.command(&["ingest", "backfill", &file]).spawn()?;
    until("some of it is kept", || async {
        kept().await.filter(|kept| *kept > 0)
    })
    .await?;
    reader.kill().await?;
    let said = node.run(&["ingest", "backfill", "--json", &file]).await?;
    let done: Value = serde_json::from_str(&said)?;
    let before = done["resumed_after"].as_u64().context("a number")?;
    ensure!((1..EVENTS).contains(&before), "{said}");
    ensure!(done["accepted"]["new"] == EVENTS - before, "{said}");
    ensure!(done["accepted"]["known"] == 0, "{said}");
    until("all of it is counted", || async {
        kept().await.filter(|kept| *kept == EVENTS)
    })
    .await?;
    let mut reextract = node.command(&["ingest", "reextract"]);
    let read = reextract.env("GRIPFAST_FAULT", EVERY_LINE).output().await?;
    let said = String::from_utf8_lossy(&read.stderr).into_owned();
    ensure!(read.status.success(), "{said}");
    let last = said.lines().last().unwrap_or_default();
    let all = EVENTS;
    ensure!(
        last == format!("reextract: {all} of {all}, 0s left"),
        "{said}"
    );
    let said = String::from_utf8_lossy(&read.stdout).into_owned();
    ensure!(
        said == format!("read {all} rows again, 0 unreadable\n"),
        "{said}"
    );
    Ok(())
}
