//! Relay and git tell the same story, and the operator is told when they cannot.

mod damage;
mod model;
mod slow_pushes;

use std::{fs, os::unix::fs::PermissionsExt as _};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, until, until_true};
use rustix::process::Signal;

use crate::BINARY;

/// Settings of a node that fetches from hosts on this machine.
const FETCHING: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_LOOP_INTERVAL_MS", "100"),
];

#[tokio::test]
async fn the_check_agrees_with_a_sound_node_and_names_what_is_damaged() -> Result<()> {
    let mut node = Node::start(BINARY).await?;
    let sound = LocalProject::new("sound")?;
    let harmed = LocalProject::new("harmed")?;
    for project in [&sound, &harmed] {
        project.announce(&node, 10).await?;
        project.publish(&node, 5).await?;
    }
    let said = node.run(&["check"]).await?;
    ensure!(
        said.contains("2 identifiers: relay and git agree"),
        "{said}"
    );
    let full = node.run(&["check", "--full"]).await?;
    ensure!(full.contains("relay and git agree"), "{full}");

    node.stop().await?;
    let packs = node.data_dir().join("git/.objects/harmed.git/objects/pack");
    for entry in fs::read_dir(&packs)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "pack") {
            fs::remove_file(path)?;
        }
    }
    node.launch().await?;
    ensure!(
        node.log().contains("repository is damaged"),
        "{}",
        node.log()
    );
    let ready = node.json("/readyz").await?;
    let named = ready["degraded"]["repositories"].as_str();
    let named = named.context("the damaged repository is named")?;
    ensure!(
        named.contains("harmed") && ready["ready"] == true,
        "{ready}"
    );

    let url = harmed.url(&node);
    let listed = harmed.tree.git(["ls-remote", url.as_str()]);
    ensure!(listed.is_err(), "what is damaged is not served");
    let page = node.get(&format!("/{}", harmed.path())).await?;
    page.must_be(503, &["is damaged"]);
    sound.tree.git(["ls-remote", sound.url(&node).as_str()])?;

    let output = node.command(&["check", "--json"]).output().await?;
    ensure!(!output.status.success());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let found = json["disagreements"].as_array().context("a list")?;
    let is_named = |it: &&serde_json::Value| {
        it["kind"] == "missing_object"
            && it["repository"]
                .as_str()
                .is_some_and(|it| it.contains("harmed"))
    };
    ensure!(found.iter().any(|it| is_named(&it)), "{json:#}");
    ensure!(!json.to_string().contains("sound"), "{json:#}");
    Ok(())
}

#[tokio::test]
async fn a_ban_takes_effect_on_a_hangup() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let project = LocalProject::new("banned")?;
    project.announce(&node, 10).await?;
    project.publish(&node, 5).await?;
    let config = format!("event_blacklist = [\"{}\"]\n", project.owner.npub());
    fs::write(node.work_dir().join("gripfast.toml"), config)?;
    node.signal(Signal::HUP)?;
    let directory = project.directory(&node);
    until_true("its repository is gone", || !directory.exists()).await?;
    let filter = serde_json::json!({ "authors": [project.owner.hex()] });
    until("its events are gone", || async {
        let mut relay = node.connect().await.ok()?;
        let sub = relay.subscribe(std::slice::from_ref(&filter)).await.ok()?;
        let stored = relay.stored(&sub).await.ok()?;
        stored.is_empty().then_some(())
    })
    .await?;
    node.run(&["check"]).await?;
    Ok(())
}

/// Under another name the node warns, and what it acknowledged under the old one is served and waits on.
#[tokio::test]
async fn a_start_with_another_domain_warns_and_keeps_what_was_acknowledged() -> Result<()> {
    let mut node = Node::start(BINARY).await?;
    let (served, held) = (LocalProject::new("served")?, LocalProject::new("held")?);
    served.publish(&node, 5).await?;
    held.announce(&node, 5).await?;
    let told = |node: &Node| {
        let log = node.log();
        let mut lines = log.lines();
        lines.any(|line| line.contains("WARN") && line.contains("new.example.com"))
    };
    ensure!(!told(&node), "{}", node.log());
    node.stop().await?;
    node.set_env("NGIT_DOMAIN", "new.example.com");
    node.launch().await?;
    ensure!(told(&node), "{}", node.log());
    served.tree.git(["ls-remote", served.url(&node).as_str()])?;
    ensure!(held.directory(&node).exists(), "it waits for its data");
    let said = node.run(&["check"]).await?;
    ensure!(said.contains("relay and git agree"), "{said}");
    Ok(())
}

/// A check that runs out of memory tells so, and takes nothing out of service.
#[tokio::test]
async fn a_check_that_cannot_read_to_the_end_calls_nothing_damaged() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (program, flag) = (dir.path().join("git"), dir.path().join("short"));
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *fsck*) [ -e {} ] && kill -9 $$ ;; esac\nexec git \"$@\"\n",
        flag.display()
    );
    fs::write(&program, script)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let program = program.to_string_lossy().into_owned();
    let node = Node::start_with(BINARY, &[("GRIPFAST_GIT_PROGRAM", &program)]).await?;
    let project = LocalProject::new("sound")?;
    project.publish(&node, 5).await?;

    fs::write(&flag, "")?;
    let output = node
        .command(&["check", "--full", "--json"])
        .output()
        .await?;
    ensure!(!output.status.success(), "it was not checked");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let found = json["disagreements"].as_array().context("a list")?;
    let kinds: Vec<_> = found.iter().map(|it| &it["kind"]).collect();
    ensure!(kinds == ["unread"], "{json:#}");
    let ready = node.json("/readyz").await?;
    ensure!(ready["degraded"]["repositories"].is_null(), "{ready}");
    project
        .tree
        .git(["ls-remote", project.url(&node).as_str()])?;
    ensure!(!node.log().contains("is damaged"), "{}", node.log());

    fs::remove_file(&flag)?;
    let full = node.run(&["check", "--full"]).await?;
    ensure!(full.contains("relay and git agree"), "{full}");
    Ok(())
}
