//! Deliveries over the wire: what is taken in, and what is not.

use anyhow::Result;
use grip_ingest::EventQuery;
use grip_testkit::{Response, http};
use serde_json::{Value, json};

use crate::{
    support::Node,
    watching::{Setup, Watching, push, signature},
};

const PATH: &str = "/webhooks/github";

/// The ids of all pushes that are kept.
async fn kept(watching: &Watching) -> Result<Vec<String>> {
    let query = EventQuery {
        limit: 100,
        ..EventQuery::default()
    };
    let events = watching.ingest.events(&query).await?;
    Ok(events.into_iter().map(|event| event.id).collect())
}

fn outcome(reply: &Response) -> Value {
    reply
        .json()
        .map_or(Value::Null, |json| json["outcome"].clone())
}

#[tokio::test]
async fn a_signed_push_is_taken_in_once_however_often_it_comes() -> Result<()> {
    let watching = Watching::start().await?;
    let first = watching.deliver("push", "d-1", &push(false)).await?;
    assert_eq!((first.status, outcome(&first)), (202, json!("push")));
    assert_eq!(kept(&watching).await?, ["delivery d-1"]);
    for _ in 0..3 {
        let again = watching.deliver("push", "d-1", &push(false)).await?;
        assert_eq!((again.status, outcome(&again)), (200, json!("known")));
        assert!(again.text().contains("came before"), "{}", again.text());
    }
    assert_eq!(kept(&watching).await?.len(), 1);
    let ping = watching
        .deliver("ping", "d-2", &json!({ "zen": "Keep it." }))
        .await?;
    assert_eq!((ping.status, outcome(&ping)), (200, json!("ping")));
    let other = watching.deliver("issues", "d-3", &json!({})).await?;
    assert_eq!((other.status, outcome(&other)), (202, json!("counted")));
    let metrics = watching.node.get("/metrics").await?.text();
    for (outcome, count) in [("push", 1), ("known", 3), ("ping", 1), ("counted", 1)] {
        let line = format!("webhook_deliveries_total{{outcome=\"{outcome}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
    Ok(())
}

#[tokio::test]
async fn unsigned_and_wrongly_signed_deliveries_leave_nothing_behind() -> Result<()> {
    let watching = Watching::start().await?;
    let body = push(false).to_string();
    let right = signature(body.as_bytes());
    let other = signature(b"other");
    let upper = right.to_uppercase();
    let long = format!("{right}00");
    for signature in [
        None,
        Some(""),
        Some("sha256="),
        Some("sha1=0000000000000000000000000000000000000000"),
        Some(other.as_str()),
        Some(upper.as_str()),
        Some(long.as_str()),
        Some("\u{e9}"),
    ] {
        let mut headers = vec![("x-github-event", "push"), ("x-github-delivery", "d-1")];
        headers.extend(signature.map(|text| ("x-hub-signature-256", text)));
        let reply = watching
            .node
            .ask("POST", PATH, &headers, body.as_bytes())
            .await?;
        assert_eq!(reply.status, 401, "{signature:?}: {}", reply.text());
        assert!(reply.text().starts_with("Nothing was taken in"));
        assert!(!reply.header("www-authenticate").is_empty());
    }
    // Nobody knows which of two was meant.
    let twice = [
        ("x-github-event", "push"),
        ("x-github-delivery", "d-1"),
        ("x-hub-signature-256", right.as_str()),
        ("x-hub-signature-256", right.as_str()),
    ];
    let reply = watching
        .node
        .ask("POST", PATH, &twice, body.as_bytes())
        .await?;
    assert_eq!(reply.status, 401);
    assert_eq!(kept(&watching).await?, Vec::<String>::new());
    let stats = watching.ingest.stats().await?;
    assert_eq!((stats.rejected, stats.by_type.len()), (0, 0));
    let metrics = watching.node.get("/metrics").await?.text();
    let line = "webhook_deliveries_total{outcome=\"not_signed\"} 9\n";
    assert!(metrics.contains(line), "{metrics}");
    Ok(())
}

#[tokio::test]
async fn what_is_signed_and_cannot_be_read_is_refused_with_the_reason() -> Result<()> {
    let watching = Watching::start().await?;
    let mut broken = push(false);
    broken["ref"] = json!("../../etc/passwd");
    let reply = watching.deliver("push", "d-1", &broken).await?;
    reply.must_be(400, &["kept aside"]);
    assert_eq!(watching.ingest.stats().await?.rejected, 1);
    let long = "x".repeat(65);
    for (event, id, header) in [
        ("", "d-2", "X-GitHub-Event"),
        ("pu sh", "d-2", "X-GitHub-Event"),
        (long.as_str(), "d-2", "X-GitHub-Event"),
        ("push", "", "X-GitHub-Delivery"),
        ("push", "../d-2", "X-GitHub-Delivery"),
        ("push", long.as_str(), "X-GitHub-Delivery"),
    ] {
        let reply = watching.deliver(event, id, &push(false)).await?;
        reply.must_be(400, &[header]);
    }
    assert_eq!(kept(&watching).await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn without_a_secret_or_without_watching_the_answer_says_what_to_do() -> Result<()> {
    let setup = Setup {
        secret: None,
        ..Setup::default()
    };
    let watching = Watching::start_with(|_| {}, setup).await?;
    let reply = watching.deliver("push", "d-1", &push(false)).await?;
    reply.must_be(404, &["GRIPFAST_GITHUB_WEBHOOK_SECRET"]);
    assert_eq!(kept(&watching).await?, Vec::<String>::new());
    let node = Node::start().await?;
    let reply = node.ask("POST", PATH, &[], b"{}").await?;
    reply.must_be(404, &["GitHub watching is off"]);
    Ok(())
}

#[tokio::test]
async fn only_a_post_delivers() -> Result<()> {
    let watching = Watching::start().await?;
    for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH"] {
        let reply = watching.node.ask(method, PATH, &[], b"").await?;
        assert_eq!(reply.status, 405, "{method}");
        assert_eq!(reply.header("allow"), "POST, OPTIONS");
    }
    Ok(())
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused_whether_it_says_so_or_not() -> Result<()> {
    let watching = Watching::start().await?;
    let long = vec![b' '; (25 << 20) + 1];
    let signature = signature(&long);
    let headers = [
        ("x-github-event", "push"),
        ("x-github-delivery", "d-1"),
        ("x-hub-signature-256", signature.as_str()),
    ];
    let told = watching.node.ask("POST", PATH, &headers, &long).await?;
    assert_eq!(told.status, 413, "{}", told.text());

    let mut head = format!("POST {PATH} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    let mut connection = watching.node.open().await?;
    connection.send(head.as_bytes()).await?;
    for chunk in long.chunks(1 << 20) {
        let size = format!("{:x}\r\n", chunk.len());
        connection
            .send(&[size.as_bytes(), chunk, b"\r\n"].concat())
            .await?;
    }
    connection.send(b"0\r\n\r\n").await?;
    connection.response().await?.must_be(413, &[]);
    assert_eq!(watching.ingest.stats().await?.rejected, 0);
    Ok(())
}

#[tokio::test]
async fn a_long_push_within_the_limit_is_taken_in() -> Result<()> {
    let watching = Watching::start().await?;
    let mut long = push(false);
    long["head_commit"] = json!({ "message": "x".repeat(2 << 20) });
    let reply = watching.deliver("push", "d-1", &long).await?;
    assert_eq!(reply.status, 202, "{}", reply.text());
    assert_eq!(kept(&watching).await?, ["delivery d-1"]);
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_does_not_come_is_given_up_and_its_slot_is_free_again() -> Result<()> {
    let watching = Watching::start_with(
        |settings| {
            settings.timeouts.body_stall = std::time::Duration::from_millis(300);
            settings.limits.webhook = 1;
        },
        Setup::default(),
    )
    .await?;
    let mut connection = watching.node.open().await?;
    let headers = [
        ("x-hub-signature-256", "sha256=00"),
        ("connection", "close"),
    ];
    let whole = http::request("POST", PATH, &headers, &[b' '; 5000]);
    connection.send(&whole[..whole.len() - 1]).await?;
    connection.response().await?.must_be(408, &[]);
    let next = watching.deliver("push", "d-1", &push(false)).await?;
    assert_eq!(next.status, 202, "{}", next.text());
    Ok(())
}

#[tokio::test]
async fn beyond_the_bound_a_delivery_is_told_to_come_again() -> Result<()> {
    let watching =
        Watching::start_with(|settings| settings.limits.webhook = 0, Setup::default()).await?;
    let reply = watching.deliver("push", "d-1", &push(false)).await?;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.header("retry-after"), "5");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_kept_is_to_be_delivered_again() -> Result<()> {
    let watching = Watching::start().await?;
    watching.node.queue.db().close().await;
    let reply = watching.deliver("push", "d-1", &push(false)).await?;
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert_eq!(reply.header("retry-after"), "5");
    Ok(())
}
