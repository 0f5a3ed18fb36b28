//! A directory that ngit-grasp itself has written: served by it first, then moved in and served here.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, LocalProject, NgitGrasp, Node, WorkTree, git, until_true};
use nostr::prelude::Event;
use serde_json::{Value, json};

use super::{MAIN, snapshot};
use crate::BINARY;

/// What people have on ngit-grasp.
struct Hosted {
    /// Two branches, a tag and a pull request; of two owners, who share its objects.
    tides: LocalProject,
    copy: LocalProject,
    /// With a state that waits for its push.
    waves: LocalProject,
    /// Named with what is escaped in URLs, and with what looks escaped and is not.
    odd: LocalProject,
    /// Announced, and never pushed to.
    empty: LocalProject,
    held: Vec<Event>,
    removed: Event,
}

impl Hosted {
    /// Everything is sent and pushed to the server at the address of `node`.
    async fn make(node: &Node) -> Result<Self> {
        let mut relay = node.connect().await?;
        let tree = WorkTree::with_commit()?;
        let first = tree.tip("HEAD")?;
        tree.git(["branch", "low"])?;
        tree.git(["tag", "-a", "-m", "first", "v1"])?;
        tree.commit("flow", "in")?;
        let tides = LocalProject::with_tree("tides", tree)?;
        let tag = tides.tree.tip("v1")?;
        let refs = [
            (MAIN, tides.tip.as_str()),
            ("refs/heads/low", &first),
            ("refs/tags/v1", &tag),
        ];
        relay
            .publish_ok(&tides.announcement_at(&[node], &[], 60))
            .await?;
        relay.publish_ok(&tides.project.state_at(&refs, 60)).await?;
        let pushed = ["main", "low", "v1"];
        tides.tree.push_ok(&tides.url(node), &pushed).await?;

        // A second owner of the same name, a commit ahead.
        let clone = WorkTree::clone(&tides.url(node), &[]).await?;
        clone.commit("ebb", "out")?;
        let copy = LocalProject::with_tree("tides", clone)?;
        copy.publish(node, 60).await?;

        let odd = LocalProject::new("höhe 100%25")?;
        odd.publish(node, 60).await?;
        let waves = LocalProject::new("waves")?;
        waves.publish(node, 60).await?;
        let next = waves.tree.commit("crest", "not pushed")?;
        let waiting = waves.project.state_at(&[(MAIN, &next)], 30);
        let empty = LocalProject::new("empty")?;
        let announced = empty.announcement_at(&[node], &[], 60);
        for event in [&waiting, &announced] {
            relay.publish_ok(event).await?;
        }

        let mut hosted = Self {
            held: vec![waiting, announced],
            removed: tides.owner.issue(&tides.owner, "tides", "dry"),
            tides,
            copy,
            waves,
            odd,
            empty,
        };
        hosted.talk(node).await?;
        Ok(hosted)
    }

    /// A pull request, issues, a comment, and one that its author takes back.
    async fn talk(&mut self, node: &Node) -> Result<()> {
        let (mut relay, stranger) = (node.connect().await?, Author::new());
        let (owner, url) = (&self.tides.owner, self.tides.url(node));
        let fork = WorkTree::clone(&url, &[]).await?;
        let tip = fork.commit("neap", "tide")?;
        let request = stranger.pull_request(owner, "tides", &tip, &url);
        relay.publish_ok(&request).await?;
        let refspec = format!("HEAD:refs/nostr/{}", request.id.to_hex());
        fork.push_ok(&url, &[&refspec]).await?;
        let issue = stranger.issue(owner, "tides", "wet");
        relay.publish_ok(&issue).await?;
        relay
            .publish_ok(&stranger.comment(&issue, "indeed"))
            .await?;
        relay.publish_ok(&self.removed).await?;
        let deletion = owner.delete_events(&[self.removed.id]);
        relay.publish_ok(&deletion).await?;
        Ok(())
    }

    fn projects(&self) -> [&LocalProject; 4] {
        [&self.tides, &self.copy, &self.waves, &self.odd]
    }
}

/// All refs of the served repositories and all events, as clients see them.
#[derive(Debug, PartialEq)]
struct Seen {
    refs: BTreeMap<String, Vec<(String, String)>>,
    events: BTreeMap<String, u16>,
}

impl Seen {
    async fn at(node: &Node, hosted: &Hosted) -> Result<Self> {
        let mut refs = BTreeMap::new();
        for project in hosted.projects() {
            let mut listed = git::ls_remote(&project.url(node)).await?;
            listed.sort();
            refs.insert(project.path(), listed);
        }
        let mut relay = node.connect().await?;
        let events = relay.query(&[json!({ "limit": 500 })]).await?.into_iter();
        // What a service says of itself.
        let events = events.filter(|event| ![0, 10002].contains(&event.kind.as_u16()));
        let events = events.map(|event| (event.id.to_hex(), event.kind.as_u16()));
        Ok(Self {
            refs,
            events: events.collect(),
        })
    }
}

