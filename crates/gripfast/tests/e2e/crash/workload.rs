//! Workload of maintainers and contributors.

use anyhow::Result;
use grip_testkit::{Author, LocalProject, Node, Project, RelayClient, events::tag};
use nostr::prelude::{Event, EventId, Timestamp};

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
    /// Whether what the last state names was pushed.
    is_pushed: bool,
    /// The deletion of the announcement, until it is acknowledged.
    withdrawal: Option<Event>,
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
            is_pushed: false,
            withdrawal: None,
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

    pub fn project(&self) -> &Project {
        &self.local.project
    }

    /// Commits, or puts a commit in the place of the last one.
    fn commit(&mut self, is_forced: bool) -> Result<String> {
        self.commits += 1;
        self.age -= 1;
        let tree = &self.local.tree;
        if is_forced {
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

    /// Makes the deletion of the announcement, and the announcement after it.
    fn withdraw(&mut self) {
        let Project { owner, .. } = &self.local.project;
        self.age -= 1;
        let address = vec![tag(["a", &self.local.coordinate()])];
        let at = Timestamp::now() - self.age;
        self.withdrawal = Some(owner.sign_at(5, "", address, at));
        self.age -= 1;
        let tags = self.announcement.tags.iter();
        let tags = tags.map(|tag| tag.as_slice().to_vec()).collect();
        let at = Timestamp::now() - self.age;
        self.announcement = owner.sign_at(30617, "", tags, at);
        self.announced = false;
    }
}

/// A push of `main`, and what goes with it.
#[derive(Clone, Copy)]
struct Push {
    /// In the place of the last commit.
    is_forced: bool,
    /// With a branch that comes and goes.
    has_side_branch: bool,
}

impl Push {
    /// The one of so many, where they are done in order.
    fn of(number: u32) -> Self {
        Self {
            is_forced: number.is_multiple_of(4),
            has_side_branch: number % 5 < 2,
        }
    }

    fn drawn(random: &mut Random, number: u32) -> Self {
        Self {
            // The first commit has none before it.
            is_forced: number > 1 && random.below(4) == 0,
            has_side_branch: random.below(5) < 2,
        }
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
    announce(&mut relay, who, ledger).await?;
    // What a fault has cut short goes first.
    send_pull_request(node, &mut relay, who, ledger).await?;
    push(node, &mut relay, who, ledger, Push::of(who.commits + 1)).await?;
    discuss(&mut relay, who, ledger).await?;
    if who.commits <= EAGER_CYCLES || who.commits.is_multiple_of(3) {
        who.open_pull_request()?;
    }
    send_pull_request(node, &mut relay, who, ledger).await
}

/// Any of these, as it comes, and the withdrawal of the repository, which comes back some steps later.
pub async fn step(
    node: &Node,
    who: &mut Maintainer,
    ledger: &mut Ledger,
    random: &mut Random,
) -> Result<()> {
    let mut relay = node.connect().await?;
    withdraw(&mut relay, who, ledger).await?;
    if !who.announced && random.below(4) > 0 {
        return Ok(());
    }
    announce(&mut relay, who, ledger).await?;
    send_pull_request(node, &mut relay, who, ledger).await?;
    match random.below(13) {
        0..6 => {
            let drawn = Push::drawn(random, who.commits + 1);
            push(node, &mut relay, who, ledger, drawn).await
        }
        6 | 7 => open_issue(&mut relay, who, ledger).await,
        8 => delete_issue(&mut relay, who, ledger).await,
        9 | 10 => {
            who.open_pull_request()?;
            send_pull_request(node, &mut relay, who, ledger).await
        }
        // A state that waits for its data would go with it.
        _ if who.is_pushed => {
            who.withdraw();
            withdraw(&mut relay, who, ledger).await
        }
        _ => Ok(()),
    }
}

/// Announces the repository if that is not done, or it was withdrawn.
async fn announce(
    relay: &mut RelayClient,
    who: &mut Maintainer,
    ledger: &mut Ledger,
) -> Result<()> {
    if !who.announced {
        ledger.returning(who.project());
        publish(relay, &who.announcement, ledger).await?;
        ledger.returned(who.project());
        who.announced = true;
    }
    Ok(())
}

/// Deletes the announcement if that is to be done.
async fn withdraw(
    relay: &mut RelayClient,
    who: &mut Maintainer,
    ledger: &mut Ledger,
) -> Result<()> {
    if let Some(deletion) = &who.withdrawal {
        ledger.withdrawing(who.project());
        relay.publish_ok(deletion).await?;
        ledger.withdrawn(who.project());
        who.withdrawal = None;
    }
    Ok(())
}

async fn push(
    node: &Node,
    relay: &mut RelayClient,
    who: &mut Maintainer,
    ledger: &mut Ledger,
    drawn: Push,
) -> Result<()> {
    who.is_pushed = false;
    let tip = who.commit(drawn.is_forced)?;
    let mut refs = vec![("refs/heads/main", &*tip), ("refs/tags/latest", &*tip)];
    let mut refspecs = vec!["+main", "+main:refs/tags/latest"];
    let path = who.local.path();
    if drawn.has_side_branch {
        refs.push(("refs/heads/side", &*tip));
        refspecs.push("+main:refs/heads/side");
    }
    for (name, tip) in &refs {
        ledger.attempts(&path, name, Some(tip));
    }
    if !drawn.has_side_branch {
        ledger.attempts(&path, "refs/heads/side", None);
    }
    let state = who.local.state_at(&refs, who.age);
    publish(relay, &state, ledger).await?;
    let url = who.local.url(node);
    who.local.tree.push_ok(&url, &refspecs).await?;
    for name in ["refs/heads/main", "refs/tags/latest", "refs/heads/side"] {
        ledger.pushed(&path, name);
    }
    who.is_pushed = true;
    Ok(())
}

/// Opens an issue, and now and then deletes the last one.
async fn discuss(relay: &mut RelayClient, who: &mut Maintainer, ledger: &mut Ledger) -> Result<()> {
    if who.commits.is_multiple_of(2) {
        delete_issue(relay, who, ledger).await?;
    }
    open_issue(relay, who, ledger).await
}

async fn delete_issue(
    relay: &mut RelayClient,
    who: &mut Maintainer,
    ledger: &mut Ledger,
) -> Result<()> {
    if let Some(issue) = who.issue.take() {
        ledger.deleting(&issue);
        let deletion = who.contributor.delete_events(&[issue]);
        relay.publish_ok(&deletion).await?;
        ledger.deleted(issue);
    }
    Ok(())
}

async fn open_issue(
    relay: &mut RelayClient,
    who: &mut Maintainer,
    ledger: &mut Ledger,
) -> Result<()> {
    let Project { owner, identifier } = &who.local.project;
    let subject = format!("issue {}", Author::new().hex());
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
