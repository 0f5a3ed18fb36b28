//! A node, an owner, and modules pushed to it.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use grip_testkit::{LocalProject, Node, until_ok};
use serde_json::Value;

/// One module of one owner: a work tree and the tags that its state names.
pub struct Module {
    pub local: LocalProject,
    /// Tag → commit.
    pub tags: BTreeMap<String, String>,
    /// The age of the latest state; each is a second younger than the one before.
    age: u64,
}

impl Module {
    /// Announces a module with one commit and no tag.
    pub async fn announce(node: &Node, identifier: &str) -> Result<Self> {
        let module = Self {
            local: LocalProject::module(identifier)?,
            tags: BTreeMap::new(),
            age: 10_000,
        };
        module.change("Hello")?;
        let announcement = module.local.announcement(&[node], &[]);
        node.connect().await?.publish_ok(&announcement).await?;
        Ok(module)
    }

    pub fn path(&self) -> String {
        self.local.module_path()
    }

    /// A new commit, in which the package says `greeting`.
    pub fn change(&self, greeting: &str) -> Result<String> {
        let code = format!("package hello\n\nconst Greeting = {greeting:?}\n");
        self.local.tree.commit("hello.go", &code)
    }

    /// Tags `commit` and waits until the feed has it.
    pub async fn release(&mut self, node: &Node, tag: &str, commit: String) -> Result<()> {
        self.tags.insert(tag.to_owned(), commit);
        self.publish(node).await?;
        until_ok("the version is in the feed", async || {
            let (lines, _) = lines(node, "/index").await?;
            let is_it = |line: &Value| line["Path"] == self.path() && line["Version"] == tag;
            Ok(lines.iter().any(is_it).then_some(()))
        })
        .await
    }

    /// Signs a state with the tags as they are here and pushes what it names.
    pub async fn publish(&mut self, node: &Node) -> Result<()> {
        let tree = &self.local.tree;
        let mut refs = vec![("refs/heads/main".to_owned(), tree.tip("main")?)];
        let tags = self.tags.iter();
        refs.extend(tags.map(|(tag, oid)| (format!("refs/tags/{tag}"), oid.clone())));
        let named: Vec<_> = refs.iter().map(|(n, o)| (n.as_str(), o.as_str())).collect();
        self.age -= 1;
        let state = self.local.state_at(&named, self.age);
        node.connect().await?.publish_ok(&state).await?;
        let pushed: Vec<_> = refs.iter().map(|(n, o)| format!("+{o}:{n}")).collect();
        let pushed: Vec<_> = pushed.iter().map(String::as_str).collect();
        tree.push_ok(&self.local.url(node), &pushed).await
    }
}

/// The lines of a response, and where the next page begins.
pub async fn lines(node: &Node, path: &str) -> Result<(Vec<Value>, String)> {
    let response = node.get(path).await?;
    ensure!(response.status == 200, "{response:?}");
    let text = response.text();
    let lines = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    Ok((lines, response.header("gripfast-cursor").to_owned()))
}
