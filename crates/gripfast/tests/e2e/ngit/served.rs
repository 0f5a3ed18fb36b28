//! Repository as the node serves it, asked for over git, the relay and HTTP.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Node, RelayClient, git};
use nostr::prelude::{Event, PublicKey};
use serde_json::{Value, json};
use url::Url;

pub const IDENTIFIER: &str = "demo";

/// The refs of a repository by name.
pub type Refs = BTreeMap<String, String>;

/// The repository of one owner at the node.
#[derive(Clone, Debug)]
pub struct Served {
    pub owner: PublicKey,
    url: String,
    /// Who looks, where the service is private.
    member: Option<Author>,
}

impl Served {
    pub fn new(node: &Node, npub: &str) -> Result<Self> {
        Ok(Self {
            owner: PublicKey::parse(npub)?,
            url: format!("{}/{npub}/{IDENTIFIER}.git", node.http_url()),
            member: None,
        })
    }

    /// The repository of a private service, as one of its members sees it.
    pub fn to_member(node: &Node, npub: &str, member: &Author) -> Result<Self> {
        let member = Some(member.clone());
        Ok(Self {
            member,
            ..Self::new(node, npub)?
        })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL for git, with a proof in it where one is needed (GRASP-08).
    pub fn git_url(&self) -> Result<String> {
        let Some(member) = &self.member else {
            return Ok(self.url.clone());
        };
        let proof = member.authorization(&self.url);
        let mut url = Url::parse(&self.url)?;
        let password = proof.trim_start_matches("Nostr ");
        let set = url.set_username("nostr");
        let set = set.and_then(|()| url.set_password(Some(password)));
        ensure!(set.is_ok(), "{url} takes no password");
        Ok(url.into())
    }

    async fn connect(&self, node: &Node) -> Result<RelayClient> {
        let mut relay = node.connect().await?;
        if let Some(member) = &self.member {
            let answer = relay.log_in(member, &node.relay_url()).await?;
            ensure!(answer.accepted, "{}", answer.message);
        }
        Ok(relay)
    }

    fn coordinate(&self) -> String {
        format!("30617:{}:{IDENTIFIER}", self.owner.to_hex())
    }

    /// Branches, tags and the refs of pull requests, without HEAD and without peeled tags.
    pub async fn refs(&self) -> Result<Refs> {
        let all = git::ls_remote(&self.git_url()?).await?.into_iter();
        Ok(all
            .filter(|(name, _)| name != "HEAD" && !name.ends_with("^{}"))
            .collect())
    }

    /// The branches and tags are `refs`, HEAD is `main`, and the served state says the same.
    pub async fn has_exactly(&self, node: &Node, refs: &Refs) -> Result<()> {
        let served: Refs = self
            .refs()
            .await?
            .into_iter()
            .filter(|(name, _)| !name.starts_with("refs/nostr/"))
            .collect();
        ensure!(served == *refs, "git serves {served:#?}\nnot {refs:#?}");
        let head = git::remote_head(&self.git_url()?).await?;
        ensure!(
            head.as_deref() == Some("refs/heads/main"),
            "HEAD is {head:?}"
        );
        let state = self.state(node).await?;
        let said: Refs = tags(&state)
            .filter(|tag| tag[0].starts_with("refs/") && !tag[0].ends_with("^{}"))
            .map(|tag| (tag[0].clone(), tag[1].clone()))
            .collect();
        ensure!(
            said == *refs,
            "the served state says {said:#?}\nnot {refs:#?}"
        );
        Ok(())
    }

    pub async fn announcement(&self, node: &Node) -> Result<Event> {
        self.one(
            node,
            json!({"kinds": [30617], "authors": [self.owner], "#d": [IDENTIFIER]}),
        )
        .await
    }

    pub async fn state(&self, node: &Node) -> Result<Event> {
        self.one(
            node,
            json!({"kinds": [30618], "authors": [self.owner], "#d": [IDENTIFIER]}),
        )
        .await
    }

    /// The one event of `kind` that belongs to the repository.
    pub async fn related(&self, node: &Node, kind: u16) -> Result<Event> {
        self.one(node, json!({"kinds": [kind], "#a": [self.coordinate()]}))
            .await
    }

    /// The one event of `kind` that names `root` by `tag`.
    pub async fn naming(&self, node: &Node, kind: u16, tag: &str, root: &Event) -> Result<Event> {
        self.one(node, json!({"kinds": [kind], tag: [root.id]}))
            .await
    }

    async fn one(&self, node: &Node, filter: Value) -> Result<Event> {
        let mut found = self
            .connect(node)
            .await?
            .query(std::slice::from_ref(&filter))
            .await?;
        ensure!(found.len() == 1, "{} events match {filter}", found.len());
        found.pop().context("one was just counted")
    }
}

/// Nothing waits for its other half.
pub async fn nothing_is_held(node: &Node) -> Result<()> {
    let metrics = node.admin_get("/metrics").await?.text();
    let entries: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("ngit_purgatory_entries{"))
        .collect();
    ensure!(!entries.is_empty(), "no such figures:\n{metrics}");
    ensure!(
        entries.iter().all(|line| line.ends_with(" 0")),
        "{entries:#?}"
    );
    Ok(())
}

/// The tags of an event that have a value.
pub fn tags(event: &Event) -> impl Iterator<Item = &[String]> {
    event
        .tags
        .iter()
        .map(|tag| tag.as_slice())
        .filter(|tag| tag.len() > 1)
}

/// The value of the first tag of that name.
pub fn value<'a>(event: &'a Event, name: &str) -> Option<&'a str> {
    tags(event)
        .find(|tag| tag[0] == name)
        .map(|tag| tag[1].as_str())
}
