//! The search for missing data: API, metrics, probes, pages.

use anyhow::Result;
use grip_db::Db;
use grip_follow::RelayUrl;
use grip_limits::BreakerState;
use grip_nostr::RepoAddr;
use grip_testkit::{Author, http::must_contain};
use grip_types::{Domain, Identifier};
use grip_web::{
    Backend, FollowTotals, HostBudget, RelayHealth, RelayStatus, ReplicaReport, ReplicationTotals,
    SyncHandle, SyncReport, SyncTotals, UrlAttempt,
};

use crate::support::Node;

/// Made-up figures.
pub struct Figures {
    pub hosts: Vec<HostBudget>,
    pub backend: Backend,
    pub tried: Vec<UrlAttempt>,
    pub replicas: Vec<ReplicaReport>,
    /// Attempts under way.
    pub running: usize,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            backend: Backend::Memory,
            tried: Vec::new(),
            replicas: Vec::new(),
            running: 1,
        }
    }
}

impl SyncReport for Figures {
    fn totals(&self) -> SyncTotals {
        SyncTotals {
            running: self.running,
            attempts_total: 12,
            requests_total: 56,
            oids_fetched_total: 34,
            ..SyncTotals::default()
        }
    }

    fn tried(&self, identifier: &Identifier) -> Vec<UrlAttempt> {
        let all = self.tried.iter();
        all.filter(|t| t.identifier == *identifier)
            .cloned()
            .collect()
    }

    fn recent(&self, limit: usize) -> Vec<UrlAttempt> {
        self.tried.iter().take(limit).cloned().collect()
    }

    fn hosts(&self) -> Vec<HostBudget> {
        self.hosts.clone()
    }

    fn relays(&self) -> Vec<RelayStatus> {
        vec![RelayStatus {
            relay: RelayUrl::parse("wss://relay.example").expect("it is a relay URL"),
            health: RelayHealth::Disconnected,
            since: Some(1_000),
            next_attempt: Some(2_000),
            last_error: Some("the connection broke".to_owned()),
            next_step: "announce another relay".to_owned(),
            repositories: 3,
            subscriptions: 0,
            subscription_limit: 20,
            filters: 10,
            page: 500,
            is_reading_history: false,
            history_by: "nip77".to_owned(),
            full_at: None,
            events_received: 7,
            events_taken: 5,
            messages: 12,
            bytes_received: 4_000,
            bytes_sent: 900,
        }]
    }

    fn followed(&self) -> FollowTotals {
        FollowTotals {
            dials_total: 4,
            events_taken_total: 5,
            ..FollowTotals::default()
        }
    }

    fn replicas(&self, _: &RepoAddr) -> Vec<ReplicaReport> {
        self.replicas.clone()
    }

    fn replication(&self) -> ReplicationTotals {
        ReplicationTotals {
            relays: [("current".to_owned(), 2), ("behind".to_owned(), 1)].into(),
            git: [("unreachable".to_owned(), 1)].into(),
            repositories_alone: 1,
            longest_lag_seconds: 90,
        }
    }

    fn backend(&self) -> Backend {
        self.backend.clone()
    }
}

fn host(name: &str, requests_total: u64) -> HostBudget {
    HostBudget {
        domain: Domain::parse(name).expect("the name is one"),
        in_flight: 2,
        in_flight_limit: 5,
        started: 12,
        window_limit: 30,
        breaker: BreakerState::Closed,
        closed_ms: None,
        closed_why: None,
        requests_total,
        failures_total: 1,
    }
}

fn tried(identifier: &str) -> UrlAttempt {
    UrlAttempt {
        identifier: Identifier::parse(identifier).expect("the name is one"),
        url: "https://dead.example/<script>.git".into(),
        at: 1_763_000_000_000,
        duration_ms: 840,
        outcome: "no answer".into(),
        oids_fetched: 0,
        next_step: String::new(),
        is_success: false,
    }
}

async fn node(figures: Figures) -> Result<Node> {
    Node::start_whole(|_| {}, SyncHandle::new(figures)).await
}

