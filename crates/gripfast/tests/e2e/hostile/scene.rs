//! A node with one served repository, and the questions every attack ends with.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Node, RelayClient, WorkTree, git, node, wire};
use nostr::prelude::Timestamp;

use crate::BINARY;

pub struct Scene {
    pub node: Node,
    pub owner: Author,
    pub identifier: String,
    pub tree: WorkTree,
    pub relay: RelayClient,
    clock: u64,
}

impl Scene {
    pub async fn new() -> Result<Self> {
        Self::with(&[]).await
    }

    pub async fn with(env: &[(&str, &str)]) -> Result<Self> {
        let node = Node::start_with(BINARY, env).await?;
        let relay = node.connect().await?;
        let mut scene = Self {
            node,
            owner: Author::new(),
            identifier: "target".into(),
            tree: WorkTree::with_commit()?,
            relay,
            clock: Timestamp::now().as_secs() - 1_000,
        };
        let authority = scene.node.authority();
        let announcement = scene
            .owner
            .announcement(&authority, &scene.identifier, vec![]);
        scene.relay.publish_ok(&announcement).await?;
        let tip = scene.tree.tip("HEAD")?;
        scene.publish_state(&[("refs/heads/main", &tip)]).await?;
        let pushed = scene.tree.push(&scene.url(), &["main"]).await?;
        ensure!(pushed.ok, "{}", pushed.stderr);
        Ok(scene)
    }

    pub fn url(&self) -> String {
        self.owner
            .clone_url(&self.node.authority(), &self.identifier)
    }

    pub fn path(&self) -> String {
        format!("/{}/{}.git", self.owner.npub(), self.identifier)
    }

    pub async fn publish_state(&mut self, refs: &[(&str, &str)]) -> Result<()> {
        self.clock += 1;
        let at = Timestamp::from_secs(self.clock);
        let state = self
            .owner
            .state_at(&self.identifier, refs, Some("refs/heads/main"), at);
        self.relay.publish_ok(&state).await?;
        Ok(())
    }

    /// A commit that the published state names and the server lacks: `(old, new)`.
    pub async fn pending_commit(&mut self) -> Result<(String, String)> {
        let old = self.tree.tip("HEAD")?;
        let new = self.tree.commit("pending", &old)?;
        self.publish_state(&[("refs/heads/main", &new)]).await?;
        Ok((old, new))
    }

    /// Sends a push as bytes and returns the answer as text.
    pub async fn push_bytes(&self, body: &[u8]) -> Result<String> {
        let path = format!("{}/git-receive-pack", self.path());
        self.send(&wire::post(&path, wire::PUSH_TYPE, "", body))
            .await
    }

    /// Sends a request as it is and returns the answer as text.
    pub async fn send(&self, request: &[u8]) -> Result<String> {
        let answer = node::http_raw(self.node.port(), request).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Demands an in-band refusal that names every ref and contains `reason`.
    pub fn refused(&self, answer: &str, refs: &[&str], reason: &str) -> Result<()> {
        ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        ensure!(
            answer.contains("unpack ") && !answer.contains("unpack ok"),
            "{answer}"
        );
        for name in refs {
            ensure!(
                answer.contains(&format!("ng {name} ")),
                "{name} is not reported: {answer}"
            );
        }
        ensure!(
            answer.to_lowercase().contains(reason),
            "{reason:?} is not in: {answer}"
        );
        Ok(())
    }

    /// The object is neither fetchable nor anywhere in the served object stores.
    pub async fn must_lack(&self, oid: &str) -> Result<()> {
        let repository = self
            .node
            .data_dir()
            .join("git")
            .join(self.path().trim_start_matches('/'));
        let found = git::run(&repository, ["cat-file", "-e", oid]).await?;
        ensure!(!found.ok, "{oid} stayed behind");
        let fresh = WorkTree::init()?;
        ensure!(
            !fresh.run(["fetch", "-q", &self.url(), oid]).await?.ok,
            "{oid} can be fetched"
        );
        let left = self.quarantined();
        ensure!(left.is_empty(), "quarantine is not empty: {left:?}");
        Ok(())
    }

    /// Bytes of all packs on disk.
    pub fn pack_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        let mut pending = vec![self.node.data_dir().join("git")];
        while let Some(dir) = pending.pop() {
            for entry in std::fs::read_dir(dir)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    pending.push(entry.path());
                } else if entry.path().extension().is_some_and(|it| it == "pack") {
                    bytes += entry.metadata()?.len();
                }
            }
        }
        Ok(bytes)
    }

    /// Files of packs that were received and not taken.
    pub fn quarantined(&self) -> Vec<std::path::PathBuf> {
        let entries = |dir: &std::path::Path| -> Vec<std::path::PathBuf> {
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        };
        let quarantines = entries(&self.node.data_dir().join("git/.quarantine"));
        quarantines
            .iter()
            .flat_map(|dir| entries(&dir.join("pack")))
            .collect()
    }

    /// The repository is sound, `main` is at `tip`, and an honest maintainer can go on.
    pub async fn goes_on(&mut self, tip: &str) -> Result<()> {
        let refs = git::ls_remote(&self.url()).await?;
        let main = refs.iter().find(|(name, _)| name == "refs/heads/main");
        ensure!(
            main.is_some_and(|(_, oid)| oid == tip),
            "main moved: {refs:?}"
        );
        let repository = self
            .node
            .data_dir()
            .join("git")
            .join(self.path().trim_start_matches('/'));
        git::run(&repository, ["fsck", "--full"]).await?.text()?;
        self.relay = self.node.connect().await?;
        let next = self.tree.commit("honest", tip)?;
        self.publish_state(&[("refs/heads/main", &next)]).await?;
        let pushed = self.tree.push(&self.url(), &["+main"]).await?;
        ensure!(pushed.ok, "an honest push fails: {}", pushed.stderr);
        let health = self.node.get("/healthz").await.context("healthz")?;
        ensure!(health.starts_with("HTTP/1.1 200"), "{health}");
        Ok(())
    }
}
