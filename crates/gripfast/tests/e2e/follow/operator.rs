//! Followed relays as an operator sees them.

use anyhow::{Result, ensure};
use grip_testkit::{LocalProject, http::must_contain};
use serde_json::Value;

use super::scene::{announce, node, node_with, until_relay};

#[tokio::test]
async fn g02_45_relays_are_shown_with_their_health_their_error_and_their_next_attempt() -> Result<()>
{
    let (a, mut b) = (node().await?, node().await?);
    let project = LocalProject::new("tides")?;
    announce(&project, &[&a, &b]).await?;
    let url = b.relay_url();
    let relay = until_relay(&a, "a has read the history of b", |relay| {
        relay["health"] == "healthy" && relay["is_reading_history"] == false
    })
    .await?;
    ensure!(
        relay["relay"] == url.as_str() && relay["repositories"] == 1,
        "{relay}"
    );
    ensure!(
        relay["history_by"] == "nip77" && relay["full_at"].is_i64(),
        "{relay}"
    );
    b.kill();
    until_relay(&a, "a has lost b", |relay| {
        relay["health"] == "disconnected" && relay["last_error"].is_string()
    })
    .await?;
    must_contain(&a.get("/sync").await?.text(), &[&url, "not connected"]);
    let metrics = a.get("/metrics").await?.text();
    must_contain(
        &metrics,
        &[
            "ngit_sync_relays_tracked_total 1",
            "ngit_sync_relays_connected_total 0",
            "ngit_sync_relays_dead_total 0",
            "ngit_sync_events_synced_total ",
            "ngit_sync_relays{health=\"disconnected\"} 1",
        ],
    );
    Ok(())
}

/// G03-1, G03-13: GRASP-03 is never on without GRASP-02.
#[tokio::test]
async fn g03_1_13_nip_11_lists_exactly_the_grasps_that_are_on() -> Result<()> {
    for (enabled, plus, grasps) in [
        ("true", "false", vec!["GRASP-01", "GRASP-02"]),
        ("true", "true", vec!["GRASP-01", "GRASP-02", "GRASP-03"]),
        ("false", "true", vec!["GRASP-01"]),
    ] {
        let env = [
            ("GRIPFAST_SYNC_ENABLED", enabled),
            ("NGIT_SYNC_PLUS_ENABLED", plus),
            ("NGIT_USER_INDEX_RELAYS", ""),
            ("NGIT_SYNC_PLUS_FALLBACK_RELAYS", ""),
        ];
        let node = node_with(&env).await?;
        let accept = [("accept", "application/nostr+json")];
        let document: Value = node.ask("GET", "/", &accept, b"").await?.json()?;
        ensure!(
            document["supported_grasps"] == serde_json::json!(grasps),
            "{document}"
        );
    }
    Ok(())
}
