//! A node in this process, and a client that shows answers byte for byte.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use arc_swap::ArcSwap;
use futures_util::{FutureExt as _, future::BoxFuture};
use grip_db::Db;
use grip_git::{Options, Repositories};
use grip_grasp::{Grasp, Parts, Policy};
use grip_index::{
    Index, Source,
    hosted::{Hosted, ModulePaths},
    proxy::Proxy,
};
use grip_nostr::RepoAddr;
use grip_queue::{NewJob, Queue};
use grip_relay::Relay;
use grip_store::EventStore;
use grip_tasks::{Ended, TaskGroup};
use grip_testkit::{Author, RelayClient, WorkTree, until, within};
use grip_types::{Identifier, Service};
use grip_web::{AdminToken, Build, Readiness, Resolve, SyncHandle, Watch, Web, WebSettings, serve};
use nostr::prelude::Timestamp;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::forge::Forge;

/// What opens the node to its operator.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A whole node on a port of its own.
pub struct Node {
    pub addr: SocketAddr,
    pub grasp: Grasp,
    pub settings: Arc<ArcSwap<WebSettings>>,
    pub readiness: Readiness,
    pub group: TaskGroup,
    pub queue: Queue,
    pub index: Option<Arc<Index>>,
    hosted: Option<Hosted>,
    _dir: TempDir,
}

impl Node {
    pub async fn start() -> Result<Self> {
        Self::start_with(|_| {}).await
    }

    /// Starts a node whose settings `change` has touched.
    pub async fn start_with(change: impl FnOnce(&mut WebSettings)) -> Result<Self> {
        Self::start_whole(change, SyncHandle::off()).await
    }

    /// Starts a node with an index of its own repositories and of `forge`.
    pub async fn start_indexed(forge: Option<Arc<Forge>>) -> Result<Self> {
        Self::start_as(
            |_| {},
            SyncHandle::off(),
            |base| indexed(base, forge).boxed(),
        )
        .await
    }

    /// Starts a node that watches GitHub.
    pub async fn start_watching(
        change: impl FnOnce(&mut WebSettings),
        watch: impl FnOnce(Queue, TaskGroup) -> BoxFuture<'static, Result<Watch>>,
    ) -> Result<Self> {
        Self::start_as(change, SyncHandle::off(), |base| {
            let watch = watch(base.queue, base.group);
            async {
                Ok(Indexed {
                    watch: Some(watch.await?),
                    ..Indexed::default()
                })
            }
            .boxed()
        })
        .await
    }

    /// Starts a node that resolves with what `make` makes.
    pub async fn start_resolving(
        change: impl FnOnce(&mut WebSettings),
        make: impl FnOnce(Db, TaskGroup) -> BoxFuture<'static, Result<Resolve>>,
    ) -> Result<Self> {
        Self::start_as(change, SyncHandle::off(), |base| {
            let resolve = make(base.queue.db().clone(), base.group);
            async {
                Ok(Indexed {
                    resolve: Some(resolve.await?),
                    ..Indexed::default()
                })
            }
            .boxed()
        })
        .await
    }

    /// Starts a node that tells of `sync` what that says.
    pub async fn start_whole(
        change: impl FnOnce(&mut WebSettings),
        sync: SyncHandle,
    ) -> Result<Self> {
        Self::start_as(change, sync, |_| async { Ok(Indexed::default()) }.boxed()).await
    }

    async fn start_as(
        change: impl FnOnce(&mut WebSettings),
        sync: SyncHandle,
        index: impl FnOnce(Base) -> BoxFuture<'static, Result<Indexed>>,
    ) -> Result<Self> {
        let dir = TempDir::new()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let service = Service::parse(&addr.to_string())?;
        let group = TaskGroup::new("node");
        let store = EventStore::open(&dir.path().join("events"), Default::default())?;
        let db = Db::open(&dir.path().join("node.sqlite")).await?;
        let repositories = Repositories::open(Options::new(dir.path().join("git")))?;
        let (relay, writer) = Relay::start(store.clone(), Default::default(), &group);
        let grasp = Grasp::start(Parts {
            store: store.clone(),
            writer,
            db: db.clone(),
            repositories: repositories.clone(),
            policy: Arc::new(ArcSwap::from_pointee(Policy::open(service.clone()))),
            group: group.child("grasp"),
            bounds: Default::default(),
            sweep_every: Duration::from_secs(60),
        })
        .await?;
        let queue = Queue::new(db);
        let Indexed {
            index,
            proxy,
            hosted,
            watch,
            resolve,
        } = index(Base {
            grasp: grasp.clone(),
            repositories: repositories.clone(),
            queue: queue.clone(),
            service: service.clone(),
            group: group.child("index"),
        })
        .await?;
        let mut settings = WebSettings::new(service);
        change(&mut settings);
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let web = Web {
            grasp: grasp.clone(),
            sync,
            queue: queue.clone(),
            index: index.clone(),
            proxy,
            watch,
            resolve,
            admin: AdminToken::new(TOKEN),
            relay,
            repositories,
            store,
            settings: Arc::clone(&settings),
            readiness: Readiness::ready(),
            build: Build {
                version: "0.0.0-test",
                commit: None,
            },
        };
        let readiness = web.readiness.clone();
        let edge = group.clone();
        group.spawn("http", async move { serve(listener, web, &edge).await });
        Ok(Self {
            addr,
            grasp,
            settings,
            readiness,
            group,
            queue,
            index,
            hosted,
            _dir: dir,
        })
    }

