//! GitHub activity: API, page and the orders of the operator.

use std::collections::BTreeSet;

use anyhow::Result;
use grip_testkit::{FakeGitHub, http::must_contain, until};
use serde_json::{Value, json};

use crate::{
    admin::Records,
    support::Node,
    watching::{Setup, Watching, event, push},
};

const HOSTILE: &str = "acme/<script>alert(1)</script>\"onload='x'";

/// A node that has read a list and asked for who is behind it.
pub async fn known() -> Result<Watching> {
    let hub = FakeGitHub::start("127.0.0.1").await?;
    hub.add_user("jo");
    hub.push("jo", "acme/one");
    let setup = Setup {
        sources: vec!["repos/acme/one".to_owned()],
        ..Setup::default()
    };
    let watching = Watching::start_at(hub, |_| {}, setup).await?;
    until("both are known", || async {
        let stats = watching.ingest.stats().await.ok()?;
        (stats.users == 1 && stats.repositories == 1).then_some(())
    })
    .await?;
    Ok(watching)
}

/// All pushes by following `next`.
async fn follow(watching: &Watching, limit: usize) -> Result<Vec<String>> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/github/events?limit={limit}&cursor={cursor}");
        let page = watching.json(&path).await?;
        let events = page["events"].as_array().expect("there are events");
        assert!(events.len() <= limit);
        ids.extend(
            events
                .iter()
                .map(|event| event["id"].as_str().unwrap_or_default().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return Ok(ids),
        }
    }
}

#[tokio::test]
async fn pages_of_any_length_show_every_push_once_the_latest_first() -> Result<()> {
    let watching = Watching::start().await?;
    // Several of one moment, and some from webhooks whose ids have a space.
    for part in 0..5 {
        watching
            .accept((0..9).map(|n| event(part * 9 + n, "acme/one")))
            .await?;
        let id = format!("d-{part}");
        watching.deliver("push", &id, &push(false)).await?;
    }
    let whole = follow(&watching, 500).await?;
    let each: BTreeSet<_> = whole.iter().collect();
    assert_eq!((whole.len(), each.len()), (50, 50));
    for limit in [1, 7, 20, 49, 50, 51] {
        assert_eq!(follow(&watching, limit).await?, whole, "{limit}");
    }
    Ok(())
}