#[tokio::test]
async fn the_state_of_sync_is_told_to_programs() -> Result<()> {
    let node = node(Figures {
        hosts: vec![host("a.example", 7), host("b.example", 9)],
        tried: vec![tried("tides")],
        ..Figures::default()
    })
    .await?;
    node.wait_for_data(&Author::new(), "tides").await?;
    let status = node.get("/api/v1/sync?limit=1").await?.json()?;
    assert_eq!(status["enabled"], true);
    assert_eq!(status["queue_length"], 1);
    assert_eq!(status["queue"][0]["identifier"], "tides");
    assert_eq!(status["queue"][0]["attempts"], 0);
    assert!(status["queue"][0]["next_attempt"].as_i64() > Some(0));
    assert_eq!(status["attempts_total"], 12);
    assert_eq!(status["throttle"]["backend"], "memory");
    assert_eq!(status["hosts_total"], 2);
    assert_eq!(
        status["hosts"][0]["domain"], "b.example",
        "the busier first"
    );
    assert_eq!(status["hosts"].as_array().map(Vec::len), Some(1));
    assert_eq!(status["tried"][0]["outcome"], "no answer");
    Ok(())
}

#[tokio::test]
async fn a_node_without_sync_says_so() -> Result<()> {
    let node = Node::start().await?;
    let status = node.get("/api/v1/sync").await?.json()?;
    assert_eq!(status["enabled"], false);
    assert_eq!(status["throttle"], serde_json::Value::Null);
    assert!(node.get("/sync").await?.text().contains("switched off"));
    let metrics = node.get("/metrics").await?.text();
    assert!(!metrics.contains("purgatory_domain_"), "{metrics}");
    Ok(())
}

#[tokio::test]
async fn what_waits_is_told_to_programs() -> Result<()> {
    let node = node(Figures::default()).await?;
    let owner = Author::new();
    let id = node.wait_for_data(&owner, "tides").await?;
    let list = node.get("/api/v1/purgatory").await?.json()?;
    assert_eq!(list["total"], 2);
    let waiting = list["waiting"].as_array().unwrap();
    let state = waiting.iter().find(|w| w["id"] == id).unwrap();
    assert_eq!(state["class"], "state");
    assert_eq!(state["identifiers"][0], "tides");
    assert_eq!(state["author"], owner.npub());
    assert_eq!(state["missing"], 1);
    assert!(state["deadline"].as_i64() > state["since"].as_i64());
    assert!(state["next_attempt"].is_i64());
    Ok(())
}

#[tokio::test]
async fn an_explanation_names_every_url_that_was_tried() -> Result<()> {
    let node = node(Figures {
        tried: vec![tried("tides"), tried("other")],
        ..Figures::default()
    })
    .await?;
    let owner = Author::new();
    let id = node.wait_for_data(&owner, "tides").await?;
    for subject in [id, format!("{}/tides", owner.npub())] {
        let explanation = node
            .get(&format!("/api/v1/explain/{subject}"))
            .await?
            .json()?;
        let sync = explanation["sync"].as_array().unwrap();
        assert_eq!(sync.len(), 1, "{explanation:#}");
        assert_eq!(sync[0]["identifier"], "tides");
        assert_eq!(sync[0]["attempts"], 0);
        assert!(sync[0]["next_attempt"].is_i64());
        let tried = sync[0]["tried"].as_array().unwrap();
        assert_eq!(tried.len(), 1);
        assert_eq!(tried[0]["outcome"], "no answer");
        assert!(tried[0]["at"].is_i64());
    }
    Ok(())
}

#[tokio::test]
async fn a_thousand_hosts_make_twenty_one_series() -> Result<()> {
    let hosts = (0..1000).map(|n| host(&format!("h{n}.example"), n));
    let node = node(Figures {
        hosts: hosts.collect(),
        ..Figures::default()
    })
    .await?;
    for _ in 0..2 {
        let metrics = node.get("/metrics").await?.text();
        let series = |name: &str| {
            let lines = metrics.lines().filter(|line| line.starts_with(name));
            lines.count()
        };
        assert_eq!(series("purgatory_domain_in_flight{"), 21, "{metrics}");
        assert_eq!(series("purgatory_domain_requests_total{"), 21);
        must_contain(
            &metrics,
            &[
                "purgatory_domain_requests_total{domain=\"h999.example\"} 999",
                "purgatory_domain_in_flight{domain=\"other\"} 1960",
                "purgatory_sync_attempts_total 12",
                "purgatory_sync_requests_total 56",
                "purgatory_sync_oids_fetched_total 34",
                "purgatory_sync_queue_size 0",
                "throttle_backend{backend=\"memory\"} 1",
                "throttle_backend{backend=\"fallback\"} 0",
            ],
        );
    }
    Ok(())
}

