//! Data directory of a released binary, recorded for the upgrade test:
//! `cargo run -p grip-testkit --example record_data -- <gripfast> <archive.tar.gz>`.
//!
//! The archive holds `data/` as the node left it and `facts.json` with what was acknowledged.
//! `crates/gripfast/tests/e2e/upgrade.rs` opens it with the binary of the day.

use std::{env, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, LocalProject, Node, events::tag, git, until_ok};
use serde_json::json;

const IDENTIFIER: &str = "tides";

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let binary = arguments.next().context("the path of a gripfast binary")?;
    let archive = arguments.next().context("the path of the archive")?;
    let mut node = Node::start(fs::canonicalize(binary)?).await?;
    let facts = record(&node).await?;
    ensure!(node.stop().await?.success(), "{}", node.log());
    fs::remove_file(node.data_dir().join("gripfast.lock"))?;
    fs::write(node.work_dir().join("facts.json"), format!("{facts:#}"))?;
    pack(node.work_dir(), &archive)
}

/// One of each kind of claim: served, held for its data, pushed ahead of its event, indexed.
async fn record(node: &Node) -> Result<serde_json::Value> {
    let (local, contributor) = (LocalProject::module(IDENTIFIER)?, Author::new());
    let (owner, tree, tip) = (&local.owner, &local.tree, &local.tip);
    let (authority, module, url) = (node.authority(), local.module_path(), local.url(node));
    let mut relay = node.connect().await?;

    let announcement = owner.announcement(&authority, IDENTIFIER, vec![tag(["t", "sea"])]);
    relay.publish_ok(&announcement).await?;
    let refs = [("refs/heads/main", &**tip), ("refs/tags/v1.0.0", tip)];
    let state = owner.state(IDENTIFIER, &refs, Some("refs/heads/main"));
    relay.publish_ok(&state).await?;
    tree.git(["tag", "v1.0.0"])?;
    tree.push_ok(&url, &["main", "v1.0.0"]).await?;
    let issue = contributor.issue(owner, IDENTIFIER, "low water");
    relay.publish_ok(&issue).await?;
    until_ok("the tag is in the feed", async || {
        Ok(node.get("/index").await?.contains("v1.0.0").then_some(()))
    })
    .await?;

    // A pull request whose data is here, one whose data is not, and data without its event.
    let merged = tree.commit("high.go", "package tides\n")?;
    let early = contributor.pull_request(owner, IDENTIFIER, &merged, &url);
    let refspec = format!("{merged}:refs/nostr/{}", early.id.to_hex());
    tree.push_ok(&url, &[&refspec]).await?;
    let served = contributor.pull_request(owner, IDENTIFIER, tip, &url);
    relay.publish_ok(&served).await?;
    let missing = tree.commit("low.go", "package tides\n")?;
    let held = contributor.pull_request(owner, IDENTIFIER, &missing, &url);
    ensure!(relay.publish(&held).await?.is_held());

    // The next state, whose commits are not pushed yet.
    let later = state.created_at + 1_u64;
    let next_refs = [("refs/heads/main", &*missing), ("refs/tags/v1.0.0", tip)];
    let next = owner.state_at(IDENTIFIER, &next_refs, Some("refs/heads/main"), later);
    ensure!(relay.publish(&next).await?.is_held());

    let bundle = tree.path().join("all.bundle");
    let bundle_text = bundle.to_str().context("temporary paths are UTF-8")?;
    tree.git(["bundle", "create", bundle_text, "main"])?;
    fs::copy(&bundle, node.work_dir().join("all.bundle"))?;
    Ok(json!({
        "authority": authority,
        "clone_url": url,
        "module": module,
        "tip": tip,
        "next_tip": missing,
        "refs": git::ls_remote(&url).await?,
        "served": [announcement, state, issue, served],
        "held": [next, held],
        "pushed_ahead": { "event": early, "tip": merged },
        "resolved": node.get(&format!("/resolve/name:{}/{IDENTIFIER}", owner.npub())).await?.text(),
    }))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the archive is made by the system's tar"
)]
fn pack(dir: &Path, archive: &str) -> Result<()> {
    let archive = env::current_dir()?.join(archive);
    let mut tar = Command::new("tar");
    tar.arg("-C")
        .arg(dir)
        .arg("--sparse")
        .arg("-czf")
        .arg(archive);
    let status = tar.args(["data", "facts.json", "all.bundle"]).status()?;
    ensure!(status.success(), "tar ended with {status}");
    Ok(())
}
