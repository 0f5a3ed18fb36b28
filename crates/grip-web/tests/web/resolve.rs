//! Names and digests over HTTP: what is answered, in which form, and what is refused.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Result;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{FutureExt as _, future::try_join_all};
use grip_dht::{
    Counters, Dht, RecordKey, RequestError,
    testing::{Fault, Network},
};
use grip_nostr::{EventsFuture, RepoAddr, RepositoryEvents, ServedEvents, ServedRepositories};
use grip_resolve::{Admin, HostHealth, LocalManifests, Manifest, Options, Parts, Resolver};
use grip_tasks::Live;
use grip_testkit::{Author, Response, http::must_contain};
use grip_web::{Resolve, WebSettings};
use nostr::prelude::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::support::{Features, Node, TOKEN};

const OID: &str = "1111111111111111111111111111111111111111";

/// What is served, or nothing that ever answers.
#[derive(Default)]
struct Served {
    manifests: BTreeMap<RepoAddr, Manifest>,
    is_stuck: bool,
}

impl ServedRepositories for Served {
    fn is_served(&self, repo: &RepoAddr) -> bool {
        self.manifests.contains_key(repo)
    }

    fn page(&self, after: Option<&RepoAddr>, limit: usize) -> Vec<RepoAddr> {
        let names = self.manifests.keys();
        let names = names.filter(|name| after.is_none_or(|after| *name > after));
        names.take(limit).cloned().collect()
    }
}

impl ServedEvents for Served {
    fn events<'a>(&'a self, repo: &'a RepoAddr) -> EventsFuture<'a> {
        Box::pin(async move {
            if self.is_stuck {
                std::future::pending::<()>().await;
            }
            Ok(self.manifests.get(repo).map(|manifest| RepositoryEvents {
                announcement: manifest.announcement().event.clone(),
                others: vec![],
                state: manifest.state().map(|state| state.event.clone()),
            }))
        })
    }
}

/// A node with three records in a network whose one other member is not reached.
fn unreachable() -> Arc<dyn Dht> {
    let network = Network::new(2);
    let [own, other] = [0, 1].map(|i| network.names()[i].clone());
    network.fault(&other, Fault::Error(RequestError::NoRoute));
    for n in 0..3 {
        network.put(&own, &RecordKey::from([n; 32]), "record");
    }
    network.member(0)
}

fn manifest_of(owner: &Author, identifier: &str) -> Manifest {
    let announcement = owner.announcement("git.example", identifier, vec![]);
    let refs = [("refs/heads/main", OID)];
    let state = owner.state(identifier, &refs, Some("refs/heads/main"));
    Manifest::make(announcement, vec![], Some(state)).expect("the events are signed")
}

async fn start(
    served: Served,
    dht: Option<Arc<dyn Dht>>,
    change: impl FnOnce(&mut WebSettings),
) -> Result<Node> {
    Node::start_beside(change, |queue, group| {
        let options = Options {
            deadline: Duration::from_secs(2),
            retries: 0,
            ..Options::default()
        };
        let resolver = Resolver::start(Parts {
            dht,
            local_manifests: LocalManifests::new(Arc::new(served), Arc::default(), group.clone()),
            health: Arc::new(|_| HostHealth::default()),
            options: Arc::new(Live::new(options)),
            identity: None,
            draining: group.token(),
            group,
        });
        async move {
            let admin = Admin::open(queue.db().clone(), resolver.clone()).await?;
            Ok(Features {
                resolve: Some(Resolve { resolver, admin }),
                ..Features::default()
            })
        }
        .boxed()
    })
    .await
}

/// A node that serves `tides sheet` of the owner.
pub async fn serving(
    owner: &Author,
    change: impl FnOnce(&mut WebSettings),
) -> Result<(Node, Manifest)> {
    let manifest = manifest_of(owner, "tides sheet");
    let manifests = BTreeMap::from([(manifest.name(), manifest.clone())]);
    let served = Served {
        manifests,
        is_stuck: false,
    };
    Ok((start(served, None, change).await?, manifest))
}

