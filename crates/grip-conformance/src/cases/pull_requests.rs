//! G01-43 … G01-53: `refs/nostr/<event-id>`.

use anyhow::{Result, ensure};
use grip_testkit::{Author, events::tag, git, until};
use nostr::prelude::Event;

use super::cases;
use crate::{Target, fixture::Fixture};

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
    fixture: Fixture<'a>,
    contributor: Author,
    tip: String,
}

impl<'a> Contribution<'a> {
    /// A served repository and a commit that is not in it.
    async fn new(target: &'a Target) -> Result<Contribution<'a>> {
        let fixture = Fixture::served(target).await?;
        fixture.tree.git(["checkout", "-q", "-b", "feature"])?;
        let tip = fixture.tree.commit("feature", "x")?;
        Ok(Contribution {
            fixture,
            contributor: Author::new(),
            tip,
        })
    }

    fn pull_request(&self) -> Event {
        let url = self.fixture.clone_url();
        self.contributor.pull_request(
            &self.fixture.owner,
            &self.fixture.identifier,
            &self.tip,
            &url,
        )
    }

    async fn push_for(&self, event: &Event) -> Result<grip_testkit::GitOutput> {
        self.fixture
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
    it.fixture.accepted(&pr).await?;
    ensure!(it.fixture.remote_ref(&ref_of(&pr)).await? == Some(it.tip));
    Ok(())
}

async fn event_first(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.fixture.held(&pr).await?;
    let output = it.push_for(&pr).await?;
    ensure!(output.ok, "{}", output.stderr);
    it.fixture.must_serve(&pr.id).await
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
        it.fixture
            .push_refused(&[&format!("feature:refs/nostr/{bad}")])
            .await?;
    }
    Ok(())
}

async fn wrong_tip(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.fixture.held(&pr).await?;
    it.fixture
        .push_refused(&[&format!("main:{}", ref_of(&pr))])
        .await?;
    it.fixture.must_not_serve(&pr.id).await?;
    ensure!(it.push_for(&pr).await?.ok);
    it.fixture.must_serve(&pr.id).await
}

async fn wrong_event(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let issue = it
        .contributor
        .issue(&it.fixture.owner, &it.fixture.identifier, "no tip");
    it.fixture.accepted(&issue).await?;
    it.fixture
        .push_refused(&[&format!("feature:{}", ref_of(&issue))])
        .await?;
    let pr = it.pull_request();
    it.fixture.held(&pr).await?;
    let other = Fixture::served(target).await?;
    let refspec = format!("feature:{}", ref_of(&pr));
    let output = it
        .fixture
        .tree
        .push(&other.clone_url(), &[&refspec])
        .await?;
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
    it.fixture.tree.commit("large", &noise)?;
    let pr = it.pull_request();
    let printed = it
        .fixture
        .push_refused(&[&format!("feature:{}", ref_of(&pr))])
        .await?;
    ensure!(
        printed.contains("100000") || printed.contains("limit"),
        "{printed}"
    );
    ensure!(it.fixture.remote_ref(&ref_of(&pr)).await?.is_none());
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
        it.fixture.remote_ref(&ref_of(&pr)).await?.is_some(),
        "it is there at first"
    );
    let url = it.fixture.clone_url();
    until("the orphan ref is gone", || async {
        let refs = git::ls_remote(&url).await.ok()?;
        (!refs.iter().any(|(name, _)| name.starts_with("refs/nostr/"))).then_some(())
    })
    .await
}

async fn mismatch(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.fixture
        .push_ok(&[&format!("main:{}", ref_of(&pr))])
        .await?;
    it.fixture.held(&pr).await?;
    ensure!(
        it.fixture.remote_ref(&ref_of(&pr)).await?.is_none(),
        "the unequal ref goes"
    );
    ensure!(it.push_for(&pr).await?.ok);
    it.fixture.must_serve(&pr.id).await
}

