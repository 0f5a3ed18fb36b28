//! The queue: its API and the orders of the operator.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use futures_util::FutureExt as _;
use grip_db::DbError;
use grip_queue::{Failure, NewJob};
use grip_tasks::{Ended, TaskGroup};
use grip_testkit::within;
use tokio::sync::Semaphore;

use crate::{admin::Records, support::Node};

const HOUR_MS: i64 = 3_600_000;

/// A node with a job that is due, one that waits, one that is held and one that is dead.
pub async fn busy() -> Result<Node> {
    let node = Node::start().await?;
    let now = node.queue.db().now_ms();
    let dead = NewJob::new("mirror-repo", "github.com/acme/gone");
    node.queue.enqueue(vec![dead]).await?;
    let lease = node
        .queue
        .claim("mirror-repo", 1, Duration::from_secs(60))
        .await?;
    let failure = Failure::permanent("<b>it is gone");
    node.queue.fail(&lease[0], failure).await?;
    node.queue
        .enqueue(vec![NewJob::new("index-list", "hosted")])
        .await?;
    node.queue
        .claim("index-list", 1, Duration::from_secs(60))
        .await?;
    let jobs = vec![
        NewJob::new("mirror-repo", "github.com/acme/tides"),
        NewJob::new("mirror-repo", "github.com/acme/later").due_ms(now + HOUR_MS),
    ];
    node.queue.enqueue(jobs).await?;
    Ok(node)
}

fn keys(list: &serde_json::Value) -> Vec<&str> {
    let jobs = list["jobs"].as_array().into_iter().flatten();
    jobs.filter_map(|job| job["key"].as_str()).collect()
}

