//! A node with one served repository, and the questions every attack ends with.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, RelayClient, Response, WorkTree, git, http, wire};

use crate::BINARY;

pub const MAIN: &str = "refs/heads/main";

/// Addresses of clients count as what they are.
pub const NO_PROXY: (&str, &str) = ("GRIPFAST_TRUSTED_PROXY_CIDRS", "192.0.2.0/24");

pub struct Scene {
    pub node: Node,
    pub project: LocalProject,
    pub relay: RelayClient,
    /// The age of the latest state; each is a second younger than the one before.
    age: u64,
}

impl Scene {
    pub async fn new() -> Result<Self> {
        Self::with(&[]).await
    }

    pub async fn with(env: &[(&str, &str)]) -> Result<Self> {
        let node = Node::start_with(BINARY, env).await?;
        let (project, age) = (LocalProject::new("target")?, 1_000);
        project.publish(&node, age).await?;
        let relay = node.connect().await?;
        Ok(Self {
            node,
            project,
            relay,
            age,
        })
    }

    pub fn url(&self) -> String {
        self.project.url(&self.node)
    }

    pub async fn publish_state(&mut self, tip: &str) -> Result<()> {
        self.age -= 1;
        let state = self.project.state_at(&[(MAIN, tip)], self.age);
        self.relay.publish_ok(&state).await?;
        Ok(())
    }

    /// A commit that the published state names and the server lacks: `(old, new)`.
    pub async fn pending_commit(&mut self) -> Result<(String, String)> {
        let old = self.project.tip.clone();
        let new = self.project.tree.commit("pending", &old)?;
        self.publish_state(&new).await?;
        Ok((old, new))
    }

    /// A push of `main`, as a request.
    pub fn push_request(&self, old: &str, new: &str, pack: &[u8]) -> Vec<u8> {
        let commands = wire::commands(&[(old, new, MAIN)], wire::CAPABILITIES);
        let path = format!("{}/git-receive-pack", self.project.path());
        let headers = [("content-type", wire::PUSH_TYPE), ("connection", "close")];
        http::request("POST", &path, &headers, &[&commands, pack].concat())
    }

    /// Sends the body of a push or a fetch.
    pub async fn post(
        &self,
        service: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response> {
        let path = format!("{}/{service}", self.project.path());
        let kind = format!("application/x-{service}-request");
        let headers = [&[("content-type", kind.as_str())], headers].concat();
        self.node.ask("POST", &path, &headers, body).await
    }

    pub async fn push_bytes(&self, body: &[u8]) -> Result<Response> {
        self.post("git-receive-pack", &[], body).await
    }

    /// Demands an in-band refusal that names every ref and contains `reason`.
    pub fn refused(&self, response: &Response, refs: &[&str], reason: &str) -> Result<()> {
        let text = response.must_be(200, &["unpack "]).text();
        ensure!(!text.contains("unpack ok"), "{text}");
        for name in refs {
            let is_reported = text.contains(&format!("ng {name} "));
            ensure!(is_reported, "{name} is not reported: {text}");
        }
        let has_reason = text.to_lowercase().contains(reason);
        ensure!(has_reason, "{reason:?} is not in: {text}");
        Ok(())
    }

    /// Sends a push of `main` that must be refused and leave nothing.
    pub async fn refuses(&mut self, old: &str, new: &str, pack: &[u8], reason: &str) -> Result<()> {
        let response = self.node.send(&self.push_request(old, new, pack)).await?;
        self.refused(&response, &[MAIN], reason)?;
        self.must_lack(new).await?;
        self.goes_on().await
    }

    /// The object is neither fetchable nor anywhere in the served object stores.
    pub async fn must_lack(&self, oid: &str) -> Result<()> {
        let repository = self.project.directory(&self.node);
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

    /// The repository is sound, `main` has not moved, and an honest maintainer can go on.
    pub async fn goes_on(&mut self) -> Result<()> {
        let (tree, tip) = (&self.project.tree, &self.project.tip);
        tree.git(["reset", "-q", "--hard", tip])?;
        let refs = git::ls_remote(&self.url()).await?;
        let main = refs.iter().find(|(name, _)| name == MAIN);
        ensure!(
            main.is_some_and(|(_, oid)| oid == tip),
            "main moved: {refs:?}"
        );
        let repository = self.project.directory(&self.node);
        git::run(&repository, ["fsck", "--full"]).await?.text()?;
        let next = tree.commit("honest", tip)?;
        self.relay = self.node.connect().await?;
        self.publish_state(&next).await?;
        let pushed = self.project.push(&self.node).await;
        pushed.context("an honest push fails")?;
        let health = self.node.get("/healthz").await.context("healthz")?;
        health.must_be(200, &[]);
        Ok(())
    }
}
