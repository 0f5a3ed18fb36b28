//! The index: what its API, pages and orders do.

use std::sync::Arc;

use anyhow::Result;
use grip_testkit::{http::must_contain, until};
use grip_web::AdminToken;

use crate::{
    admin::Records,
    forge::{Forge, SOURCE},
    support::Node,
};

/// A node whose forge has been listed and indexed.
pub async fn node() -> Result<(Node, Arc<Forge>)> {
    let forge = Forge::new();
    forge.add("tides", &["v1.0.0", "nightly", "v2.0.0"]);
    forge.add_as("copy", "forge.example/acme/tides", &["v1.0.0"]);
    forge.add_as("<b>odd", "not a path", &["v0.1.0"]);
    let node = Node::start_indexed(Some(Arc::clone(&forge))).await?;
    let index = node.index.clone().expect("the node has an index");
    until("all repositories have had their turn", || async {
        let status = index.status().await;
        status
            .is_ok_and(|status| status.repos_indexed == 3)
            .then_some(())
    })
    .await?;
    Ok((node, forge))
}

#[tokio::test]
async fn programs_are_told_of_sources_and_counts() -> Result<()> {
    let (node, _) = node().await?;
    let status = node.get("/api/v1/index").await?.json()?;
    assert_eq!(status["repos"], 3, "{status:#}");
    assert_eq!(status["versions"], 1);
    let sources = status["sources"].as_array().unwrap();
    let forge = sources.iter().find(|s| s["name"] == SOURCE).unwrap();
    assert_eq!(forge["repos"], 3);
    assert_eq!(forge["is_configured"], true);
    assert!(forge["finished_ms"].is_i64());
    assert_eq!(forge["state"], "waiting");
    assert!(forge["next_due_ms"].as_i64() > forge["finished_ms"].as_i64());
    Ok(())
}

#[tokio::test]
async fn repositories_are_listed_page_by_page() -> Result<()> {
    let (node, _) = node().await?;
    let first = node.get("/api/v1/index/repos?limit=2").await?.json()?;
    let next = first["next"].as_str().unwrap();
    assert_eq!(first["repos"][1]["name"], next);
    let path = format!("/api/v1/index/repos?limit=2&after={next}");
    let second = node.get(&path).await?.json()?;
    assert_eq!(second["repos"].as_array().unwrap().len(), 1);
    assert_eq!(second["repos"][0]["name"], "forge.example/acme/tides");
    assert_eq!(second["repos"][0]["tags"], 3);
    Ok(())
}

