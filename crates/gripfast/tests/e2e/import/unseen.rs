//! Data that ngit-grasp itself keeps beside its repositories and served events: contributor repositories,
//! replaced versions, removed events and repositories.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, LocalProject, NgitGrasp, Node, Project, WorkTree, events::tag, git, until_true,
};
use nostr::prelude::Event;
use serde_json::{Value, json};

use super::{MAIN, real::import, snapshot};
use crate::BINARY;

const ON: (&str, &str) = ("NGIT_GRASP06_ENABLE", "true");
/// The same for the command, which has the settings of its operator.
const HOSTS: &str = "--grasp06-enable=true";
const PARTS: [&str; 6] = [
    "repositories",
    "contributions",
    "events",
    "history",
    "holding",
    "archives",
];

/// What people have had on ngit-grasp.
struct Past {
    /// With a state before the one that is served.
    tides: LocalProject,
    before: Event,
    active: Event,
    /// Deleted with all that hung on it.
    wreck: LocalProject,
    issue: Event,
    /// Its owner has asked to vanish.
    ghost: LocalProject,
    /// Pull requests below `/prs/`: to `tides`, and to a repository that nobody has announced here.
    requests: Vec<(Event, String)>,
    comment: Event,
}

impl Past {
    async fn make(node: &Node) -> Result<Self> {
        let mut relay = node.connect().await?;
        let tides = LocalProject::new("tides")?;
        let before = tides.publish(node, 90).await?;
        let next = tides.tree.commit("flow", "in")?;
        let active = tides.project.state_at(&[(MAIN, &next)], 60);
        relay.publish_ok(&active).await?;
        tides.push(node).await?;

        let (wreck, stranger) = (LocalProject::new("wreck")?, Author::new());
        wreck.publish(node, 90).await?;
        let issue = stranger.issue(&wreck.owner, "wreck", "leaks");
        relay.publish_ok(&issue).await?;
        let deletion = wreck.owner.delete_address(30617, "wreck");
        relay.publish_ok(&deletion).await?;
        ensure!(!relay.serves(&issue.id).await?, "it hung on the repository");

        let ghost = LocalProject::new("ghost")?;
        ghost.publish(node, 90).await?;
        let relay_tag = tag(["relay", &node.relay_url()]);
        let vanish = ghost.owner.sign(62, "", vec![relay_tag]);
        relay.publish_ok(&vanish).await?;

        let mut requests = Vec::new();
        for target in [&tides.project, &Project::new("sails")] {
            requests.push(contribute(node, target).await?);
        }
        let comment = stranger.comment(&requests[1].0, "ahoy");
        relay.publish_ok(&comment).await?;
        Ok(Self {
            tides,
            before,
            active,
            wreck,
            issue,
            ghost,
            requests,
            comment,
        })
    }
}

/// A pull request that its author hosts below `/prs/`, and where.
async fn contribute(node: &Node, target: &Project) -> Result<(Event, String)> {
    let (author, tree) = (Author::new(), WorkTree::with_commit()?);
    let (name, tip) = (&target.identifier, tree.commit("oar", "new")?);
    let url = format!("{}/prs/{}/{name}.git", node.http_url(), author.npub());
    let tags = vec![
        tag(["a", &target.coordinate()]),
        tag(["c", &tip]),
        tag(["clone", &url]),
    ];
    let event = author.sign(1618, "", tags);
    node.connect().await?.publish_ok(&event).await?;
    let refspec = format!("HEAD:refs/nostr/{}", event.id.to_hex());
    tree.push_ok(&url, &[&refspec]).await?;
    Ok((event, url))
}

fn counted(report: &Value, count: &str) -> Vec<u64> {
    let counts = PARTS.map(|part| report[part][count].as_u64().unwrap_or_default());
    counts.into()
}

fn entries(path: &Path) -> usize {
    fs::read_dir(path).map_or(0, Iterator::count)
}

