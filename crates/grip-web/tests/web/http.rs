//! Properties of every response.

use std::time::Duration;

use anyhow::Result;
use grip_testkit::{Author, http::must_contain, until, within};
use grip_types::Service;
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpStream;

use crate::support::Node;

#[tokio::test]
async fn g01_59_every_answer_allows_any_origin_errors_included() -> Result<()> {
    let node = Node::start().await?;
    let npub = Author::new().npub();
    let cases = [
        ("GET", "/".to_owned(), 200),
        ("GET", "/nowhere".to_owned(), 404),
        (
            "GET",
            "/npub1test/nonexistent.git/info/refs?service=git-upload-pack".to_owned(),
            404,
        ),
        (
            "GET",
            format!("/{npub}/x.git/info/refs?service=git-upload-pack"),
            404,
        ),
        ("GET", format!("/{npub}/x.git"), 404),
        ("POST", format!("/{npub}/x.git/info/refs"), 405),
        ("DELETE", "/".to_owned(), 405),
        ("GET", format!("/{npub}/x.git/HEAD"), 403),
        ("GET", "/healthz".to_owned(), 200),
        ("POST", "/healthz".to_owned(), 405),
        ("GET", "/api/v1/explain/nonsense".to_owned(), 404),
    ];
    for (method, path, status) in cases {
        let reply = node.ask(method, &path, &[], b"").await?;
        reply.must_allow_any_origin();
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.text());
        assert!(!reply.header("x-request-id").is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn g01_23_the_document_tells_what_is_true() -> Result<()> {
    let node = Node::start().await?;
    let accept = [("accept", "application/nostr+json")];
    let reply = node.ask("GET", "/", &accept, b"").await?;
    assert_eq!(reply.header("content-type"), "application/nostr+json");
    reply.must_allow_any_origin();
    let mut document = reply.json()?;
    document["icon"] = "…/icon.svg".into();
    insta::assert_json_snapshot!(document, @r#"
    {
      "description": "A git server with a nostr relay in it",
      "icon": "…/icon.svg",
      "limitation": {
        "auth_required": false,
        "created_at_upper_limit": 900,
        "default_limit": 500,
        "max_event_tags": 25000,
        "max_limit": 5000,
        "max_message_length": 2097152,
        "max_subid_length": 250,
        "max_subscriptions": 300,
        "payment_required": false,
        "restricted_writes": true
      },
      "name": "gripfast",
      "repo_acceptance_criteria": "None: any announcement that lists this service in clone and relays is accepted",
      "software": "https://github.com/gripfast/gripfast",
      "supported_grasps": [
        "GRASP-01"
      ],
      "supported_nips": [
        1,
        9,
        11,
        34,
        40,
        45,
        62,
        77
      ],
      "version": "0.0.0-test"
    }
    "#);
    Ok(())
}

#[tokio::test]
async fn g01_23_curation_is_named_only_where_there_is_any() -> Result<()> {
    let node = Node::start_with(|s| s.node.curation = Some("Only boats.".into())).await?;
    let accept = [("accept", "text/html;q=0.1, application/nostr+json")];
    let document = node.ask("GET", "/", &accept, b"").await?.json()?;
    assert_eq!(document["curation"], "Only boats.");
    Ok(())
}

#[tokio::test]
async fn g01_121_where_deletions_are_ignored_9_and_62_are_not_claimed() -> Result<()> {
    let node = Node::start_with(|s| s.node.ignores_deletions = true).await?;
    let accept = [("accept", "application/nostr+json")];
    let document = node.ask("GET", "/", &accept, b"").await?.json()?;
    assert_eq!(
        document["supported_nips"],
        serde_json::json!([1, 11, 34, 40, 45, 77])
    );
    Ok(())
}

#[tokio::test]
async fn head_is_get_without_its_body() -> Result<()> {
    let node = Node::start().await?;
    for path in ["/", "/healthz", "/version", "/icon.svg", "/nowhere"] {
        let get = node.get(path).await?;
        let head = node.ask("HEAD", path, &[], b"").await?;
        assert_eq!(head.status, get.status, "{path}");
        assert_eq!(head.header("content-length"), get.body.len().to_string());
        assert!(head.body.is_empty() && !get.body.is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn e_6_the_key_of_the_service_is_told_at_the_root_of_its_domain_alone() -> Result<()> {
    let key = Author::new().pubkey();
    let node = Node::start_with(|settings| settings.node.own_key = Some(key)).await?;
    let path = "/.well-known/nostr.json";
    let expected = json!({ "names": { "_": key.to_hex() } });
    for query in ["", "?name=_", "?name=bob"] {
        let path = format!("{path}{query}");
        let told = node.get(&path).await?;
        told.must_be(200, &[]).must_allow_any_origin();
        assert_eq!(told.header("content-type"), "application/json");
        assert_eq!(told.json()?, expected, "{path}");
        let head = node.ask("HEAD", &path, &[], b"").await?;
        head.must_be(200, &[]).must_allow_any_origin();
        assert_eq!(head.header("content-length"), told.body.len().to_string());
        assert!(head.body.is_empty());
    }
    let below = Node::start_with(|settings| {
        let url = format!("{}/git", settings.service.http_url());
        settings.node.own_key = Some(key);
        settings.service = Service::parse(&url).expect("it is a service");
    });
    let below = below.await?;
    for path in [path.to_owned(), format!("/git{path}")] {
        let told = below.get(&path).await?;
        assert_eq!(told.status, 404, "{path}: {told:?}");
    }
    Ok(())
}

#[tokio::test]
async fn probes_tell_name_version_and_numbers() -> Result<()> {
    let node = Node::start().await?;
    assert_eq!(node.get("/healthz").await?.text(), "ok\n");
    assert_eq!(node.get("/version").await?.json()?["version"], "0.0.0-test");
    assert_eq!(node.get("/readyz").await?.json()?["ready"], true);
    node.readiness.lacks("events", "40 % of the index is read");
    let reply = node.get("/readyz").await?;
    assert_eq!(reply.status, 503);
    assert_eq!(
        reply.json()?["missing"]["events"],
        "40 % of the index is read"
    );
    // The sweep of the start may still write.
    let metrics = until("nothing is being written", || async {
        let metrics = node.get("/metrics").await.ok()?.text();
        metrics
            .contains("queue_depth{queue=\"relay_write\"} 0")
            .then_some(metrics)
    })
    .await?;
    must_contain(
        &metrics,
        &[
            "ngit_build_info{",
            "ngit_uptime_seconds ",
            "ngit_websocket_connections_active 0",
            "ngit_repositories_total 0",
            "ngit_purgatory_entries{",
            "http_requests_total{",
        ],
    );
    Ok(())
}

#[tokio::test]
async fn metrics_can_be_switched_off_while_serving() -> Result<()> {
    let node = Node::start().await?;
    node.change(|settings| settings.metrics = false);
    assert_eq!(node.get("/metrics").await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn http_2_is_spoken_on_the_same_port() -> Result<()> {
    let node = Node::start_with(|s| s.timeouts.idle = Duration::from_millis(500)).await?;
    let io = TokioIo::new(TcpStream::connect(node.addr).await?);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
    let ended = node.group.spawn("client", connection);
    for (method, path, status) in [
        ("GET", "/", 200),
        ("HEAD", "/version", 200),
        ("OPTIONS", "/x", 204),
        ("GET", "/nowhere", 404),
    ] {
        let url = format!("http://{}{path}", node.addr);
        let request = Request::builder().method(method).uri(url);
        let request = request.body(Empty::<Bytes>::new())?;
        let response = within("an answer", sender.send_request(request)).await??;
        assert_eq!(response.status().as_u16(), status, "{method} {path}");
        assert_eq!(response.headers()["access-control-allow-origin"], "*");
        let body = response.into_body().collect().await?.to_bytes();
        assert_eq!(body.is_empty(), method != "GET");
    }
    // A client that keeps the connection and asks nothing is let go after a while.
    let _ = within("the idle connection ends", ended).await?;
    Ok(())
}
