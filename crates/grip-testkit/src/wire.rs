//! Pushes and fetches as bytes, for clients that git would never be.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use tokio::io::AsyncWriteExt as _;

use crate::{WorkTree, git, http::request};

/// Forty zeros: no object.
pub const ZERO: &str = "0000000000000000000000000000000000000000";

/// The capabilities most clients ask for.
pub const CAPABILITIES: &str = "report-status side-band-64k";

/// One pkt-line.
pub fn packet(data: &[u8]) -> Vec<u8> {
    let mut line = format!("{:04x}", data.len() + 4).into_bytes();
    line.extend(data);
    line
}

/// The head of a push: `old new ref` commands and the flush.
pub fn commands(commands: &[(&str, &str, &str)], capabilities: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for (n, (old, new, name)) in commands.iter().enumerate() {
        let tail = if n == 0 {
            format!("\0 {capabilities}")
        } else {
            String::new()
        };
        body.extend(packet(format!("{old} {new} {name}{tail}").as_bytes()));
    }
    body.extend(b"0000");
    body
}

/// The pack of everything `tip` reaches, without what `base` reaches.
pub async fn pack(tree: &WorkTree, tip: &str, base: Option<&str>) -> Result<Vec<u8>> {
    pack_with(tree, &[], tip, base).await
}

/// Like [`pack`], with further arguments to `git pack-objects`.
pub async fn pack_with(
    tree: &WorkTree,
    more: &[&str],
    tip: &str,
    base: Option<&str>,
) -> Result<Vec<u8>> {
    let mut args = vec!["pack-objects", "--revs", "--stdout", "-q"];
    args.extend(more);
    let mut child = tokio::process::Command::from(git::command(tree.path(), args))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("a pipe was asked for")?;
    let revisions = base.map_or_else(|| format!("{tip}\n"), |base| format!("{tip}\n^{base}\n"));
    stdin.write_all(revisions.as_bytes()).await?;
    drop(stdin);
    Ok(child.wait_with_output().await?.stdout)
}

/// The content type of a push.
pub const PUSH_TYPE: &str = "application/x-git-receive-pack-request";

/// A request for all that `tip` reaches, of the repository at `path`, by a client that says it has
/// `haves`.
pub fn fetch_request(path: &str, tip: &str, haves: impl IntoIterator<Item = String>) -> Vec<u8> {
    let mut body = packet(format!("want {tip} side-band-64k ofs-delta\n").as_bytes());
    body.extend(b"0000");
    for have in haves {
        body.extend(packet(format!("have {have}\n").as_bytes()));
    }
    body.extend(packet(b"done\n"));
    let headers = [
        ("content-type", "application/x-git-upload-pack-request"),
        ("connection", "close"),
    ];
    request("POST", &format!("{path}/git-upload-pack"), &headers, &body)
}