#[tokio::test]
async fn without_redis_the_node_is_ready_and_says_what_it_lacks() -> Result<()> {
    let node = node(Figures {
        backend: Backend::Fallback {
            since: 1_763_000_000_000,
            percent: 25,
            reason: "connection refused".into(),
        },
        ..Figures::default()
    })
    .await?;
    let ready = node.get("/readyz").await?;
    assert_eq!(ready.status, 200);
    let ready = ready.json()?;
    assert_eq!(ready["ready"], true);
    let redis = ready["degraded"]["redis"].as_str().unwrap();
    assert!(
        redis.contains("connection refused") && redis.contains("25 %"),
        "{redis}"
    );
    let page = node.get("/sync").await?.text();
    assert!(page.contains("Redis cannot be reached"), "{page}");
    let metrics = node.get("/metrics").await?.text();
    assert!(metrics.contains("throttle_backend{backend=\"fallback\"} 1"));
    Ok(())
}

grip_db::statements! {
    mod journal {
        SEARCH_AT = "UPDATE purgatory SET expires_at = $1 WHERE class = 'sync'";
    }
}

#[tokio::test]
async fn a_search_that_has_stalled_is_named_with_the_next_step() -> Result<()> {
    let figures = |running| {
        SyncHandle::new(Figures {
            running,
            ..Figures::default()
        })
    };
    let stalled = async |node: &Node| {
        let ready = node.get("/readyz").await?;
        assert_eq!(ready.status, 200, "it serves all the same");
        let degraded = ready.json()?["degraded"]["sync"].take();
        anyhow::Ok(degraded.as_str().unwrap_or_default().to_owned())
    };
    let overdue = async |db: &Db, minutes: i64| {
        let at = jiff::Timestamp::now().as_millisecond() - minutes * 60_000;
        assert_eq!(db.execute(&journal::SEARCH_AT, &[at.into()]).await?, 1);
        anyhow::Ok(())
    };
    let node = Node::start_whole(|_| {}, figures(0)).await?;
    node.wait_for_data(&Author::new(), "tides").await?;
    assert_eq!(stalled(&node).await?, "", "its time has not come");

    let node = node
        .restart(figures(0), async |db| overdue(db, 8).await)
        .await?;
    assert_eq!(stalled(&node).await?, "", "it may take a while");

    let node = node
        .restart(figures(0), async |db| overdue(db, 12).await)
        .await?;
    must_contain(
        &stalled(&node).await?,
        &["tides", "due for 12 minutes", "gripfast sync status"],
    );
    let status = node.get("/api/v1/status").await?.text();
    assert!(status.contains("due for 12 minutes"), "{status}");

    let node = node
        .restart(figures(1), async |db| overdue(db, 12).await)
        .await?;
    assert_eq!(stalled(&node).await?, "", "others are looked for");
    Ok(())
}

#[tokio::test]
async fn people_see_hosts_with_their_budgets_and_what_was_tried() -> Result<()> {
    let mut closed = host("slow.example", 3);
    closed.closed_ms = Some(75_000);
    closed.closed_why = Some("asks us to wait".into());
    let node = node(Figures {
        hosts: vec![host("a.example", 7), closed],
        tried: vec![tried("tides")],
        ..Figures::default()
    })
    .await?;
    node.wait_for_data(&Author::new(), "tides").await?;
    let page = node.get("/sync").await?;
    assert_eq!(page.status, 200);
    assert!(
        page.header("content-security-policy")
            .contains("default-src 'none'")
    );
    let html = page.text();
    must_contain(
        &html,
        &[
            "a.example",
            "2 of 5 at once",
            "12 of 30 in a minute",
            "asks us to wait: 75 s",
            "no answer",
            "tides",
            "no attempt yet",
            "dead.example/&#60;script&#62;.git",
        ],
    );
    assert_eq!(html.matches("<script").count(), 1, "the one of the frame");
    let home = node.get("/").await?.text();
    assert!(home.contains("href=\"/sync\"") && home.contains("href=\"/purgatory\""));
    Ok(())
}

#[tokio::test]
async fn people_see_what_waits_why_and_until_when() -> Result<()> {
    let node = node(Figures::default()).await?;
    let owner = Author::new();
    let id = node.wait_for_data(&owner, "<i>tides").await?;
    let html = node.get("/purgatory").await?.text();
    must_contain(
        &html,
        &[
            "&#60;i&#62;tides",
            "missing commit 5e0d1f2a3b for main",
            "in 29 min</time>",
            "next attempt <time",
            "waiting for the first push",
            &id[..8],
        ],
    );
    Ok(())
}
