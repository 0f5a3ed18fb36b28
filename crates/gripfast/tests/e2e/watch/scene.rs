//! A node that watches, webhooks signed as GitHub signs them, and what is asked of both.

use anyhow::{Context as _, Result};
use grip_testkit::{FakeGitHub, Node, node::http_raw};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

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

/// The ids of all pushes that are kept, as the operator's token shows them.
pub async fn pushes(node: &Node) -> Result<Vec<String>> {
    let page = node.admin_json("/api/v1/github/events?limit=500").await?;
    let events = page["events"].as_array().context("no events")?;
    let id = |event: &Value| event["id"].as_str().map(str::to_owned);
    let mut ids: Vec<String> = events.iter().filter_map(id).collect();
    ids.sort();
    Ok(ids)
}