pub(super) async fn import(server: &NgitGrasp, node: &Node, more: &[&str]) -> Result<Value> {
    let (git, relay) = (server.git(), server.relay());
    let (git, relay) = (git.to_string_lossy(), relay.to_string_lossy());
    let arguments = [&["import-ngit-grasp", &git, &relay, "--json"], more].concat();
    let printed = node.run(&arguments).await?;
    serde_json::from_str(&printed).with_context(|| printed.clone())
}

/// L-1 … L-8, L-10, L-11, with what the real server writes.
#[tokio::test]
async fn what_ngit_grasp_3_wrote_is_served_here_as_it_was() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[])?;
    let mut server = NgitGrasp::start(&node, &[]).await?;
    let hosted = Hosted::make(&node).await.with_context(|| server.log())?;
    let before = Seen::at(&node, &hosted).await?;
    ensure!(before.events.len() > 8, "{before:?}");
    let running = import(&server, &node, &[]).await.unwrap_err().to_string();
    ensure!(running.contains("stop ngit-grasp first"), "{running}");
    server.stop().await?;
    let files = snapshot(&server.git())?;
    let events = snapshot(&server.relay())?;

    let looked = import(&server, &node, &["--dry-run"]).await?;
    ensure!(looked["layout"] == "3.x", "{looked:#}");
    ensure!(!node.data_dir().exists(), "a dry run writes nothing");
    let key = server.key();
    let report = import(&server, &node, &["--key", &key.to_string_lossy()]).await?;
    ensure!(report["repositories"]["taken"] == 5, "{report:#}");
    ensure!(report["differing_refs"] == json!([]), "{report:#}");
    ensure!(report["key_taken"] == true, "{report:#}");
    let again = import(&server, &node, &[]).await?;
    for what in ["repositories", "events"] {
        ensure!(again[what]["taken"] == 0, "{again:#}");
    }
    ensure!(again["differing_refs"] == json!([]), "{again:#}");
    ensure!(
        snapshot(&server.git())? == files && snapshot(&server.relay())? == events,
        "the source was changed"
    );

    // With what its operator had set for it.
    for (name, value) in server.env() {
        node.set_env(name, value);
    }
    node.launch().await?;
    let after = Seen::at(&node, &hosted).await?;
    ensure!(after == before, "{before:#?}\n{after:#?}\n{report:#}");
    for event in &hosted.held {
        let explained = node.explain(&event.id.to_hex()).await?;
        ensure!(explained["status"] == "held", "{explained}");
    }
    let explained = node.explain(&hosted.removed.id.to_hex()).await?;
    ensure!(explained["status"] != "served", "{explained}");
    node.run(&["check", "--full"]).await?;
    for project in hosted.projects() {
        let clone = WorkTree::clone(&project.url(&node), &[]).await?;
        clone.git(["fsck", "--full", "--strict"])?;
        ensure!(clone.tip("HEAD")? == after.refs[&project.path()][0].1);
    }

    // What waited is served when its data comes.
    let waves = &hosted.waves;
    waves.tree.push_ok(&waves.url(&node), &["main"]).await?;
    hosted.empty.publish(&node, 0).await?;
    let mut relay = node.connect().await?;
    ensure!(relay.serves(&hosted.held[0].id).await?);
    Ok(())
}

/// A directory of 3.x is no place to serve from, nor to move in to: its objects lie elsewhere.
#[tokio::test]
async fn the_directory_of_ngit_grasp_3_is_not_served_from() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[])?;
    let mut server = NgitGrasp::start(&node, &[]).await?;
    LocalProject::new("tides")?.publish(&node, 60).await?;
    server.stop().await?;
    let before = snapshot(&server.git())?;
    let git = server.git().to_string_lossy().into_owned();
    let into = ["--git-data-path", &git];
    let refused = import(&server, &node, &into).await.unwrap_err().to_string();
    ensure!(refused.contains("name another one"), "{refused}");
    node.set_env("NGIT_GIT_DATA_PATH", &git);
    node.spawn()?;
    let mut ended = false;
    until_true("it says why and ends", || {
        ended = !node.is_running();
        ended
    })
    .await?;
    let log = node.log();
    ensure!(log.contains("gripfast import-ngit-grasp"), "{log}");
    ensure!(snapshot(&server.git())? == before, "the source was changed");
    Ok(())
}