async fn arrival_order(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.fixture.held(&pr).await?;
    let again = it.fixture.relay.publish(&pr).await?;
    ensure!(
        again.accepted && again.message.starts_with("duplicate:"),
        "{again:?}"
    );
    let stranger = Author::new();
    let unrelated =
        it.contributor
            .pull_request(&stranger, "nowhere", &it.tip, "https://x.example/x.git");
    it.fixture.refused(&unrelated).await?;
    let deletion = it.contributor.delete_events(&[pr.id]);
    it.fixture.relay.publish_ok(&deletion).await?;
    it.fixture.refused(&pr).await?;
    Ok(())
}

async fn everywhere(target: &Target) -> Result<()> {
    let helper = Author::new();
    let mut fixture =
        Fixture::served_with(target, vec![tag(["maintainers", &helper.hex()])]).await?;
    let own = helper.announcement(
        &target.authority,
        &fixture.identifier,
        vec![tag(["maintainers", &fixture.owner.hex()])],
    );
    fixture.relay.publish_ok(&own).await?;
    fixture.tree.commit("more", "x")?;
    fixture.publish_and_push().await?;
    fixture.tree.git(["checkout", "-q", "-b", "feature"])?;
    let tip = fixture.tree.commit("feature", "x")?;
    let pr = Author::new().pull_request(
        &fixture.owner,
        &fixture.identifier,
        &tip,
        &fixture.clone_url(),
    );
    fixture.held(&pr).await?;
    fixture
        .push_ok(&[&format!("feature:{}", ref_of(&pr))])
        .await?;
    fixture.must_serve(&pr.id).await?;
    for owner in [&fixture.owner, &helper] {
        let url = fixture.clone_url_of(owner);
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
    let coordinate = it.fixture.owner.coordinate(&it.fixture.identifier);
    let without = it.contributor.sign(1618, "", vec![tag(["a", &coordinate])]);
    let message = it.fixture.refused(&without).await?;
    ensure!(message.starts_with("invalid:"), "{message}");
    let short = it
        .contributor
        .sign(1618, "", vec![tag(["a", &coordinate]), tag(["c", "abc"])]);
    it.fixture.refused(&short).await?;
    let pr = it.pull_request();
    ensure!(it.push_for(&pr).await?.ok);
    it.fixture.accepted(&pr).await?;
    let update = it.contributor.sign(
        1619,
        "",
        vec![tag(["E", &pr.id.to_hex()]), tag(["c", &it.tip, "ignored"])],
    );
    it.fixture.accepted(&update).await
}

async fn fixed(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    ensure!(it.push_for(&pr).await?.ok);
    it.fixture.accepted(&pr).await?;
    it.fixture
        .push_refused(&[&format!("+main:{}", ref_of(&pr))])
        .await?;
    it.fixture
        .push_refused(&[&format!(":{}", ref_of(&pr))])
        .await?;
    ensure!(
        it.push_for(&pr).await?.ok,
        "the same tip again is no change"
    );
    ensure!(it.fixture.remote_ref(&ref_of(&pr)).await? == Some(it.tip));
    Ok(())
}

async fn never_held(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let coordinate = it.fixture.owner.coordinate(&it.fixture.identifier);
    let patch = it.contributor.sign(
        1617,
        "From abc",
        vec![tag(["a", &coordinate]), tag(["commit", &"ab".repeat(20)])],
    );
    it.fixture.accepted(&patch).await?;
    let issue = it
        .contributor
        .issue(&it.fixture.owner, &it.fixture.identifier, "x");
    it.fixture.accepted(&issue).await?;
    for kind in [1630, 1631, 1632, 1633, 1111, 1985, 1624] {
        let event = it
            .contributor
            .sign(kind, "", vec![tag(["e", &issue.id.to_hex()])]);
        it.fixture.accepted(&event).await?;
    }
    Ok(())
}

async fn advertised(target: &Target) -> Result<()> {
    let it = Contribution::new(target).await?;
    let pr = it.pull_request();
    ensure!(it.push_for(&pr).await?.ok);
    for service in ["git-upload-pack", "git-receive-pack"] {
        let path = format!("{}/info/refs?service={service}", it.fixture.path());
        let text = target.get(&path, &[]).await?.text().await?;
        ensure!(
            text.contains(&format!("{} {}\n", it.tip, ref_of(&pr))),
            "{service}"
        );
    }
    Ok(())
}
