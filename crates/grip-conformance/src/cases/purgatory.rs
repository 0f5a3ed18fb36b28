//! G01-12 … G01-15, G01-19 … G01-22: what is held, and for how long.

use anyhow::{Result, ensure};
use grip_testkit::{Author, git, until};
use serde_json::json;

use super::cases;
use crate::{Target, fixture::Fixture};

/// Lifetimes short enough to watch.
const SHORT: &[(&str, &str)] = &[
    ("GRIPFAST_PURGATORY_LIFETIME", "3s"),
    ("GRIPFAST_ORPHAN_REF_LIFETIME", "2s"),
    ("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "100ms"),
];

cases! {
    "G01-12" "announcement, state, pull request and update are held with the exact text" Url => held_text;
    "G01-13" "held events are in no query, count, reconciliation or live stream until released" Url => invisible;
    "G01-14" "each kind is released by its own data" Url => releases;
    "G01-15" "a held announcement's empty repository can be cloned and pushed to" Url => empty_repository;
    "G01-19" "a state restarts the timer of its held announcement" Control => timer_restarts;
    "G01-20" "an expired announcement loses its repository and is revived by a state" Control => two_phases;
    "G01-21" "what is held survives a power cut" Control => survives;
    "G01-22" "purgatory is bounded and says so" Url => bounded;
}

async fn held_text(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let announcement = fixture.announcement(vec![]);
    fixture.held(&announcement).await?;
    let state = fixture.own_state()?;
    fixture.held(&state).await?;
    let mut fixture = Fixture::served(target).await?;
    let contributor = Author::new();
    let pr = fixture.pull_request(&contributor, &"ab".repeat(20));
    fixture.held(&pr).await?;
    let update =
        contributor.pull_request_update(&fixture.owner, &fixture.identifier, &pr, &"cd".repeat(20));
    fixture.held(&update).await?;
    let sha256 = fixture.pull_request(&contributor, &"ab".repeat(32));
    fixture.held(&sha256).await
}

async fn invisible(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let filter = json!({"kinds": [30617, 30618], "#d": [fixture.identifier]});
    let mut watcher = target.connect().await?;
    let sub = watcher.subscribe(std::slice::from_ref(&filter)).await?;
    ensure!(watcher.stored(&sub).await?.is_empty());
    let announcement = fixture.announcement(vec![]);
    fixture.held(&announcement).await?;
    let state = fixture.own_state()?;
    fixture.held(&state).await?;
    ensure!(
        fixture
            .relay
            .query(std::slice::from_ref(&filter))
            .await?
            .is_empty()
    );
    fixture.relay.send(json!(["COUNT", "c", filter])).await?;
    let count = fixture.relay.expect("COUNT", |m| m[1] == "c").await?;
    ensure!(count[0] == "COUNT" && count[2]["count"] == 0, "{count}");
    // Negentropy over an empty set: the first message of a client that holds nothing.
    fixture
        .relay
        .send(json!(["NEG-OPEN", "n", filter, "6100000200"]))
        .await?;
    let answer = fixture.relay.expect("NEG-MSG", |m| m[1] == "n").await?;
    ensure!(answer[0] == "NEG-MSG", "{answer}");
    let hex = answer[2].as_str().unwrap_or_default();
    ensure!(!hex.contains(&announcement.id.to_hex()) && !hex.contains(&state.id.to_hex()));
    // Relations to a held event do not count either.
    let comment = Author::new().comment(&state, "early");
    ensure!(!fixture.relay.publish(&comment).await?.is_served());
    fixture.push_ok(&["main"]).await?;
    let live = [watcher.live(&sub).await?.id, watcher.live(&sub).await?.id];
    ensure!(
        live.contains(&announcement.id) && live.contains(&state.id),
        "both are told live"
    );
    Ok(())
}

async fn releases(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    fixture.publish_and_push().await?;
    // A state of objects that are here needs no push.
    let tip = fixture.tree.tip("HEAD")?;
    let more = [
        ("refs/heads/main", tip.as_str()),
        ("refs/heads/next", tip.as_str()),
    ];
    let state = fixture.state(&more, Some("refs/heads/main"));
    fixture.accepted(&state).await?;
    fixture.ref_is("refs/heads/next", &tip).await?;
    // A pull request whose commit is here needs no push either.
    let pr = fixture.pull_request(&Author::new(), &tip);
    fixture.accepted(&pr).await?;
    ensure!(
        fixture
            .remote_ref(&format!("refs/nostr/{}", pr.id.to_hex()))
            .await?
            == Some(tip)
    );
    Ok(())
}

async fn empty_repository(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let announcement = fixture.announcement(vec![]);
    fixture.held(&announcement).await?;
    let clone = grip_testkit::WorkTree::clone(&fixture.clone_url(), &[]).await?;
    ensure!(clone.git(["for-each-ref"])?.is_empty());
    let state = fixture.publish_and_push().await?;
    fixture.must_serve(&announcement.id).await?;
    fixture.must_serve(&state.id).await
}

async fn timer_restarts(target: &Target) -> Result<()> {
    target.restart_with(SHORT).await?;
    let mut fixture = Fixture::announced(target).await?;
    // Keep sending states for longer than one lifetime; the repository must stay reachable. Many
    // looks to a state, since only so many may wait at once.
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_secs(5) {
        let state = fixture.state(&[("refs/heads/main", &"ab".repeat(20))], None);
        fixture.held(&state).await?;
        for _ in 0..10 {
            let reached = git::ls_remote(&fixture.clone_url()).await;
            ensure!(reached.is_ok(), "gone after {:?}", began.elapsed());
        }
    }
    Ok(())
}

async fn two_phases(target: &Target) -> Result<()> {
    target.restart_with(SHORT).await?;
    let mut fixture = Fixture::announced(target).await?;
    let url = fixture.clone_url();
    until("the empty repository is gone", || async {
        git::ls_remote(&url).await.is_err().then_some(())
    })
    .await?;
    let state = fixture.own_state()?;
    fixture.held(&state).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&state.id).await
}

async fn survives(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let announcement = fixture.announcement(vec![]);
    fixture.held(&announcement).await?;
    let state = fixture.own_state()?;
    fixture.held(&state).await?;
    target.restart_with(&[]).await?;
    fixture.relay = target.connect().await?;
    fixture.must_not_serve(&state.id).await?;
    fixture.duplicate(&state).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&announcement.id).await?;
    fixture.must_serve(&state.id).await
}

async fn bounded(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let author = Author::new();
    for n in 0..2_000u32 {
        let tip = format!("{n:040x}");
        let pr = fixture.pull_request(&author, &tip);
        let answer = fixture.relay.publish(&pr).await?;
        if !answer.accepted {
            ensure!(answer.message.starts_with("rate-limited:"), "{answer:?}");
            // Others are not locked out.
            let other = Author::new();
            let issue = fixture.issue(&other, "still open");
            return fixture.accepted(&issue).await;
        }
    }
    anyhow::bail!("one author may hold 2,000 pull requests")
}
