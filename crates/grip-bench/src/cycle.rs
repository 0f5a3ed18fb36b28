//! The whole push cycle: state, held, push, served; and pushes of very many refs.

use std::{path::Path, process::Stdio, time::Instant};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, Project, WorkTree, git, wire};
use nostr::prelude::Event;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::{
    fixture::Fixture,
    http::Connection,
    report::{Table, median, percentile},
};

pub async fn measure(binary: &Path, table: &mut Table) -> Result<()> {
    cycles(binary, table).await?;
    side_by_side(binary, table).await?;
    for count in [1_000, 20_000] {
        many_refs(binary, count, table).await?;
    }
    Ok(())
}

async fn cycles(binary: &Path, table: &mut Table) -> Result<()> {
    let fixture = Fixture::new(binary).await?;
    let mut relay = fixture.node.connect().await?;
    let mut http = Connection::open(fixture.node.port()).await?;
    let bare = tempfile::tempdir()?;
    git::run(bare.path(), ["init", "-q", "--bare"])
        .await?
        .text()?;
    let bare_url = bare.path().to_str().context("UTF-8")?.to_owned();
    let (mut wire, mut client, mut floor) = (Vec::new(), Vec::new(), Vec::new());
    let mut version = 0;
    for n in 0..60 {
        let old = fixture.project.tree.tip("HEAD")?;
        let tip = fixture.project.tree.commit("file", &n.to_string())?;
        version += 1;
        let state = fixture.state(&[("refs/heads/main", &tip)], version);
        let over_wire = n % 2 == 0;
        let request = push_request(
            &fixture.project.tree,
            &[(&old, &tip, "refs/heads/main")],
            &tip,
            Some(&old),
        )
        .await?;
        let began = Instant::now();
        ensure!(relay.publish_ok(&state).await?.is_held());
        if over_wire {
            push(&mut http, &fixture.project.path(), &request).await?;
        } else {
            let pushed = fixture.project.tree.push(&fixture.url(), &["main"]).await?;
            ensure!(pushed.ok, "{}", pushed.stderr);
        }
        ensure!(
            relay.serves(&state.id).await?,
            "served when the push returns"
        );
        let millis = began.elapsed().as_secs_f64() * 1e3;
        if over_wire { &mut wire } else { &mut client }.push(millis);
        let began = Instant::now();
        fixture.project.tree.push_ok(&bare_url, &["main"]).await?;
        floor.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let floor = median(&mut floor);
    let name = format!("git push over a path {floor:.1} ms");
    for (path, times, peer) in [
        ("wire", &mut wire, "30 ms"),
        ("git client", &mut client, "56 ms"),
    ] {
        let p50 = median(times);
        table.row(
            &format!("push cycle, {path}"),
            format!("{p50:.1} ms p50"),
            &name,
            Some(p50 / floor),
            peer,
        );
    }
    Ok(())
}

/// Repositories that are pushed to at once, and pushes to each.
pub const REPOSITORIES: usize = 8;
pub const PUSHES: u64 = 12;

/// A repository with states and pushes made ready, so that only the server's work is timed.
pub struct Prepared {
    path: String,
    rounds: Vec<(Event, Vec<u8>)>,
}

impl Prepared {
    /// Announced at `node`.
    pub async fn new(node: &Node, number: usize) -> Result<Self> {
        let (project, tree) = (Project::new(&format!("side-{number}")), WorkTree::init()?);
        let mut relay = node.connect().await?;
        let announcement = project.announcement(&[node], &[]);
        relay.publish_ok(&announcement).await?;
        let mut rounds = Vec::new();
        let mut old = wire::ZERO.to_owned();
        for n in 0..PUSHES {
            let tip = tree.commit("file", &n.to_string())?;
            let base = (n > 0).then_some(old.as_str());
            let commands = [(old.as_str(), tip.as_str(), "refs/heads/main")];
            let request = push_request(&tree, &commands, &tip, base).await?;
            let state = project.state_at(&[("refs/heads/main", &tip)], 1_000 - n);
            rounds.push((state, request));
            old = tip;
        }
        Ok(Self {
            path: project.path(),
            rounds,
        })
    }

    /// Publishes and pushes all of it through `node`.
    pub async fn run(&self, node: &Node) -> Result<()> {
        let mut relay = node.connect().await?;
        let mut http = Connection::open(node.port()).await?;
        for (state, request) in &self.rounds {
            ensure!(relay.publish_ok(state).await?.is_held());
            push(&mut http, &self.path, request).await?;
        }
        Ok(())
    }
}

async fn side_by_side(binary: &Path, table: &mut Table) -> Result<()> {
    let fixture = Fixture::new(binary).await?;
    let mut prepared = Vec::new();
    for number in 0..REPOSITORIES {
        prepared.push(Prepared::new(&fixture.node, number).await?);
    }
    let began = Instant::now();
    futures_util::future::try_join_all(prepared.iter().map(|it| it.run(&fixture.node))).await?;
    let rate = (REPOSITORIES as f64 * PUSHES as f64) / began.elapsed().as_secs_f64();
    let path = format!("push cycles, {REPOSITORIES} repositories at once, wire");
    table.row(&path, format!("{rate:.0}/s"), "–", None, "29/s");
    Ok(())
}

/// A wire push of `count` new refs, and what a stranger waits for meanwhile.
async fn many_refs(binary: &Path, count: usize, table: &mut Table) -> Result<()> {
    let fixture = Fixture::new(binary).await?;
    let tip = fixture.project.tree.commit("file", "x")?;
    let names: Vec<String> = (0..count - 1)
        .map(|n| format!("refs/tags/v{n:05}"))
        .collect();
    let mut refs = vec![("refs/heads/main", tip.as_str())];
    refs.extend(names.iter().map(|name| (name.as_str(), tip.as_str())));
    let mut relay = fixture.node.connect().await?;
    relay.publish_ok(&fixture.state(&refs, 1)).await?;
    let old = fixture.project.tree.tip("HEAD~1")?;
    let mut commands = vec![(old.as_str(), tip.as_str(), "refs/heads/main")];
    commands.extend(
        names
            .iter()
            .map(|name| (wire::ZERO, tip.as_str(), name.as_str())),
    );
    let request = push_request(&fixture.project.tree, &commands, &tip, Some(&old)).await?;
    let mut http = Connection::open(fixture.node.port()).await?;
    let done = std::sync::atomic::AtomicBool::new(false);
    let began = Instant::now();
    let path = fixture.project.path();
    let pushing = async {
        push(&mut http, &path, &request).await?;
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        anyhow::Ok(began.elapsed().as_secs_f64())
    };
    let asking = async {
        let mut stranger = fixture.node.connect().await?;
        let mut waits = Vec::new();
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let asked = Instant::now();
            stranger.query(&[json!({"kinds": [1], "limit": 1})]).await?;
            waits.push(asked.elapsed().as_secs_f64() * 1e3);
        }
        anyhow::Ok(percentile(&mut waits, 1.0))
    };
    let (seconds, longest) = tokio::join!(pushing, asking);
    let (seconds, longest) = (seconds?, longest?);
    let floor = path_push(&fixture.project.tree, count).await?;
    let peer = if count == 1_000 {
        "3.9 s; 2.7 s"
    } else {
        "57 s; 52 s"
    };
    table.row(
        &format!("wire push of {count} new refs; a stranger's longest query"),
        format!("{seconds:.2} s; {longest:.0} ms"),
        &format!("git over a path {floor:.2} s"),
        Some(seconds / floor),
        peer,
    );
    Ok(())
}

