//! Workload of maintainers and contributors.

use anyhow::{Result, ensure};
use grip_testkit::{Author, Node, RelayClient, WorkTree, events::tag};
use nostr::prelude::{Event, Timestamp};

use crate::crash::ledger::Ledger;

/// Somebody with one repository on the node.
pub struct Maintainer {
    pub author: Author,
    pub contributor: Author,
    pub identifier: String,
    pub url: String,
    tree: WorkTree,
    authority: String,
    announced: bool,
    clock: u64,
    commits: u32,
}

impl Maintainer {
    pub fn new(node: &Node) -> Result<Self> {
        let author = Author::new();
        let identifier = format!("repo-{}", &author.hex()[..8]);
        Ok(Self {
            url: author.clone_url(&node.authority(), &identifier),
            author,
            contributor: Author::new(),
            identifier,
            tree: WorkTree::with_commit()?,
            authority: node.authority(),
            announced: false,
            clock: Timestamp::now().as_secs() - 5_000,
            commits: 0,
        })
    }

    fn tick(&mut self) -> Timestamp {
        self.clock += 1;
        Timestamp::from_secs(self.clock)
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
        let at = who.tick();
        let event = who
            .author
            .announcement_at(&who.authority, &who.identifier, vec![], at);
        publish(&mut relay, &event, ledger).await?;
        who.announced = true;
    }
    who.commits += 1;
    let tip = who.tree.commit("log", &who.commits.to_string())?;
    let at = who.tick();
    let refs = [
        ("refs/heads/main", tip.as_str()),
        ("refs/tags/latest", tip.as_str()),
    ];
    let state = who
        .author
        .state_at(&who.identifier, &refs, Some("refs/heads/main"), at);
    publish(&mut relay, &state, ledger).await?;
    let pushed = who
        .tree
        .push(&who.url, &["+main", "+main:refs/tags/latest"])
        .await?;
    if pushed.ok {
        ledger.pushed(&who.url, "refs/heads/main", &tip, who.commits);
    }
    ensure!(pushed.ok, "{}", pushed.stderr);
    let issue = who
        .contributor
        .issue(&who.author, &who.identifier, &format!("issue {tip}"));
    publish(&mut relay, &issue, ledger).await?;
    pull_request(&mut relay, who, ledger).await
}

/// Git first, as the usual clients do, and now and then the event first.
async fn pull_request(
    relay: &mut RelayClient,
    who: &mut Maintainer,
    ledger: &mut Ledger,
) -> Result<()> {
    who.tree.git(["checkout", "-q", "-B", "feature"])?;
    let tip = who.tree.commit("feature", &who.commits.to_string())?;
    who.tree.git(["checkout", "-q", "main"])?;
    let tags = vec![
        tag(["a", &who.author.coordinate(&who.identifier)]),
        tag(["c", &tip]),
        tag(["clone", &who.url]),
    ];
    let pr = who.contributor.sign(1618, "", tags);
    let name = format!("refs/nostr/{}", pr.id.to_hex());
    let event_first = who.commits.is_multiple_of(3);
    if event_first {
        publish(relay, &pr, ledger).await?;
    }
    let pushed = who
        .tree
        .push(&who.url, &[&format!("feature:{name}")])
        .await?;
    ensure!(pushed.ok, "{}", pushed.stderr);
    ledger.pushed(&who.url, &name, &tip, 0);
    if !event_first {
        publish(relay, &pr, ledger).await?;
    }
    Ok(())
}

async fn publish(relay: &mut RelayClient, event: &Event, ledger: &mut Ledger) -> Result<()> {
    let answer = relay.publish(event).await?;
    ensure!(answer.accepted, "refused: {}", answer.message);
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
