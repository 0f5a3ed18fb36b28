//! A node that watches, webhooks signed as GitHub signs them, and what is asked of both.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{FakeGitHub, Node, git, node::http_raw};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

pub const BINARY: &str = env!("CARGO_BIN_EXE_gripfast");
pub const SECRET: &str = "a secret of the test";

/// The place of a fake GitHub, as settings name it.
pub fn place(github: &FakeGitHub, list: &str) -> String {
    github.api().replace("/api/v3/", list)
}

/// Somebody pushes now; says the id of the event.
pub fn push(github: &FakeGitHub, actor: &str, repository: &str) -> Result<String> {
    let mut event = github.push_event(actor, repository);
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
    event["created_at"] = now.to_string().into();
    let id = event["id"].as_str().context("an id")?.to_owned();
    github.emit(event);
    Ok(id)
}

/// A delivery as GitHub sends it; `signature` as it stands in the header, if it has one.
pub async fn deliver(
    node: &Node,
    id: &str,
    event: &str,
    body: &str,
    signature: Option<&str>,
) -> Result<u16> {
    let signature = signature.map(|text| format!("X-Hub-Signature-256: {text}\r\n"));
    let head = format!(
        "POST /webhooks/github HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nX-GitHub-Event: {event}\r\nX-GitHub-Delivery: {id}\r\n\
         {}Content-Length: {}\r\n\r\n",
        node.authority(),
        signature.unwrap_or_default(),
        body.len()
    );
    let request = [head.as_bytes(), body.as_bytes()].concat();
    let answer = http_raw(node.port(), &request).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split_whitespace().nth(1).context("a status")?;
    Ok(status.parse()?)
}

pub fn signed(secret: &str, body: &str) -> String {
    let key = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length will do");
    let digest = key.chain_update(body.as_bytes()).finalize().into_bytes();
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

/// What a webhook says of a push that happened now.
pub fn push_body(name: &str, clone_url: &str, before: &str, after: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("because it is later").as_secs();
    let body = json!({
        "ref": "refs/heads/main", "before": before, "after": after,
        "created": false, "deleted": false, "forced": false,
        "repository": {
            "id": 1_296_269, "name": name.split('/').next_back(), "full_name": name,
            "private": false, "clone_url": clone_url, "pushed_at": now,
        },
        "sender": { "id": 583_231, "login": "octocat", "type": "User",
                    "url": "https://api.github.com/users/octocat" },
        "commits": [],
    });
    body.to_string()
}

/// The JSON that a GET of `path` answers with.
pub async fn json(node: &Node, path: &str) -> Result<Value> {
    let answer = node.get(path).await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
    let object = body.find('{').zip(body.rfind('}'));
    let (first, last) = object.context("no object")?;
    Ok(serde_json::from_str(&body[first..=last])?)
}

/// The ids of all pushes that are kept, as the operator's token shows them.
pub async fn pushes(node: &Node) -> Result<Vec<String>> {
    let token = std::fs::read_to_string(node.data_dir().join("admin.token"))?;
    let request = format!(
        "GET /api/v1/github/events?limit=500 HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         Authorization: Bearer {}\r\n\r\n",
        node.authority(),
        token.trim()
    );
    let answer = http_raw(node.port(), request.as_bytes()).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").context("no body")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "{answer}");
    let (first, last) = body.find('{').zip(body.rfind('}')).context("no object")?;
    let page: Value = serde_json::from_str(&body[first..=last])?;
    let events = page["events"].as_array().context("no events")?;
    let id = |event: &Value| event["id"].as_str().map(str::to_owned);
    let mut ids: Vec<String> = events.iter().filter_map(id).collect();
    ids.sort();
    Ok(ids)
}

/// Runs the binary as the operator of this node does; returns what it printed.
pub async fn gripfast(node: &Node, arguments: &[&str]) -> Result<String> {
    let output = command(node, arguments).output().await?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {said}{complaint}");
    Ok(said)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the binary is what is tested here"
)]
pub fn command(node: &Node, arguments: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(BINARY);
    command
        .current_dir(node.work_dir())
        .args(arguments)
        .env("NGIT_BIND_ADDRESS", node.authority())
        .env("NGIT_DOMAIN", node.authority())
        .env("GRIPFAST_DATA_DIR", node.data_dir())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// The branches and tags that `url` serves to git.
pub async fn refs(url: &str) -> Result<Vec<(String, String)>> {
    let mut refs = git::ls_remote(url).await?;
    refs.retain(|(name, _)| name.starts_with("refs/heads/") || name.starts_with("refs/tags/"));
    refs.sort();
    Ok(refs)
}