/// Seconds that plain git takes to push as many refs to a directory.
async fn path_push(tree: &WorkTree, count: usize) -> Result<f64> {
    let bare = tempfile::tempdir()?;
    git::run(bare.path(), ["init", "-q", "--bare"])
        .await?
        .text()?;
    let refspecs: String = (0..count)
        .map(|n| format!("create refs/tags/v{n:05} HEAD\n"))
        .collect();
    let mut child =
        tokio::process::Command::from(git::command(tree.path(), ["update-ref", "--stdin"]))
            .stdin(Stdio::piped())
            .spawn()?;
    let mut stdin = child.stdin.take().context("a pipe")?;
    stdin.write_all(refspecs.as_bytes()).await?;
    drop(stdin);
    child.wait().await?;
    let url = bare.path().to_str().context("UTF-8")?;
    let began = Instant::now();
    tree.push_ok(url, &["refs/tags/*:refs/tags/*"]).await?;
    Ok(began.elapsed().as_secs_f64())
}

/// The bytes a client sends to push `commands`, with the pack of `tip` without `base`.
pub async fn push_request(
    tree: &WorkTree,
    commands: &[(&str, &str, &str)],
    tip: &str,
    base: Option<&str>,
) -> Result<Vec<u8>> {
    let mut body = wire::commands(commands, wire::CAPABILITIES);
    body.extend(wire::pack(tree, tip, base).await?);
    Ok(body)
}

/// Pushes over an open connection and demands success.
pub async fn push(http: &mut Connection, path: &str, request: &[u8]) -> Result<()> {
    let kind = "application/x-git-receive-pack-request";
    let answer = http
        .post(&format!("{path}/git-receive-pack"), kind, "", request)
        .await?;
    let text = String::from_utf8_lossy(&answer.body);
    ensure!(text.contains("unpack ok"), "{text}");
    Ok(())
}
