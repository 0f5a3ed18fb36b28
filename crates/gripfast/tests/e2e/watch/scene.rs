//! A node that watches, webhooks signed as GitHub signs them, and what is asked of both.

use anyhow::{Context as _, Result};
use grip_testkit::{FakeGitHub, Node};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::BINARY;

pub const SECRET: &str = "a secret of the test";

/// A node that reads the list of the organisation `acme` every second.
pub fn watching(github: &FakeGitHub, more: &[(&str, &str)]) -> Result<Node> {
    let settings = [
        ("GRIPFAST_WATCH_GITHUB", &*github.place("/orgs/acme")),
        ("GRIPFAST_GITHUB_WEBHOOK_SECRET", SECRET),
        ("GRIPFAST_WATCH_POLL_INTERVAL", "1s"),
        ("GRIPFAST_WATCH_AVATARS", "false"),
        ("GRIPFAST_SYNC_HOST_LIMITS", &github.wide_limits()),
    ];
    Node::prepare(BINARY, &[&settings, more].concat())
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
    let mut headers = vec![
        ("content-type", "application/json"),
        ("x-github-event", event),
        ("x-github-delivery", id),
    ];
    headers.extend(signature.map(|text| ("x-hub-signature-256", text)));
    let path = "/webhooks/github";
    let response = node.ask("POST", path, &headers, body.as_bytes()).await?;
    Ok(response.status)
}

/// A push of `acme/one` that GitHub signed.
pub fn signed_push() -> (String, String) {
    let (zero, one) = ("0".repeat(40), "1".repeat(40));
    let body = push_body("acme/one", "https://github.com/acme/one.git", &zero, &one);
    let signature = signed(SECRET, &body);
    (body, signature)
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
