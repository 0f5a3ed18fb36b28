//! A node that watches a GitHub of the tests.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use futures_util::{FutureExt as _, future::BoxFuture};
use grip_egress::Egress;
use grip_github::GitHub;
use grip_ingest::{
    Arrival, Ingest, Options, Parts, Push, PushListener,
    avatars::{AvatarParts, Avatars, Picture, PictureStore},
    webhook::{Secrets, Webhook},
};
use grip_limits::Throttle;
use grip_queue::{Queue, State};
use grip_tasks::TaskGroup;
use grip_testkit::{FakeGitHub, Response, until};
use grip_types::Domain;
use grip_web::{Watch, WebSettings};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::{Features, Node};

pub const SECRET: &str = "It's a Secret to Everybody";
/// Pushes of any age are of today.
const AGELESS: Duration = Duration::from_secs(100_000 * 86_400);

/// A node, the GitHub that it asks, and what it keeps.
pub struct Watching {
    pub node: Node,
    pub hub: FakeGitHub,
    pub ingest: Arc<Ingest>,
    pub pictures: PictureStore,
    _dir: tempfile::TempDir,
}

/// What a node watches with.
pub struct Setup {
    pub sources: Vec<String>,
    pub secret: Option<&'static str>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            secret: Some(SECRET),
        }
    }
}

impl Watching {
    pub async fn start() -> Result<Self> {
        Self::start_with(|_| {}, Setup::default()).await
    }

    pub async fn start_with(change: impl FnOnce(&mut WebSettings), setup: Setup) -> Result<Self> {
        let hub = FakeGitHub::start("127.0.0.1").await?;
        Self::start_at(hub, change, setup).await
    }

    pub async fn start_at(
        hub: FakeGitHub,
        change: impl FnOnce(&mut WebSettings),
        setup: Setup,
    ) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let pictures = PictureStore::open(&dir.path().to_string_lossy())?;
        let (sent, told) = tokio::sync::oneshot::channel();
        let (egress, github) = ways(&hub)?;
        let store = pictures.clone();
        let node = Node::start_beside(change, |queue, group| {
            async move {
                let watch = watch(queue, group, github, egress, store, setup).await?;
                let _ = sent.send(Arc::clone(&watch.ingest));
                Ok(Features {
                    watch: Some(watch),
                    ..Features::default()
                })
            }
            .boxed()
        })
        .await?;
        Ok(Self {
            node,
            hub,
            ingest: told.await?,
            pictures,
            _dir: dir,
        })
    }

    /// Takes events in as a list of GitHub's would.
    pub async fn accept(&self, events: impl IntoIterator<Item = Value>) -> Result<()> {
        let arrivals = events.into_iter();
        let arrivals = arrivals.map(|event| Arrival::Event(event.to_string().into()));
        self.ingest.accept("events", arrivals.collect()).await?;
        Ok(())
    }

    /// Delivers a body, signed, as GitHub does.
    pub async fn deliver(&self, event: &str, id: &str, body: &Value) -> Result<Response> {
        let body = body.to_string();
        let signature = signature(body.as_bytes());
        let headers = [
            ("x-github-event", event),
            ("x-github-delivery", id),
            ("x-hub-signature-256", &signature),
            ("content-type", "application/json"),
        ];
        let path = "/webhooks/github";
        self.node.ask("POST", path, &headers, body.as_bytes()).await
    }

    pub async fn json(&self, path: &str) -> Result<Value> {
        let reply = self.node.get(path).await?;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.must_allow_any_origin().json()
    }

    /// Keeps a picture as somebody's, after the first look for pictures of people who are gone.
    pub async fn put_picture(&self, user: i64, bytes: &'static [u8]) -> Result<Picture> {
        until("the first look is over", || async {
            let job = self.node.queue.find("github-avatars", "all").await;
            let job = job.ok().flatten()?;
            (job.state == State::Waiting).then_some(())
        })
        .await?;
        let picture = Picture::new(bytes.into())?;
        self.pictures.put(&picture).await?;
        let values = [user.into(), picture.digest.clone().into()];
        self.node
            .queue
            .db()
            .write(|mut db| Box::pin(async move { db.execute(&sql::PUT, &values).await }))
            .await?;
        Ok(picture)
    }
}

