//! Rights of the operator, and the record each use leaves.

use std::{
    fmt::{Debug, Write as _},
    sync::Arc,
};

use anyhow::Result;
use grip_testkit::{Author, http::must_contain};
use grip_web::SyncHandle;
use parking_lot::Mutex;
use tracing::{Event, Subscriber, field::Field, subscriber::DefaultGuard};
use tracing_subscriber::{Layer, layer::Context, prelude::*};

use crate::{
    support::{Node, TOKEN},
    sync::Figures,
};

/// Every record at the target `audit` since it was set up, on this thread.
#[derive(Clone, Default)]
pub struct Records(Arc<Mutex<Vec<String>>>);

impl Records {
    pub fn keep() -> (Self, DefaultGuard) {
        let records = Self::default();
        let subscriber = tracing_subscriber::registry().with(records.clone());
        (records, subscriber.set_default())
    }

    /// The records of changes.
    pub fn changes(&self) -> Vec<String> {
        let all = self.0.lock();
        let changes = all.iter().filter(|line| line.contains("operator request"));
        changes.cloned().collect()
    }
}

impl<S: Subscriber> Layer<S> for Records {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != "audit" {
            return;
        }
        let mut line = String::new();
        event.record(&mut |field: &Field, value: &dyn Debug| {
            let _ = write!(line, "{field}={value:?} ");
        });
        self.0.lock().push(line);
    }
}

async fn node() -> Result<Node> {
    Node::start_whole(|_| {}, SyncHandle::new(Figures::default())).await
}

