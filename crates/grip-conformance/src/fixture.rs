//! Fixture of most cases: an owner, a repository, a connection.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use grip_testkit::{
    Answer, Author, GitOutput, RelayClient, WorkTree,
    events::{Tags, percent_encode, tag},
    git, until,
};
use nostr::prelude::{Event, EventId, Timestamp};

use crate::Target;

/// An owner with a work tree, on a connection to the server.
pub struct Fixture<'a> {
    pub target: &'a Target,
    pub owner: Author,
    pub identifier: String,
    pub relay: RelayClient,
    pub tree: WorkTree,
    /// Grows by one a state, so that no two states of a case tie by accident.
    clock: u64,
}

/// A name no other case uses.
pub fn fresh_identifier() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.subsec_nanos());
    format!("case-{nanos:x}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl<'a> Fixture<'a> {
    /// Nothing announced yet; one commit on `main`.
    pub async fn new(target: &'a Target) -> Result<Fixture<'a>> {
        Ok(Fixture {
            target,
            owner: Author::new(),
            identifier: fresh_identifier(),
            relay: target.connect().await?,
            tree: WorkTree::with_commit()?,
            clock: Timestamp::now().as_secs() - 600,
        })
    }

    /// Announced and held.
    pub async fn announced(target: &'a Target) -> Result<Fixture<'a>> {
        Self::announced_with(target, Vec::new()).await
    }

    /// Announced with further tags, and held.
    pub async fn announced_with(target: &'a Target, more: Tags) -> Result<Fixture<'a>> {
        let mut fixture = Self::new(target).await?;
        let event = fixture.announcement(more);
        let answer = fixture.relay.publish_ok(&event).await?;
        ensure!(
            answer.is_held(),
            "a new announcement is held, but: {answer:?}"
        );
        Ok(fixture)
    }

    /// Announced, pushed and served.
    pub async fn served(target: &'a Target) -> Result<Fixture<'a>> {
        Self::served_with(target, Vec::new()).await
    }

    pub async fn served_with(target: &'a Target, more: Tags) -> Result<Fixture<'a>> {
        let mut fixture = Self::announced_with(target, more).await?;
        fixture.publish_and_push().await?;
        Ok(fixture)
    }

    /// A time later than every earlier one of this case.
    pub fn tick(&mut self) -> Timestamp {
        self.clock += 1;
        Timestamp::from_secs(self.clock)
    }

    pub fn announcement(&mut self, more: Tags) -> Event {
        let at = self.tick();
        self.owner
            .announcement_at(&self.target.authority, &self.identifier, more, at)
    }

    /// Served, with somebody whom the owner lists as a maintainer.
    pub async fn with_maintainer(target: &'a Target) -> Result<(Fixture<'a>, Author)> {
        let helper = Author::new();
        let tags = vec![tag(["maintainers", &helper.hex()])];
        Ok((Self::served_with(target, tags).await?, helper))
    }

    /// An announcement of `helper` that lists the owner as a maintainer in turn.
    pub fn answers_back(&self, helper: &Author) -> Event {
        let tags = vec![tag(["maintainers", &self.owner.hex()])];
        helper.announcement(&self.target.authority, &self.identifier, tags)
    }

    /// A state of the owner's.
    pub fn state(&mut self, refs: &[(&str, &str)], head: Option<&str>) -> Event {
        let owner = self.owner.clone();
        self.state_naming(&owner, refs, head)
    }

    /// A state of the owner's with `main` at the work tree's HEAD.
    pub fn own_state(&mut self) -> Result<Event> {
        let owner = self.owner.clone();
        self.state_of(&owner)
    }

    /// A pull request to the repository, whose commit is in it or will be.
    pub fn pull_request(&self, author: &Author, tip: &str) -> Event {
        author.pull_request(&self.owner, &self.identifier, tip, &self.clone_url())
    }

    pub fn issue(&self, author: &Author, subject: &str) -> Event {
        author.issue(&self.owner, &self.identifier, subject)
    }

    pub fn coordinate(&self) -> String {
        self.owner.coordinate(&self.identifier)
    }

    /// A state of `author` with `main` at the work tree's HEAD.
    pub fn state_of(&mut self, author: &Author) -> Result<Event> {
        let tip = self.tree.tip("HEAD")?;
        Ok(self.state_naming(
            author,
            &[("refs/heads/main", &tip)],
            Some("refs/heads/main"),
        ))
    }

    pub fn state_naming(
        &mut self,
        author: &Author,
        refs: &[(&str, &str)],
        head: Option<&str>,
    ) -> Event {
        let at = self.tick();
        author.state_at(&self.identifier, refs, head, at)
    }

    /// The owner's state for the work tree's `main`, published and pushed.
    pub async fn publish_and_push(&mut self) -> Result<Event> {
        let state = self.own_state()?;
        self.relay.publish_ok(&state).await?;
        self.push_ok(&["+main:refs/heads/main"]).await?;
        self.must_serve(&state.id).await?;
        Ok(state)
    }

    pub fn clone_url(&self) -> String {
        self.clone_url_of(&self.owner)
    }

    pub fn clone_url_of(&self, owner: &Author) -> String {
        format!("{}{}", self.target.http, self.path_of(owner))
    }

    /// The path of the repository below the server's root.
    pub fn path(&self) -> String {
        self.path_of(&self.owner)
    }

    fn path_of(&self, owner: &Author) -> String {
        format!("/{}/{}.git", owner.npub(), percent_encode(&self.identifier))
    }

    pub async fn push(&self, refspecs: &[&str]) -> Result<GitOutput> {
        self.tree.push(&self.clone_url(), refspecs).await
    }

    pub async fn push_ok(&self, refspecs: &[&str]) -> Result<GitOutput> {
        let output = self.push(refspecs).await?;
        ensure!(output.ok, "git push failed:\n{}", output.stderr);
        Ok(output)
    }

    /// Pushes and demands a refusal whose reason a person can read.
    pub async fn push_refused(&self, refspecs: &[&str]) -> Result<String> {
        let GitOutput { ok, stderr, .. } = self.push(refspecs).await?;
        ensure!(!ok, "the push should have been refused:\n{stderr}");
        let readable = stderr.contains("remote rejected") || stderr.contains("remote: ");
        ensure!(readable, "the refusal is unreadable:\n{stderr}");
        ensure!(
            !stderr.contains("bad band"),
            "the refusal is garbled:\n{stderr}"
        );
        Ok(stderr)
    }

    /// The oid of `name` on the server.
    pub async fn remote_ref(&self, name: &str) -> Result<Option<String>> {
        let refs = git::ls_remote(&self.clone_url()).await?;
        Ok(refs
            .into_iter()
            .find(|(ref_name, _)| ref_name == name)
            .map(|(_, oid)| oid))
    }

    /// Demands that `name` is at `oid` on the server.
    pub async fn ref_is(&self, name: &str, oid: &str) -> Result<()> {
        let found = self.remote_ref(name).await?;
        ensure!(
            found.as_deref() == Some(oid),
            "{name} is at {found:?}, not {oid}"
        );
        Ok(())
    }

    /// Demands that there is no such ref on the server.
    pub async fn lacks_ref(&self, name: &str) -> Result<()> {
        let found = self.remote_ref(name).await?;
        ensure!(found.is_none(), "{name} is at {found:?}");
        Ok(())
    }

    /// Demands that HEAD on the server names `branch`.
    pub async fn head_is(&self, branch: &str) -> Result<()> {
        let head = git::remote_head(&self.clone_url()).await?;
        ensure!(head.as_deref() == Some(branch), "HEAD is {head:?}");
        Ok(())
    }

    /// Waits until the server serves the event.
    pub async fn must_serve(&mut self, id: &EventId) -> Result<()> {
        let target = self.target;
        until("the event is served", || async move {
            let mut relay = target.connect().await.ok()?;
            relay.serves(id).await.ok()?.then_some(())
        })
        .await
    }

    /// Demands that the event is not served now.
    pub async fn must_not_serve(&mut self, id: &EventId) -> Result<()> {
        let is_served = self.relay.serves(id).await?;
        ensure!(!is_served, "event {id} is served and must not be");
        Ok(())
    }

    /// Publishes and demands that the event be taken, served or held.
    pub async fn publish(&mut self, event: &Event) -> Result<()> {
        self.relay.publish_ok(event).await.map(drop)
    }

    /// Publishes and demands that the event be known already.
    pub async fn duplicate(&mut self, event: &Event) -> Result<()> {
        let answer = self.relay.publish(event).await?;
        let is_known = answer.accepted && answer.message.starts_with("duplicate:");
        ensure!(is_known, "{answer:?}");
        Ok(())
    }

    /// Publishes and demands a refusal; returns its text.
    pub async fn refused(&mut self, event: &Event) -> Result<String> {
        refused(self.relay.publish(event).await?, event)
    }

    /// Publishes and demands that the event be served.
    pub async fn accepted(&mut self, event: &Event) -> Result<()> {
        let answer = self.relay.publish(event).await?;
        ensure!(
            answer.is_served(),
            "kind {}: {answer:?}",
            event.kind.as_u16()
        );
        let is_served = self.relay.serves(&event.id).await?;
        ensure!(is_served, "OK true, yet the event is not served");
        Ok(())
    }

    /// Publishes and demands that the event be held.
    pub async fn held(&mut self, event: &Event) -> Result<()> {
        let answer = self.relay.publish(event).await?;
        let (is_held, kind) = (answer.accepted && answer.message == HELD, event.kind);
        ensure!(is_held, "kind {kind} should be held: {answer:?}");
        self.must_not_serve(&event.id).await
    }
}

/// Asks a repository for its refs.
pub const INFO: &str = "info/refs?service=git-upload-pack";

/// The spec's exact text for an event that waits.
pub const HELD: &str = "purgatory: won't be served until git data arrives";

/// Demands a refusal with a NIP-01 prefix; returns its text.
pub fn refused(answer: Answer, event: &Event) -> Result<String> {
    let Answer { accepted, message } = answer;
    ensure!(
        !accepted,
        "kind {} should be refused: {message}",
        event.kind
    );
    let prefix = message.split_once(':').map_or("", |(prefix, _)| prefix);
    let known = [
        "invalid",
        "blocked",
        "restricted",
        "rate-limited",
        "duplicate",
        "error",
    ];
    ensure!(
        known.contains(&prefix),
        "refusal without a NIP-01 prefix: {message:?}"
    );
    Ok(message)
}