grip_db::statements! {
    mod sql {
        PUT = "INSERT INTO avatars (user_id, url, digest, kind, bytes, fetched_at) \
               VALUES ($1, 'https://example.com/x', $2, 'image/png', 8, 1)";
    }
}

/// Two ways to the hub: one for pictures, one for its API.
fn ways(hub: &FakeGitHub) -> Result<(Egress, GitHub)> {
    let options = grip_egress::Options {
        private_hosts: vec![Domain::parse(&hub.domain())?],
        ..grip_egress::Options::default()
    };
    let throttle = Throttle::memory(grip_limits::Options::default());
    let egress = Egress::new(options, throttle)?;
    let options = grip_github::Options {
        api: hub.api().parse()?,
        ..grip_github::Options::default()
    };
    Ok((egress.clone(), GitHub::new(options, egress)?))
}

async fn watch(
    queue: Queue,
    group: TaskGroup,
    github: GitHub,
    egress: Egress,
    pictures: PictureStore,
    setup: Setup,
) -> Result<Watch> {
    let db = queue.db().clone();
    let sources = setup.sources.iter().map(|source| source.parse());
    let ingest = Ingest::start(Parts {
        db: db.clone(),
        queue: queue.clone(),
        github,
        pushes: Arc::new(Nobody),
        options: Options {
            sources: sources.collect::<Result<_, _>>()?,
            live_for: AGELESS,
            ..Options::default()
        },
        group: group.clone(),
    })
    .await?;
    let webhook = setup.secret.map(|secret| {
        let secrets = Secrets::new([secret]).expect("because it is not empty");
        Webhook::new(secrets, db.clone(), queue.clone(), AGELESS, group.clone())
    });
    let avatars = Avatars::start(AvatarParts {
        db,
        queue,
        pictures,
        named: egress.clone(),
        egress,
        options: Default::default(),
        group,
    });
    Ok(Watch {
        ingest: Arc::new(ingest),
        webhook,
        avatars: Some(Arc::new(avatars.await?)),
    })
}

/// Hears of pushes and does nothing.
struct Nobody;

impl PushListener for Nobody {
    fn pushed<'a>(&'a self, _: &'a Push) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }

    fn tagged<'a>(&'a self, _: &'a str, _: bool) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }
}

pub fn signature(body: &[u8]) -> String {
    let key = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes());
    let digest = key.expect("any key will do").chain_update(body).finalize();
    let digits: String = digest
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256={digits}")
}

/// A push in the words of a list.
pub fn event(number: u32, repository: &str) -> Value {
    json!({
        "id": (90_000_000_000_u64 + u64::from(number)).to_string(),
        "type": "PushEvent",
        "actor": { "id": 7, "login": "mona", "url": "https://api.github.com/orgs/mona" },
        "repo": { "id": 5, "name": repository, "url": "https://api.github.com/repos/x/y" },
        "payload": {
            "repository_id": 5,
            "push_id": number + 1,
            "ref": "refs/heads/main",
            "head": format!("{:040x}", number + 1),
            "before": format!("{number:040x}"),
        },
        "public": true,
        "created_at": "2026-01-31T12:00:00Z",
    })
}

/// A push in the words of a webhook.
pub fn push(is_private: bool) -> Value {
    json!({
        "ref": "refs/heads/main",
        "before": "0".repeat(40),
        "after": "ab".repeat(20),
        "repository": {
            "id": 5, "full_name": "acme/one", "pushed_at": 1_769_860_800, "private": is_private,
        },
        "sender": { "id": 7, "login": "mona", "url": "https://api.github.com/users/mona" },
    })
}
