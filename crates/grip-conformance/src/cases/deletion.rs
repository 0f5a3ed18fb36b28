//! G01-54 … G01-58: deletions.

use anyhow::{Result, ensure};
use grip_testkit::{Author, git};
use nostr::prelude::Timestamp;

use super::cases;
use crate::{Target, fixture::Fixture};

cases! {
    "G01-54" "deleting a held state by id takes the right to push" Url => held_state_by_id;
    "G01-54" "deleting a held state by address takes the right to push" Url => held_state_by_address;
    "G01-55" "only one's own events are deleted, and they stay deleted" Url => own_only;
    "G01-56" "deleting a held announcement or pull request takes its repository or ref" Url => held_others;
    "G01-57" "deleting a served announcement stops the repository, a new one restores it" Url => served_announcement;
    "G01-57" "deleting the served state takes its refs, deleting a pull request takes its ref" Url => served_state_and_pr;
    "G01-58" "events of a banned author are refused" Control => bans;
}

async fn held_state_by_id(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    let owner = fixture.owner.clone();
    let state = fixture.own_state()?;
    fixture.held(&state).await?;
    fixture.publish(&owner.delete_events(&[state.id])).await?;
    fixture.push_refused(&["main"]).await?;
    fixture.refused(&state).await?;
    Ok(())
}

async fn held_state_by_address(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    let owner = fixture.owner.clone();
    let state = fixture.own_state()?;
    fixture.held(&state).await?;
    fixture
        .publish(&owner.delete_address(30618, &fixture.identifier))
        .await?;
    fixture.push_refused(&["main"]).await?;
    // A later version may be published and lives.
    let tip = fixture.tree.tip("HEAD")?;
    let later = Timestamp::now() + 2_u64;
    let refs = [("refs/heads/main", &*tip)];
    let state = owner.state_at(&fixture.identifier, &refs, None, later);
    fixture.held(&state).await?;
    fixture.push_ok(&["main"]).await?;
    Ok(())
}

async fn own_only(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let (reporter, stranger) = (Author::new(), Author::new());
    let issue = fixture.issue(&reporter, "x");
    fixture.accepted(&issue).await?;
    fixture
        .refused(&stranger.delete_events(&[issue.id]))
        .await?;
    ensure!(
        fixture.relay.serves(&issue.id).await?,
        "a stranger's deletion has no effect"
    );
    let deletion = reporter.delete_events(&[issue.id]);
    fixture.accepted(&deletion).await?;
    fixture.must_not_serve(&issue.id).await?;
    fixture.refused(&issue).await?;
    // A deletion that comes before its target works too, and a deletion cannot be deleted.
    let early = fixture.issue(&reporter, "early");
    fixture
        .publish(&reporter.delete_events(&[early.id]))
        .await?;
    fixture.refused(&early).await?;
    fixture
        .publish(&reporter.delete_events(&[deletion.id]))
        .await?;
    ensure!(fixture.relay.serves(&deletion.id).await?);
    Ok(())
}

async fn held_others(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let owner = fixture.owner.clone();
    let announcement = fixture.announcement(vec![]);
    fixture.held(&announcement).await?;
    let state = fixture.own_state()?;
    fixture.held(&state).await?;
    fixture
        .publish(&owner.delete_address(30617, &fixture.identifier))
        .await?;
    ensure!(
        git::ls_remote(&fixture.clone_url()).await.is_err(),
        "the empty repository goes"
    );
    let mut fixture = Fixture::served(target).await?;
    let contributor = Author::new();
    fixture.tree.git(["checkout", "-q", "-b", "feature"])?;
    let tip = fixture.tree.commit("feature", "x")?;
    let pr = fixture.pull_request(&contributor, &tip);
    fixture.held(&pr).await?;
    fixture
        .publish(&contributor.delete_events(&[pr.id]))
        .await?;
    fixture.refused(&pr).await?;
    Ok(())
}

async fn served_announcement(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let owner = fixture.owner.clone();
    let reporter = Author::new();
    let issue = reporter.issue(&owner, &fixture.identifier, "stays");
    fixture.accepted(&issue).await?;
    fixture
        .publish(&owner.delete_address(30617, &fixture.identifier))
        .await?;
    ensure!(
        git::ls_remote(&fixture.clone_url()).await.is_err(),
        "the repository is no longer served"
    );
    // What hangs on it alone goes along (G01-107).
    fixture.must_not_serve(&issue.id).await?;
    let later = Timestamp::from_secs(Timestamp::now().as_secs() + 2);
    let back = owner.announcement_at(&target.authority, &fixture.identifier, vec![], later);
    fixture.publish(&back).await?;
    let tip = fixture.tree.tip("HEAD")?;
    fixture.ref_is("refs/heads/main", &tip).await?;
    Ok(())
}

async fn served_state_and_pr(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let owner = fixture.owner.clone();
    let tip = fixture.tree.tip("HEAD")?;
    let contributor = Author::new();
    let pr = fixture.pull_request(&contributor, &tip);
    fixture.accepted(&pr).await?;
    fixture
        .publish(&contributor.delete_events(&[pr.id]))
        .await?;
    fixture
        .lacks_ref(&format!("refs/nostr/{}", pr.id.to_hex()))
        .await?;
    fixture
        .publish(&owner.delete_address(30618, &fixture.identifier))
        .await?;
    fixture.lacks_ref("refs/heads/main").await?;
    Ok(())
}

async fn bans(target: &Target) -> Result<()> {
    let banned = Author::new();
    let settings = [("NGIT_EVENT_BLACKLIST", &*banned.npub())];
    target.restart_with(&settings).await?;
    let mut fixture = Fixture::served(target).await?;
    let message = fixture.refused(&fixture.issue(&banned, "spam")).await?;
    ensure!(message.starts_with("blocked:"), "{message}");
    let announcement = banned.announcement(&target.authority, "banned", vec![]);
    fixture.refused(&announcement).await?;
    Ok(())
}
