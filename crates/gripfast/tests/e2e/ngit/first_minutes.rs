//! The first ten minutes of docs/install.md, typed line by line.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, http::must_contain};

use super::client::{Line, Person};
use crate::BINARY;

const INSTALL: &str = include_str!("../../../../../docs/install.md");

/// The lines of the block, without the prompt and what is said about them.
fn typed() -> Result<Vec<String>> {
    let (_, rest) = INSTALL.split_once("```console\n").context("a block")?;
    let (block, _) = rest.split_once("```").context("its end")?;
    let lines = block.lines().map(|line| {
        let line = line.strip_prefix("$ ").context("a prompt")?;
        let line = line.split(" #").next().unwrap_or(line);
        Ok(line.trim().to_owned())
    });
    lines.collect()
}

#[tokio::test]
async fn the_first_ten_minutes_are_as_documented() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[])?;
    let ada = Person::new("ada", Line::Three, &node)?;
    // The node is found by that alone, whatever directory the person is in.
    node.set_env("XDG_STATE_HOME", &ada.state().to_string_lossy());
    let lines = typed()?;
    let start = lines.iter().position(|line| line == "gripfast &");
    let start = start.context("the node is started")?;
    let script = |lines: &[String]| {
        let lines = lines.join("\n");
        let lines = lines.replace("http://127.0.0.1:7334", &node.http_url());
        let npub = "$(git remote get-url origin | cut -d/ -f3)";
        let lines = lines.replace("<npub>", npub);
        format!("gripfast() {{ '{BINARY}' \"$@\"; }}\nset -ex\n{lines}")
    };
    let (before, after) = (script(&lines[..start]), script(&lines[start + 1..]));
    ada.ok(&["sh", "-c", &before]).await?;
    node.launch().await?;
    let said = ada.ok(&["sh", "-c", &after]).await?;
    must_contain(
        &said,
        &["ready", "served", "restored and checked: repositories 1"],
    );
    let copied = ["git", "-C", "copy", "log", "--format=%s"];
    let copied = ada.ok(&copied).await?;
    ensure!(copied == "first commit", "{copied}");
    Ok(())
}
