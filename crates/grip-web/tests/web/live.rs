//! Parts of pages that keep up with the node.

use std::time::Duration;

use anyhow::Result;
use grip_tasks::Ended;
use grip_testkit::{Author, WorkTree, events::tag, http::request};

use crate::support::Node;

#[tokio::test]
async fn a_part_is_sent_when_it_changes_and_its_stream_ends_with_the_node() -> Result<()> {
    let node = Node::start().await?;
    let mut stream = node.open().await?;
    stream
        .send(&request("GET", "/live/purgatory", &[], b""))
        .await?;
    let head = stream.until_text("data: ").await?.to_ascii_lowercase();
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    assert!(head.contains("cache-control: no-store"), "{head}");
    node.announce(&Author::new(), "late").await?;
    // Times are dates, which the page tells by their distance.
    let part = stream.until_text("data-ago").await?;
    assert!(part.contains("late"), "{part}");
    node.metrics_with(&["requests_in_flight{route=\"live\"} 1"])
        .await?;
    assert_eq!(node.stop(Duration::from_secs(10)).await, Ended::Drained);
    stream.closed().await?;
    Ok(())
}

#[tokio::test]
async fn streams_have_a_bound_and_pages_do_not_need_them() -> Result<()> {
    let node = Node::start_with(|settings| settings.limits.live = 0).await?;
    let refused = node.get("/live/home").await?;
    refused.must_be(429, &["live"]);
    node.get("/")
        .await?
        .must_be(200, &["data-live=\"/live/home\""]);
    assert_eq!(node.get("/live/nothing").await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn nobody_fills_the_list_of_activity_alone() -> Result<()> {
    let node = Node::start().await?;
    let (owner, loud, quiet) = (Author::new(), Author::new(), Author::new());
    node.host(&owner, "tides", &WorkTree::with_commit()?)
        .await?;
    let mut relay = node.relay().await?;
    let issue = |author: &Author, subject: &str| author.issue(&owner, "tides", subject);
    relay.publish_ok(&issue(&quiet, "a quiet word")).await?;
    for n in 0..20 {
        relay
            .publish_ok(&issue(&loud, &format!("loud {n}")))
            .await?;
    }
    // A profile is taken if it names something served; its name is shown from then on.
    let named = vec![tag(["a", &owner.coordinate("tides")])];
    relay
        .publish_ok(&quiet.sign(0, r#"{"name":"Quiet Quinn"}"#, named))
        .await?;
    let home = grip_testkit::until("it is listed", || async {
        let home = node.get("/").await.ok()?.text();
        let is_whole = home.contains("Quiet Quinn") && home.contains("loud ");
        is_whole.then_some(home)
    })
    .await?;
    assert_eq!(home.matches(">loud ").count(), 3, "{home}");
    assert!(home.contains("a quiet word") && home.contains("pushed to"));
    Ok(())
}
