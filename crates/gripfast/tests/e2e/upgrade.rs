//! Data of an earlier binary, opened by this one.
//!
//! `tests/fixtures/data-2026-11-16.tar.gz` was recorded with the binary of commit 128a6af:
//! `cargo run -p grip-testkit --example record_data -- <gripfast> <archive>`.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, WorkTree, git, until};
use nostr::prelude::Event;
use serde::Deserialize;
use sqlx::{ConnectOptions as _, Connection as _, sqlite::SqliteConnectOptions};

use crate::BINARY;

const ARCHIVE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/data-2026-11-16.tar.gz"
);

/// All that the earlier binary had acknowledged.
#[derive(Deserialize)]
pub(crate) struct Facts {
    pub(crate) authority: String,
    pub(crate) clone_url: String,
    module: String,
    tip: String,
    next_tip: String,
    pub(crate) refs: Vec<(String, String)>,
    pub(crate) served: Vec<Event>,
    held: Vec<Event>,
    pushed_ahead: PushedAhead,
}

/// Data that came before the pull request that names it.
#[derive(Deserialize)]
struct PushedAhead {
    event: Event,
    tip: String,
}

#[tokio::test]
async fn data_of_an_earlier_binary_is_served_and_what_it_held_is_released() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[])?;
    let facts = unpack(node.work_dir())?;
    postpone_expiry(&node.data_dir().join("gripfast.sqlite")).await?;
    node.set_env("NGIT_DOMAIN", &facts.authority);
    let token = fs::read(node.data_dir().join("admin.token"))?;
    node.launch().await?;
    let mut relay = node.connect().await?;
    // The recorded URL with the port of this run.
    let url = facts.clone_url.replace(&facts.authority, &node.authority());

    for event in &facts.served {
        let kind = event.kind.as_u16();
        ensure!(relay.serves(&event.id).await?, "kind {kind} is not served");
    }
    for event in &facts.held {
        let kind = event.kind.as_u16();
        ensure!(!relay.serves(&event.id).await?, "kind {kind} has no proof");
    }
    ensure!(git::ls_remote(&url).await? == facts.refs);
    let feed = node.get("/index").await?;
    feed.must_be(200, &[&facts.module, "v1.0.0"]);
    ensure!(WorkTree::clone(&url, &[]).await?.tip("HEAD")? == facts.tip);
    ensure!(fs::read(node.data_dir().join("admin.token"))? == token);

    // The data that was held for, and the event that was pushed ahead of.
    let tree = WorkTree::init()?;
    let bundle = node.work_dir().join("all.bundle");
    let bundle = bundle.to_str().context("temporary paths are UTF-8")?;
    tree.git(["fetch", "-q", bundle, "main:pushed"])?;
    tree.push_ok(&url, &["pushed:main"]).await?;
    until("what was held is served", || async {
        let mut relay = node.connect().await.ok()?;
        for event in &facts.held {
            relay.serves(&event.id).await.ok()?.then_some(())?;
        }
        Some(())
    })
    .await?;
    let head = ("refs/heads/main".to_owned(), facts.next_tip.clone());
    ensure!(git::ls_remote(&url).await?.contains(&head));
    ensure!(relay.publish(&facts.pushed_ahead.event).await?.is_served());
    let name = format!("refs/nostr/{}", facts.pushed_ahead.event.id.to_hex());
    ensure!(
        git::ls_remote(&url)
            .await?
            .contains(&(name, facts.pushed_ahead.tip))
    );

    node.crash_and_restart().await?;
    let mut relay = node.connect().await?;
    for event in facts.served.iter().chain(&facts.held) {
        let is_old_state = event.kind.as_u16() == 30618 && event.id == facts.served[1].id;
        ensure!(relay.serves(&event.id).await? != is_old_state);
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the archive is opened by the system's tar"
)]
pub(crate) fn unpack(dir: &Path) -> Result<Facts> {
    let status = Command::new("tar")
        .arg("-C")
        .arg(dir)
        .args(["-xzf", ARCHIVE])
        .status()?;
    ensure!(status.success(), "tar ended with {status}");
    Ok(serde_json::from_slice(&fs::read(dir.join("facts.json"))?)?)
}

/// Moves the deadlines of the recorded entries into the next hour: they were absolute.
async fn postpone_expiry(database: &Path) -> Result<()> {
    let options = SqliteConnectOptions::new().filename(database);
    let mut connection = options.connect().await?;
    let moved = "UPDATE purgatory SET expires_at = 1000 * (unixepoch() + 3600) \
                 WHERE class IN ('state', 'pr', 'placeholder')";
    let moved = sqlx::query(moved).execute(&mut connection).await?;
    connection.close().await?;
    ensure!(
        moved.rows_affected() == 3,
        "one entry of each class was held"
    );
    Ok(())
}