#[tokio::test]
async fn without_the_token_nothing_changes_and_the_answer_says_where_it_is() -> Result<()> {
    let (records, _guard) = Records::keep();
    let node = node().await?;
    let id = node.wait_for_data(&Author::new(), "tides").await?;
    let paths = [
        ("POST", "/api/v1/sync/tides/now".to_owned()),
        ("POST", format!("/api/v1/purgatory/{id}/retry")),
        ("DELETE", format!("/api/v1/purgatory/{id}")),
    ];
    for (method, path) in &paths {
        let none = node.ask(method, path, &[], b"").await?;
        assert_eq!(none.must_allow_any_origin().status, 401, "{method} {path}");
        assert!(none.text().contains("admin.token"), "{}", none.text());
        assert!(none.header("www-authenticate").starts_with("Bearer"));
        let wrong = [("authorization", "Bearer 0123456789abcdef0123456789abcdee")];
        let wrong = node.ask(method, path, &wrong, b"").await?;
        wrong.must_be(401, &["is wrong"]);
        assert!(!wrong.text().contains(TOKEN));
    }
    assert_eq!(node.get("/api/v1/purgatory").await?.json()?["total"], 2);
    assert_eq!(records.changes(), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn through_a_proxy_even_the_right_token_opens_nothing() -> Result<()> {
    let node = node().await?;
    let id = node.wait_for_data(&Author::new(), "tides").await?;
    for header in ["x-forwarded-for", "forwarded", "via", "x-real-ip"] {
        let path = format!("/api/v1/purgatory/{id}");
        let reply = node
            .order("DELETE", &path, &[(header, "127.0.0.1")])
            .await?;
        reply.must_be(403, &["not through a proxy"]);
    }
    assert_eq!(node.get("/api/v1/purgatory").await?.json()?["total"], 2);
    Ok(())
}

#[tokio::test]
async fn with_the_token_an_attempt_is_brought_forward_and_recorded_once() -> Result<()> {
    let (records, _guard) = Records::keep();
    let node = node().await?;
    let id = node.wait_for_data(&Author::new(), "tide table").await?;
    let due = |node: &Node| node.grasp.sync_queue(1)[0].1.next_attempt.get();
    let before = due(&node);

    let now = node
        .order("POST", "/api/v1/sync/tide%20table/now", &[])
        .await?;
    assert_eq!(now.status, 202, "{}", now.text());
    assert_eq!(now.json()?["identifier"], "tide table");
    assert!(due(&node) < before, "submitted events wait for minutes");
    let retry = node
        .order("POST", &format!("/api/v1/purgatory/{id}/retry"), &[])
        .await?;
    assert_eq!(retry.status, 202, "{}", retry.text());

    let changes = records.changes();
    assert_eq!(changes.len(), 2, "{changes:?}");
    for (change, what) in changes.iter().zip(["sync now", "purgatory retry"]) {
        must_contain(
            change,
            &[
                "who=\"admin token from 127.0.0.1:",
                &format!("what=\"{what}\""),
                "outcome=\"brought forward\"",
            ],
        );
        assert!(!change.contains(TOKEN));
    }
    Ok(())
}

#[tokio::test]
async fn with_the_token_a_waiting_event_is_dropped_and_recorded_once() -> Result<()> {
    let (records, _guard) = Records::keep();
    let node = node().await?;
    let id = node.wait_for_data(&Author::new(), "tides").await?;
    let path = format!("/api/v1/purgatory/{id}");
    let dropped = node.order("DELETE", &path, &[]).await?;
    assert_eq!(dropped.status, 200, "{}", dropped.text());
    assert_eq!(node.get("/api/v1/purgatory").await?.json()?["total"], 1);
    let again = node.order("DELETE", &path, &[]).await?;
    assert_eq!(again.status, 404);
    let changes = records.changes();
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(changes[0].contains(&id) && changes[0].contains("outcome=\"dropped\""));
    assert!(changes[1].contains("outcome=\"not found\""));
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_done_says_why() -> Result<()> {
    let node = node().await?;
    for (method, path, status, said) in [
        ("POST", "/api/v1/sync/nothing/now", 404, "No repository"),
        ("POST", "/api/v1/sync/a%2Fb/now", 400, "slash"),
        ("POST", "/api/v1/purgatory/abc/retry", 400, "64 hex digits"),
        ("DELETE", "/api/v1/purgatory/abc", 400, "64 hex digits"),
        ("GET", "/api/v1/sync/tides/now", 405, "POST"),
        ("POST", "/api/v1/purgatory", 405, "GET"),
        ("GET", "/api/v1/sync?limit=many", 400, "limit"),
    ] {
        let reply = node.order(method, path, &[]).await?;
        reply.must_be(status, &[said]);
    }
    let off = Node::start().await?;
    let id = off.wait_for_data(&Author::new(), "tides").await?;
    for path in [
        "/api/v1/sync/tides/now".to_owned(),
        format!("/api/v1/purgatory/{id}/retry"),
    ] {
        let reply = off.order("POST", &path, &[]).await?;
        reply.must_be(409, &["sync_enabled"]);
    }
    Ok(())
}

#[tokio::test]
async fn sizes_of_disks_and_stores_are_for_the_operator() -> Result<()> {
    let node = Node::start().await?;
    let seen = node.get("/api/v1/status").await?.json()?;
    assert_eq!(seen["ready"], true, "{seen}");
    assert!(seen["store"].is_null(), "{seen}");
    assert_eq!(seen["disks"].as_array().map(Vec::len), Some(0), "{seen}");
    let whole = node.order("GET", "/api/v1/status", &[]).await?.json()?;
    assert!(whole["store"]["limit_bytes"].as_u64() > Some(0), "{whole}");
    assert!(
        whole["disks"][0]["total_bytes"].as_u64() > Some(0),
        "{whole}"
    );
    Ok(())
}

#[tokio::test]
async fn the_record_of_a_check_is_in_words() -> Result<()> {
    let (records, _guard) = Records::keep();
    let node = node().await?;
    for query in ["", "?full=true", "?repair=true"] {
        let path = format!("/api/v1/check{query}");
        let checked = node.order("POST", &path, &[]).await?;
        assert_eq!(checked.status, 200, "{}", checked.text());
    }
    let changes = records.changes();
    assert_eq!(changes.len(), 3, "{changes:?}");
    for (line, words) in changes.iter().zip(["git\"", "every object", "with repair"]) {
        assert!(
            line.contains(words) && !line.contains("CheckOptions"),
            "{line}"
        );
    }
    Ok(())
}
