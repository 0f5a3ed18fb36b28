//! G01-43 … G01-53: `refs/nostr/<event-id>`.

use anyhow::{Result, ensure};
use grip_testkit::{Author, events::tag, git, until};
use nostr::prelude::Event;

use super::cases;
use crate::{Target, world::World};

cases! {
    "G01-43" "a tip may be pushed before its event, which is then served at once" Url => git_first;
    "G01-43" "a tip may be pushed after its event" Url => event_first;
    "G01-44" "the name is 64 lower-case hex digits" Url => names;
    "G01-45" "a tip that differs from the known event is refused" Url => wrong_tip;
    "G01-45" "an event of another kind or repository owns no such ref" Url => wrong_event;
    "G01-46" "a push beyond the size limit is refused readably" Control => size_limit;
    "G01-47" "a ref without its event is removed" Control => orphan;
    "G01-48" "an event that differs from the pushed tip removes the ref and waits" Url => mismatch;
    "G01-48a" "pull requests are judged in order" Url => arrival_order;
    "G01-49" "the ref appears in every relevant repository" Url => everywhere;
    "G01-50" "a pull request without a tip is refused, an update needs only its root" Url => tips;
    "G01-51" "a served tip cannot be moved or deleted" Url => fixed;
    "G01-52" "patches, issues, statuses and comments are never held" Url => never_held;
    "G01-53" "refs/nostr are advertised before their event is known" Url => advertised;
}

struct Contribution<'a> {
    world: World<'a>,
    contributor: Author,
    tip: String,
}

impl<'a> Contribution<'a> {
    /// A served repository and a commit that is not in it.
    async fn new(target: &'a Target) -> Result<Contribution<'a>> {
        let world = World::served(target).await?;
        world.tree.git(["checkout", "-q", "-b", "feature"])?;
        let tip = world.tree.commit("feature", "x")?;
        Ok(Contribution {
            world,
            contributor: Author::new(),
            tip,
        })
    }

    fn pull_request(&self) -> Event {
        let url = self.world.clone_url();
        self.contributor
            .pull_request(&self.world.owner, &self.world.identifier, &self.tip, &url)
    }

    async fn push_for(&self, event: &Event) -> Result<grip_testkit::GitOutput> {
        self.world
            .push(&[&format!("feature:{}", ref_of(event))])
            .await
    }
}

fn ref_of(event: &Event) -> String {
    format!("refs/nostr/{}", event.id.to_hex())
}

async fn git_first(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    let output = it.push_for(&pr).await?;
    ensure!(output.ok, "{}", output.stderr);
    it.world.accepted(&pr).await?;
    ensure!(it.world.remote_ref(&ref_of(&pr)).await? == Some(it.tip));
    Ok(())
}

async fn event_first(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.world.held(&pr).await?;
    let output = it.push_for(&pr).await?;
    ensure!(output.ok, "{}", output.stderr);
    it.world.must_serve(&pr.id).await
}

async fn names(target: &Target) -> Result<()> {
    let it = Contribution::new(target).await?;
    let id = "ab".repeat(32);
    for bad in [
        "123",
        "main",
        &id[..63],
        &id.to_uppercase(),
        &format!("{id}/deeper"),
        &format!("{id}0"),
    ] {
        it.world
            .push_refused(&[&format!("feature:refs/nostr/{bad}")])
            .await?;
    }
    Ok(())
}

async fn wrong_tip(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.world.held(&pr).await?;
    it.world
        .push_refused(&[&format!("main:{}", ref_of(&pr))])
        .await?;
    it.world.must_not_serve(&pr.id).await?;
    ensure!(it.push_for(&pr).await?.ok);
    it.world.must_serve(&pr.id).await
}

async fn wrong_event(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let issue = it
        .contributor
        .issue(&it.world.owner, &it.world.identifier, "no tip");
    it.world.accepted(&issue).await?;
    it.world
        .push_refused(&[&format!("feature:{}", ref_of(&issue))])
        .await?;
    let pr = it.pull_request();
    it.world.held(&pr).await?;
    let other = World::served(target).await?;
    let refspec = format!("feature:{}", ref_of(&pr));
    let output = it.world.tree.push(&other.clone_url(), &[&refspec]).await?;
    ensure!(!output.ok, "the pull request belongs to another repository");
    Ok(())
}

async fn size_limit(target: &Target) -> Result<()> {
    target
        .restart_with(&[("GRIPFAST_MAX_PACK_BYTES", "100000")])
        .await?;
    let it = Contribution::new(target).await?;
    // Letters of a generator, which hardly compress.
    let mut state = 1_u64;
    let noise: String = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + (state >> 58) as u8)
    })
    .take(400_000)
    .collect();
    it.world.tree.commit("large", &noise)?;
    let pr = it.pull_request();
    let printed = it
        .world
        .push_refused(&[&format!("feature:{}", ref_of(&pr))])
        .await?;
    ensure!(
        printed.contains("100000") || printed.contains("limit"),
        "{printed}"
    );
    ensure!(it.world.remote_ref(&ref_of(&pr)).await?.is_none());
    Ok(())
}