/// L-3, L-5, L-7, L-9, L-10, G01-103, G01-112: all of it is taken once, whatever cuts it off, and the
/// source stays as it was.
#[tokio::test]
async fn what_ngit_grasp_3_keeps_unseen_is_kept_here() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[ON])?;
    let mut server = NgitGrasp::start(&node, &[ON]).await?;
    let past = Past::make(&node).await.with_context(|| server.log())?;
    server.stop().await?;
    let source = (snapshot(&server.git())?, snapshot(&server.relay())?);

    let other = node.work_dir().join("other").to_string_lossy().into_owned();
    let other = [HOSTS, "--data-dir", &other];
    let report = import(&server, &node, &other).await?;
    ensure!(report["contributions"]["taken"] == 2, "{report:#}");
    ensure!(report["archives"]["taken"] == 1, "{report:#}");
    ensure!(report["history"]["taken"] == 1, "{report:#}");
    // Announcement, state and issue.
    ensure!(report["holding"]["taken"] == 3, "{report:#}");
    let why = "removed events: their authors have asked to vanish";
    ensure!(report["skipped"][why].as_u64() >= Some(2), "{report:#}");
    // Of the deletion, and of the request to vanish.
    ensure!(report["request_times"] == 2, "{report:#}");
    ensure!(report["differing_refs"] == json!([]), "{report:#}");
    let again = import(&server, &node, &other).await?;
    ensure!(counted(&again, "taken") == [0; 6], "{again:#}");
    ensure!(again["request_times"] == 0, "{again:#}");
    ensure!(
        counted(&again, "already_here") == counted(&report, "taken"),
        "{report:#}\n{again:#}"
    );
    ensure!(again["differing_refs"] == json!([]), "{again:#}");

    // Killed as soon as there is something of each, and before an archive is in its place; then run to its
    // end.
    let (git, relay) = (server.git(), server.relay());
    let words = [&git, &relay].map(|path| path.to_string_lossy());
    let words = ["import-ngit-grasp", &words[0], &words[1], HOSTS];
    let git = node.data_dir().join("git");
    let archive = git.join(".archive").join(past.wreck.owner.npub());
    for place in [git.join(".prs"), node.data_dir().join("relay/events")] {
        let mut child = node.command(&words).spawn()?;
        until_true("some of it is here", || entries(&place) > 0).await?;
        child.kill().await?;
    }
    let mut command = node.command(&words);
    command.env("GRIPFAST_FAULT", "git.archive.adopted:1");
    ensure!(!command.status().await?.success(), "it is killed");
    ensure!(entries(&archive) == 0, "it is not in its place");
    let report = import(&server, &node, &[HOSTS]).await?;
    ensure!(report["differing_refs"] == json!([]), "{report:#}");
    let vanished = git.join(".archive").join(past.ghost.owner.npub());
    ensure!(entries(&vanished) == 0, "nothing is kept of who vanished");
    let last = import(&server, &node, &[HOSTS]).await?;
    ensure!(counted(&last, "taken") == [0; 6], "{last:#}");
    ensure!(
        counted(&last, "already_here") == counted(&again, "already_here"),
        "{again:#}\n{last:#}"
    );
    let after = (snapshot(&server.git())?, snapshot(&server.relay())?);
    ensure!(after == source, "the source was changed");

    node.launch().await?;
    must_be_as_it_was(&node, &past).await?;
    node.run(&["check", "--full"]).await?;
    must_come_back(&node, &past).await?;
    node.run(&["check", "--full"]).await.map(drop)
}

/// A service that does not host pull requests below `/prs/` says so, and takes the rest.
#[tokio::test]
async fn contributions_are_left_out_where_they_are_not_hosted() -> Result<()> {
    let node = Node::prepare(BINARY, &[])?;
    let mut server = NgitGrasp::start(&node, &[ON]).await?;
    contribute(&node, &Project::new("sails")).await?;
    server.stop().await?;
    let report = import(&server, &node, &[]).await?;
    ensure!(report["contributions"]["found"] == 1, "{report:#}");
    ensure!(report["contributions"]["taken"] == 0, "{report:#}");
    let why = "prs: pull requests of contributors are not hosted here (grasp06_enable)";
    ensure!(report["skipped"][why] == 1, "{report:#}");
    ensure!(report["differing_refs"] == json!([]), "{report:#}");
    Ok(())
}

/// Contributions are served, and what was removed is not.
async fn must_be_as_it_was(node: &Node, past: &Past) -> Result<()> {
    let mut relay = node.connect().await?;
    let served = past.requests.iter().map(|(event, _)| event);
    for event in served.chain([&past.comment, &past.active]) {
        ensure!(relay.serves(&event.id).await?, "{}", event.kind.as_u16());
    }
    for (event, url) in &past.requests {
        let name = format!("refs/nostr/{}", event.id.to_hex());
        let refs = git::ls_remote(url).await?;
        ensure!(refs.iter().any(|(listed, _)| *listed == name), "{refs:?}");
        let clone = WorkTree::with_commit()?;
        clone.git(["fetch", url, &name])?;
    }
    for id in [past.issue.id, past.before.id] {
        ensure!(!relay.serves(&id).await?, "{id}");
    }
    let listed = node.run(&["holding", "ls", "--json"]).await?;
    let listed: Value = serde_json::from_str(&listed)?;
    let path = past.wreck.path();
    let path = path.trim_start_matches('/').trim_end_matches(".git");
    let rows = listed["held"].as_array().context("a list")?;
    let row = rows.iter().find(|row| row["repository"] == path);
    let row = row.with_context(|| listed.to_string())?;
    ensure!(row["events"] == 3 && row["archives"] == 1, "{row}");
    Ok(())
}

/// G01-105, G01-113: the author of a state returns to the one before it, and an owner who announces
/// again gets back what hung on the repository.
async fn must_come_back(node: &Node, past: &Past) -> Result<()> {
    let mut relay = node.connect().await?;
    let owner = &past.tides.owner;
    relay
        .publish_ok(&owner.delete_events(&[past.active.id]))
        .await?;
    ensure!(relay.serves(&past.before.id).await?);
    let refs = git::branches_and_tags(&past.tides.url(node)).await?;
    ensure!(
        refs == [(MAIN.to_owned(), past.tides.tip.clone())],
        "{refs:?}"
    );

    let later = nostr::prelude::Timestamp::now() + 5;
    let wreck = &past.wreck;
    let announced = wreck
        .owner
        .announcement_at(&node.authority(), "wreck", vec![], later);
    relay.publish_ok(&announced).await?;
    let state = wreck
        .owner
        .state_at("wreck", &[(MAIN, &wreck.tip)], Some(MAIN), later);
    relay.publish_ok(&state).await?;
    for event in [&announced, &state, &past.issue] {
        until_served(node, event).await?;
    }
    let clone = WorkTree::clone(&wreck.url(node), &[]).await?;
    ensure!(clone.tip("HEAD")? == wreck.tip);
    Ok(())
}

async fn until_served(node: &Node, event: &Event) -> Result<()> {
    grip_testkit::until("it is served", || async {
        let mut relay = node.connect().await.ok()?;
        relay.serves(&event.id).await.ok()?.then_some(())
    })
    .await
}
