//! Kills during the first reading of history.

use anyhow::{Result, ensure};
use grip_testkit::{Author, LocalProject, Node, clock_off_by, events::tag, until_ok};
use nostr::prelude::Timestamp;

use super::scene::{events_of, node, node_with, publish, push, relays, same_refs, traffic};

/// Enough for several fetches by id.
const ISSUES: usize = 700;
/// Enough for several pages of 500.
const PAGED_ISSUES: usize = 2_500;

#[tokio::test]
async fn a_kill_during_the_first_reading_loses_nothing_and_starts_nothing_over() -> Result<()> {
    // Only what was missing is sent again: the rest is compared, not fetched.
    killed_while_reading(ISSUES, ISSUES / 7, &[], 50).await
}

#[tokio::test]
async fn a_kill_among_pages_loses_nothing_and_starts_nothing_over() -> Result<()> {
    // The page that was cut off comes again, and the end of the one before.
    let by_pages = [("NGIT_SYNC_DISABLE_NEGENTROPY", "true")];
    killed_while_reading(PAGED_ISSUES, PAGED_ISSUES / 2, &by_pages, 600).await
}

/// Kills a node during its first reading of so many issues, once it has more than `enough` events. After
/// its next start it may receive `again` events beside those that were missing.
async fn killed_while_reading(
    issues: usize,
    enough: usize,
    env: &[(&str, &str)],
    again: u64,
) -> Result<()> {
    let a = node().await?;
    let project = LocalProject::new("tides")?;
    let url = a.relay_url();
    let bootstrap = ("NGIT_SYNC_BOOTSTRAP_RELAY_URL", url.as_str());
    let mut b = node_with(&[&[bootstrap], env].concat()).await?;
    b.kill();
    let announcement = project.announcement_at(&[&a, &b], &[], 60);
    publish(&a, &announcement).await?;
    push(&project, &a, 50).await?;
    report(&project, &a, issues).await?;
    let expected = events_of(&a).await?;
    b.launch().await?;
    let some = until_ok("a part is here", async || {
        let here = events_of(&b).await?;
        Ok((here.len() > enough).then_some(here))
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
    let received = traffic(&b).await?.events;
    let missing = (expected.len() - kept.len()) as u64;
    println!("{missing} events were missing, {received} were received");
    ensure!(
        received <= missing + again,
        "{received} events for {missing} missing ones"
    );
    same_refs(&project, &a, &b).await
}

/// Publishes as many issues on a node, each a second older than the one before.
async fn report(project: &LocalProject, node: &Node, count: usize) -> Result<()> {
    let reporter = Author::new();
    let mut relay = node.connect().await?;
    let now = Timestamp::now();
    let issues = (0..count as u64).map(|n| {
        let tags = vec![tag(["a", &project.coordinate()])];
        reporter.sign_at(1621, &n.to_string(), tags, now - n)
    });
    let issues: Vec<_> = issues.collect();
    for part in issues.chunks(100) {
        for issue in part {
            relay.send(serde_json::json!(["EVENT", issue])).await?;
        }
        for issue in part {
            ensure!(relay.answer(&issue.id).await?.accepted);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_second_full_reading_with_nothing_new_receives_almost_nothing() -> Result<()> {
    let a = node().await?;
    let project = LocalProject::new("tides")?;
    let mut b = node_with(&[("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &a.relay_url())]).await?;
    b.kill();
    publish(&a, &project.announcement_at(&[&a, &b], &[], 60)).await?;
    push(&project, &a, 50).await?;
    report(&project, &a, ISSUES).await?;
    let expected = events_of(&a).await?;
    b.launch().await?;
    until_ok("every event is here", async || {
        Ok((events_of(&b).await? == expected).then_some(()))
    })
    .await?;
    until_ok("everything was read", async || {
        let relays = relays(&b).await?;
        let is_read = relays
            .iter()
            .all(|relay| relay["is_reading_history"] == false && relay["full_at"].is_u64());
        // And once more as a whole, which is what counts from then on.
        let is_compared = relays
            .iter()
            .any(|relay| relay["history_by"] == "everything");
        Ok((is_read && is_compared).then_some(()))
    })
    .await?;
    let first = traffic(&b).await?;
    // Two days later everything is read again.
    b.kill();
    for (name, value) in clock_off_by(2 * 86_400)? {
        b.set_env(&name, &value);
    }
    b.launch().await?;
    let second = until_ok("everything was read again", async || {
        let relays = relays(&b).await?;
        let is_later = |at: &serde_json::Value| {
            let now = Timestamp::now().as_secs() * 1_000;
            at.as_u64().is_some_and(|at| at > now + 86_400_000)
        };
        let is_read = relays
            .iter()
            .any(|relay| relay["is_reading_history"] == false && is_later(&relay["full_at"]));
        Ok(if is_read {
            Some(traffic(&b).await?)
        } else {
            None
        })
    })
    .await?;
    println!("first: {first}\nsecond: {second}");
    ensure!(second.events == 0, "{second}");
    ensure!(second.received * 100 < first.received, "{first}; {second}");
    ensure!(second.sent * 100 < first.sent, "{first}; {second}");
    Ok(())
}