async fn orphan(target: &Target) -> Result<()> {
    target
        .restart_with(&[
            ("GRIPFAST_ORPHAN_REF_LIFETIME", "2s"),
            ("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "100ms"),
        ])
        .await?;
    let it = Contribution::new(target).await?;
    let pr = it.pull_request();
    ensure!(it.push_for(&pr).await?.ok);
    ensure!(
        it.world.remote_ref(&ref_of(&pr)).await?.is_some(),
        "it is there at first"
    );
    let url = it.world.clone_url();
    until("the orphan ref is gone", || async {
        let refs = git::ls_remote(&url).await.ok()?;
        (!refs.iter().any(|(name, _)| name.starts_with("refs/nostr/"))).then_some(())
    })
    .await
}

async fn mismatch(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.world
        .push_ok(&[&format!("main:{}", ref_of(&pr))])
        .await?;
    it.world.held(&pr).await?;
    ensure!(
        it.world.remote_ref(&ref_of(&pr)).await?.is_none(),
        "the unequal ref goes"
    );
    ensure!(it.push_for(&pr).await?.ok);
    it.world.must_serve(&pr.id).await
}

async fn arrival_order(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.world.held(&pr).await?;
    let again = it.world.relay.publish(&pr).await?;
    ensure!(
        again.accepted && again.message.starts_with("duplicate:"),
        "{again:?}"
    );
    let stranger = Author::new();
    let unrelated =
        it.contributor
            .pull_request(&stranger, "nowhere", &it.tip, "https://x.example/x.git");
    it.world.refused(&unrelated).await?;
    let deletion = it.contributor.delete_events(&[pr.id]);
    it.world.relay.publish_ok(&deletion).await?;
    it.world.refused(&pr).await?;
    Ok(())
}

async fn everywhere(target: &Target) -> Result<()> {
    let helper = Author::new();
    let mut world = World::served_with(target, vec![tag(["maintainers", &helper.hex()])]).await?;
    let own = helper.announcement(
        &target.authority,
        &world.identifier,
        vec![tag(["maintainers", &world.owner.hex()])],
    );
    world.relay.publish_ok(&own).await?;
    world.tree.commit("more", "x")?;
    world.publish_and_push().await?;
    world.tree.git(["checkout", "-q", "-b", "feature"])?;
    let tip = world.tree.commit("feature", "x")?;
    let pr = Author::new().pull_request(&world.owner, &world.identifier, &tip, &world.clone_url());
    world.held(&pr).await?;
    world
        .push_ok(&[&format!("feature:{}", ref_of(&pr))])
        .await?;
    world.must_serve(&pr.id).await?;
    for owner in [&world.owner, &helper] {
        let url = world.clone_url_of(owner);
        until("the ref is in every relevant repository", || async {
            let refs = git::ls_remote(&url).await.ok()?;
            refs.iter()
                .any(|(name, oid)| *name == ref_of(&pr) && *oid == tip)
                .then_some(())
        })
        .await?;
    }
    Ok(())
}

async fn tips(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let coordinate = it.world.owner.coordinate(&it.world.identifier);
    let without = it.contributor.sign(1618, "", vec![tag(["a", &coordinate])]);
    let message = it.world.refused(&without).await?;
    ensure!(message.starts_with("invalid:"), "{message}");
    let short = it
        .contributor
        .sign(1618, "", vec![tag(["a", &coordinate]), tag(["c", "abc"])]);
    it.world.refused(&short).await?;
    let pr = it.pull_request();
    ensure!(it.push_for(&pr).await?.ok);
    it.world.accepted(&pr).await?;
    let update = it.contributor.sign(
        1619,
        "",
        vec![tag(["E", &pr.id.to_hex()]), tag(["c", &it.tip, "ignored"])],
    );
    it.world.accepted(&update).await
}

async fn fixed(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    ensure!(it.push_for(&pr).await?.ok);
    it.world.accepted(&pr).await?;
    it.world
        .push_refused(&[&format!("+main:{}", ref_of(&pr))])
        .await?;
    it.world
        .push_refused(&[&format!(":{}", ref_of(&pr))])
        .await?;
    ensure!(
        it.push_for(&pr).await?.ok,
        "the same tip again is no change"
    );
    ensure!(it.world.remote_ref(&ref_of(&pr)).await? == Some(it.tip));
    Ok(())
}

async fn never_held(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let coordinate = it.world.owner.coordinate(&it.world.identifier);
    let patch = it.contributor.sign(
        1617,
        "From abc",
        vec![tag(["a", &coordinate]), tag(["commit", &"ab".repeat(20)])],
    );
    it.world.accepted(&patch).await?;
    let issue = it
        .contributor
        .issue(&it.world.owner, &it.world.identifier, "x");
    it.world.accepted(&issue).await?;
    for kind in [1630, 1631, 1632, 1633, 1111, 1985, 1624] {
        let event = it
            .contributor
            .sign(kind, "", vec![tag(["e", &issue.id.to_hex()])]);
        it.world.accepted(&event).await?;
    }
    Ok(())
}

async fn advertised(target: &Target) -> Result<()> {
    let it = Contribution::new(target).await?;
    let pr = it.pull_request();
    ensure!(it.push_for(&pr).await?.ok);
    for service in ["git-upload-pack", "git-receive-pack"] {
        let path = format!("{}/info/refs?service={service}", it.world.path());
        let text = target.get(&path, &[]).await?.text().await?;
        ensure!(
            text.contains(&format!("{} {}\n", it.tip, ref_of(&pr))),
            "{service}"
        );
    }
    Ok(())
}