    pub fn authority(&self) -> String {
        self.addr.to_string()
    }

    pub async fn relay(&self) -> Result<RelayClient> {
        RelayClient::connect(&format!("ws://{}", self.addr)).await
    }

    /// Announces `identifier` and a state that names a commit nobody pushed; returns the state's id.
    pub async fn wait_for_data(&self, owner: &Author, identifier: &str) -> Result<String> {
        self.announce(owner, identifier).await?;
        let refs = [(
            "refs/heads/main",
            "5e0d1f2a3b4c5d6e7f8091a2b3c4d5e6f7081920",
        )];
        let state = owner.state_at(identifier, &refs, Some("refs/heads/main"), Timestamp::now());
        self.relay().await?.publish_ok(&state).await?;
        Ok(state.id.to_hex())
    }

    pub async fn get(&self, path: &str) -> Result<Reply> {
        self.ask("GET", path, &[], b"").await
    }

    /// Waits until `/metrics` has each of `lines`: some are counted beside it.
    pub async fn metrics_with(&self, lines: &[&str]) -> Result<()> {
        for line in lines {
            until(line, || async {
                let metrics = self.get("/metrics").await.ok()?.text();
                metrics.contains(line).then_some(())
            })
            .await?;
        }
        Ok(())
    }

    /// The metrics once all was counted that is counted beside them.
    pub async fn counted_metrics(&self) -> Result<String> {
        self.queue.enqueue(vec![NewJob::new("mark", "x")]).await?;
        self.metrics_with(&["queue_jobs{queue=\"mark\""]).await?;
        Ok(self.get("/metrics").await?.text())
    }

    /// Sends one request on a connection of its own.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Reply> {
        let mut stream = TcpStream::connect(self.addr).await?;
        let mut all = headers.to_vec();
        all.push(("connection", "close"));
        stream.write_all(&request(method, path, &all, body)).await?;
        Reply::read_to_end(&mut stream).await
    }

    /// Announces `identifier` and its state, and pushes `tree`'s main to it.
    pub async fn host(&self, owner: &Author, identifier: &str, tree: &WorkTree) -> Result<String> {
        let url = self.announce(owner, identifier).await?;
        let tip = tree.tip("main")?;
        let refs = [("refs/heads/main", tip.as_str())];
        let state = owner.state_at(identifier, &refs, Some("refs/heads/main"), Timestamp::now());
        self.relay().await?.publish_ok(&state).await?;
        tree.push(&url, &["main"]).await?.text()?;
        Ok(url)
    }

    /// Announces `identifier`, pushes `tree`'s main and `tags` to it, and waits until all of them
    /// are in the feed; returns the module path of its place.
    pub async fn host_module(
        &self,
        owner: &Author,
        identifier: &str,
        tree: &WorkTree,
        tags: &[&str],
    ) -> Result<String> {
        let url = self.announce(owner, identifier).await?;
        let mut refs = vec![("refs/heads/main".to_owned(), tree.tip("main")?)];
        for tag in tags {
            refs.push((format!("refs/tags/{tag}"), tree.tip(tag)?));
        }
        let named: Vec<_> = refs.iter().map(|(n, o)| (n.as_str(), o.as_str())).collect();
        let state = owner.state_at(
            identifier,
            &named,
            Some("refs/heads/main"),
            Timestamp::now(),
        );
        self.relay().await?.publish_ok(&state).await?;
        let names: Vec<_> = refs.iter().map(|(name, _)| name.as_str()).collect();
        tree.push(&url, &names).await?.text()?;
        let (Some(index), Some(hosted)) = (&self.index, &self.hosted) else {
            anyhow::bail!("the node has no index");
        };
        let repo = RepoAddr::new(owner.pubkey(), Identifier::parse(identifier)?);
        index.repo_changed(&hosted.name_of(&repo)).await?;
        let path = ModulePaths::of(&Service::parse(&self.authority())?).location(&repo)?;
        for tag in tags {
            until("the tag is in the feed", || async {
                let found = index.version(path.as_str(), tag).await;
                found.ok().flatten().map(drop)
            })
            .await?;
        }
        Ok(path.as_str().to_owned())
    }

    /// Announces `identifier`, which is then held; returns its clone URL.
    pub async fn announce(&self, owner: &Author, identifier: &str) -> Result<String> {
        let announcement = owner.announcement(&self.authority(), identifier, vec![]);
        self.relay().await?.publish_ok(&announcement).await?;
        Ok(owner.clone_url(&self.authority(), identifier))
    }

    pub async fn stop(&self, grace: Duration) -> Ended {
        self.group.shutdown(grace).await
    }
}

