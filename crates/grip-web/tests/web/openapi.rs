//! The description of the API beside the answers of running nodes.

mod schema;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Response, WorkTree, wire};
use grip_web::SyncHandle;
use serde_json::Value;

use crate::{
    github, index, queue, resolve,
    support::{Node, TOKEN},
    sync::Figures,
};

/// Asks nodes, and notes which operations were asked.
struct Visitor {
    description: Value,
    visited: BTreeSet<(String, String)>,
}

impl Visitor {
    async fn new(node: &Node) -> Result<Self> {
        let answer = node.get("/api/v1/openapi.json").await?;
        answer.must_be(200, &["\"openapi\": \"3.1.0\""]);
        Ok(Self {
            description: answer.json()?,
            visited: BTreeSet::new(),
        })
    }

    async fn get(&mut self, node: &Node, operation: &str, path: &str) -> Result<Response> {
        self.visit(node, "GET", operation, path, b"").await
    }

    /// Asks as the operator; the answer must be as the operation of this path describes it.
    async fn visit(
        &mut self,
        node: &Node,
        method: &str,
        operation: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Response> {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", &*bearer), ("accept", "application/json")];
        let answer = node.ask(method, path, &headers, body).await?;
        let at = &self.description["paths"][operation][method.to_ascii_lowercase()];
        let place = format!("{method} {operation}");
        ensure!(at.is_object(), "{place} is not described");
        let status = answer.status.to_string();
        let described = match at["responses"].get(&status) {
            Some(described) => described,
            None if answer.status >= 400 => &at["responses"]["default"],
            None => anyhow::bail!("{place}: {status} is not described: {}", answer.text()),
        };
        let content = described["content"].as_object().context("content")?;
        let (kind, content) = content.iter().next().context("a media type")?;
        let values: Vec<Value> = if kind == "application/x-ndjson" {
            let text = answer.text();
            let lines = text.lines().map(serde_json::from_str);
            lines.collect::<Result<_, _>>()?
        } else {
            vec![answer.json()?]
        };
        for value in values {
            let checked = schema::check(&value, &content["schema"], &self.description, "");
            checked.map_err(|why| anyhow::anyhow!("{place} {path}: {why}\n{value:#}"))?;
        }
        if answer.status < 400 {
            let visited = (method.to_owned(), operation.to_owned());
            self.visited.insert(visited);
        }
        Ok(answer)
    }

    /// The operations whose successful answer nobody has looked at.
    fn left(&self) -> Vec<String> {
        let paths = self.description["paths"].as_object().into_iter().flatten();
        let all = paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().into_iter().flatten();
            methods.map(move |(method, _)| (method.to_ascii_uppercase(), path.clone()))
        });
        let left = all.filter(|operation| !self.visited.contains(operation));
        left.map(|(method, path)| format!("{method} {path}"))
            .collect()
    }
}

#[tokio::test]
async fn every_answer_is_as_the_description_has_it() -> Result<()> {
    let node = Node::start_whole(|_| {}, SyncHandle::new(Figures::default())).await?;
    let mut visitor = Visitor::new(&node).await?;
    of_the_node(&mut visitor, &node).await?;
    of_queue_and_index(&mut visitor).await?;
    of_github(&mut visitor).await?;
    of_the_resolver(&mut visitor).await?;
    let left = visitor.left();
    // A picture is not JSON, that path never answers, and no source of these nodes has left.
    let expected = [
        "GET /api/v1/github/avatars/{user}",
        "GET /api/v1/github/{path}",
        "POST /api/v1/index/forget",
    ];
    assert_eq!(left, expected);
    Ok(())
}

async fn of_the_node(visitor: &mut Visitor, node: &Node) -> Result<()> {
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    node.host(&owner, "harbour", &tree).await?;
    let waiting = node.wait_for_data(&Author::new(), "tides").await?;
    let name = format!("{}/harbour", owner.npub());
    for path in [
        "/readyz",
        "/version",
        "/api/v1/openapi.json",
        "/api/v1/status",
        "/api/v1/config",
        "/api/v1/tasks",
        "/api/v1/sync",
        "/api/v1/purgatory",
        "/api/v1/repos",
        "/api/v1/repos/sizes",
        "/api/v1/blocks",
    ] {
        visitor.get(node, path, path).await?;
    }
    let explain = "/api/v1/explain/{subject}";
    for subject in [&waiting, &name, "ab".repeat(32).as_str(), "nothing"] {
        visitor
            .get(node, explain, &format!("/api/v1/explain/{subject}"))
            .await?;
    }
    visitor
        .get(
            node,
            "/api/v1/repos/{name}",
            &format!("/api/v1/repos/{name}"),
        )
        .await?;
    visitor
        .get(node, "/api/v1/repos/{name}", "/api/v1/repos/nobody")
        .await?;
    let archive = format!("/api/v1/archive/{}/harbour/log", owner.npub());
    visitor
        .get(node, "/api/v1/archive/{npub}/{identifier}/log", &archive)
        .await?;
    let pack = wire::pack(&tree, &tree.tip("HEAD")?, None).await?;
    let restore = "/api/v1/check/restore";
    let of_harbour = format!("{restore}?identifier=harbour");
    visitor
        .visit(node, "POST", restore, &of_harbour, &pack)
        .await?;
    let holding = format!("/api/v1/holding/{name}");
    let orders = [
        (
            "POST",
            "/api/v1/check",
            "/api/v1/check?full=true".to_owned(),
        ),
        ("POST", "/api/v1/backup", "/api/v1/backup".to_owned()),
        (
            "POST",
            "/api/v1/backup/end",
            "/api/v1/backup/end".to_owned(),
        ),
        (
            "POST",
            "/api/v1/events/compact",
            "/api/v1/events/compact".to_owned(),
        ),
        (
            "POST",
            "/api/v1/sync/{identifier}/now",
            "/api/v1/sync/tides/now".to_owned(),
        ),
        (
            "POST",
            "/api/v1/purgatory/{event}/retry",
            format!("/api/v1/purgatory/{waiting}/retry"),
        ),
        (
            "DELETE",
            "/api/v1/purgatory/{event}",
            format!("/api/v1/purgatory/{waiting}"),
        ),
        (
            "POST",
            "/api/v1/blocks/add",
            "/api/v1/blocks/add?subject=spam".to_owned(),
        ),
        ("GET", "/api/v1/blocks", "/api/v1/blocks".to_owned()),
        (
            "POST",
            "/api/v1/blocks/remove",
            "/api/v1/blocks/remove?subject=spam".to_owned(),
        ),
        (
            "POST",
            "/api/v1/events/remove",
            format!("/api/v1/events/remove?author={}", owner.npub()),
        ),
        (
            "POST",
            "/api/v1/repos/remove",
            format!("/api/v1/repos/remove?repository={name}"),
        ),
        ("POST", "/api/v1/holding", "/api/v1/holding".to_owned()),
        (
            "POST",
            "/api/v1/holding/{npub}/{identifier}/restore",
            format!("{holding}/restore"),
        ),
        (
            "DELETE",
            "/api/v1/holding/{npub}/{identifier}",
            holding.clone(),
        ),
    ];
    for (method, operation, path) in orders {
        visitor.visit(node, method, operation, &path, b"").await?;
    }
    Ok(())
}