#[tokio::test]
async fn jobs_are_listed_by_kind_and_state_page_by_page() -> Result<()> {
    let node = busy().await?;
    let all = node.get("/api/v1/queue").await?.json()?;
    assert_eq!(keys(&all).len(), 4, "{all:#}");
    assert_eq!(all["next"], serde_json::Value::Null);
    let kinds = all["kinds"].as_array().unwrap();
    let repos = kinds.iter().find(|k| k["kind"] == "mirror-repo").unwrap();
    assert_eq!((&repos["due"], &repos["dead"]), (&1.into(), &1.into()));
    for (query, expected) in [
        ("state=due", "github.com/acme/tides"),
        ("state=waiting", "github.com/acme/later"),
        ("state=leased", "hosted"),
        ("state=dead&kind=mirror%2Drepo", "github.com/acme/gone"),
    ] {
        let list = node.get(&format!("/api/v1/queue?{query}")).await?.json()?;
        assert_eq!(keys(&list), [expected], "{query}");
    }
    let mut seen = Vec::new();
    let mut after = String::from("0");
    loop {
        let path = format!("/api/v1/queue?limit=3&after={after}");
        let page = node.get(&path).await?.json()?;
        seen.extend(keys(&page).into_iter().map(str::to_owned));
        match page["next"].as_i64() {
            Some(next) => after = next.to_string(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 4);
    Ok(())
}

#[tokio::test]
async fn a_wrong_parameter_is_named() -> Result<()> {
    let node = Node::start().await?;
    for (query, hint) in [
        ("state=lost", "due, waiting, leased"),
        ("after=x", "after"),
        ("limit=-1", "limit"),
        ("kind=%ff", "kind"),
    ] {
        let reply = node.get(&format!("/api/v1/queue?{query}")).await?;
        assert_eq!(reply.must_allow_any_origin().status, 400, "{query}");
        assert!(reply.text().contains(hint), "{}", reply.text());
    }
    Ok(())
}

#[tokio::test]
async fn one_job_is_shown_with_its_reason_and_without_its_payload() -> Result<()> {
    let node = busy().await?;
    let path = "/api/v1/queue/mirror-repo/github.com%2Facme%2Fgone";
    let job = node.get(path).await?.json()?;
    assert_eq!(job["state"], "dead");
    assert_eq!(job["last_error"], "<b>it is gone");
    assert!(job["due"].is_null() && job["dead"].is_i64());
    assert!(job.get("payload").is_none(), "{job:#}");
    let none = node.get("/api/v1/queue/mirror-repo/none").await?;
    none.must_be(404, &["gripfast queue ls"]);
    let post = node.ask("POST", path, &[], b"").await?;
    assert_eq!(post.status, 405);
    assert_eq!(post.header("allow"), "GET, HEAD, DELETE, OPTIONS");
    Ok(())
}

#[tokio::test]
async fn only_the_operator_retries_and_drops_and_each_leaves_one_record() -> Result<()> {
    let (records, _guard) = Records::keep();
    let node = busy().await?;
    let path = "/api/v1/queue/mirror-repo/github.com%2Facme%2Fgone";
    let retry = format!("{path}/retry");
    for (method, path) in [("POST", retry.as_str()), ("DELETE", path)] {
        let reply = node.ask(method, path, &[], b"").await?;
        assert_eq!(reply.status, 401, "{method} {path}");
        let proxied = node.order(method, path, &[("via", "1.1 x")]).await?;
        assert_eq!(proxied.status, 403);
    }
    assert_eq!(node.get(path).await?.json()?["state"], "dead");
    assert_eq!(records.changes(), Vec::<String>::new());

    let done = node.order("POST", &retry, &[]).await?;
    assert_eq!(done.status, 202, "{}", done.text());
    assert_eq!(node.get(path).await?.json()?["state"], "due");
    let done = node.order("DELETE", path, &[]).await?;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(node.get(path).await?.status, 404);
    assert_eq!(node.order("DELETE", path, &[]).await?.status, 404);
    let changes = records.changes();
    assert_eq!(changes.len(), 3, "{changes:?}");
    for (change, outcome) in changes.iter().zip(["due now", "dropped", "not found"]) {
        assert!(
            change.contains("mirror-repo github.com/acme/gone"),
            "{change}"
        );
        assert!(change.contains(outcome), "{change}");
    }
    Ok(())
}

#[tokio::test]
async fn the_operator_sees_causes_and_revives_what_failed_for_one() -> Result<()> {
    let (records, _guard) = Records::keep();
    let node = busy().await?;
    let revive = "/api/v1/queue/revive?cause=%3Cb%3Eit%20is%20gone";
    for (method, path) in [("GET", "/api/v1/queue/causes"), ("POST", revive)] {
        let reply = node.ask(method, path, &[], b"").await?;
        assert_eq!(reply.status, 401, "{method} {path}");
    }
    let causes = node
        .order("GET", "/api/v1/queue/causes", &[])
        .await?
        .json()?;
    assert_eq!(causes["causes"][0]["reason"], "<b>it is gone", "{causes:#}");
    assert_eq!(causes["causes"][0]["dead"], 1);
    let done = node.order("POST", revive, &[]).await?;
    assert_eq!((done.status, &done.json()?["revived"]), (202, &1.into()));
    let path = "/api/v1/queue/mirror-repo/github.com%2Facme%2Fgone";
    assert_eq!(node.get(path).await?.json()?["state"], "due");
    let changes = records.changes();
    assert!(changes[0].contains("1 due now"), "{changes:?}");
    Ok(())
}

/// Without an index nothing tells who may see a repository, and of a name without its host never.
#[tokio::test]
async fn jobs_that_may_name_restricted_repositories_are_for_the_operator() -> Result<()> {
    let node = busy().await?;
    let jobs = [("tag-event", "acme/secret"), ("index-repo", "secret")];
    let jobs = jobs.map(|(kind, key)| NewJob::new(kind, key));
    node.queue.enqueue(jobs.to_vec()).await?;
    for one in ["tag-event/acme%2Fsecret", "index-repo/secret"] {
        let path = format!("/api/v1/queue/{one}");
        assert_eq!(node.get(&path).await?.status, 404, "{path}");
        assert_eq!(node.order("GET", &path, &[]).await?.status, 200, "{path}");
    }
    let all = "/api/v1/queue?limit=1000";
    assert!(!node.get(all).await?.text().contains("secret"));
    assert!(node.order("GET", all, &[]).await?.text().contains("secret"));
    Ok(())
}

#[tokio::test]
async fn queues_have_series_of_their_own() -> Result<()> {
    let node = busy().await?;
    let lines = [
        "queue_depth{queue=\"mirror-repo\"} 1",
        "queue_depth{queue=\"repository_turns\"} 0",
        "queue_dead_total{queue=\"mirror-repo\"} 1",
        "queue_oldest_age_seconds{queue=\"mirror-repo\"} ",
        "queue_jobs{queue=\"index-list\",state=\"leased\"} 1",
        "queue_jobs{queue=\"mirror-repo\",state=\"waiting\"} 1",
        "database_up 1",
    ];
    node.metrics_with(&lines).await?;
    Ok(())
}

#[tokio::test]
async fn the_metrics_answer_while_the_database_is_at_work_and_do_not_call_it_away() -> Result<()> {
    let node = Node::start().await?;
    let held = Arc::new(Semaphore::new(0));
    let group = TaskGroup::new("readers");
    // More readers than a file has connections for.
    for _ in 0..16 {
        let (db, held) = (node.queue.db().clone(), Arc::clone(&held));
        group.spawn("reader", async move {
            db.read(|_| {
                async move {
                    held.add_permits(1);
                    std::future::pending::<Result<(), DbError>>().await
                }
                .boxed()
            })
            .await
        });
    }
    let taken = within("all connections are taken", held.acquire_many(4)).await?;
    taken?.forget();
    let metrics = node.get("/metrics").await?.text();
    assert!(metrics.contains("\ndatabase_up 1\n"), "{metrics}");
    assert_ne!(group.shutdown(Duration::ZERO).await, Ended::Drained);
    Ok(())
}
