//! Workload of maintainers and contributors.

use anyhow::Result;
use grip_testkit::{Author, LocalProject, Node, Project, RelayClient};
use nostr::prelude::Event;

use crate::crash::ledger::Ledger;

/// The age of the first event, in seconds.
const FIRST_AGE: u64 = 5_000;

/// Somebody with one repository on the node.
pub struct Maintainer {
    local: LocalProject,
    contributor: Author,
    url: String,
    announcement: Event,
    announced: bool,
    /// The age of the latest event; each is a second younger than the one before.
    age: u64,
    commits: u32,
}

impl Maintainer {
    pub fn new(node: &Node) -> Result<Self> {
        Self::announced_as(node, node)
    }

    /// Somebody who pushes to `node` what is announced under the name of `service`.
    pub fn announced_as(node: &Node, service: &Node) -> Result<Self> {
        let local = LocalProject::new(&format!("repo-{}", &Author::new().hex()[..8]))?;
        Ok(Self {
            url: local.url(node),
            announcement: local.announcement_at(&[service], &[], FIRST_AGE),
            local,
            contributor: Author::new(),
            announced: false,
            age: FIRST_AGE,
            commits: 0,
        })
    }
}

impl Maintainer {
    /// Where `node` serves the repository.
    pub fn url_at(&self, node: &Node) -> String {
        self.local.url(node)
    }

    /// The commits of `main`, the first one first.
    pub fn history(&self) -> Result<Vec<String>> {
        let listed = self.local.tree.git(["rev-list", "--reverse", "main"])?;
        Ok(listed.lines().map(str::to_owned).collect())
    }
}

/// Every maintainer in turn, for ever; ends with the error that the kill causes.
pub async fn work(node: &Node, maintainers: &mut [Maintainer], ledger: &mut Ledger) -> Result<()> {
    loop {
        for maintainer in maintainers.iter_mut() {
            cycle(node, maintainer, ledger).await?;
        }
    }
}

/// Announce if that is not done, commit, publish the state, push, discuss, open a pull request.
pub async fn cycle(node: &Node, who: &mut Maintainer, ledger: &mut Ledger) -> Result<()> {
    let mut relay = node.connect().await?;
    if !who.announced {
        publish(&mut relay, &who.announcement, ledger).await?;
        who.announced = true;
    }
    who.commits += 1;
    who.age -= 1;
    let tip = who.local.tree.commit("log", &who.commits.to_string())?;
    let refs = [("refs/heads/main", &*tip), ("refs/tags/latest", &*tip)];
    let state = who.local.state_at(&refs, who.age);
    publish(&mut relay, &state, ledger).await?;
    let refspecs = ["+main", "+main:refs/tags/latest"];
    who.local.tree.push_ok(&who.url, &refspecs).await?;
    ledger.pushed(&who.url, "refs/heads/main", &tip);
    let Project { owner, identifier } = &who.local.project;
    let issue = who
        .contributor
        .issue(owner, identifier, &format!("issue {tip}"));
    publish(&mut relay, &issue, ledger).await?;
    pull_request(&mut relay, who, ledger).await
}

/// Git first, as the usual clients do, and now and then the event first.
async fn pull_request(
    relay: &mut RelayClient,
    who: &mut Maintainer,
    ledger: &mut Ledger,
) -> Result<()> {
    let tree = &who.local.tree;
    tree.git(["checkout", "-q", "-B", "feature"])?;
    let tip = tree.commit("feature", &who.commits.to_string())?;
    tree.git(["checkout", "-q", "main"])?;
    let Project { owner, identifier } = &who.local.project;
    let pr = who
        .contributor
        .pull_request(owner, identifier, &tip, &who.url);
    let name = format!("refs/nostr/{}", pr.id.to_hex());
    let event_first = who.commits.is_multiple_of(3);
    if event_first {
        publish(relay, &pr, ledger).await?;
    }
    tree.push_ok(&who.url, &[&format!("feature:{name}")])
        .await?;
    ledger.pushed(&who.url, &name, &tip);
    if !event_first {
        publish(relay, &pr, ledger).await?;
    }
    Ok(())
}

async fn publish(relay: &mut RelayClient, event: &Event, ledger: &mut Ledger) -> Result<()> {
    relay.publish_ok(event).await?;
    ledger.said_ok(event.clone());
    Ok(())
}

/// A small generator with a printed seed, so that a failing run can be told again.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
