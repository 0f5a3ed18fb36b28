//! GRASP-06: pull requests at `/prs/<npub>/<identifier>.git`, for repositories that need not be here.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, GitOutput, RelayClient, WorkTree,
    events::{Tags, percent_encode, tag},
    git, until,
};
use nostr::prelude::Event;
use reqwest::Method;

use super::cases;
use crate::{
    Target,
    fixture::{Fixture, HELD, INFO, fresh_identifier, refused},
};

cases! {
    "G06-1" "a tip is served at the path of its signer and of its target's identifier" Contributors => path;
    "G06-2" "NIP-11 lists GRASP-06 where it is on" Contributors => listed;
    "G06-2" "everything below prs is 404 where it is off and OPTIONS is 204" Control => off;
    "G06-3" "any well-formed path is an empty repository" Contributors => empty;
    "G06-3" "a malformed path and a page are 404" Contributors => malformed;
    "G06-4" "refs outside refs/nostr are refused in the report and one refuses the push" Contributors => other_refs;
    "G06-4" "a ref without its event is removed" Control => orphan;
    "G06-5" "a clone value that names the path admits pull requests and updates" Contributors => admitted;
    "G06-5" "other kinds get no such exception" Contributors => other_kinds;
    "G06-6" "such an event is held until its tip is here" Contributors => held_until_tip;
    "G06-7" "the clone value names authority path signer and target" Contributors => clone_values;
    "G06-8" "a push for a known event must match it" Contributors => known_event;
    "G06-8" "an event that differs from the pushed tip removes the ref and waits" Contributors => mismatch;
    "G06-8" "an event of another signer or target owns no pushed ref" Contributors => foreign_event;
    "G06-9" "event first: the tip is mirrored into the announced repository" Contributors => mirrored_after_push;
    "G06-9" "push first: the tip is mirrored into the announced repository" Contributors => mirrored_after_event;
    "G06-9" "a repository that is announced later gets the tip too" Contributors => back_filled;
    "G06-9" "a push to the announced repository does not appear below prs" Contributors => one_way;
    "G06-9" "what is not mirrored cannot be read from another repository" Contributors => apart;
    "G06-10" "a deleted pull request leaves an empty repository in every view" Contributors => deleted;
    "G06-11" "comments and statuses of a served pull request are taken" Contributors => related;
}

/// One who contributes to a repository, which need not be known.
struct Contributor<'a> {
    target: &'a Target,
    author: Author,
    /// The owner of the repository.
    owner: Author,
    identifier: String,
    tree: WorkTree,
    tip: String,
    relay: RelayClient,
}

