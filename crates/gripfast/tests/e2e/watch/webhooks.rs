//! GitHub tells by itself.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    LocalProject, Node, RelayClient, RemoteProject, WorkTree, git, until, until_ok,
};
use serde_json::Value;

use crate::{
    BINARY,
    index::scene::lines,
    watch::scene::{SECRET, deliver, push_body, pushes, signed, signed_push},
};

/// Settings under which hosts on this machine may be asked, with the usual delays.
const SETTINGS: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("GRIPFAST_GITHUB_WEBHOOK_SECRET", SECRET),
    ("GRIPFAST_WATCH_ENRICH", "false"),
];

const REPOSITORY: &str = "acme/tides.git";

/// A node, and a module that its owner announces there with its data on another host.
async fn mirrored(address: &str) -> Result<(Node, RelayClient, RemoteProject)> {
    let module = RemoteProject::start(address, REPOSITORY, LocalProject::module("tides")?).await?;
    let node = Node::start_with(BINARY, SETTINGS).await?;
    let mut relay = node.connect().await?;
    let announcement = module.announcement(&[&node], std::slice::from_ref(&module.url));
    relay.publish_ok(&announcement).await?;
    Ok((node, relay, module))
}

/// Waits until `node` serves these refs to git.
async fn serves(node: &Node, module: &RemoteProject, refs: &[(&str, &str)]) -> Result<()> {
    let url = module.url(node);
    let wanted: Vec<_> = refs
        .iter()
        .map(|(n, o)| ((*n).to_owned(), (*o).to_owned()))
        .collect();
    until_ok("the commit is served to git", async || {
        Ok((git::branches_and_tags(&url).await? == wanted).then_some(()))
    })
    .await
    .with_context(|| format!("log:\n{}", node.log()))
}

async fn feed(node: &Node, path: &str) -> Result<Vec<String>> {
    let (lines, _) = lines(node, "/index").await?;
    let versions = lines.iter().filter(|line| line["Path"] == path);
    let version = |line: &Value| line["Version"].as_str().map(str::to_owned);
    Ok(versions.filter_map(version).collect())
}

#[tokio::test]
async fn a_signed_webhook_brings_the_new_commit_to_git_and_its_tag_to_the_feed() -> Result<()> {
    let (node, mut relay, module) = mirrored("127.0.0.91").await?;
    let github = &module.host;

    // The owner commits, tags, signs, and pushes to GitHub alone.
    let before = &module.tip;
    let code = "package tides\n\nconst High = true\n";
    let tip = module.tree.commit("tides.go", code)?;
    let refs = [("refs/heads/main", &*tip), ("refs/tags/v1.0.0", &*tip)];
    let state = module.project.state(&refs);
    let answer = relay.publish(&state).await?;
    ensure!(answer.is_held(), "{answer:?}");
    github.take(&module.tree, REPOSITORY, &["main"])?;
    github.forget();

    // Unless somebody tells, data is looked for after three minutes.
    let before_it = async {
        let asked = github.count();
        let served = relay.serves(&state.id).await?;
        let versions = feed(&node, &module.module_path()).await?;
        anyhow::Ok((asked, served, versions.len()))
    };
    ensure!(before_it.await? == (0, false, 0), "something else has told");
    let waiting = node.run(&["purgatory", "ls", "--json"]).await?;
    ensure!(waiting.contains(&state.id.to_hex()), "{waiting}");

    // Named as GitHub does, and not as the announcement does.
    let named = module.url.replace("acme/tides", "Acme/Tides");
    let body = push_body("Acme/Tides", &named, before, &tip);
    let status = deliver(&node, "d-1", "push", &body, Some(&signed(SECRET, &body))).await?;
    ensure!((200..300).contains(&status), "{status}");

    serves(&node, &module, &refs).await?;
    let clone = WorkTree::clone(&module.url(&node), &[]).await?;
    ensure!(clone.tip("HEAD")? == tip);
    ensure!(std::fs::read_to_string(clone.path().join("tides.go"))? == code);
    until("the tag is in the feed", || async {
        let versions = feed(&node, &module.module_path()).await.ok()?;
        (versions == ["v1.0.0"]).then_some(())
    })
    .await
    .with_context(|| format!("log:\n{}", node.log()))?;
    ensure!(relay.serves(&state.id).await?);
    Ok(())
}

#[tokio::test]
async fn a_state_that_is_signed_a_little_after_the_push_finds_its_data_at_once() -> Result<()> {
    let (node, mut relay, module) = mirrored("127.0.0.92").await?;
    let body = push_body("acme/tides", &module.url, &"0".repeat(40), &module.tip);
    let status = deliver(&node, "d-1", "push", &body, Some(&signed(SECRET, &body))).await?;
    ensure!((200..300).contains(&status), "{status}");
    until("the push is done with", || async {
        let jobs = node
            .run(&["queue", "ls", "--kind", "push-event", "--json"])
            .await;
        (!jobs.ok()?.contains("d-1")).then_some(())
    })
    .await?;
    let answer = relay.publish(&module.state(0)).await?;
    ensure!(answer.is_held(), "{answer:?}");
    serves(&node, &module, &[("refs/heads/main", &module.tip)]).await
}

#[tokio::test]
async fn only_what_is_signed_is_kept_and_the_same_delivery_once() -> Result<()> {
    let node = Node::start_with(BINARY, SETTINGS).await?;
    let (body, right) = signed_push();
    let other = signed("another secret", &body);
    let old = signed(SECRET, "{}");
    let wrong = [
        None,
        Some(""),
        Some("sha256=00"),
        Some(other.as_str()),
        Some(old.as_str()),
    ];
    for (number, signature) in wrong.into_iter().enumerate() {
        let id = format!("w-{number}");
        let status = deliver(&node, &id, "push", &body, signature).await?;
        ensure!(status == 401, "{signature:?}: {status}");
    }
    ensure!(
        pushes(&node).await?.is_empty(),
        "something unsigned was kept"
    );
    for turn in 0..3 {
        let status = deliver(&node, "d-1", "push", &body, Some(&right)).await?;
        ensure!((200..300).contains(&status), "{turn}: {status}");
    }
    ensure!(pushes(&node).await? == ["delivery d-1"]);
    // What was refused under an id does not stand in the way of what is signed.
    let status = deliver(&node, "w-0", "ping", "{}", Some(&signed(SECRET, "{}"))).await?;
    ensure!((200..300).contains(&status), "{status}");
    let log = node.log();
    ensure!(!log.contains(SECRET), "the secret is in the log");
    Ok(())
}