pub fn path_of(owner: &Author) -> String {
    format!("/resolve/name:{}/tides%20sheet", owner.npub())
}

/// Fails unless the failure has the one shape, this status and this code.
#[track_caller]
fn must_fail(reply: &Response, status: u16, code: &str) {
    let shape = reply.json().unwrap_or_else(|_| panic!("{reply:?}"));
    let error = &shape["error"];
    assert_eq!(error["request_id"], reply.header("x-request-id"));
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    assert!(text("message").ends_with('.'), "{error}");
    let after = error["retry_after_seconds"].as_u64();
    let header = reply.headers.get("retry-after").cloned();
    assert_eq!(after.map(|after| after.to_string()), header, "{reply:?}");
    assert_eq!(
        (reply.status, text("code").as_str()),
        (status, code),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_name_and_its_digest_lead_to_the_same_manifest() -> Result<()> {
    let owner = Author::new();
    let (node, manifest) = serving(&owner, |_| {}).await?;
    let id = manifest.id().to_string();
    let reply = node.get(&path_of(&owner)).await?;
    assert_eq!(
        reply.must_allow_any_origin().status,
        200,
        "{}",
        reply.text()
    );
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.header("etag"), format!("\"{id}\""));
    assert_eq!(reply.header("cache-control"), "public, max-age=10");
    assert_eq!(reply.header("vary"), "accept");
    let answer = reply.json()?;
    assert_eq!(answer["id"], id.as_str());
    assert_eq!(answer["name"], format!("{}/tides sheet", owner.npub()));
    assert_eq!(
        (&answer["source"], &answer["hops"]),
        (&"local".into(), &0.into())
    );
    let whole: serde_json::Value = serde_json::from_slice(manifest.bytes())?;
    assert_eq!(answer["manifest"], whole);
    let again = node.get(&path_of(&owner)).await?.json()?;
    assert_eq!(again["source"], "cache");
    let fresh = node.get(&format!("{}?fresh=true", path_of(&owner))).await?;
    assert_eq!(fresh.header("cache-control"), "no-cache");
    assert_eq!(fresh.json()?["source"], "local");

    let by_id = node.get(&format!("/resolve/{id}")).await?;
    assert_eq!(by_id.status, 200, "{}", by_id.text());
    assert!(by_id.header("cache-control").contains("immutable"));
    Ok(())
}

#[tokio::test]
async fn the_bytes_alone_have_the_digest_that_the_tag_says() -> Result<()> {
    let owner = Author::new();
    let (node, manifest) = serving(&owner, |_| {}).await?;
    let path = path_of(&owner);
    let kind = "application/vnd.gripfast.manifest";
    let raw = node.get(&format!("{path}?raw=true")).await?;
    let named = node.ask("GET", &path, &[("accept", kind)], b"").await?;
    for reply in [&raw, &named] {
        assert_eq!(reply.header("content-type"), kind);
        assert_eq!(&reply.body[..], &manifest.bytes()[..]);
    }
    let head = node.ask("HEAD", &path, &[], b"").await?;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("etag"), raw.header("etag"));
    assert!(head.header("content-length").parse::<usize>()? > manifest.bytes().len());
    for tags in [
        raw.header("etag").to_owned(),
        format!("\"x\", W/{}", raw.header("etag")),
    ] {
        let known = [("if-none-match", tags.as_str())];
        let reply = node.ask("GET", &path, &known, b"").await?;
        assert_eq!((reply.status, reply.body.len()), (304, 0), "{tags}");
        assert_eq!(reply.header("etag"), raw.header("etag"));
        assert_eq!(reply.header("cache-control"), "public, max-age=10");
    }
    let other = [("if-none-match", "\"b3:00\"")];
    assert_eq!(node.ask("GET", &path, &other, b"").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn providers_are_ranked_and_no_more_than_asked_for() -> Result<()> {
    let owner = Author::new();
    let (node, manifest) = serving(&owner, |_| {}).await?;
    let path = format!("/providers/{}", manifest.id());
    let name = format!(
        "/providers/name:{}/tides%20sheet?limit=1&region=eu-west",
        owner.npub()
    );
    for path in [&name, &path] {
        let reply = node.get(path).await?;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert_eq!(reply.header("cache-control"), "public, max-age=10");
        let answer = reply.json()?;
        assert_eq!(answer["id"], manifest.id().to_string());
        let providers = answer["providers"].as_array().unwrap();
        assert_eq!(providers.len(), 1);
        assert_eq!(providers[0]["named_by"], "owner");
        let url = providers[0]["url"].as_str().unwrap();
        assert!(url.starts_with("http://git.example/npub1"), "{url}");
    }
    for query in ["limit=0", "limit=101", "region=EU", "raw=true", "fresh=yes"] {
        let reply = node.get(&format!("{path}?{query}")).await?;
        must_fail(&reply, 400, "malformed");
    }
    Ok(())
}

#[tokio::test]
async fn hostile_keys_and_wishes_are_refused_in_one_shape() -> Result<()> {
    let owner = Author::new();
    let (node, _) = serving(&owner, |_| {}).await?;
    let (npub, good) = (owner.npub(), path_of(&owner));
    let long = "a".repeat(4096);
    for path in [
        "/resolve/".to_owned(),
        "/resolve".to_owned(),
        "/resolve/..".to_owned(),
        "/resolve/../../etc/passwd".to_owned(),
        "/resolve/%2e%2e%2fetc".to_owned(),
        "/resolve/%00".to_owned(),
        "/resolve/%3Cscript%3Ealert(1)%3C/script%3E".to_owned(),
        "/resolve/%".to_owned(),
        "/resolve/%zz".to_owned(),
        "/resolve/%ff".to_owned(),
        "/resolve/naddr1qqqq".to_owned(),
        format!("/resolve/{long}"),
        format!("/resolve/name:{npub}/{long}"),
        format!("/resolve/name:{npub}/a%00b"),
        format!("/resolve/name:{npub}/.."),
        format!("/resolve/name:{npub}"),
        format!("/resolve/name:{}/x", npub.to_uppercase()),
        format!("/resolve/b3:{}", "A".repeat(64)),
        format!("/resolve/b3:{}", "0".repeat(63)),
        format!("/providers/b3:{}", "0".repeat(65)),
        format!("{good}?frsh=true"),
        format!("{good}?fresh=maybe"),
        format!("{good}?fresh=true&fresh=true"),
    ] {
        let reply = node.get(&path).await?;
        must_fail(&reply, 400, "malformed");
        assert!(!reply.text().contains("<script"), "{path}");
        assert_eq!(
            reply.header("content-type"),
            "application/json; charset=utf-8"
        );
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let reply = node.ask(method, &good, &[], b"").await?;
        must_fail(&reply, 405, "method_not_allowed");
        assert_eq!(reply.header("allow"), "GET, HEAD, OPTIONS");
    }
    Ok(())
}

#[tokio::test]
async fn what_nobody_knows_is_not_found() -> Result<()> {
    let owner = Author::new();
    let (node, _) = serving(&owner, |_| {}).await?;
    for key in [
        format!("name:{}/other", owner.npub()),
        format!("b3:{}", "0".repeat(64)),
    ] {
        for route in ["resolve", "providers"] {
            let reply = node.get(&format!("/{route}/{key}")).await?;
            must_fail(&reply, 404, "unknown");
        }
    }
    let off = Node::start().await?;
    for path in [path_of(&owner).as_str(), "/api/v1/resolve"] {
        let reply = off.get(path).await?;
        must_fail(&reply, 404, "not_found");
    }
    Ok(())
}

#[tokio::test]
async fn a_question_beyond_the_bound_is_refused_at_once_and_a_stuck_one_at_its_deadline()
-> Result<()> {
    let owner = Author::new();
    let served = Served {
        is_stuck: true,
        ..Served::default()
    };
    let node = start(served, None, |settings| settings.limits.resolve = 1).await?;
    let path = path_of(&owner);
    let first = node.get(&path);
    let second = async {
        node.metrics_with(&["requests_in_flight{route=\"resolve\"} 1"])
            .await?;
        node.get(&path).await
    };
    let (first, second) = tokio::join!(first, second);
    let (first, second) = (first?, second?);
    must_fail(&second, 429, "busy");
    must_fail(&first, 504, "timeout");
    let metrics = node.get("/metrics").await?.text();
    must_contain(
        &metrics,
        &[
            "io_timeouts_total{op=\"resolve\"} 1",
            "resolve_deadline_hit_total 1",
            "busy_rejections_total{route=\"resolve\"} 1",
        ],
    );
    Ok(())
}

#[tokio::test]
async fn peers_that_cannot_be_reached_are_said_to_be_so() -> Result<()> {
    let owner = Author::new();
    let node = start(Served::default(), Some(unreachable()), |_| {}).await?;
    let reply = node.get(&path_of(&owner)).await?;
    must_fail(&reply, 503, "breaker_open");
    let status = node.get("/api/v1/resolve").await?.json()?;
    assert_eq!(status["network"]["known_peers"], 1);
    let metrics = node.get("/metrics").await?.text();
    must_contain(
        &metrics,
        &[
            "dht_records 3",
            "dht_peers_known 1",
            "breaker_state{target=\"dht_peers\"",
        ],
    );
    Ok(())
}

#[tokio::test]
async fn requests_kept_back_by_a_breaker_and_keys_that_made_room_are_counted() -> Result<()> {
    let network = Network::new(2);
    let [own, other] = [0, 1].map(|i| network.names()[i].clone());
    network.fault(&other, Fault::Close);
    let counters = Counters {
        displaced_total: 7,
        ..Counters::default()
    };
    network.counters(&own, counters);
    let node = start(Served::default(), Some(network.member(0)), |_| {}).await?;
    // Four failures open the breaker of the peer; the route to it is good.
    for (n, kept_back) in [0, 0, 0, 0, 1, 2].into_iter().enumerate() {
        let reply = node
            .get(&format!("{}-{n}", path_of(&Author::new())))
            .await?;
        must_fail(&reply, 503, "breaker_open");
        let metrics = node.get("/metrics").await?.text();
        must_contain(
            &metrics,
            &[
                &format!("breaker_open_total{{target=\"dht_peers\"}} {kept_back}\n"),
                "breaker_open_total{target=\"dht_routes\"} 0\n",
                "dht_displaced_total 7\n",
            ],
        );
    }
    Ok(())
}

#[tokio::test]
async fn who_joins_a_resolution_shortly_before_its_end_is_counted_as_rejoined() -> Result<()> {
    let served = Served {
        is_stuck: true,
        ..Served::default()
    };
    let node = start(served, None, |settings| settings.limits.resolve = 400).await?;
    let path = path_of(&Author::new());
    node.metrics_with(&["resolve_rejoined_total 0\n"]).await?;
    // One after the other: the last has more time than the first, and goes on without it.
    let (node, path) = (&node, &path);
    let callers = (0..8).map(|before: usize| async move {
        let in_flight = format!("requests_in_flight{{route=\"resolve\"}} {before}\n");
        node.metrics_with(&[&in_flight]).await?;
        node.get(path).await
    });
    for reply in try_join_all(callers).await? {
        must_fail(&reply, 504, "timeout");
    }
    let metrics = node.get("/metrics").await?.text();
    assert!(!metrics.contains("resolve_rejoined_total 0"), "{metrics}");
    Ok(())
}

#[tokio::test]
async fn what_is_counted_has_series_of_its_own() -> Result<()> {
    let owner = Author::new();
    let (node, _) = serving(&owner, |_| {}).await?;
    for _ in 0..2 {
        node.get(&path_of(&owner)).await?;
    }
    let metrics = node.get("/metrics").await?.text();
    must_contain(
        &metrics,
        &[
            "resolve_latency_seconds_bucket{le=\"+Inf\"} 2",
            "resolve_latency_seconds_count 2",
            "index_dht_lookup_ms_count 0",
            "backoff_retries_total{op=\"resolve\"} 0",
            "queue_depth{queue=\"resolve\"} 0",
            "queue_dropped_total{queue=\"resolve\"} 0",
            "io_timeouts_total{op=\"resolve\"} 0",
            "resolve_deadline_hit_total 0",
            "resolve_cache_total{outcome=\"hit\"} 1",
        ],
    );
    Ok(())
}

async fn order(node: &Node, action: &str, more: &[(&str, &str)], body: &str) -> Result<Response> {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [&[("authorization", &*bearer)], more].concat();
    let path = format!("/admin/{action}");
    node.ask("POST", &path, &headers, body.as_bytes()).await
}

#[tokio::test]
async fn only_the_operator_pins_and_the_same_order_counts_once() -> Result<()> {
    let owner = Author::new();
    let (node, manifest) = serving(&owner, |_| {}).await?;
    let body = format!("{{\"key\":\"name:{}/tides sheet\"}}", owner.npub());
    for action in ["pin", "unpin", "reindex"] {
        let path = format!("/admin/{action}");
        let reply = node.ask("POST", &path, &[], b"{not json").await?;
        must_fail(&reply, 401, "unauthorized");
        let proxied = order(&node, action, &[("via", "1.1 x")], &body).await?;
        assert_eq!(proxied.status, 403, "{action}");
        assert_eq!(node.get(&path).await?.status, 405);
    }
    assert_eq!(order(&node, "drop", &[], &body).await?.status, 404);

    let key = [("idempotency-key", "first"), ("x-request-id", "trace-1")];
    let done = order(&node, "pin", &key, &body).await?;
    assert_eq!(done.status, 200, "{}", done.text());
    let done = done.json()?;
    assert_eq!(done["outcome"], format!("pinned {}", manifest.id()));
    assert_eq!(done["repeated"], false);
    let again = order(&node, "pin", &key, &body).await?.json()?;
    assert_eq!(
        (&again["outcome"], &again["repeated"]),
        (&done["outcome"], &true.into())
    );
    let reused = order(&node, "unpin", &key, &body).await?;
    must_fail(&reused, 409, "conflict");

    let public = node.get("/api/v1/resolve").await?.json()?;
    assert_eq!(public["pins"][0]["id"], manifest.id().to_string());
    assert!(public["network"].is_null() && public["audit"].is_null());
    let whole = node.order("GET", "/api/v1/resolve", &[]).await?.json()?;
    let audit = whole["audit"].as_array().unwrap();
    assert_eq!(audit.len(), 1, "{audit:?}");
    assert_eq!(audit[0]["actor"], "admin token");
    assert_eq!(audit[0]["correlation"], "trace-1");

    let gone = order(&node, "unpin", &[], &body).await?.json()?;
    assert_eq!(gone["outcome"], "unpinned 1");
    let begun = order(&node, "reindex", &[], "").await?;
    assert_eq!(
        (begun.status, &begun.json()?["outcome"]),
        (202, &"begun".into())
    );
    Ok(())
}

#[tokio::test]
async fn an_order_that_cannot_be_read_changes_nothing() -> Result<()> {
    let owner = Author::new();
    let (node, _) = serving(&owner, |_| {}).await?;
    let name = format!("name:{}/tides sheet", owner.npub());
    let whole = format!("{{\"key\":\"{name}\",\"force\":true}}");
    let long_key = "k".repeat(201);
    for (action, body) in [
        ("pin", ""),
        ("pin", "{}"),
        ("pin", "[]"),
        ("pin", "{\"key\":7}"),
        ("pin", "{\"key\":\"../..\"}"),
        ("pin", whole.as_str()),
        ("reindex", "{\"key\":\"x\"}"),
    ] {
        let reply = order(&node, action, &[], body).await?;
        must_fail(&reply, 400, "malformed");
    }
    let good = format!("{{\"key\":\"{name}\"}}");
    for key in ["", long_key.as_str()] {
        let reply = order(&node, "pin", &[("idempotency-key", key)], &good).await?;
        assert_eq!(reply.status, 400, "{key:?}");
    }
    let huge = " ".repeat((1 << 20) + 1);
    let reply = order(&node, "pin", &[], &huge).await?;
    must_fail(&reply, 413, "too_large");
    let other = format!("{{\"key\":\"name:{}/other\"}}", owner.npub());
    let reply = order(&node, "pin", &[], &other).await?;
    must_fail(&reply, 404, "unknown");
    let status = node.get("/api/v1/resolve").await?.json()?;
    assert_eq!(status["pins"], serde_json::json!([]));
    Ok(())
}

#[tokio::test]
async fn the_owner_signs_an_order_from_elsewhere_and_nobody_else_does() -> Result<()> {
    let (owner, stranger) = (Author::new(), Author::new());
    let change = |settings: &mut WebSettings| settings.node.owner = Some(owner.pubkey());
    let (node, _) = serving(&owner, change).await?;
    let url = format!("http://{}/admin/pin", node.authority());
    let body = format!("{{\"key\":\"name:{}/tides sheet\"}}", owner.npub());
    let digest: String = Sha256::digest(body.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let signed = |author: &Author, url: &str, at: Timestamp| {
        let pairs = [("u", url), ("method", "POST"), ("payload", digest.as_str())];
        let tags = pairs.map(|(name, value)| vec![name.to_owned(), value.to_owned()]);
        let event = author.sign_at(27_235, "", tags.to_vec(), at);
        format!(
            "Nostr {}",
            STANDARD.encode(serde_json::to_vec(&event).unwrap())
        )
    };
    let now = Timestamp::now();
    let send = async |shown: &str, body: &str| {
        let headers = [("authorization", shown), ("x-forwarded-for", "203.0.113.7")];
        node.ask("POST", "/admin/pin", &headers, body.as_bytes())
            .await
    };
    let right = signed(&owner, &url, now);
    for (shown, body) in [
        (signed(&stranger, &url, now), body.as_str()),
        (signed(&owner, "http://other.example/admin/pin", now), &body),
        (
            signed(&owner, &url, Timestamp::from_secs(now.as_secs() - 120)),
            &body,
        ),
        ("Nostr e30=".to_owned(), &body),
        (right.clone(), "{}"),
    ] {
        let reply = send(&shown, body).await?;
        must_fail(&reply, 401, "unauthorized");
        assert_eq!(reply.header("www-authenticate"), "Nostr");
    }
    let done = send(&right, &body).await?;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(
        send(&right, &body).await?.status,
        401,
        "a signature counts once"
    );
    let pins = node.get("/api/v1/resolve").await?.json()?["pins"].clone();
    assert_eq!(pins[0]["pinned_by"], owner.npub());
    Ok(())
}

#[tokio::test]
async fn the_page_answers_its_form_and_shows_nothing_of_a_stranger_as_markup() -> Result<()> {
    let owner = Author::new();
    let (node, manifest) = serving(&owner, |_| {}).await?;
    let empty = node.get("/resolver").await?;
    empty.must_be(200, &["GRIPFAST_DHT_ENABLED=true"]);
    assert!(
        empty
            .header("content-security-policy")
            .contains("form-action 'self'")
    );
    let path = format!(
        "/resolver?key=name%3A{}%2Ftides+sheet&fresh=true",
        owner.npub()
    );
    let page = node.get(&path).await?;
    assert_eq!(page.status, 200, "{}", page.text());
    for part in [
        manifest.id().to_string().as_str(),
        "http://git.example/",
        "named by the owner",
    ] {
        assert!(page.text().contains(part), "{part}");
    }
    let link = format!("/resolve/name:{}/tides%20sheet", owner.npub());
    assert!(page.text().contains(&link));
    let bad = node
        .get("/resolver?key=%3Cscript%3Ealert(1)%3C/script%3E")
        .await?;
    assert_eq!(bad.status, 400);
    assert!(!bad.text().contains("<script>"), "{}", bad.text());
    let unknown = format!("/resolver?key=name%3A{}%2Fother", owner.npub());
    assert_eq!(node.get(&unknown).await?.status, 404);
    assert_eq!(node.get("/resolver?k=x").await?.status, 400);
    assert!(node.get("/").await?.text().contains("href=\"/resolver\""));
    Ok(())
}
