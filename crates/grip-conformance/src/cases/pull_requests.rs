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
        self.fixture.pull_request(&self.contributor, &self.tip)
    }

    async fn push_for(&self, event: &Event) -> Result<()> {
        let refspec = format!("feature:{}", ref_of(event));
        self.fixture.push_ok(&[&refspec]).await.map(drop)
    }

    /// Pushes `source` to the ref of `event`, which must be refused.
    async fn refused(&self, source: &str, event: &Event) -> Result<String> {
        let refspec = format!("{source}:{}", ref_of(event));
        self.fixture.push_refused(&[&refspec]).await
    }
}

fn ref_of(event: &Event) -> String {
    format!("refs/nostr/{}", event.id.to_hex())
}

async fn git_first(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.push_for(&pr).await?;
    it.fixture.accepted(&pr).await?;
    it.fixture.ref_is(&ref_of(&pr), &it.tip).await?;
    Ok(())
}

async fn event_first(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.fixture.held(&pr).await?;
    it.push_for(&pr).await?;
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
    it.refused("main", &pr).await?;
    it.fixture.must_not_serve(&pr.id).await?;
    it.push_for(&pr).await?;
    it.fixture.must_serve(&pr.id).await
}

async fn wrong_event(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let issue = it.fixture.issue(&it.contributor, "no tip");
    it.fixture.accepted(&issue).await?;
    it.refused("feature", &issue).await?;
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
    let settings = [("GRIPFAST_MAX_PACK_BYTES", "100000")];
    target.restart_with(&settings).await?;
    let it = Contribution::new(target).await?;
    it.fixture.tree.commit_noise(1, 1)?;
    let pr = it.pull_request();
    let printed = it.refused("feature", &pr).await?;
    ensure!(
        printed.contains("100000") || printed.contains("limit"),
        "{printed}"
    );
    it.fixture.lacks_ref(&ref_of(&pr)).await?;
    Ok(())
}

async fn orphan(target: &Target) -> Result<()> {
    let settings = [
        ("GRIPFAST_ORPHAN_REF_LIFETIME", "2s"),
        ("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "100ms"),
    ];
    target.restart_with(&settings).await?;
    let it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.push_for(&pr).await?;
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
    it.fixture.lacks_ref(&ref_of(&pr)).await?;
    it.push_for(&pr).await?;
    it.fixture.must_serve(&pr.id).await
}

async fn arrival_order(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.fixture.held(&pr).await?;
    it.fixture.duplicate(&pr).await?;
    let stranger = Author::new();
    let unrelated =
        it.contributor
            .pull_request(&stranger, "nowhere", &it.tip, "https://x.example/x.git");
    it.fixture.refused(&unrelated).await?;
    let deletion = it.contributor.delete_events(&[pr.id]);
    it.fixture.publish(&deletion).await?;
    it.fixture.refused(&pr).await?;
    Ok(())
}

async fn everywhere(target: &Target) -> Result<()> {
    let (mut fixture, helper) = Fixture::with_maintainer(target).await?;
    let own = fixture.answers_back(&helper);
    fixture.publish(&own).await?;
    fixture.tree.commit("more", "x")?;
    fixture.publish_and_push().await?;
    fixture.tree.git(["checkout", "-q", "-b", "feature"])?;
    let tip = fixture.tree.commit("feature", "x")?;
    let pr = fixture.pull_request(&Author::new(), &tip);
    fixture.held(&pr).await?;
    fixture
        .push_ok(&[&format!("feature:{}", ref_of(&pr))])
        .await?;
    fixture.must_serve(&pr.id).await?;
    for owner in [&fixture.owner, &helper] {
        let url = fixture.clone_url_of(owner);
        git::until_ref(&url, &ref_of(&pr), &tip).await?;
    }
    Ok(())
}

async fn tips(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let coordinate = it.fixture.coordinate();
    let without = it.contributor.sign(1618, "", vec![tag(["a", &coordinate])]);
    let message = it.fixture.refused(&without).await?;
    ensure!(message.starts_with("invalid:"), "{message}");
    let tags = vec![tag(["a", &coordinate]), tag(["c", "abc"])];
    let short = it.contributor.sign(1618, "", tags);
    it.fixture.refused(&short).await?;
    let pr = it.pull_request();
    it.push_for(&pr).await?;
    it.fixture.accepted(&pr).await?;
    let tags = vec![tag(["E", &pr.id.to_hex()]), tag(["c", &it.tip, "ignored"])];
    let update = it.contributor.sign(1619, "", tags);
    it.fixture.accepted(&update).await
}

async fn fixed(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.push_for(&pr).await?;
    it.fixture.accepted(&pr).await?;
    it.refused("+main", &pr).await?;
    it.refused("", &pr).await?;
    it.push_for(&pr).await?;
    it.fixture.ref_is(&ref_of(&pr), &it.tip).await?;
    Ok(())
}

async fn never_held(target: &Target) -> Result<()> {
    let mut it = Contribution::new(target).await?;
    let coordinate = it.fixture.coordinate();
    let tags = vec![tag(["a", &coordinate]), tag(["commit", &"ab".repeat(20)])];
    let patch = it.contributor.sign(1617, "From abc", tags);
    it.fixture.accepted(&patch).await?;
    let issue = it.fixture.issue(&it.contributor, "x");
    it.fixture.accepted(&issue).await?;
    for kind in [1630, 1631, 1632, 1633, 1111, 1985, 1624] {
        let tags = vec![tag(["e", &issue.id.to_hex()])];
        let event = it.contributor.sign(kind, "", tags);
        it.fixture.accepted(&event).await?;
    }
    Ok(())
}

async fn advertised(target: &Target) -> Result<()> {
    let it = Contribution::new(target).await?;
    let pr = it.pull_request();
    it.push_for(&pr).await?;
    // A server may leave them out for pushing clients: their packs must not rest on what may go.
    let path = format!("{}/info/refs?service=git-upload-pack", it.fixture.path());
    let text = target.get(&path, &[]).await?.text().await?;
    ensure!(
        text.contains(&format!("{} {}\n", it.tip, ref_of(&pr))),
        "{text}"
    );
    Ok(())
}
