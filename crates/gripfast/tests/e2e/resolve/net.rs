//! Real nodes in one network on loopback, and repositories on them.

use std::{fs, os::unix::fs::PermissionsExt as _};

use anyhow::{Context as _, Result};
use grip_resolve::{Manifest, NodeKey};
use grip_testkit::{LocalProject, Node, until_ok};

use crate::BINARY;

/// Settings under which hosts on this machine are asked without delay.
const EAGER: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_DEFAULT_DELAY_SECS", "0"),
    ("NGIT_SYNC_LOOP_INTERVAL_MS", "100"),
    ("GRIPFAST_DHT_ENABLED", "true"),
    ("GRIPFAST_DHT_LAN_ONLY", "true"),
];

/// So many nodes behind a name, each knowing that of the first one only when it starts.
pub async fn start(nodes: usize) -> Result<Vec<Node>> {
    start_with(nodes, &[]).await
}

/// The same with settings of their own.
pub async fn start_with(nodes: usize, settings: &[(&str, &str)]) -> Result<Vec<Node>> {
    let mut all: Vec<Node> = Vec::new();
    let mut first = String::new();
    for n in 0..nodes {
        let (mut node, address) = prepare(n)?;
        let address = address.replace("/ip4/127.0.0.1/", "/dns4/localhost/");
        let (external, _) = address.split_once("/p2p/").context("no name of a peer")?;
        node.set_env("GRIPFAST_DHT_EXTERNAL", external);
        for (name, value) in settings {
            node.set_env(name, value);
        }
        if n == 0 {
            first = address;
        } else {
            node.set_env("GRIPFAST_DHT_BOOTSTRAP", &first);
        }
        node.launch().await?;
        all.push(node);
    }
    for node in &all {
        knows(node, (nodes - 1).min(16)).await?;
    }
    Ok(all)
}

/// The nth node, not started yet, and its address in the network.
pub fn prepare(n: usize) -> Result<(Node, String)> {
    let mut node = Node::prepare(BINARY, EAGER)?;
    keep_key(&node, &seed(n)?)?;
    let listen = format!("/ip4/127.0.0.1/tcp/{}", node.reserve_port()?);
    node.set_env("GRIPFAST_DHT_LISTEN", &listen);
    Ok((node, format!("{listen}/p2p/{}", peer(n)?)))
}

fn seed(n: usize) -> Result<[u8; 32]> {
    Ok([u8::try_from(n + 1)?; 32])
}

/// The name of the node that was started as the nth.
pub fn peer(n: usize) -> Result<String> {
    Ok(NodeKey::from_seed(&seed(n)?).peer().to_string())
}

/// Gives the node a key that the test knows as well.
fn keep_key(node: &Node, seed: &[u8; 32]) -> Result<()> {
    fs::create_dir_all(node.data_dir())?;
    let file = node.data_dir().join("node.key");
    let digits: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(&file, digits)?;
    Ok(fs::set_permissions(
        &file,
        fs::Permissions::from_mode(0o600),
    )?)
}

/// Waits until the node knows so many others.
pub async fn knows(node: &Node, others: usize) -> Result<()> {
    let knows = until_ok("the node knows the others", async || {
        let status = node.json("/api/v1/resolve").await?;
        let known = status["network"]["known_peers"].as_u64();
        let known = known.with_context(|| format!("no network: {status}"))?;
        Ok((known >= others as u64).then_some(()))
    });
    knows.await.with_context(|| node.log())
}

/// A repository on one of the nodes: the id of its manifest, and an older manifest of it.
pub struct Served {
    pub repo: Repo,
    pub id: String,
    pub outdated: Manifest,
}

/// A repository on each of the nodes, and found from another.
pub async fn serve(nodes: &[Node]) -> Result<Vec<Served>> {
    let mut served = Vec::new();
    for node in nodes {
        let repo = Repo::new()?;
        repo.0.publish(node, 10).await?;
        let (id, outdated) = (repo.id(node).await?, repo.outdated(node)?);
        served.push(Served { repo, id, outdated });
    }
    for (n, it) in served.iter().enumerate() {
        it.repo
            .is_found(&nodes[(n + 1) % nodes.len()], &it.id)
            .await?;
    }
    Ok(served)
}

/// A repository `x` that is looked for.
pub struct Repo(pub LocalProject);

impl Repo {
    pub fn new() -> Result<Self> {
        LocalProject::new("x").map(Self)
    }

    /// Its name, as it is resolved.
    pub fn key(&self) -> String {
        format!("name:{}/x", self.0.project.owner.npub())
    }

    /// The id of its manifest with the state that was pushed, by the node that serves it.
    pub async fn id(&self, node: &Node) -> Result<String> {
        until_ok("the node has a manifest with a state", async || {
            let found = node
                .json(&format!("/resolve/{}?fresh=true", self.key()))
                .await?;
            let id = found["id"].as_str().context("no id")?.to_owned();
            Ok(found["manifest"][4].is_object().then_some(id))
        })
        .await
    }

    /// A manifest of it from before it was published on `node`, signed by its owner.
    fn outdated(&self, node: &Node) -> Result<Manifest> {
        let announcement = self.0.announcement_at(&[node], &[], 60);
        let state = self.0.state(60);
        Ok(Manifest::make(announcement, vec![], Some(state))?)
    }

    /// Waits until `node` finds what is served elsewhere.
    pub async fn is_found(&self, node: &Node, id: &str) -> Result<()> {
        for key in [&self.key(), id] {
            until_ok("it is published", async || {
                let found = node.json(&format!("/resolve/{key}?fresh=true")).await?;
                Ok((found["id"] == id).then_some(()))
            })
            .await?;
        }
        Ok(())
    }
}
