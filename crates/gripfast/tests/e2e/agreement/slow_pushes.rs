//! A push of 2 GiB over a line of 8 Mbit/s takes 36 minutes, and events wait for 30. Here the clock
//! runs 300 times as fast by the settings: events wait for 6 seconds, and the push has 7 MiB, which the
//! same line carries in 7.3.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    LocalProject, Node,
    http::{Connection, request},
    until_ok, wire,
};
use nostr::prelude::Event;
use serde_json::Value;

use crate::BINARY;

const MIB: u64 = 7;
/// Bytes that the line carries in a second.
const LINE: u64 = 1_000_000;
/// Pieces that are sent in a second.
const PIECES: u64 = 4;
const MAIN: &str = "refs/heads/main";

struct Scene {
    node: Node,
    local: LocalProject,
    before: String,
    /// Waits for the push of the tip.
    state: Event,
    /// Until when, as long as nothing prolongs it.
    deadline: Value,
}

impl Scene {
    async fn start() -> Result<Self> {
        let settings = [
            ("GRIPFAST_PURGATORY_LIFETIME", "6s"),
            ("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "1s"),
        ];
        let node = Node::start_with(BINARY, &settings).await?;
        let mut local = LocalProject::new("large")?;
        local.publish(&node, 20).await?;
        let before = local.tip.clone();
        local.tip = local.tree.commit_noise(MIB, 1)?;
        let pack = wire::pack(&local.tree, &local.tip, None).await?;
        ensure!(pack.len() as u64 > MIB << 20, "noise does not compress");
        let state = local.state(10);
        let answer = node.connect().await?.publish_ok(&state).await?;
        ensure!(answer.is_held(), "{answer:?}");
        let deadline = node.explain(&state.id.to_hex()).await?["deadline"].clone();
        ensure!(deadline.is_number(), "{deadline}");
        Ok(Self {
            node,
            local,
            before,
            state,
            deadline,
        })
    }

    /// The request that pushes `main` to `new`, with the pack of the tip.
    async fn request(&self, new: &str) -> Result<Vec<u8>> {
        let command = [(self.before.as_str(), new, MAIN)];
        let mut body = wire::commands(&command, wire::CAPABILITIES);
        body.extend(wire::pack(&self.local.tree, &self.local.tip, None).await?);
        let path = format!("{}/git-receive-pack", self.local.path());
        let kind = [("content-type", wire::PUSH_TYPE), ("connection", "close")];
        Ok(request("POST", &path, &kind, &body))
    }

    /// Sends a request for as long as the line takes for all of it, at `rate` bytes a second; the
    /// rest at once.
    async fn send(&self, bytes: &[u8], rate: u64) -> Result<String> {
        let mut connection = Connection::open(self.node.port()).await?;
        let time = bytes.len() as u64 * PIECES / LINE;
        let piece = usize::try_from(rate / PIECES)?;
        let mut rest = bytes;
        for _ in 0..time {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            rest = later;
            // One that is refused in the middle of it is told so below.
            if connection.send(now).await.is_err() {
                break;
            }
            // Not a wait for something to happen: the pace of the line is the experiment.
            tokio::time::sleep(Duration::from_millis(1_000 / PIECES)).await;
        }
        let _ = connection.send(rest).await;
        Ok(connection.response().await?.text())
    }

    /// The state has no more time than it had before the push that was just answered, it is given up,
    /// and nothing has moved.
    async fn is_given_up(&self) -> Result<()> {
        let id = self.state.id.to_hex();
        let explained = self.node.explain(&id).await?;
        ensure!(
            explained["status"] != "held" || explained["deadline"] == self.deadline,
            "prolonged from {}: {explained}",
            self.deadline
        );
        until_ok("the state is given up", async || {
            let explained = self.node.explain(&id).await?;
            Ok((explained["status"] != "held").then_some(()))
        })
        .await?;
        ensure!(!self.node.connect().await?.serves(&self.state.id).await?);
        ensure!(self.main().await? == self.before);
        self.node.run(&["check"]).await.map(drop)
    }

    async fn main(&self) -> Result<String> {
        let refs = grip_testkit::git::ls_remote(&self.local.url(&self.node)).await?;
        let main = refs.into_iter().find(|(name, _)| name == MAIN);
        Ok(main.context("main is there")?.1)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_outlasts_the_time_of_its_state_succeeds() -> Result<()> {
    let scene = Scene::start().await?;
    let bytes = scene.request(&scene.local.tip).await?;
    let told = scene.send(&bytes, LINE).await?;
    ensure!(
        told.contains("unpack ok") && !told.contains("ng "),
        "{told}"
    );
    ensure!(scene.main().await? == scene.local.tip);
    ensure!(scene.node.connect().await?.serves(&scene.state.id).await?);
    scene.node.run(&["check"]).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trickle_of_the_same_length_prolongs_nothing() -> Result<()> {
    let scene = Scene::start().await?;
    let bytes = scene.request(&scene.local.tip).await?;
    let told = scene.send(&bytes, 1_000).await;
    ensure!(
        !told
            .as_deref()
            .is_ok_and(|told| told.contains(&format!("ok {MAIN}"))),
        "{told:?}"
    );
    scene.is_given_up().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_of_the_same_length_that_changes_nothing_prolongs_nothing() -> Result<()> {
    let scene = Scene::start().await?;
    let bytes = scene.request(&scene.before).await?;
    let told = scene.send(&bytes, LINE).await?;
    ensure!(told.contains("unpack ok"), "{told}");
    scene.is_given_up().await
}