#[tokio::test]
async fn each_tag_says_why_it_is_in_the_feed_or_not() -> Result<()> {
    let (node, _) = node().await?;
    let path = "/api/v1/index/repos/forge.example/acme/tides";
    let repo = node.get(path).await?.json()?;
    assert_eq!(repo["facts"]["tags"], 3, "{repo:#}");
    assert_eq!(repo["work"]["state"], "waiting");
    let tag = |name: &str| {
        let tags = repo["tags"].as_array().into_iter().flatten();
        tags.clone()
            .find(|tag| tag["name"] == name)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(tag("v1.0.0")["in_feed"], true);
    assert_eq!(tag("v1.0.0")["version"], "v1.0.0");
    assert_eq!(tag("nightly")["in_feed"], false);
    let why = tag("nightly")["why"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(why.contains("no version"), "{why}");
    let why = tag("v2.0.0")["why"].as_str().unwrap_or_default().to_owned();
    assert!(
        !why.is_empty() && tag("v2.0.0")["in_feed"] == false,
        "{why}"
    );
    let copy = "/api/v1/index/repos/forge.example%2Facme%2Fcopy?limit=1";
    let copy = node.get(copy).await?.json()?;
    assert_eq!(copy["tags"][0]["in_feed"], false);
    let why = copy["tags"][0]["why"].as_str().unwrap();
    assert!(why.contains("forge.example/acme/tides"), "{why}");
    let none = node.get("/api/v1/index/repos/forge.example/none").await?;
    none.must_be(404, &["gripfast index status"]);
    for (nul, status) in [
        ("repos/%00", 404),
        ("repos/a?after=%00", 404),
        ("repos?after=%00", 200),
    ] {
        let reply = node.get(&format!("/api/v1/index/{nul}")).await?;
        assert_eq!(reply.status, status, "{nul}: {reply:?}");
    }
    for hostile in ["..%2f..%2fetc", &"x/".repeat(3000), "%ff"] {
        let reply = node.get(&format!("/api/v1/index/repos/{hostile}")).await?;
        assert!(matches!(reply.status, 400 | 404), "{hostile}: {reply:?}");
    }
    Ok(())
}

#[tokio::test]
async fn only_the_operator_has_something_indexed_at_once() -> Result<()> {
    let (records, _guard) = Records::keep();
    let (node, forge) = node().await?;
    forge.tag("tides", "v1.1.0", Some(9));
    let path = "/api/v1/index/now?name=forge.example%2Facme%2Ftides";
    assert_eq!(node.ask("POST", path, &[], b"").await?.status, 401);
    let proxied = node
        .order("POST", path, &[("x-forwarded-for", "::1")])
        .await?;
    assert_eq!(proxied.status, 403);
    assert_eq!(records.changes(), Vec::<String>::new());

    let done = node.order("POST", path, &[]).await?;
    assert_eq!(done.status, 202, "{}", done.text());
    assert_eq!(done.json()?["what"], "repository");
    let index = node.index.clone().expect("the node has an index");
    until("the new tag is in the feed", || async {
        let found = index.version("forge.example/acme/tides", "v1.1.0").await;
        found.ok().flatten().map(drop)
    })
    .await?;
    let path = format!("/api/v1/index/now?name={SOURCE}");
    let listed = node.order("POST", &path, &[]).await?;
    assert_eq!(listed.json()?["what"], "source");
    let none = node
        .order("POST", "/api/v1/index/now?name=none", &[])
        .await?;
    assert_eq!(none.status, 404);
    let unnamed = node.order("POST", "/api/v1/index/now", &[]).await?;
    unnamed.must_be(400, &["name is missing"]);
    assert_eq!(node.get("/api/v1/index/now").await?.status, 405);
    assert_eq!(records.changes().len(), 3, "{:?}", records.changes());
    Ok(())
}

#[tokio::test]
async fn the_index_has_series_of_its_own() -> Result<()> {
    let (node, _) = node().await?;
    node.get("/index").await?;
    let lines = [
        "index_versions 1",
        "index_repositories 3",
        "index_tags 5",
        "database_up 1",
        "queue_jobs{queue=\"index-repo\",state=\"waiting\"}",
        "requests_in_flight{route=\"zip\"} 0",
        "requests_in_flight{route=\"feed\"} 0",
        "http_requests_total{route=\"index\",status=\"2xx\"} 1",
        "index_last_listing_timestamp_seconds{source=\"forge.example/orgs/acme\"} 1",
        "index_last_change_timestamp_seconds 1",
    ];
    node.metrics_with(&lines).await?;
    let without = Node::start().await?.counted_metrics().await?;
    assert!(!without.contains("index_versions"), "{without}");
    Ok(())
}

#[tokio::test]
async fn people_see_the_newest_versions_and_how_to_use_them() -> Result<()> {
    let (node, _) = node().await?;
    let page = node.get("/modules").await?;
    assert_eq!(page.status, 200);
    assert!(
        page.header("content-security-policy")
            .contains("default-src 'none'")
    );
    let html = page.text();
    must_contain(
        &html,
        &[
            "forge.example/acme/tides",
            "v1.0.0",
            "2023-11-14 22:13 UTC",
            SOURCE,
            "3 repositories",
            "again in 23 h",
            &format!("GOPROXY=http://{}/go", node.addr),
            "GONOSUMDB=127.0.0.1",
            "href=\"/index?limit=100\"",
        ],
    );
    assert_eq!(html.matches("<script").count(), 1, "the one of the frame");
    let home = node.get("/").await?.text();
    assert!(home.contains("href=\"/modules\""), "{home}");
    Ok(())
}

/// A node with a public and a restricted repository.
async fn restricted() -> Result<Node> {
    let forge = Forge::new();
    forge.add("tides", &["v1.0.0"]);
    forge.add("secret", &["v1.0.0"]);
    forge.restrict("secret");
    let node = Node::start_indexed(Some(forge)).await?;
    let index = node.index.clone().expect("the node has an index");
    until("all repositories have had their turn", || async {
        let status = index.status().await;
        status
            .is_ok_and(|status| status.repos_indexed == 2)
            .then_some(())
    })
    .await?;
    Ok(node)
}

#[tokio::test]
async fn restricted_repositories_are_shown_to_the_operator_and_to_readers_alone() -> Result<()> {
    let node = restricted().await?;
    node.change(|settings| settings.index_readers = vec![AdminToken::new("reader-secret")]);
    let bearer = [("authorization", "Bearer reader-secret")];
    // reader:reader-secret
    let basic = [("authorization", "Basic cmVhZGVyOnJlYWRlci1zZWNyZXQ=")];
    let wrong = [("authorization", "Bearer reader-secreT")];
    for path in [
        "/index",
        "/index/changes",
        "/modules",
        "/api/v1/index/repos",
        "/api/v1/queue?limit=1000",
    ] {
        for headers in [&[][..], &wrong] {
            let reply = node.ask("GET", path, headers, b"").await?;
            let text = reply.text();
            assert!(
                reply.status == 200 && !text.contains("secret"),
                "{path}: {text}"
            );
            assert!(text.contains("tides"), "{path}: {text}");
        }
        for headers in [&bearer, &basic] {
            let reply = node.ask("GET", path, headers, b"").await?;
            assert!(
                reply.text().contains("acme/secret"),
                "{path}: {}",
                reply.text()
            );
        }
        let reply = node.order("GET", path, &[]).await?;
        assert!(
            reply.text().contains("acme/secret"),
            "{path}: {}",
            reply.text()
        );
    }
    let totals = |reply: grip_testkit::Response| -> Result<[Option<i64>; 4]> {
        let status: serde_json::Value = serde_json::from_str(&reply.text())?;
        let forge = status["sources"].as_array().into_iter().flatten();
        let mut forge = forge.filter(|source| source["name"] == "forge.example/orgs/acme");
        let repos = forge.next().and_then(|source| source["repos"].as_i64());
        Ok([
            status["repos"].as_i64(),
            status["tags"].as_i64(),
            status["versions"].as_i64(),
            repos,
        ])
    };
    let strangers = totals(node.get("/api/v1/index").await?)?;
    let readers = totals(node.ask("GET", "/api/v1/index", &bearer, b"").await?)?;
    assert_eq!(
        strangers.map(|n| n.map(|n| n + 1)),
        readers,
        "one of two is restricted"
    );
    // Metrics, and how many jobs there are, which is one for each repository.
    let counted = |reply: grip_testkit::Response| {
        let text = reply.text();
        let of = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.rsplit_once(' ')?.1.parse::<i64>().ok()
        };
        let totals = ["index_repositories ", "index_tags ", "index_versions "].map(of);
        (totals, text.contains("queue=\"index-repo\""))
    };
    let (strangers, tells_jobs) = counted(node.get("/metrics").await?);
    let (readers, tells_readers_jobs) = counted(node.ask("GET", "/metrics", &bearer, b"").await?);
    assert_eq!(strangers.map(|n| n.map(|n| n + 1)), readers);
    assert!(readers[0].is_some() && tells_readers_jobs && !tells_jobs);
    let kinds = |reply: grip_testkit::Response| -> Result<bool> {
        Ok(reply.json()?["kinds"].to_string().contains("index-repo"))
    };
    assert!(!kinds(node.get("/api/v1/queue").await?)?);
    assert!(kinds(
        node.ask("GET", "/api/v1/queue", &bearer, b"").await?
    )?);
    for path in [
        "/api/v1/index/repos/forge.example/acme/secret",
        "/api/v1/queue/index-repo/forge.example%2Facme%2Fsecret",
    ] {
        assert_eq!(node.get(path).await?.status, 404, "{path}");
        let reply = node.ask("GET", path, &bearer, b"").await?;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    }
    let reply = node.ask("GET", "/index", &bearer, b"").await?;
    assert_eq!(reply.header("cache-control"), "private, no-store");
    let etag = reply.header("etag");
    let known = [("if-none-match", etag)];
    let stranger = node.ask("GET", "/index", &known, b"").await?;
    assert_eq!(
        stranger.status, 200,
        "the mark of a reader's page is none of a stranger's"
    );
    Ok(())
}

#[tokio::test]
async fn only_the_operator_takes_leave_of_a_source_and_of_none_that_is_configured() -> Result<()> {
    let node = restricted().await?;
    let path = format!("/api/v1/index/forget?source={SOURCE}");
    assert_eq!(node.ask("POST", &path, &[], b"").await?.status, 401);
    let reply = node.order("POST", &path, &[]).await?;
    reply.must_be(400, &["index_github"]);
    let reply = node
        .order("POST", "/api/v1/index/forget?source=none.example", &[])
        .await?;
    assert_eq!(reply.status, 404);
    let reply = node.order("POST", &format!("{path}&how=burn"), &[]).await?;
    reply.must_be(400, &["hide"]);
    Ok(())
}
