//! Backups of nodes whose database is on a server.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, PostgresServer, http::must_contain, until_ok};
use serde_json::Value;
use tempfile::TempDir;

use super::{Gate, Scene, files, must_be_a_moment};
use crate::{BINARY, EVERY_LINE};

/// Publishes a version of a module and waits until the feed has it; returns the feed.
async fn publish_version(node: &Node) -> Result<String> {
    let local = LocalProject::module("versions")?;
    let refs = [
        ("refs/heads/main", local.tip.as_str()),
        ("refs/tags/v1.2.3", &local.tip),
    ];
    let mut relay = node.connect().await?;
    let announcement = local.announcement(&[node], &[]);
    for event in [&announcement, &local.state_at(&refs, 20)] {
        ensure!(relay.publish(event).await?.is_held());
    }
    local.tree.git(["tag", "v1.2.3"])?;
    local
        .tree
        .push_ok(&local.url(node), &["main", "v1.2.3"])
        .await?;
    until_ok("the feed has it", async || {
        let feed = node.get("/index").await?.text();
        Ok(feed.contains("\"v1.2.3\"").then_some(feed))
    })
    .await
}

/// Runs a command of the operator who has the settings of the node at hand; returns what it printed.
async fn run(node: &Node, arguments: &[&str]) -> Result<String> {
    let output = node.command_in_its_place(arguments).output().await?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Brings a backup back; returns the lines that say how far it was, then what it printed.
async fn restore(node: &Node, place: &str) -> Result<String> {
    let mut command = node.command_in_its_place(&["restore", place]);
    let output = command.env("GRIPFAST_FAULT", EVERY_LINE).output().await?;
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(output.status.success(), "{said}");
    Ok(said)
}

/// The blocks of each table in the newest backup of a place.
fn tables(place: &Path) -> Result<BTreeMap<String, Value>> {
    let lists = files(&place.join("backups"))?;
    let newest = lists.keys().next_back().context("a backup")?;
    let list: Value = serde_json::from_slice(&fs::read(newest)?)?;
    let mut tables = BTreeMap::new();
    for file in list["files"].as_array().context("files")? {
        let path = file["path"].as_str().context("a path")?;
        if path.starts_with("database/") {
            tables.insert(path.to_owned(), file["blocks"].clone());
        }
    }
    Ok(tables)
}

/// What waits, jobs and the index come back on another server with the repositories and events of the
/// same moment; a restore that was killed goes on.
#[tokio::test]
async fn a_backup_under_push_load_has_the_rows_of_a_server() -> Result<()> {
    let (server, empty) = (
        PostgresServer::start().await?,
        PostgresServer::start().await?,
    );
    let gate = Gate::new()?;
    let scene = Scene::start_with(&[
        ("DATABASE_URL", &server.url()),
        ("GRIPFAST_FAULT", &gate.fault()),
    ])
    .await?;
    let busy = LocalProject::new("busy")?;
    busy.publish(&scene.node, 100).await?;
    let feed = publish_version(&scene.node).await?;
    gate.back_up_under_load(&scene, &busy).await?;

    let mut other = Node::prepare(
        BINARY,
        &[
            ("DATABASE_URL", &empty.url()),
            ("NGIT_DOMAIN", "moved.example.org"),
        ],
    )?;
    let place = scene.place();
    let mut killed = other.command_in_its_place(&["restore", &place]);
    killed.env("GRIPFAST_FAULT", "restore.rows_taken");
    ensure!(
        !killed.output().await?.status.success(),
        "it died on the way"
    );
    let said = run(&other, &["restore", &place, "--full"]).await?;
    must_contain(&said, &["of this node left as the database has them"]);
    let left = files(&other.data_dir())?;
    let left: Vec<_> = left
        .keys()
        .filter(|path| path.to_string_lossy().contains("gripfast.sqlite"))
        .collect();
    ensure!(left.is_empty(), "the rows are on the server: {left:?}");

    // A backup of what was restored, before anything runs there, has the same rows.
    let again = TempDir::new()?;
    let again = again.path().join("of-other");
    let directory = again.to_str().context("a path of text")?;
    let guessed = other.command(&["backup", directory]).output().await?;
    let said = String::from_utf8_lossy(&guessed.stderr).into_owned();
    ensure!(!guessed.status.success(), "{said}");
    must_contain(&said, &["--database-url"]);
    run(&other, &["backup", directory]).await?;
    let (before, after) = (tables(Path::new(&place))?, tables(&again)?);
    for table in ["purgatory", "queue", "index_versions", "repo_tags"] {
        let blocks = &before[&format!("database/{table}.rows")];
        ensure!(blocks != &Value::Array(Vec::new()), "{table}: {before:?}");
    }
    ensure!(before == after, "{before:#?} {after:#?}");

    other.launch().await?;
    must_be_a_moment(&scene, &busy, &other).await?;
    ensure!(other.get("/index").await?.text() == feed);
    scene.held.push(&other).await?;
    ensure!(other.connect().await?.serves(&scene.state.id).await?);
    Ok(())
}

/// A backup does not say where the database has to be.
#[tokio::test]
async fn rows_move_between_a_server_and_a_file() -> Result<()> {
    let (server, empty) = (
        PostgresServer::start().await?,
        PostgresServer::start().await?,
    );
    let scene = Scene::start_with(&[("DATABASE_URL", &server.url())]).await?;
    let feed = publish_version(&scene.node).await?;
    let said = scene
        .node
        .run(&["backup", &scene.place(), "--verify"])
        .await?;
    must_contain(&said, &["restored and checked"]);
    let mut file = Node::prepare(BINARY, &[])?;
    let said = restore(&file, &scene.place()).await?;
    must_contain(
        &said,
        &["read rows: ", "check repositories: 5 of 5, 0s left\n"],
    );
    file.launch().await?;
    ensure!(file.data_dir().join("gripfast.sqlite").exists());
    scene.must_agree(&file).await?;
    ensure!(file.get("/index").await?.text() == feed);

    let place = scene.backups.path().join("of-file");
    let place = place.to_str().context("a path of text")?;
    file.run(&["backup", place]).await?;
    let mut back = Node::prepare(BINARY, &[("DATABASE_URL", &empty.url())])?;
    let said = restore(&back, place).await?;
    must_contain(&said, &["restore rows: ", ", 0s left\n"]);
    must_contain(&said, &["rows in the database: of this node"]);
    back.launch().await?;
    scene.must_agree(&back).await?;
    ensure!(back.get("/index").await?.text() == feed);
    Ok(())
}

/// Nothing is copied before the server has answered.
#[tokio::test]
async fn a_restore_to_a_server_that_is_away_changes_nothing() -> Result<()> {
    let scene = Scene::start().await?;
    scene.back_up().await?;
    let nowhere = "postgres://gripfast@127.0.0.1:1/gripfast?connect_timeout=1";
    let other = Node::prepare(BINARY, &[("DATABASE_URL", nowhere)])?;
    let output = other
        .command_in_its_place(&["restore", &scene.place()])
        .output()
        .await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success(), "{said}");
    must_contain(&said, &["database_url"]);
    ensure!(!other.data_dir().join("restoring").exists());
    Ok(())
}

/// An operator is told what is wrong, in words, whatever is asked.
#[tokio::test]
async fn commands_name_a_database_that_is_away() -> Result<()> {
    let mut server = PostgresServer::start().await?;
    let node = Node::start_with(BINARY, &[("DATABASE_URL", &server.url())]).await?;
    server.kill();
    let backups = TempDir::new()?;
    let place = backups.path().join("of-node");
    let place = place.to_str().context("a path of text")?;
    let commands: [&[&str]; 6] = [
        &["backup", place],
        &["holding", "ls"],
        &["queue", "ls"],
        &["index", "status"],
        &["pins"],
        &["cluster", "status"],
    ];
    for arguments in commands {
        let output = node.command_in_its_place(arguments).output().await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            output.status.code() == Some(1)
                && said.contains("database")
                && !said.contains("Something went wrong")
                && !said.contains("os error"),
            "{arguments:?}: {said}"
        );
    }
    ensure!(!node.data_dir().join("git/.frozen").exists());
    Ok(())
}
