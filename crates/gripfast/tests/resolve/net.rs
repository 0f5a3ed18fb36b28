//! Real nodes in one network on loopback, and repositories on them.

use std::{fs, os::unix::fs::PermissionsExt as _};

use anyhow::{Context as _, Result, ensure};
use grip_resolve::NodeKey;
use grip_testkit::{Author, Node, WorkTree, node::free_port, within};
use nostr::prelude::{Event, Timestamp};
use serde_json::Value;

pub const BINARY: &str = env!("CARGO_BIN_EXE_gripfast");

/// Settings under which hosts on this machine are asked without delay.
const EAGER: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_DEFAULT_DELAY_SECS", "0"),
    ("NGIT_SYNC_LOOP_INTERVAL_MS", "100"),
    ("GRIPFAST_DHT_ENABLED", "true"),
    ("GRIPFAST_DHT_LAN_ONLY", "true"),
];

/// So many nodes, each knowing the first one only when it starts.
pub async fn start(nodes: usize) -> Result<Vec<Node>> {
    let mut all: Vec<Node> = Vec::new();
    let mut first = String::new();
    for n in 0..nodes {
        let mut node = Node::prepare(BINARY, EAGER)?;
        keep_key(&node, &seed(n)?)?;
        let listen = format!("/ip4/127.0.0.1/tcp/{}", free_port()?);
        node.set_env("GRIPFAST_DHT_LISTEN", &listen);
        if n == 0 {
            first = format!("{listen}/p2p/{}", peer(n)?);
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
async fn knows(node: &Node, others: usize) -> Result<()> {
    let knows = loop_until("the node knows the others", async || {
        let status = get(node, "/api/v1/resolve").await?;
        let known = status["network"]["known_peers"].as_u64();
        let known = known.with_context(|| format!("no network: {status}"))?;
        Ok((known >= others as u64).then_some(()))
    });
    knows.await.with_context(|| node.log())
}

/// The JSON that a GET of `path` answers with.
pub async fn get(node: &Node, path: &str) -> Result<Value> {
    let answer = node.get(path).await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
    let object = body.find('{').zip(body.rfind('}'));
    let (first, last) = object.context("no object")?;
    Ok(serde_json::from_str(&body[first..=last])?)
}

/// Waits for a state; a probe that fails is tried again as well.
pub async fn loop_until<T>(
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let mut last = None;
    let looking = async {
        loop {
            match probe().await {
                Ok(Some(found)) => return found,
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let found = within(what, looking).await;
    found.with_context(|| format!("{last:?}"))
}

/// Somebody's repository.
pub struct Repo {
    pub owner: Author,
    pub tree: WorkTree,
    pub tip: String,
}

impl Repo {
    pub fn new() -> Result<Self> {
        let tree = WorkTree::with_commit()?;
        Ok(Self {
            owner: Author::new(),
            tip: tree.tip("HEAD")?,
            tree,
        })
    }

    /// A state that names the tip, so many seconds old.
    pub fn state(&self, age: u64) -> Event {
        let refs = [("refs/heads/main", self.tip.as_str())];
        let at = Timestamp::now() - age;
        let head = Some("refs/heads/main");
        self.owner.state_at("x", &refs, head, at)
    }

    /// Announces it on `node` and pushes it there, so many seconds ago by its events.
    pub async fn push(&self, node: &Node, age: u64) -> Result<Event> {
        let mut relay = node.connect().await?;
        let (at, authority) = (Timestamp::now() - age, node.authority());
        let announced = self.owner.announcement_at(&authority, "x", vec![], at);
        relay.publish_ok(&announced).await?;
        let state = self.state(age);
        relay.publish_ok(&state).await?;
        let pushed = self.tree.push(&self.url(node), &["main"]).await?;
        ensure!(pushed.ok, "{}", pushed.stderr);
        Ok(state)
    }

    pub fn url(&self, node: &Node) -> String {
        self.owner.clone_url(&node.authority(), "x")
    }

    /// Its name, as it is resolved.
    pub fn key(&self) -> String {
        format!("name:{}/x", self.owner.npub())
    }

    /// The id of its manifest with the state that was pushed, by the node that serves it.
    pub async fn id(&self, node: &Node) -> Result<String> {
        loop_until("the node has a manifest with a state", async || {
            let found = get(node, &format!("/resolve/{}?fresh=true", self.key())).await?;
            let id = found["id"].as_str().context("no id")?.to_owned();
            Ok(found["manifest"][4].is_object().then_some(id))
        })
        .await
    }

    /// Waits until `node` finds what is served elsewhere.
    pub async fn is_found(&self, node: &Node, id: &str) -> Result<()> {
        for key in [&self.key(), id] {
            loop_until("it is published", async || {
                let found = get(node, &format!("/resolve/{key}?fresh=true")).await?;
                Ok((found["id"] == id).then_some(()))
            })
            .await?;
        }
        Ok(())
    }
}