#[tokio::test]
async fn after_a_backfill_the_newest_push_stays_first() -> Result<()> {
    let watching = Watching::start().await?;
    let dated = |number: u32, name: &str, year: u32| {
        let mut event = event(number, name);
        event["created_at"] = json!(format!("{year}-01-31T12:00:00Z"));
        event
    };
    watching.accept([dated(0, "acme/newest", 2026)]).await?;
    // More than the page shows, the oldest last.
    let old = (1..=30).map(|n| dated(n, &format!("acme/old-{n}"), 1990 + n));
    watching.accept(old).await?;
    let whole = follow(&watching, 500).await?;
    let newest_first = [0].into_iter().chain((1..=30).rev());
    let newest_first: Vec<String> = newest_first
        .map(|n| event(n, "")["id"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(whole, newest_first);
    for limit in [1, 7, 31] {
        assert_eq!(follow(&watching, limit).await?, whole, "{limit}");
    }
    let since = "/api/v1/github/events?since=2019-06-01T00:00:00Z";
    let since = watching.json(since).await?;
    assert_eq!(
        since["events"].as_array().map(Vec::len),
        Some(2),
        "by when it happened"
    );

    let html = watching.node.get("/github").await?.text();
    let position = |name: &str| html.find(name);
    assert!(position("acme/newest").is_some(), "{html}");
    assert!(position("acme/newest") < position("acme/old-30"), "{html}");
    assert!(position("acme/old-30") < position("acme/old-29"), "{html}");
    assert_eq!(position("acme/old-1<"), None, "{html}");
    Ok(())
}

#[tokio::test]
async fn pushes_are_filtered_by_repository_person_and_moment() -> Result<()> {
    let watching = known().await?;
    let mut other = event(1, "else/where");
    other["repo"]["id"] = json!(99);
    other["created_at"] = json!("2099-12-31T12:00:00Z");
    watching.accept([other]).await?;
    let names = |page: Value| -> Vec<String> {
        let events = page["events"].as_array().cloned().unwrap_or_default();
        let name = |event: Value| event["repository_name"].as_str().map(str::to_owned);
        events.into_iter().filter_map(name).collect()
    };
    let of = async |query: &str| {
        let page = watching
            .json(&format!("/api/v1/github/events?{query}"))
            .await;
        page.map(names)
    };
    assert_eq!(of("").await?, ["else/where", "acme/one"]);
    for query in ["repo=acme/one", "repo=ACME%2FOne", "actor=jo", "actor=JO"] {
        assert_eq!(of(query).await?, ["acme/one"], "{query}");
    }
    assert_eq!(of("repo=99").await?, ["else/where"]);
    assert_eq!(of("actor=7").await?, ["else/where"]);
    assert_eq!(
        of("since=2100-01-01T00:00:00Z").await?,
        Vec::<String>::new()
    );
    assert_eq!(of("since=2020-01-01T00:00:00Z").await?.len(), 2);
    let shown = watching
        .json("/api/v1/github/events?repo=99&raw=true")
        .await?;
    let shown = &shown["events"][0];
    assert_eq!(shown["ref"], "refs/heads/main");
    assert_eq!(shown["raw"]["type"], "PushEvent");
    assert_eq!(shown["push_id"], 2);
    for (query, status) in [
        ("repo=no/such", 404),
        ("actor=nobody", 404),
        ("repo=a&actor=b", 400),
        ("cursor=x", 400),
        ("limit=0", 400),
        ("since=now", 400),
        ("repo=%00", 404),
        ("repo=%ff", 400),
    ] {
        let reply = watching
            .node
            .get(&format!("/api/v1/github/events?{query}"))
            .await?;
        assert_eq!(reply.status, status, "{query}: {}", reply.text());
    }
    Ok(())
}

#[tokio::test]
async fn people_and_repositories_are_found_by_name_and_by_number() -> Result<()> {
    let watching = known().await?;
    let jo = watching.json("/api/v1/github/users/Jo").await?;
    assert_eq!(jo["login"], "jo", "{jo:#}");
    assert!(jo["fetched_at"].is_i64() && jo["raw"].is_null());
    let by_id = format!("/api/v1/github/users/{}?raw=true", jo["id"]);
    assert_eq!(watching.json(&by_id).await?["raw"]["login"], "jo");
    let one = watching.json("/api/v1/github/repos/acme/one").await?;
    assert_eq!(one["full_name"], "acme/one", "{one:#}");
    let by_id = format!("/api/v1/github/repos/{}", one["id"]);
    assert_eq!(watching.json(&by_id).await?["name"], "one");
    for path in [
        "users/nobody",
        "users/99999999999999999999999",
        "users/%00",
        "users/..",
        "users/a%2Fb",
        "repos/acme",
        "repos/acme/none",
        "repos/acme/one/more",
        "repos/..%2f..%2fetc",
        "repos/",
        "avatars/jo",
        "avatars/-1",
        "",
        "nothing",
    ] {
        let reply = watching.node.get(&format!("/api/v1/github/{path}")).await?;
        assert_eq!(reply.must_allow_any_origin().status, 404, "{path}");
        assert!(reply.text().contains("here"), "{}", reply.text());
    }
    let off = Node::start().await?.get("/api/v1/github/events").await?;
    off.must_be(404, &["GitHub watching is off"]);
    Ok(())
}

#[tokio::test]
async fn what_is_not_public_is_shown_to_the_operator_alone() -> Result<()> {
    let watching = Watching::start().await?;
    watching.deliver("push", "d-1", &push(true)).await?;
    let mut event = event(1, "acme/secret");
    event["public"] = json!(false);
    watching.accept([event]).await?;
    let path = "/api/v1/github/events";
    let public = watching.json(path).await?;
    assert_eq!(public["events"], json!([]), "{public:#}");
    let page = watching.node.get("/github").await?.text();
    assert!(!page.contains("acme/"), "{page}");
    let all = watching.node.order("GET", path, &[]).await?.json()?;
    assert_eq!(all["events"].as_array().map(Vec::len), Some(2), "{all:#}");
    let proxied = [("x-forwarded-for", "203.0.113.7")];
    let proxied = watching.node.order("GET", path, &proxied).await?.json()?;
    assert_eq!(proxied["events"], json!([]));
    Ok(())
}

#[tokio::test]
async fn who_has_an_answer_is_told_so() -> Result<()> {
    let watching = known().await?;
    for path in ["events", "users/jo", "repos/acme/one", "gaps"] {
        let path = format!("/api/v1/github/{path}");
        let first = watching.node.get(&path).await?;
        let tag = [("if-none-match", first.header("etag"))];
        let again = watching.node.ask("GET", &path, &tag, b"").await?;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
    watching.accept([event(1, "acme/two")]).await?;
    let path = "/api/v1/github/events";
    let tag = [("if-none-match", "\"0123\"")];
    assert_eq!(watching.node.ask("GET", path, &tag, b"").await?.status, 200);
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(watching.node.ask(method, path, &[], b"").await?.status, 405);
    }
    Ok(())
}

#[tokio::test]
async fn a_picture_is_shown_as_what_it_is_and_may_do_nothing() -> Result<()> {
    let watching = Watching::start().await?;
    let bytes = b"\x89PNG\r\n\x1a\n<script>alert(1)</script>";
    let picture = watching.put_picture(7, bytes).await?;
    let path = "/api/v1/github/avatars/7";
    let shown = watching.node.get(path).await?;
    assert_eq!((shown.status, shown.body.as_slice()), (200, &bytes[..]));
    assert_eq!(shown.header("content-type"), "image/png");
    assert_eq!(shown.header("x-content-type-options"), "nosniff");
    assert_eq!(
        shown.header("content-security-policy"),
        "default-src 'none'; sandbox"
    );
    let tag = format!("\"{}\"", picture.digest);
    assert_eq!(shown.header("etag"), tag);
    let again = [("if-none-match", tag.as_str())];
    assert_eq!(
        watching.node.ask("GET", path, &again, b"").await?.status,
        304
    );
    let none = watching.node.get("/api/v1/github/avatars/8").await?;
    assert_eq!(none.status, 404);
    Ok(())
}

#[tokio::test]
async fn only_the_operator_orders_and_leaves_a_record() -> Result<()> {
    let (records, _guard) = Records::keep();
    let watching = known().await?;
    let node = &watching.node;
    let orders = ["retention", "reextract", "gaps/close?from=0&to=1"];
    for order in orders {
        let path = format!("/api/v1/github/{order}");
        assert_eq!(
            node.ask("POST", &path, &[], b"").await?.status,
            401,
            "{order}"
        );
        let proxied = node
            .order("POST", &path, &[("x-forwarded-for", "::1")])
            .await?;
        assert_eq!(proxied.status, 403);
        assert_eq!(node.get(&path).await?.status, 405);
    }
    assert_eq!(records.changes(), Vec::<String>::new());

    let path = "/api/v1/github/retention";
    let counted = node.order("POST", path, &[]).await?.json()?;
    assert_eq!(counted["dry_run"], true, "{counted:#}");
    let done = node
        .order("POST", &format!("{path}?dry_run=false"), &[])
        .await?;
    assert_eq!(done.json()?["dry_run"], false);
    let wrong = node
        .order("POST", &format!("{path}?dry_run=nope"), &[])
        .await?;
    assert_eq!(wrong.status, 400);
    let again = node.order("POST", "/api/v1/github/reextract", &[]).await?;
    assert_eq!(again.status, 202, "{}", again.text());
    let close = "/api/v1/github/gaps/close?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z";
    assert_eq!(node.order("POST", close, &[]).await?.json()?["closed"], 0);
    for wrong in ["", "?from=1", "?from=2&to=1", "?from=0&to=1&by=%0a"] {
        let path = format!("/api/v1/github/gaps/close{wrong}");
        assert_eq!(node.order("POST", &path, &[]).await?.status, 400, "{wrong}");
    }
    assert_eq!(records.changes().len(), 4, "{:?}", records.changes());
    let status = watching.json("/api/v1/github/status").await?;
    assert!(
        !status["progress"].as_array().unwrap().is_empty(),
        "{status:#}"
    );
    Ok(())
}

#[tokio::test]
async fn what_is_watched_has_series_of_its_own() -> Result<()> {
    let watching = known().await?;
    watching
        .accept([json!({ "id": "9", "type": "WatchEvent" })])
        .await?;
    watching
        .accept([json!({ "id": "10", "type": "no type of ours" })])
        .await?;
    watching.accept([json!({ "id": 7 })]).await?;
    let lines = [
        "ingest_gaps_open 0",
        "ingest_rejected 1",
        "ingest_users 1",
        "ingest_repositories 1",
        "ingest_events_total{type=\"PushEvent\"} 1",
        "ingest_events_total{type=\"WatchEvent\"} 1",
        "ingest_events_total{type=\"unknown\"} 1",
        "ingest_last_poll_timestamp_seconds{source=\"repos/acme/one\"} 1",
        "ingest_work_total{kind=\"github-user\",outcome=\"done\"} 1",
        "ingest_work_total{kind=\"github-repo\",outcome=\"discarded\"} 0",
        "github_budget_limit{token=\"none\",resource=\"core\"} 60",
        "github_budget_remaining{token=\"none\",resource=\"core\"} ",
        "requests_in_flight{route=\"webhook\"} 0",
        "queue_jobs{queue=\"ingest-poll\",state=\"waiting\"} 1",
    ];
    watching.node.metrics_with(&lines).await?;
    let without = Node::start().await?.counted_metrics().await?;
    for series in ["ingest_", "github_budget"] {
        assert!(!without.contains(series), "{without}");
    }
    Ok(())
}

#[tokio::test]
async fn people_see_pushes_sources_and_budgets() -> Result<()> {
    let watching = known().await?;
    watching.accept([json!({ "id": 7 })]).await?;
    let page = watching.node.get("/github").await?;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'"));
    let html = page.text();
    must_contain(
        &html,
        &[
            "acme/one",
            " by jo",
            "repos/acme/one",
            "1 push, 0 other events",
            "without a token, core",
            "of 60 calls used",
            "Unreadable events",
        ],
    );
    assert_eq!(html.matches("<script").count(), 1, "the one of the frame");
    let home = watching.node.get("/").await?.text();
    assert!(home.contains("href=\"/github\""), "{home}");
    let without = Node::start().await?;
    assert!(!without.get("/").await?.text().contains("href=\"/github\""));
    let off = without.get("/github").await?.text();
    assert!(off.contains("GitHub watching is off"), "{off}");
    Ok(())
}

#[tokio::test]
async fn what_strangers_wrote_is_shown_as_text() -> Result<()> {
    let watching = Watching::start().await?;
    let mut hostile = event(1, HOSTILE);
    hostile["payload"]["ref"] = json!("refs/heads/<img/src=x>");
    hostile["actor"]["login"] = json!("<b>mona</b>");
    watching.accept([hostile]).await?;
    let html = watching.node.get("/github").await?.text();
    for markup in ["<script>", "<img", "<b>mona"] {
        assert!(!html.contains(markup), "{html}");
    }
    must_contain(
        &html,
        &[
            "&#60;script&#62;alert",
            "&#60;img/src=x&#62;",
            "&#60;b&#62;mona",
        ],
    );
    let reply = watching.node.get("/api/v1/github/events").await?;
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    assert_eq!(reply.json()?["events"][0]["repository_name"], HOSTILE);
    Ok(())
}

#[tokio::test]
async fn a_gap_is_told_to_people_and_programs() -> Result<()> {
    let hub = FakeGitHub::start("127.0.0.1").await?;
    hub.set_poll_interval(1);
    hub.push("jo", "acme/one");
    let setup = Setup {
        sources: vec!["repos/acme/one".to_owned()],
        ..Setup::default()
    };
    let watching = Watching::start_at(hub, |_| {}, setup).await?;
    until("it was read", || async {
        let status = watching.ingest.status().await.ok()?;
        (status.sources.first()?.polls > 0).then_some(())
    })
    .await?;
    // More than a list shows.
    for _ in 0..301 {
        watching.hub.push("jo", "acme/one");
    }
    watching
        .node
        .queue
        .retry("ingest-poll", "repos/acme/one")
        .await?;
    let gap = until("the gap is found", || async {
        watching.ingest.gaps(true, 0, 10).await.ok()?.pop()
    })
    .await?;
    let told = watching.json("/api/v1/github/gaps?open=true").await?;
    assert_eq!(told["gaps"][0]["id"], gap.id, "{told:#}");
    assert_eq!(told["next"], Value::Null);
    let first = watching.json("/api/v1/github/gaps?limit=1").await?;
    assert_eq!(first["next"], gap.id);
    let rest = format!("/api/v1/github/gaps?limit=1&after={}", gap.id);
    assert_eq!(watching.json(&rest).await?["gaps"], json!([]));
    let html = until("the page tells of it", || async {
        let html = watching.node.get("/github").await.ok()?.text();
        html.contains("Events may be missing").then_some(html)
    })
    .await?;
    assert!(html.contains("found "), "{html}");
    Ok(())
}
