//! Workload of maintainers and contributors.

use anyhow::Result;
use grip_testkit::{Author, LocalProject, Node, Project, RelayClient};
use nostr::prelude::{Event, EventId};

use crate::crash::ledger::Ledger;

/// The age of the first event, in seconds: a campaign has thousands of them, each a second younger.
const FIRST_AGE: u64 = 50_000;
/// Cycles with a pull request each; later ones open fewer, so that a repository has room for all.
const EAGER_CYCLES: u32 = 6;

/// Somebody with one repository on the node.
pub struct Maintainer {
    local: LocalProject,
    contributor: Author,
    /// Where the service that it is announced under has it.
    url: String,
    announcement: Event,
    announced: bool,
    /// The age of the latest event; each is a second younger than the one before.
    age: u64,
    commits: u32,
    /// Where `main` was to go, one place after the other.
    history: Vec<String>,
    issue: Option<EventId>,
    /// One whose data or event is still to be sent.
    pull_request: Option<PullRequest>,
}

/// A pull request on its way: half of it is dropped after a while.
struct PullRequest {
    event: Event,
    tip: String,
    /// The event is sent before the data.
    is_event_first: bool,
    is_published: bool,
    is_pushed: bool,
}

impl Maintainer {
    /// Somebody whose repository is announced under the name of `service`.
    pub fn new(service: &Node) -> Result<Self> {
        let local = LocalProject::new(&format!("repo-{}", &Author::new().hex()[..8]))?;
        Ok(Self {
            url: local.url(service),
            announcement: local.announcement_at(&[service], &[], FIRST_AGE),
            history: vec![local.tip.clone()],
            local,
            contributor: Author::new(),
            announced: false,
            age: FIRST_AGE,
            commits: 0,
            issue: None,
            pull_request: None,
        })
    }

    /// The path at which every node serves the repository.
    pub fn path(&self) -> String {
        self.local.path()
    }

    /// Where `main` was to go, the first place first.
    pub fn history(&self) -> &[String] {
        &self.history
    }

    /// Commits, and now and then in the place of the last commit.
    fn commit(&mut self) -> Result<String> {
        self.commits += 1;
        self.age -= 1;
        let tree = &self.local.tree;
        if self.commits.is_multiple_of(4) {
            tree.git(["reset", "-q", "--hard", "HEAD~1"])?;
        }
        let tip = tree.commit("log", &self.commits.to_string())?;
        self.history.push(tip.clone());
        Ok(tip)
    }

    /// Makes the commit and the event of a pull request.
    fn open_pull_request(&mut self) -> Result<()> {
        let tree = &self.local.tree;
        tree.git(["checkout", "-q", "-B", "feature"])?;
        let tip = tree.commit("feature", &self.commits.to_string())?;
        tree.git(["checkout", "-q", "main"])?;
        let Project { owner, identifier } = &self.local.project;
        let event = self
            .contributor
            .pull_request(owner, identifier, &tip, &self.url);
        self.pull_request = Some(PullRequest {
            event,
            tip,
            is_event_first: self.commits.is_multiple_of(3),
            is_published: false,
            is_pushed: false,
        });
        Ok(())
    }

    /// A branch that comes and goes.
    fn has_side_branch(&self) -> bool {
        self.commits % 5 < 2
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

/// Announce if that is not done, commit, publish the state, push, discuss, delete, open a pull request.
pub async fn cycle(node: &Node, who: &mut Maintainer, ledger: &mut Ledger) -> Result<()> {
    let mut relay = node.connect().await?;
    if !who.announced {
        publish(&mut relay, &who.announcement, ledger).await?;
        who.announced = true;
    }
    // What a fault has cut short goes first.
    send_pull_request(node, &mut relay, who, ledger).await?;
    push(node, &mut relay, who, ledger).await?;
    discuss(&mut relay, who, ledger).await?;
    if who.commits <= EAGER_CYCLES || who.commits.is_multiple_of(3) {
        who.open_pull_request()?;
    }
    send_pull_request(node, &mut relay, who, ledger).await
}

async fn push(
    node: &Node,
    relay: &mut RelayClient,
    who: &mut Maintainer,
    ledger: &mut Ledger,
) -> Result<()> {
    let tip = who.commit()?;
    let mut refs = vec![("refs/heads/main", &*tip), ("refs/tags/latest", &*tip)];
    let mut refspecs = vec!["+main", "+main:refs/tags/latest"];
    let (path, has_side_branch) = (who.local.path(), who.has_side_branch());
    if has_side_branch {
        refs.push(("refs/heads/side", &*tip));
        refspecs.push("+main:refs/heads/side");
    }
    for (name, tip) in &refs {
        ledger.attempts(&path, name, Some(tip));
    }
    if !has_side_branch {
        ledger.attempts(&path, "refs/heads/side", None);
    }
    let state = who.local.state_at(&refs, who.age);
    publish(relay, &state, ledger).await?;
    let url = who.local.url(node);
    who.local.tree.push_ok(&url, &refspecs).await?;
    for name in ["refs/heads/main", "refs/tags/latest", "refs/heads/side"] {
        ledger.pushed(&path, name);
    }
    Ok(())
}

/// Opens an issue, and now and then deletes the last one.
async fn discuss(relay: &mut RelayClient, who: &mut Maintainer, ledger: &mut Ledger) -> Result<()> {
    if let Some(issue) = who.issue.take_if(|_| who.commits.is_multiple_of(2)) {
        ledger.deleting(&issue);
        let deletion = who.contributor.delete_events(&[issue]);
        relay.publish_ok(&deletion).await?;
        ledger.deleted(issue);
    }
    let Project { owner, identifier } = &who.local.project;
    let subject = format!("issue {}", who.commits);
    let issue = who.contributor.issue(owner, identifier, &subject);
    publish(relay, &issue, ledger).await?;
    who.issue = Some(issue.id);
    Ok(())
}

/// Git first, as the usual clients do, and now and then the event first.
async fn send_pull_request(
    node: &Node,
    relay: &mut RelayClient,
    who: &mut Maintainer,
    ledger: &mut Ledger,
) -> Result<()> {
    let Some(request) = &mut who.pull_request else {
        return Ok(());
    };
    if request.is_event_first {
        request.publish(relay, ledger).await?;
    }
    if !request.is_pushed {
        let name = format!("refs/nostr/{}", request.event.id.to_hex());
        let (path, url) = (who.local.path(), who.local.url(node));
        ledger.attempts(&path, &name, Some(&request.tip));
        let refspec = format!("{}:{name}", request.tip);
        who.local.tree.push_ok(&url, &[&refspec]).await?;
        ledger.pushed(&path, &name);
        request.is_pushed = true;
    }
    request.publish(relay, ledger).await?;
    who.pull_request = None;
    Ok(())
}

impl PullRequest {
    async fn publish(&mut self, relay: &mut RelayClient, ledger: &mut Ledger) -> Result<()> {
        if !self.is_published {
            publish(relay, &self.event, ledger).await?;
            self.is_published = true;
        }
        Ok(())
    }
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