/// What an index stands on.
struct Base {
    grasp: Grasp,
    repositories: Repositories,
    queue: Queue,
    service: Service,
    group: TaskGroup,
}

#[derive(Default)]
struct Indexed {
    index: Option<Arc<Index>>,
    proxy: Option<Proxy>,
    hosted: Option<Hosted>,
    watch: Option<Watch>,
    resolve: Option<Resolve>,
}

async fn indexed(base: Base, forge: Option<Arc<Forge>>) -> Result<Indexed> {
    let hosted = Hosted::new(grip_index::hosted::Parts {
        repositories: base.repositories,
        served: Arc::new(base.grasp),
        module_paths: ModulePaths::of(&base.service),
        claims: Vec::new(),
        node: String::new(),
        group: base.group.clone(),
    });
    let mut sources: Vec<Arc<dyn Source>> = vec![Arc::new(hosted.clone())];
    sources.extend(forge.map(|forge| forge as Arc<dyn Source>));
    let db = base.queue.db().clone();
    let index = Index::start(grip_index::Parts {
        db: db.clone(),
        queue: base.queue,
        sources,
        options: Default::default(),
        group: base.group,
    });
    Ok(Indexed {
        index: Some(Arc::new(index.await?)),
        proxy: Some(Proxy::new(db, hosted.clone(), Default::default())),
        hosted: Some(hosted),
        watch: None,
        resolve: None,
    })
}

pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut out = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || method == "POST" {
        out.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    out.push_str("\r\n");
    let mut out = out.into_bytes();
    out.extend_from_slice(body);
    out
}

/// An answer as it came.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Reply {
    pub async fn read_to_end(stream: &mut TcpStream) -> Result<Self> {
        let mut raw = Vec::new();
        within("an answer", stream.read_to_end(&mut raw)).await??;
        Self::parse(&raw)
    }

    fn parse(raw: &[u8]) -> Result<Self> {
        let end = raw
            .windows(4)
            .position(|w| w == b"\r\n\r\n")
            .with_context(|| format!("no head in {:?}", String::from_utf8_lossy(raw)))?;
        let head = String::from_utf8_lossy(&raw[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1))
            .context("no status")?
            .parse()?;
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let rest = &raw[end + 4..];
        let chunked = headers
            .get("transfer-encoding")
            .is_some_and(|v| v == "chunked");
        let body = if chunked {
            dechunk(rest)?
        } else {
            rest.to_vec()
        };
        Ok(Self {
            status,
            headers,
            body,
        })
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Result<serde_json::Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// Fails unless the answer lets pages of any origin read it (G01-59).
    #[track_caller]
    pub fn must_allow_any_origin(&self) -> &Self {
        assert_eq!(self.header("access-control-allow-origin"), "*", "{self:?}");
        for method in ["GET", "POST"] {
            assert!(self.header("access-control-allow-methods").contains(method));
        }
        let allowed = self
            .header("access-control-allow-headers")
            .to_ascii_lowercase();
        assert!(allowed.contains("content-type") && allowed.contains("git-protocol"));
        self
    }
}

fn dechunk(mut raw: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let line = raw
            .windows(2)
            .position(|w| w == b"\r\n")
            .context("a chunk has no length")?;
        let length = usize::from_str_radix(std::str::from_utf8(&raw[..line])?, 16)?;
        if length == 0 {
            return Ok(out);
        }
        raw = &raw[line + 2..];
        out.extend_from_slice(raw.get(..length).context("a chunk is cut short")?);
        raw = &raw[length + 2..];
    }
}
