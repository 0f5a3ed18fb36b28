//! Somebody who follows the feed while tags come, move and go, and the node is killed.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, PostgresServer, until};
use serde_json::Value;

use crate::{
    BINARY,
    index::scene::{Module, lines},
};

/// What a follower has learned, and where he goes on.
#[derive(Default)]
struct Follower {
    /// From the changes alone: (path, version) → commit.
    known: BTreeMap<(String, String), String>,
    cursor: String,
    /// From the feed alone: every line ever read.
    seen: BTreeSet<(String, String)>,
    since: String,
}

impl Follower {
    /// Reads on to the end of both, a few lines at a time.
    async fn catch_up(&mut self, node: &Node) -> Result<()> {
        loop {
            let path = format!("/index/changes?cursor={}&limit=3", self.cursor);
            let (page, next) = lines(node, &path).await?;
            ensure!(
                !next.is_empty(),
                "every page says where the next one begins"
            );
            self.cursor = next;
            for line in &page {
                self.learn(line)?;
            }
            if page.is_empty() {
                break;
            }
        }
        loop {
            let (page, _) = lines(node, &format!("/index?since={}&limit=3", self.since)).await?;
            let last = page
                .last()
                .map(|line| text(line, "Timestamp"))
                .transpose()?;
            for line in &page {
                self.seen
                    .insert((text(line, "Path")?, text(line, "Version")?));
            }
            // `since` is inclusive: a page of nothing but its own moment is the end.
            match last {
                Some(last) if last != self.since => self.since = last,
                _ => return Ok(()),
            }
        }
    }

    fn learn(&mut self, line: &Value) -> Result<()> {
        let key = (text(line, "Path")?, text(line, "Version")?);
        let commit = text(line, "Commit")?;
        match line["Op"].as_str() {
            Some("added") => {
                ensure!(
                    self.known.insert(key, commit).is_none(),
                    "added twice: {line}"
                );
            }
            Some("moved") => {
                let before = self.known.insert(key, commit);
                ensure!(
                    before == Some(text(line, "Previous")?),
                    "moved from elsewhere: {line}"
                );
            }
            Some("removed") => ensure!(self.known.remove(&key).is_some(), "removed twice: {line}"),
            _ => anyhow::bail!("no such change: {line}"),
        }
        Ok(())
    }
}

fn text(line: &Value, field: &str) -> Result<String> {
    let text = line[field].as_str().map(str::to_owned);
    text.with_context(|| format!("{field} of {line}"))
}

/// A small generator, so that a failure can be repeated by its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("small")
    }
}

/// What the feed must come to say.
fn truth(modules: &[Module]) -> BTreeMap<(String, String), String> {
    let versions = modules.iter().flat_map(|module| {
        let tags = module.tags.iter();
        tags.map(|(tag, commit)| ((module.path(), tag.clone()), commit.clone()))
    });
    versions.collect()
}

async fn follow(mut node: Node, seed: u64, steps: usize) -> Result<()> {
    let mut dice = Dice(seed);
    let mut modules = Vec::new();
    for name in ["one", "two"] {
        modules.push(Module::announce(&node, name).await?);
    }
    let mut follower = Follower {
        cursor: "0".into(),
        since: "1970-01-01T00:00:00Z".into(),
        ..Follower::default()
    };
    let mut created = BTreeSet::new();
    for step in 0..steps {
        let module = &mut modules[dice.below(2)];
        let tag = format!("v1.{}.0", dice.below(4));
        match dice.below(3) {
            0 => drop(module.tags.remove(&tag)),
            _ => {
                let commit = module.change(&format!("step {step}"))?;
                created.insert((module.path(), tag.clone()));
                module.tags.insert(tag, commit);
            }
        }
        module.publish(&node).await?;
        if dice.below(4) == 0 {
            node.crash_and_restart().await?;
        }
        if dice.below(2) == 0 {
            follower.catch_up(&node).await?;
        }
        // Now and then all is let come to rest, so that moves and removals are seen as such.
        if dice.below(3) == 0 {
            settle(&mut follower, &node, &modules).await?;
        }
    }
    settle(&mut follower, &node, &modules).await?;
    let live: BTreeSet<_> = follower.known.keys().cloned().collect();
    ensure!(
        live.is_subset(&follower.seen),
        "the feed never told of some"
    );
    ensure!(
        follower.seen.is_subset(&created),
        "the feed told of what never was"
    );
    Ok(())
}

async fn settle(follower: &mut Follower, node: &Node, modules: &[Module]) -> Result<()> {
    let truth = truth(modules);
    let follower = tokio::sync::Mutex::new(follower);
    let settled = until("the follower knows the tags as they are", || async {
        let mut follower = follower.lock().await;
        match follower.catch_up(node).await {
            Ok(()) if follower.known == truth => Some(Ok(())),
            Ok(()) => None,
            Err(error) => Some(Err(error)),
        }
    });
    let settled = settled.await;
    let known = &follower.lock().await.known;
    settled.with_context(|| format!("known: {known:#?}\ntruth: {truth:#?}\n{}", node.log()))?
}

#[tokio::test]
async fn a_follower_ends_with_the_tags_as_they_are_whatever_happens_on_the_way() -> Result<()> {
    for seed in [0x9e37_79b9_7f4a_7c15, 0x2545_f491_4f6c_dd1d] {
        let node = Node::start(BINARY).await?;
        let followed = follow(node, seed, 24).await;
        followed.with_context(|| format!("seed {seed:#x}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn a_follower_of_a_node_on_postgres_ends_with_the_tags_as_they_are() -> Result<()> {
    let server = PostgresServer::durable().await?;
    let node = Node::start_with(BINARY, &[("DATABASE_URL", &server.url())]).await?;
    follow(node, 0xd1b5_4a32_d192_ed03, 24).await
}
