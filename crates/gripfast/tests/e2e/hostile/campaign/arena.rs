//! Scene of an attack: the node and its victim as attackers know them, and the addresses they come from.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use futures_util::future::BoxFuture;
use grip_testkit::{
    Author, FakeRelay, Node, RelayClient, RemoteHost, Response, WorkTree,
    fake_relay::EndlessIssues,
    http::{Connection, request},
    remote::Behaviour,
    until_true, wire,
};
use nostr::prelude::Event;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::Honest;

/// Acts in a second, of all addresses together.
const ACTS_PER_SECOND: u32 = 200;
/// Hosts that the attackers run.
const HOSTS: u8 = 4;

/// What the attackers run beside their clients.
#[derive(Clone, Copy)]
pub(super) enum Elsewhere {
    Nothing,
    /// Git hosts that behave like this.
    Hosts(fn() -> Behaviour),
    /// A relay with issues without end, which name the victim's repository too.
    Relay,
}

pub(super) struct Arena {
    pub port: u16,
    pub authority: String,
    /// The victim: owner, identifier, path of the repository, its first tip.
    pub owner: Author,
    pub identifier: String,
    pub path: String,
    pub tip: String,
    pub addresses: usize,
    /// A commit with one MiB of data, and the pack of it.
    pub noise: (String, Vec<u8>),
    pub hosts: Vec<RemoteHost>,
    pub hostile_relay: Option<FakeRelay>,
    acts: AtomicU64,
}

impl Arena {
    pub async fn new(
        node: &Node,
        victim: &Honest,
        addresses: usize,
        elsewhere: Elsewhere,
    ) -> Result<Arc<Self>> {
        let tree = WorkTree::init()?;
        let tip = tree.commit_noise(1, 1)?;
        let pack = wire::pack(&tree, &tip, None).await?;
        let (mut hosts, mut hostile_relay) = (Vec::new(), None);
        match elsewhere {
            Elsewhere::Nothing => {}
            Elsewhere::Hosts(behaviour) => {
                for n in 1..=HOSTS {
                    let host = RemoteHost::start(&format!("127.3.0.{n}")).await?;
                    host.host(&tree, "x.git")?;
                    host.behave(behaviour());
                    hosts.push(host);
                }
            }
            Elsewhere::Relay => {
                let issues = EndlessIssues {
                    page: 100,
                    content_bytes: 20_000,
                    also_about: vec![victim.project.coordinate()],
                };
                hostile_relay = Some(FakeRelay::with_endless("127.3.0.9", issues).await?);
            }
        }
        Ok(Arc::new(Self {
            port: node.port(),
            authority: node.authority(),
            owner: victim.project.owner.clone(),
            identifier: victim.project.identifier.clone(),
            path: victim.project.path(),
            tip: victim.project.tip.clone(),
            addresses,
            noise: (tip, pack),
            hosts,
            hostile_relay,
            acts: AtomicU64::new(0),
        }))
    }

    /// Begins the attack from all addresses; it ends when the set is dropped.
    pub fn attack(
        self: &Arc<Self>,
        run: fn(Arc<Self>, Ipv4Addr) -> BoxFuture<'static, Result<()>>,
    ) -> JoinSet<()> {
        let mut attackers = JoinSet::new();
        for n in 0..self.addresses {
            let from = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + n as u32);
            let arena = Arc::clone(self);
            attackers.spawn(async move {
                loop {
                    // Refused or cut: that is what the node is to do. It comes again.
                    let _ = run(Arc::clone(&arena), from).await;
                    arena.act().await;
                }
            });
        }
        attackers
    }

    /// Counts one thing done, and leaves time for others: many addresses are not many machines.
    pub async fn act(&self) {
        self.acts.fetch_add(1, Relaxed);
        sleep(Duration::from_secs(1) * self.addresses as u32 / ACTS_PER_SECOND).await;
    }

    pub fn acts(&self) -> u64 {
        self.acts.load(Relaxed)
    }

    /// Waits until the attack is in full swing, or a while: some do little that costs much.
    pub async fn is_under_way(&self) {
        let begun = until_true("the attack is under way", || self.acts() >= 100);
        let _ = timeout(Duration::from_secs(2), begun).await;
    }

    /// The part of one address of so many in all, and one at least.
    pub fn share(&self, all: usize) -> usize {
        all.div_ceil(self.addresses)
    }

    pub fn coordinate(&self) -> String {
        self.owner.coordinate(&self.identifier)
    }

    /// A 32-byte id that nobody has.
    pub fn random_id() -> String {
        format!("{:064x}", rand::random::<u128>())
    }

    pub fn random_oid() -> String {
        format!("{:040x}", rand::random::<u128>())
    }

    pub async fn relay(&self, from: Ipv4Addr) -> Result<RelayClient> {
        RelayClient::connect_from(from, self.port).await
    }

    pub async fn connection(&self, from: Ipv4Addr) -> Result<Connection> {
        Ok(Connection::open_from(from, self.port).await?)
    }

    /// Sends a push to the victim's repository, whole.
    pub async fn push(
        &self,
        from: Ipv4Addr,
        edit: (&str, &str, &str),
        pack: &[u8],
    ) -> Result<Response> {
        self.push_to(&self.path, from, edit, pack).await
    }

    pub async fn push_to(
        &self,
        repository: &str,
        from: Ipv4Addr,
        edit: (&str, &str, &str),
        pack: &[u8],
    ) -> Result<Response> {
        let body = [&wire::commands(&[edit], wire::CAPABILITIES), pack].concat();
        let path = format!("{repository}/git-receive-pack");
        let headers = [("content-type", wire::PUSH_TYPE), ("connection", "close")];
        let mut connection = self.connection(from).await?;
        connection
            .send(&request("POST", &path, &headers, &body))
            .await?;
        connection.response().await
    }

    /// Sends events one after the other and reads the answers, whatever they are.
    pub async fn publish(&self, relay: &mut RelayClient, event: &Event) -> Result<()> {
        relay.publish(event).await?;
        self.act().await;
        Ok(())
    }

    /// Stores events of strangers, so that there is something to scan.
    pub async fn store_events(&self, count: usize) -> Result<()> {
        let mut relay = self.relay(Ipv4Addr::new(127, 2, 1, 1)).await?;
        let author = Author::new();
        let events: Vec<Event> = (0..count)
            .map(|n| author.issue(&self.owner, &self.identifier, &n.to_string()))
            .collect();
        for some in events.chunks(50) {
            for event in some {
                relay.send(json!(["EVENT", event])).await?;
            }
            for event in some {
                let answer = relay.answer(&event.id).await?;
                ensure!(answer.accepted, "{answer:?}");
            }
        }
        Ok(())
    }
}
