//! Honest clients: they report issues, ask for them, push what they signed, and clone.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::join_all;
use grip_testkit::{
    Author, LocalProject, Node, RelayClient, WorkTree,
    http::{Connection, request},
    wire, within,
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::hostile::scene::MAIN;

/// How often one who was refused tries again, so that the rest of the work can be done.
const TRIES: usize = 20;
/// As many at the end as at the beginning: what an attack costs is not to be mixed with what more issues
/// cost.
const ISSUES_ASKED_FOR: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Event,
    Query,
    Push,
    Clone,
}

impl Operation {
    pub const ALL: &[Self] = &[Self::Event, Self::Query, Self::Push, Self::Clone];

    /// How often it is done in a round: what is over soon says little when it is done once.
    fn times(self) -> usize {
        match self {
            Self::Event | Self::Query => 4,
            Self::Push | Self::Clone => 1,
        }
    }
}

/// What the honest did: how long each operation took that went well, and what was refused.
#[derive(Default)]
pub(super) struct Outcomes {
    times: Vec<(Operation, Duration)>,
    pub errors: Vec<String>,
    /// The most resident memory of all git processes of the node together.
    pub git_memory: u64,
}

impl Outcomes {
    pub fn percentile(&self, operation: Operation, percent: usize) -> Duration {
        let of_operation = self.times.iter().filter(|(it, _)| *it == operation);
        let mut times: Vec<Duration> = of_operation.map(|(_, time)| *time).collect();
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        times.get(last * percent / 100).copied().unwrap_or_default()
    }

    pub fn succeeded(&self) -> usize {
        self.times.len()
    }

    fn join(&mut self, other: Self) {
        self.times.extend(other.times);
        self.errors.extend(other.errors);
    }
}

/// Somebody with a repository of his own, at an address of his own.
pub(super) struct Honest {
    pub project: LocalProject,
    address: Ipv4Addr,
    reporter: Author,
    relay: RelayClient,
    /// The age of the latest state; each is younger than the one before.
    age: u64,
    issues: usize,
}

/// A commit that is not pushed yet.
struct Pending {
    old: String,
    new: String,
    pack: Vec<u8>,
}

impl Honest {
    async fn new(node: &Node, n: u8, mib: u64) -> Result<Self> {
        let tree = WorkTree::with_commit()?;
        if mib > 0 {
            tree.commit_noise(mib, 1)?;
        }
        let project = LocalProject::with_tree(&format!("honest-{n}"), tree)?;
        let age = 100_000;
        project.publish(node, age).await?;
        let address = Ipv4Addr::new(127, 2, 0, 1 + n);
        Ok(Self {
            relay: RelayClient::connect_from(address, node.port()).await?,
            reporter: Author::new(),
            project,
            address,
            age,
            issues: 0,
        })
    }

    async fn prepare(&self, rounds: usize) -> Result<Vec<Pending>> {
        let mut commits = Vec::new();
        let mut old = self.project.tip.clone();
        for _ in 0..rounds {
            let new = self.project.tree.commit("next", &old)?;
            let pack = wire::pack(&self.project.tree, &new, Some(&old)).await?;
            commits.push(Pending {
                old: old.clone(),
                new: new.clone(),
                pack,
            });
            old = new;
        }
        Ok(commits)
    }

    async fn rounds(&mut self, node: &Node, commits: Vec<Pending>) -> Result<Outcomes> {
        let mut outcomes = Outcomes::default();
        for commit in commits {
            for operation in Operation::ALL {
                for _ in 0..operation.times() {
                    self.operate(*operation, node, &commit, &mut outcomes)
                        .await?;
                }
            }
        }
        Ok(outcomes)
    }

