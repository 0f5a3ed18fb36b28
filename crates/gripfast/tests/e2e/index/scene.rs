//! A node, an owner, and modules pushed to it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Node, WorkTree, until};
use nostr::prelude::Timestamp;
use serde_json::Value;

/// One module of one owner: a work tree and the tags that its state names.
pub struct Module {
    pub owner: Author,
    pub identifier: String,
    pub tree: WorkTree,
    /// Tag → commit.
    pub tags: BTreeMap<String, String>,
    /// States must be later than those before; as many may come in a second as tests make.
    states: u64,
}

impl Module {
    /// Announces a module with one commit and no tag.
    pub async fn announce(node: &Node, identifier: &str) -> Result<Self> {
        let module = Self {
            owner: Author::new(),
            identifier: identifier.to_owned(),
            tree: WorkTree::init()?,
            tags: BTreeMap::new(),
            states: 0,
        };
        let go_mod = format!("module {}\n\ngo 1.19\n", module.path());
        module.tree.commit("go.mod", &go_mod)?;
        module.change("Hello")?;
        let announcement = module
            .owner
            .announcement(&node.authority(), identifier, vec![]);
        node.connect().await?.publish_ok(&announcement).await?;
        Ok(module)
    }

    /// The module path that its place proves: the host of a test node is its loopback address.
    pub fn path(&self) -> String {
        format!("127.0.0.1/{}/{}", self.owner.npub(), self.identifier)
    }

    /// A new commit, in which the package says `greeting`.
    pub fn change(&self, greeting: &str) -> Result<String> {
        let code = format!("package hello\n\nconst Greeting = {greeting:?}\n");
        self.tree.commit("hello.go", &code)
    }

    /// Signs a state with the tags as they are here and pushes what it names.
    pub async fn publish(&mut self, node: &Node) -> Result<()> {
        let main = self.tree.tip("main")?;
        self.states += 1;
        let at = Timestamp::from_secs(Timestamp::now().as_secs() - 10_000 + self.states);
        let names = self.tags.keys().map(|tag| format!("refs/tags/{tag}"));
        let names: Vec<String> = names.collect();
        let mut refs = vec![("refs/heads/main", main.as_str())];
        refs.extend(
            names
                .iter()
                .map(String::as_str)
                .zip(self.tags.values().map(String::as_str)),
        );
        let state = self
            .owner
            .state_at(&self.identifier, &refs, Some("refs/heads/main"), at);
        node.connect().await?.publish_ok(&state).await?;
        let pushed: Vec<String> = refs
            .iter()
            .map(|(name, oid)| format!("+{oid}:{name}"))
            .collect();
        let pushed: Vec<&str> = pushed.iter().map(String::as_str).collect();
        let url = self.owner.clone_url(&node.authority(), &self.identifier);
        let done = self.tree.push(&url, &pushed).await?;
        ensure!(done.ok, "{}", done.stderr);
        Ok(())
    }
}

/// The lines of an answer, and the value of the header that says where the next page begins.
pub async fn lines(node: &Node, path: &str) -> Result<(Vec<Value>, Option<String>)> {
    let answer = node.get(path).await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").context("a head")?;
    let cursor = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("gripfast-cursor")
            .then(|| value.trim().to_owned())
    });
    let lines = body.lines().filter(|line| line.starts_with('{'));
    let lines = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok((lines, cursor))
}

/// Waits until the feed has this version, and gives its line.
pub async fn in_feed(node: &Node, path: &str, version: &str) -> Result<Value> {
    until("the version is in the feed", || async {
        let (lines, _) = lines(node, "/index").await.ok()?;
        let is_it = |line: &Value| line["Path"] == path && line["Version"] == version;
        lines.into_iter().find(is_it)
    })
    .await
    .with_context(|| format!("{path}@{version}; log:\n{}", node.log()))
}
