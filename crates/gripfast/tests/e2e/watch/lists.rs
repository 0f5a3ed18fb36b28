//! Lists of events are read again and again.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{FakeGitHub, http::must_contain, until};

use crate::watch::scene::{push, pushes, watching};

#[tokio::test]
async fn an_organisation_is_watched_within_its_budget_until_told_to_stop() -> Result<()> {
    let github = FakeGitHub::enterprise("127.0.0.93", false).await?;
    github.add_user("mona");
    let people: Vec<String> = (0..40).map(|n| format!("person-{n}")).collect();
    for person in &people {
        github.add_user(person);
    }
    let mut expected = Vec::new();
    for (number, person) in people.iter().enumerate() {
        expected.push(push(&github, person, &format!("acme/repo-{number}"))?);
    }
    push(&github, "mona", "elsewhere/other")?;
    let mut node = watching(&github, &[])?;
    node.launch().await?;
    until("the pushes of the organisation are kept", || async {
        (pushes(&node).await.ok()? == expected).then_some(())
    })
    .await
    .with_context(|| format!("log:\n{}", node.log()))?;
    // 80 people and repositories, and 60 calls an hour.
    until("the budget is used up", || async {
        let status = node.json("/api/v1/github/status").await.ok()?;
        let work = status["work"].as_array()?.iter();
        let later: i64 = work.filter_map(|kind| kind["waiting"].as_i64()).sum();
        (later > 20).then_some(())
    })
    .await
    .with_context(|| format!("log:\n{}", node.log()))?;
    let refused = github.counts();
    ensure!(refused.over_budget == 0, "{refused:?}");
    let shown = node.run(&["ingest", "status"]).await?;
    must_contain(&shown, &["orgs/acme", "no token", "resets in"]);
    let as_json = node.run(&["ingest", "status", "--json"]).await?;
    let status: serde_json::Value = serde_json::from_str(&as_json)?;
    ensure!(status["sources"][0]["source"] == "orgs/acme", "{as_json}");

    let asked = Instant::now();
    let ended = node.stop().await?;
    ensure!(ended.success(), "{ended}");
    ensure!(asked.elapsed() < Duration::from_secs(10));
    ensure!(node.log().contains("stopped: drained"), "{}", node.log());
    Ok(())
}