async fn of_queue_and_index(visitor: &mut Visitor) -> Result<()> {
    let busy = queue::busy().await?;
    let (one, job) = (
        "/api/v1/queue/{kind}/{key}",
        "/api/v1/queue/mirror-repo/github.com%2Facme%2Ftides",
    );
    visitor
        .get(&busy, "/api/v1/queue", "/api/v1/queue?limit=2")
        .await?;
    visitor.get(&busy, one, job).await?;
    let retry = "/api/v1/queue/{kind}/{key}/retry";
    visitor
        .visit(&busy, "POST", retry, &format!("{job}/retry"), b"")
        .await?;
    visitor.visit(&busy, "DELETE", one, job, b"").await?;
    for (method, path) in [
        ("GET", "/api/v1/queue/causes"),
        ("POST", "/api/v1/queue/revive"),
    ] {
        visitor.visit(&busy, method, path, path, b"").await?;
    }

    let (indexed, _) = index::node().await?;
    for (operation, path) in [
        ("/index", "/index"),
        ("/index/changes", "/index/changes"),
        ("/api/v1/index", "/api/v1/index"),
        ("/api/v1/index/sumdb", "/api/v1/index/sumdb"),
        ("/api/v1/index/repos", "/api/v1/index/repos?limit=1"),
        (
            "/api/v1/index/repos/{name}",
            "/api/v1/index/repos/forge.example/acme/tides",
        ),
    ] {
        let answer = visitor.get(&indexed, operation, path).await?;
        ensure!(!answer.body.is_empty(), "{path}");
    }
    let now = "/api/v1/index/now?name=forge.example/acme/tides";
    visitor
        .visit(&indexed, "POST", "/api/v1/index/now", now, b"")
        .await?;
    let verify = "/api/v1/index/verify";
    visitor.visit(&indexed, "POST", verify, verify, b"").await?;
    Ok(())
}

async fn of_github(visitor: &mut Visitor) -> Result<()> {
    let watching = github::known().await?;
    let node = &watching.node;
    for (operation, path) in [
        ("/api/v1/github/events", "/api/v1/github/events?raw=true"),
        ("/api/v1/github/events", "/api/v1/github/events?limit=1"),
        ("/api/v1/github/users/{user}", "/api/v1/github/users/jo"),
        (
            "/api/v1/github/repos/{name}",
            "/api/v1/github/repos/acme/one",
        ),
        ("/api/v1/github/stats", "/api/v1/github/stats"),
        ("/api/v1/github/status", "/api/v1/github/status"),
        ("/api/v1/github/gaps", "/api/v1/github/gaps"),
        ("/api/v1/github/{path}", "/api/v1/github/else"),
    ] {
        visitor.get(node, operation, path).await?;
    }
    let close = "/api/v1/github/gaps/close";
    let times = format!("{close}?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z");
    visitor.visit(node, "POST", close, &times, b"").await?;
    for order in ["/api/v1/github/retention", "/api/v1/github/reextract"] {
        visitor.visit(node, "POST", order, order, b"").await?;
    }
    Ok(())
}

async fn of_the_resolver(visitor: &mut Visitor) -> Result<()> {
    let owner = Author::new();
    let (node, _) = resolve::serving(&owner, |_| {}).await?;
    let path = resolve::path_of(&owner);
    visitor.get(&node, "/resolve/{key}", &path).await?;
    let providers = path.replace("/resolve/", "/providers/");
    visitor.get(&node, "/providers/{key}", &providers).await?;
    visitor
        .get(&node, "/api/v1/resolve", "/api/v1/resolve")
        .await?;
    let key = path.trim_start_matches("/resolve/").replace("%20", " ");
    let body = serde_json::json!({ "key": key }).to_string();
    for action in ["/admin/pin", "/admin/unpin"] {
        visitor
            .visit(&node, "POST", action, action, body.as_bytes())
            .await?;
    }
    visitor
        .visit(&node, "POST", "/admin/reindex", "/admin/reindex", b"")
        .await?;
    Ok(())
}