    /// Does one thing, again if need be; every refusal is noted.
    async fn operate(
        &mut self,
        operation: Operation,
        node: &Node,
        commit: &Pending,
        outcomes: &mut Outcomes,
    ) -> Result<()> {
        for _ in 0..TRIES {
            let began = Instant::now();
            let done = within("an honest operation", async {
                match operation {
                    Operation::Event => self.report().await,
                    Operation::Query => self.query().await,
                    Operation::Push => self.push(node, commit).await,
                    Operation::Clone => self.clone(node).await,
                }
            });
            let Err(error) = done.await.and_then(|done| done) else {
                outcomes.times.push((operation, began.elapsed()));
                return Ok(());
            };
            outcomes.errors.push(format!("{operation:?}: {error:#}"));
            sleep(Duration::from_millis(250)).await;
            if let Ok(relay) = RelayClient::connect_from(self.address, node.port()).await {
                self.relay = relay;
            }
        }
        anyhow::bail!("{operation:?} fails for good: {:?}", outcomes.errors.last())
    }

    async fn report(&mut self) -> Result<()> {
        self.issues += 1;
        let (owner, name) = (&self.project.owner, &self.project.identifier);
        let issue = self.reporter.issue(owner, name, &self.issues.to_string());
        let answer = self.relay.publish(&issue).await?;
        ensure!(answer.is_served(), "{answer:?}");
        Ok(())
    }

    async fn query(&mut self) -> Result<()> {
        let repository = self.project.coordinate();
        let own = json!({
            "#a": [repository],
            "authors": [self.reporter.hex()],
            "limit": ISSUES_ASKED_FOR,
        });
        let found = self.relay.query(&[own]).await?.len();
        // One that was sent twice, because its answer was lost, is there once.
        let most = self.issues.min(ISSUES_ASKED_FOR);
        ensure!(found > 0 && found <= most, "{found} of {most}");
        Ok(())
    }

    /// Signs a state and pushes what it names.
    async fn push(&mut self, node: &Node, commit: &Pending) -> Result<()> {
        self.age -= 1;
        let state = self.project.state_at(&[(MAIN, &commit.new)], self.age);
        self.relay.publish_ok(&state).await?;
        let commands = [(commit.old.as_str(), commit.new.as_str(), MAIN)];
        let mut body = wire::commands(&commands, wire::CAPABILITIES);
        body.extend(&commit.pack);
        let path = format!("{}/git-receive-pack", self.project.path());
        let headers = [("content-type", wire::PUSH_TYPE), ("connection", "close")];
        let mut connection = Connection::open_from(self.address, node.port()).await?;
        connection
            .send(&request("POST", &path, &headers, &body))
            .await?;
        let response = connection.response().await?;
        let is_taken = response.status == 200 && response.contains(&format!("ok {MAIN}"));
        ensure!(is_taken, "{}: {}", response.status, response.text());
        self.project.tip.clone_from(&commit.new);
        Ok(())
    }

    async fn clone(&self, node: &Node) -> Result<()> {
        let clone = WorkTree::clone(&self.project.url(node), &["--bare"]).await?;
        let tip = clone.run(["rev-parse", MAIN]).await?.text()?;
        ensure!(tip == self.project.tip, "an old state is served");
        Ok(())
    }
}

/// Honest clients of one node.
pub(super) struct Crowd {
    pub node: Node,
    pub clients: Vec<Honest>,
}

impl Crowd {
    /// So many clients of `node`, at addresses from `first` on; the first has a repository of `mib`.
    pub async fn new(node: Node, first: u8, count: u8, mib: u64) -> Result<Self> {
        let mut clients = Vec::new();
        for n in 0..count {
            let mib = if n == 0 { mib } else { 0 };
            clients.push(Honest::new(&node, first + n, mib).await?);
        }
        Ok(Self { node, clients })
    }

    /// All do so many rounds at the same time.
    pub async fn work(&mut self, rounds: usize) -> Result<Outcomes> {
        let mut work = Vec::new();
        for client in &self.clients {
            work.push(client.prepare(rounds).await?);
        }
        let node = &self.node;
        let clients = self.clients.iter_mut().zip(work);
        let working = join_all(clients.map(|(client, commits)| client.rounds(node, commits)));
        tokio::pin!(working);
        let mut all = Outcomes::default();
        let done = loop {
            tokio::select! {
                done = &mut working => break done,
                () = sleep(Duration::from_millis(50)) => {
                    all.git_memory = all.git_memory.max(node.children_rss_bytes()?);
                }
            }
        };
        for outcomes in done {
            all.join(outcomes.context("an honest client gave up")?);
        }
        Ok(all)
    }
}