impl<'a> Contributor<'a> {
    async fn new(target: &'a Target) -> Result<Contributor<'a>> {
        Self::to(target, Author::new(), fresh_identifier()).await
    }

    async fn to(target: &'a Target, owner: Author, identifier: String) -> Result<Contributor<'a>> {
        let tree = WorkTree::with_commit()?;
        let author = Author::new();
        tree.commit(&author.hex()[..8], "x")?;
        let tip = tree.tip("HEAD")?;
        Ok(Contributor {
            target,
            author,
            owner,
            identifier,
            tree,
            tip,
            relay: target.connect().await?,
        })
    }

    fn path(&self) -> String {
        let name = percent_encode(&self.identifier);
        format!("/prs/{}/{name}.git", self.author.npub())
    }

    fn url(&self) -> String {
        format!("{}{}", self.target.http, self.path())
    }

    fn tags(&self, clone: &str, tip: &str) -> Tags {
        let coordinate = self.owner.coordinate(&self.identifier);
        vec![
            tag(["a", &coordinate]),
            tag(["c", tip]),
            tag(["clone", clone]),
        ]
    }

    fn pull_request(&self) -> Event {
        let tags = self.tags(&self.url(), &self.tip);
        self.author.sign(1618, "", tags)
    }

    async fn push_for(&self, event: &Event) -> Result<()> {
        let refspec = refspec("HEAD", event);
        let output = self.tree.push(&self.url(), &[&refspec]).await?;
        ensure!(output.ok, "git push failed:\n{}", output.stderr);
        Ok(())
    }

    /// Pushes, and demands a refusal that is not told by an HTTP status.
    async fn push_refused(&self, refspecs: &[&str]) -> Result<String> {
        let output = self.tree.push(&self.url(), refspecs).await?;
        ensure!(!output.ok, "the push should have been refused");
        let by_status = output.stderr.contains("returned error");
        ensure!(!by_status, "refused by status:\n{}", output.stderr);
        Ok(output.stderr)
    }

    async fn refs(&self) -> Result<Vec<(String, String)>> {
        git::ls_remote(&self.url()).await
    }

    async fn has_ref(&self, event: &Event) -> Result<bool> {
        let refs = self.refs().await?;
        Ok(refs.contains(&(ref_of(event), self.tip.clone())))
    }

    async fn is_empty(&self) -> Result<()> {
        let refs = self.refs().await?;
        ensure!(refs.is_empty(), "{refs:?}");
        Ok(())
    }

    async fn publish_held(&mut self, event: &Event) -> Result<()> {
        let answer = self.relay.publish(event).await?;
        ensure!(answer.accepted && answer.message == HELD, "{answer:?}");
        ensure!(!self.relay.serves(&event.id).await?, "held and served");
        Ok(())
    }

    async fn publish_served(&mut self, event: &Event) -> Result<()> {
        let answer = self.relay.publish(event).await?;
        ensure!(answer.is_served(), "{answer:?}");
        ensure!(self.relay.serves(&event.id).await?, "accepted, not served");
        Ok(())
    }

    async fn must_serve(&self, event: &Event) -> Result<()> {
        until("the pull request is served", || async {
            let mut relay = self.target.connect().await.ok()?;
            relay.serves(&event.id).await.ok()?.then_some(())
        })
        .await
    }
}

fn ref_of(event: &Event) -> String {
    format!("refs/nostr/{}", event.id.to_hex())
}

fn refspec(source: &str, event: &Event) -> String {
    format!("{source}:{}", ref_of(event))
}

async fn fetch(tree: &WorkTree, url: &str, what: &str) -> Result<GitOutput> {
    tree.run(["fetch", "-q", url, what]).await
}

async fn path(target: &Target) -> Result<()> {
    let identifier = format!("{} with blanks", fresh_identifier());
    let mut it = Contributor::to(target, Author::new(), identifier).await?;
    let pr = it.pull_request();
    it.push_for(&pr).await?;
    it.publish_served(&pr).await?;
    ensure!(it.has_ref(&pr).await?, "the tip is advertised");
    let fetched = WorkTree::init()?;
    let output = fetch(&fetched, &it.url(), &ref_of(&pr)).await?;
    ensure!(output.ok, "{}", output.stderr);
    ensure!(fetched.tip("FETCH_HEAD")? == it.tip);
    Ok(())
}

async fn grasps(target: &Target) -> Result<String> {
    let accept = [("accept", "application/nostr+json")];
    let document: serde_json::Value = target.get("/", &accept).await?.json().await?;
    Ok(document["supported_grasps"].to_string())
}

async fn listed(target: &Target) -> Result<()> {
    let grasps = grasps(target).await?;
    ensure!(grasps.contains("GRASP-06"), "{grasps}");
    Ok(())
}

async fn off(target: &Target) -> Result<()> {
    target
        .restart_with(&[("NGIT_GRASP06_ENABLE", "false")])
        .await?;
    ensure!(!grasps(target).await?.contains("GRASP-06"));
    let mut it = Contributor::new(target).await?;
    let path = it.path();
    for (method, rest) in [
        (Method::GET, format!("/{INFO}")),
        (
            Method::GET,
            "/info/refs?service=git-receive-pack".to_owned(),
        ),
        (Method::POST, "/git-upload-pack".to_owned()),
        (Method::POST, "/git-receive-pack".to_owned()),
        (Method::GET, "/git-receive-pack".to_owned()),
        (Method::GET, String::new()),
    ] {
        let path = format!("{path}{rest}");
        let response = target.request(method, &path, &[], Vec::new()).await?;
        ensure!(response.status() == 404, "{path}: {}", response.status());
        let options = target.request(Method::OPTIONS, &path, &[], Vec::new());
        ensure!(options.await?.status() == 204, "{path}");
    }
    let pr = it.pull_request();
    let answer = it.relay.publish(&pr).await?;
    refused(answer, &pr).map(drop)
}

async fn empty(target: &Target) -> Result<()> {
    let it = Contributor::new(target).await?;
    it.is_empty().await?;
    for service in ["git-upload-pack", "git-receive-pack"] {
        let path = format!("{}/info/refs?service={service}", it.path());
        let response = target.get(&path, &[]).await?;
        ensure!(response.status() == 200, "{path}: {}", response.status());
        let text = response.text().await?;
        let is_empty = text.contains("capabilities^{}") && !text.contains("symref=HEAD");
        ensure!(is_empty, "{text}");
    }
    let clone = WorkTree::clone(&it.url(), &[]).await?;
    // An object that is not there is refused in band.
    let output = fetch(&clone, &it.url(), &it.tip).await?;
    let by_status = output.stderr.contains("returned error");
    ensure!(!output.ok && !by_status, "{}", output.stderr);
    Ok(())
}

async fn malformed(target: &Target) -> Result<()> {
    let it = Contributor::new(target).await?;
    let (npub, hex) = (it.author.npub(), it.author.hex());
    let (last, wrong) = (&npub[..npub.len() - 1], "b");
    for path in [
        format!("/prs/{hex}/x.git/{INFO}"),
        format!("/prs/{last}{wrong}/x.git/{INFO}"),
        format!("/prs/npub1test/x.git/{INFO}"),
        format!("/prs/{npub}/a%2Fb.git/{INFO}"),
        format!("/prs/{npub}/%00.git/{INFO}"),
        format!("/prs/{npub}/.git/{INFO}"),
        it.path(),
        format!("{}/", it.path()),
        format!("/prs/{npub}"),
        "/prs".to_owned(),
    ] {
        let status = target.status(&path).await?;
        ensure!(status == 404, "{path}: {status}");
    }
    Ok(())
}

async fn other_refs(target: &Target) -> Result<()> {
    let it = Contributor::new(target).await?;
    let id = "ab".repeat(32);
    for bad in [
        "refs/heads/main",
        "refs/tags/v1",
        "refs/nostr/not-an-id",
        "refs/notes/x",
    ] {
        let printed = it.push_refused(&[&format!("HEAD:{bad}")]).await?;
        let says = "only pushes to refs/nostr/<event-id> are accepted";
        ensure!(printed.contains(says), "{printed}");
        let good = format!("HEAD:refs/nostr/{id}");
        it.push_refused(&[&good, &format!("HEAD:{bad}")]).await?;
    }
    it.push_refused(&[&format!("HEAD:refs/nostr/{}", id.to_uppercase())])
        .await?;
    it.is_empty().await
}

async fn orphan(target: &Target) -> Result<()> {
    let settings = [
        ("NGIT_GRASP06_ENABLE", "true"),
        ("GRIPFAST_ORPHAN_REF_LIFETIME", "2s"),
        ("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "100ms"),
    ];
    target.restart_with(&settings).await?;
    let it = Contributor::new(target).await?;
    let pr = it.pull_request();
    it.push_for(&pr).await?;
    ensure!(it.has_ref(&pr).await?, "it is there at first");
    until("the orphan ref is gone", || async {
        it.is_empty().await.ok()
    })
    .await
}

async fn admitted(target: &Target) -> Result<()> {
    let mut it = Contributor::new(target).await?;
    for kind in [1618, 1619] {
        let tags = it.tags(&it.url(), &it.tip);
        let event = it.author.sign(kind, "", tags);
        it.publish_held(&event).await?;
        let foreign = it.tags("https://git.example.com/x.git", &it.tip);
        let foreign = it.author.sign(kind, "", foreign);
        refused(it.relay.publish(&foreign).await?, &foreign)?;
    }
    Ok(())
}

async fn other_kinds(target: &Target) -> Result<()> {
    let mut it = Contributor::new(target).await?;
    for kind in [1617, 1621, 1111, 1] {
        let tags = it.tags(&it.url(), &it.tip);
        let event = it.author.sign(kind, "text", tags);
        refused(it.relay.publish(&event).await?, &event)?;
    }
    Ok(())
}

async fn held_until_tip(target: &Target) -> Result<()> {
    let mut it = Contributor::new(target).await?;
    let pr = it.pull_request();
    it.publish_held(&pr).await?;
    it.is_empty().await?;
    it.push_for(&pr).await?;
    it.must_serve(&pr).await?;
    ensure!(it.has_ref(&pr).await?, "the tip is advertised");
    Ok(())
}

async fn clone_values(target: &Target) -> Result<()> {
    let mut it = Contributor::new(target).await?;
    let (url, npub, name) = (it.url(), it.author.npub(), it.identifier.clone());
    let (http, stranger) = (&target.http, Author::new());
    let doubled = format!("{http}//prs//{npub}/{name}.git");
    for good in [&url, &doubled, &format!("{url}/")] {
        let tags = it.tags(good, &it.tip);
        let event = it.author.sign(1618, good, tags);
        it.publish_held(&event)
            .await
            .with_context(|| good.clone())?;
    }
    for bad in [
        format!("{url}?x=1"),
        format!("{url}#x"),
        format!("{http}/prs/{npub}/{name}"),
        format!("{http}/prs/{npub}/other.git"),
        format!("{http}/prs/{}/{name}.git", stranger.npub()),
        format!("{http}/prs/{}/{name}.git", it.author.hex()),
        format!("{http}/prs/{npub}/{name}.git/more"),
        format!("{http}/more/prs/{npub}/{name}.git"),
        format!("{http}/{npub}/{name}.git"),
        url.replace("http://", "ssh://"),
        url.replace(&target.authority, "grasp.example.com"),
        url.replace("http://", "http://user@"),
    ] {
        let tags = it.tags(&bad, &it.tip);
        let event = it.author.sign(1618, &bad, tags);
        refused(it.relay.publish(&event).await?, &event).with_context(|| bad.clone())?;
    }
    Ok(())
}

async fn known_event(target: &Target) -> Result<()> {
    let mut it = Contributor::new(target).await?;
    let pr = it.pull_request();
    it.publish_held(&pr).await?;
    it.push_refused(&[&refspec("HEAD~1", &pr)]).await?;
    it.is_empty().await?;
    it.push_for(&pr).await?;
    it.must_serve(&pr).await?;
    it.push_refused(&[&refspec("+HEAD~1", &pr)]).await?;
    it.push_refused(&[&refspec("", &pr)]).await?;
    it.push_for(&pr).await?;
    ensure!(it.has_ref(&pr).await?, "a served tip stays");
    // The same event owns no ref below another path.
    let other = Contributor::to(target, it.owner.clone(), it.identifier.clone()).await?;
    other.push_refused(&[&refspec("HEAD", &pr)]).await?;
    other.is_empty().await
}

async fn mismatch(target: &Target) -> Result<()> {
    let mut it = Contributor::new(target).await?;
    let pr = it.pull_request();
    let output = it.tree.push(&it.url(), &[&refspec("HEAD~1", &pr)]).await?;
    ensure!(output.ok, "{}", output.stderr);
    it.publish_held(&pr).await?;
    it.is_empty().await?;
    it.push_for(&pr).await?;
    it.must_serve(&pr).await
}

async fn foreign_event(target: &Target) -> Result<()> {
    let it = Contributor::new(target).await?;
    let mut other = Contributor::to(target, it.owner.clone(), it.identifier.clone()).await?;
    // Pushed below the path of one, signed by another who names the same commit.
    let tags = other.tags(&other.url(), &it.tip);
    let event = other.author.sign(1618, "", tags);
    it.push_for(&event).await?;
    other.publish_held(&event).await?;
    it.is_empty().await?;
    other.is_empty().await
}

async fn mirrored_after_push(target: &Target) -> Result<()> {
    let fixture = Fixture::served(target).await?;
    let mut it = Contributor::to(target, fixture.owner.clone(), fixture.identifier.clone()).await?;
    let pr = it.pull_request();
    it.publish_held(&pr).await?;
    it.push_for(&pr).await?;
    it.must_serve(&pr).await?;
    git::until_ref(&fixture.clone_url(), &ref_of(&pr), &it.tip).await?;
    ensure!(it.has_ref(&pr).await?, "it stays where it was pushed to");
    Ok(())
}

async fn mirrored_after_event(target: &Target) -> Result<()> {
    let fixture = Fixture::served(target).await?;
    let mut it = Contributor::to(target, fixture.owner.clone(), fixture.identifier.clone()).await?;
    let pr = it.pull_request();
    it.push_for(&pr).await?;
    fixture.lacks_ref(&ref_of(&pr)).await?;
    it.publish_served(&pr).await?;
    git::until_ref(&fixture.clone_url(), &ref_of(&pr), &it.tip).await?;
    ensure!(it.has_ref(&pr).await?, "it stays where it was pushed to");
    Ok(())
}

async fn back_filled(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let mut it = Contributor::to(target, fixture.owner.clone(), fixture.identifier.clone()).await?;
    let pr = it.pull_request();
    it.push_for(&pr).await?;
    it.publish_served(&pr).await?;
    let announcement = fixture.announcement(Vec::new());
    fixture.publish(&announcement).await?;
    fixture.lacks_ref(&ref_of(&pr)).await?;
    fixture.publish_and_push().await?;
    git::until_ref(&fixture.clone_url(), &ref_of(&pr), &it.tip).await
}

async fn one_way(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let it = Contributor::to(target, fixture.owner.clone(), fixture.identifier.clone()).await?;
    let pr = it.pull_request();
    fixture.held(&pr).await?;
    let refspec = refspec("HEAD", &pr);
    let output = it.tree.push(&fixture.clone_url(), &[&refspec]).await?;
    ensure!(output.ok, "{}", output.stderr);
    fixture.must_serve(&pr.id).await?;
    fixture.ref_is(&ref_of(&pr), &it.tip).await?;
    it.is_empty().await
}

async fn apart(target: &Target) -> Result<()> {
    let fixture = Fixture::served(target).await?;
    // Of the same name, for a repository of somebody else.
    let mut it = Contributor::to(target, Author::new(), fixture.identifier.clone()).await?;
    let other = Contributor::to(target, it.owner.clone(), it.identifier.clone()).await?;
    let pr = it.pull_request();
    it.push_for(&pr).await?;
    it.publish_served(&pr).await?;
    for url in [fixture.clone_url(), other.url()] {
        let output = fetch(&WorkTree::init()?, &url, &it.tip).await?;
        ensure!(!output.ok, "{url} gives what is in {}", it.url());
    }
    fixture.lacks_ref(&ref_of(&pr)).await
}

async fn deleted(target: &Target) -> Result<()> {
    let fixture = Fixture::served(target).await?;
    let mut it = Contributor::to(target, fixture.owner.clone(), fixture.identifier.clone()).await?;
    let pr = it.pull_request();
    it.push_for(&pr).await?;
    it.publish_served(&pr).await?;
    git::until_ref(&fixture.clone_url(), &ref_of(&pr), &it.tip).await?;
    let deletion = it.author.delete_events(&[pr.id]);
    it.relay.publish_ok(&deletion).await?;
    it.is_empty().await?;
    fixture.lacks_ref(&ref_of(&pr)).await?;
    ensure!(!it.relay.serves(&pr.id).await?);
    Ok(())
}

async fn related(target: &Target) -> Result<()> {
    let mut it = Contributor::new(target).await?;
    let pr = it.pull_request();
    let stranger = Author::new();
    let comment = stranger.sign(1111, "well done", vec![tag(["E", &pr.id.to_hex()])]);
    refused(it.relay.publish(&comment).await?, &comment)?;
    it.push_for(&pr).await?;
    it.publish_served(&pr).await?;
    it.publish_served(&comment).await?;
    let status = stranger.sign(1631, "", vec![tag(["e", &pr.id.to_hex()])]);
    it.publish_served(&status).await
}
