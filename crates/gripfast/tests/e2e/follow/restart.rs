//! Kills during the first reading of history.

use anyhow::{Result, ensure};
use grip_testkit::{Author, LocalProject, until_ok};

use super::scene::{events_of, node, node_with, publish, push, same_refs};

/// Enough for several fetches by id.
const ISSUES: usize = 700;

#[tokio::test]
async fn a_kill_during_the_first_reading_loses_nothing_and_starts_nothing_over() -> Result<()> {
    let a = node().await?;
    let project = LocalProject::new("tides")?;
    let mut b = node_with(&[("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &a.relay_url())]).await?;
    b.kill();
    let announcement = project.announcement_at(&[&a, &b], &[], 60);
    publish(&a, &announcement).await?;
    push(&project, &a, 50).await?;
    let reporter = Author::new();
    let mut relay = a.connect().await?;
    for n in 0..ISSUES {
        let issue = reporter.issue(&project.owner, "tides", &n.to_string());
        relay.publish_ok(&issue).await?;
    }
    let expected = events_of(&a).await?;
    b.launch().await?;
    let some = until_ok("a part is here", async || {
        let here = events_of(&b).await?;
        Ok((here.len() > 100).then_some(here))
    })
    .await?;
    b.kill();
    println!("killed with {} of {} events", some.len(), expected.len());
    b.launch().await?;
    let kept = events_of(&b).await?;
    ensure!(some.iter().all(|id| kept.contains(id)), "an event was lost");
    until_ok("everything is here", async || {
        Ok((events_of(&b).await? == expected).then_some(()))
    })
    .await?;
    // Only what was missing was sent again: the rest was compared, not fetched.
    let received: u64 = super::scene::relays(&b)
        .await?
        .iter()
        .filter_map(|relay| relay["events_received"].as_u64())
        .sum();
    let missing = (expected.len() - kept.len()) as u64;
    println!("{missing} events were missing, {received} were received");
    ensure!(
        received <= missing + 50,
        "{received} events for {missing} missing ones"
    );
    same_refs(&project, &a, &b).await
}
