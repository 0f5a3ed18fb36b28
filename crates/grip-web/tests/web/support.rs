//! A node in this process, and a client that shows answers byte for byte.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Result;
use arc_swap::ArcSwap;
use futures_util::{FutureExt as _, future::BoxFuture};
use grip_db::Db;
use grip_git::{Options, Repositories};
use grip_grasp::{Grasp, Parts, Policy};
use grip_index::{
    Index, Source, SumDb, SumDbOptions,
    hosted::{Hosted, ModulePaths},
    proxy::Proxy,
};
use grip_nostr::RepoAddr;
use grip_queue::{NewJob, Queue};
use grip_relay::Relay;
use grip_store::EventStore;
use grip_tasks::{Ended, TaskGroup};
use grip_testkit::{Author, RelayClient, Response, WorkTree, http::Connection, until};
use grip_types::{Identifier, Service};
use grip_web::{AdminToken, Build, Readiness, Resolve, SyncHandle, Watch, Web, WebSettings, serve};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::forge::Forge;

/// What opens the node to its operator.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

const DATABASE: &str = "node.sqlite";

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
    dir: TempDir,
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

    /// Starts a node with what `make` makes: something that watches GitHub, or that resolves.
    pub async fn start_beside(
        change: impl FnOnce(&mut WebSettings),
        make: impl FnOnce(Queue, TaskGroup) -> BoxFuture<'static, Result<Features>>,
    ) -> Result<Self> {
        let make = |base: Base| make(base.queue, base.group);
        Self::start_as(change, SyncHandle::off(), make).await
    }

    /// Starts a node that tells of `sync` what that says.
    pub async fn start_whole(
        change: impl FnOnce(&mut WebSettings),
        sync: SyncHandle,
    ) -> Result<Self> {
        Self::start_as(change, sync, |_| async { Ok(Features::default()) }.boxed()).await
    }

    async fn start_as(
        change: impl FnOnce(&mut WebSettings),
        sync: SyncHandle,
        features: impl FnOnce(Base) -> BoxFuture<'static, Result<Features>>,
    ) -> Result<Self> {
        Self::start_in(TempDir::new()?, change, sync, features).await
    }

    /// Stops this node, and starts another one on its data once `meanwhile` has touched the database.
    pub async fn restart(
        self,
        sync: SyncHandle,
        meanwhile: impl AsyncFnOnce(&Db) -> Result<()>,
    ) -> Result<Self> {
        let _ = self.stop(Duration::from_secs(10)).await;
        let dir = self.into_dir();
        let db = Db::open(&dir.path().join(DATABASE)).await?;
        meanwhile(&db).await?;
        db.close().await;
        let features = |_| async { Ok(Features::default()) }.boxed();
        Self::start_in(dir, |_| {}, sync, features).await
    }

    /// What it was made of is closed then.
    fn into_dir(self) -> TempDir {
        self.dir
    }

    async fn start_in(
        dir: TempDir,
        change: impl FnOnce(&mut WebSettings),
        sync: SyncHandle,
        features: impl FnOnce(Base) -> BoxFuture<'static, Result<Features>>,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let service = Service::parse(&addr.to_string())?;
        let group = TaskGroup::new("node");
        let store = EventStore::open(&dir.path().join("events"), Default::default())?;
        let db = Db::open(&dir.path().join(DATABASE)).await?;
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
            keep: Default::default(),
            lifecycle: Default::default(),
            sweep_every: Duration::from_secs(60),
        })
        .await?;
        let queue = Queue::new(db);
        let Features {
            index,
            proxy,
            hosted,
            watch,
            resolve,
        } = features(Base {
            grasp: grasp.clone(),
            repositories: repositories.clone(),
            queue: queue.clone(),
            service: service.clone(),
            group: group.child("index"),
            sumdb: dir.path().join("sumdb"),
        })
        .await?;
        let mut settings = WebSettings::new(service);
        change(&mut settings);
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let web = Web {
            leads: None,
            grasp: grasp.clone(),
            sync,
            queue: queue.clone(),
            index: index.clone(),
            proxy,
            watch,
            resolve,
            admin: AdminToken::new(TOKEN),
            config: Arc::new(ArcSwap::from_pointee(
                serde_json::json!({ "options": [], "warnings": [] }),
            )),
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
            dir,
        })
    }

    /// Removes all packs of an identifier behind its back.
    pub fn remove_packs(&self, identifier: &str) -> Result<()> {
        let packs = format!("git/.objects/{identifier}.git/objects/pack");
        for entry in std::fs::read_dir(self.dir.path().join(packs))? {
            std::fs::remove_file(entry?.path())?;
        }
        Ok(())
    }

    pub fn authority(&self) -> String {
        self.addr.to_string()
    }

    pub async fn relay(&self) -> Result<RelayClient> {
        RelayClient::connect(&format!("ws://{}", self.addr)).await
    }

    /// Announces `identifier` and a state that names a commit nobody pushed; returns the state's id.
    pub async fn wait_for_data(&self, owner: &Author, identifier: &str) -> Result<String> {
        let missing = "5e0d1f2a3b4c5d6e7f8091a2b3c4d5e6f7081920".to_owned();
        let refs = [("refs/heads/main".to_owned(), missing)];
        self.announce_state(owner, identifier, &refs).await
    }

    /// Announces `identifier` and a state; returns the state's id.
    async fn announce_state(
        &self,
        owner: &Author,
        identifier: &str,
        refs: &[(String, String)],
    ) -> Result<String> {
        self.announce(owner, identifier).await?;
        let refs: Vec<_> = refs.iter().map(|(n, o)| (n.as_str(), o.as_str())).collect();
        let state = owner.state(identifier, &refs, Some("refs/heads/main"));
        self.relay().await?.publish_ok(&state).await?;
        Ok(state.id.to_hex())
    }

    pub async fn get(&self, path: &str) -> Result<Response> {
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
    ) -> Result<Response> {
        let headers = [headers, &[("connection", "close")]].concat();
        self.open().await?.ask(method, path, &headers, body).await
    }

    pub async fn open(&self) -> Result<Connection> {
        Ok(Connection::open(self.addr.port()).await?)
    }

    /// Asks as the operator.
    pub async fn order(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response> {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [&[("authorization", &*bearer)], headers].concat();
        self.ask(method, path, &headers, b"").await
    }

    /// Changes the settings of the running node.
    pub fn change(&self, change: impl FnOnce(&mut WebSettings)) {
        let mut settings = (**self.settings.load()).clone();
        change(&mut settings);
        self.settings.store(settings.into());
    }

    /// Announces `identifier` and its state, and pushes `tree`'s main to it.
    pub async fn host(&self, owner: &Author, identifier: &str, tree: &WorkTree) -> Result<String> {
        self.push_refs(owner, identifier, tree, &["refs/heads/main"])
            .await
    }

    /// Announces `identifier` with a state of these refs and pushes them; returns its clone URL.
    pub async fn push_refs(
        &self,
        owner: &Author,
        identifier: &str,
        tree: &WorkTree,
        names: &[&str],
    ) -> Result<String> {
        let refs = names
            .iter()
            .map(|name| Ok(((*name).to_owned(), tree.tip(name)?)));
        let refs = refs.collect::<Result<Vec<_>>>()?;
        self.announce_state(owner, identifier, &refs).await?;
        let url = owner.clone_url(&self.authority(), identifier);
        tree.push_ok(&url, names).await?;
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
        let names: Vec<_> = tags.iter().map(|tag| format!("refs/tags/{tag}")).collect();
        let names = names.iter().map(String::as_str);
        let names: Vec<_> = std::iter::once("refs/heads/main").chain(names).collect();
        self.push_refs(owner, identifier, tree, &names).await?;
        let (Some(index), Some(hosted)) = (&self.index, &self.hosted) else {
            anyhow::bail!("the node has no index");
        };
        let repo = RepoAddr::new(owner.pubkey(), Identifier::parse(identifier)?);
        index.repos_changed(vec![hosted.name_of(&repo)]).await?;
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
    sumdb: PathBuf,
}

/// Features that only some nodes have.
#[derive(Default)]
pub struct Features {
    pub index: Option<Arc<Index>>,
    pub proxy: Option<Proxy>,
    pub hosted: Option<Hosted>,
    pub watch: Option<Watch>,
    pub resolve: Option<Resolve>,
}

async fn indexed(base: Base, forge: Option<Arc<Forge>>) -> Result<Features> {
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
    let sumdb = SumDb::open(SumDbOptions {
        db: db.clone(),
        name: None,
        default_name: "127.0.0.1".to_owned(),
        seed: [7; 32],
        directory: base.sumdb,
        group: base.group.clone(),
    });
    let sumdb = sumdb.await?;
    let index = Index::start(grip_index::Parts {
        db: db.clone(),
        queue: base.queue,
        sources,
        options: Default::default(),
        group: base.group,
    });
    Ok(Features {
        index: Some(Arc::new(index.await?)),
        proxy: Some(Proxy::new(
            db,
            hosted.clone(),
            Some(sumdb),
            None,
            Default::default(),
        )),
        hosted: Some(hosted),
        ..Features::default()
    })
}
