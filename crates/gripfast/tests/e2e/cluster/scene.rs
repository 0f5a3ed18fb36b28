//! Clusters of real nodes.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, ensure};
use grip_store::{EventStore, Limits, Options};
use grip_testkit::{
    Balancer, Clock, DEADLINE, LocalProject, Node, PostgresServer, RedisServer, S3Server, git,
    until_ok, while_advancing,
};
use nostr::prelude::Event;
use serde_json::Value;
use tempfile::TempDir;

use crate::BINARY;

/// Long enough for a busy machine, short enough to wait for.
const LEASE: &str = "5s";

/// Where the nodes of a cluster keep packs for each other.
pub enum Packs {
    Directory(TempDir),
    S3(Box<S3Server>),
}

impl Packs {
    pub fn directory() -> Result<Self> {
        Ok(Self::Directory(TempDir::new()?))
    }

    pub async fn s3() -> Result<Self> {
        Ok(Self::S3(Box::new(S3Server::start().await?)))
    }

    fn set_in(&self, node: &mut Node) -> Result<()> {
        let place = match self {
            Self::Directory(dir) => dir.path().to_str().context("a plain path")?.to_owned(),
            Self::S3(server) => {
                for (name, value) in server.env() {
                    node.set_env(name, &value);
                }
                server.place()
            }
        };
        node.set_env("GRIPFAST_CLUSTER_PACKS", &place);
        Ok(())
    }
}

/// What one node depends on.
pub struct Surroundings {
    pub to_database: Balancer,
    pub to_store: Balancer,
    pub clock: Clock,
}

/// Nodes that are one to their clients.
pub struct Balanced {
    pub cluster: Cluster,
    /// The one: it never runs, and the balancer listens in its place.
    pub front: Node,
    _balancer: Balancer,
    _redis: RedisServer,
}

/// Nodes on one server and one store of packs.
pub struct Cluster {
    pub server: PostgresServer,
    packs: Packs,
    pub nodes: Vec<Node>,
    /// Most bytes of packs on the disk of a node that joins from now on.
    pub cache_bytes: Option<u64>,
    /// The name that clients know all nodes by.
    domain: String,
    /// What all nodes are started with.
    env: Vec<(String, String)>,
}

impl Cluster {
    /// Starts so many nodes with a directory for packs; the first of them leads.
    pub async fn start(count: usize) -> Result<Self> {
        Self::start_with(count, &[]).await
    }

    /// The same with further environment variables.
    pub async fn start_with(count: usize, env: &[(&str, &str)]) -> Result<Self> {
        Self::start_on_with(Packs::directory()?, count, env).await
    }

    /// Starts so many nodes with this store of packs; the first of them leads.
    pub async fn start_on(packs: Packs, count: usize) -> Result<Self> {
        Self::start_on_with(packs, count, &[]).await
    }

    /// The same with further environment variables.
    pub async fn start_on_with(packs: Packs, count: usize, env: &[(&str, &str)]) -> Result<Self> {
        let server = PostgresServer::durable().await?;
        let mut cluster = Self {
            server,
            packs,
            nodes: Vec::new(),
            cache_bytes: None,
            domain: String::new(),
            env: env
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        };
        for _ in 0..count {
            cluster.join().await?;
        }
        Ok(cluster)
    }

    /// Starts so many nodes, each with a cable of its own to the database.
    pub async fn start_cabled(count: usize) -> Result<(Self, Vec<Balancer>)> {
        let mut cluster = Self::start(0).await?;
        let mut cables = Vec::new();
        for _ in 0..count {
            let (cable, url) = cluster.cable_to_database().await?;
            let node = cluster.prepare()?;
            node.set_env("DATABASE_URL", &url);
            node.launch().await?;
            cables.push(cable);
        }
        Ok((cluster, cables))
    }

    async fn cable_to_database(&self) -> Result<(Balancer, String)> {
        let (url, port) = (self.server.url(), self.server.port());
        let cable = Balancer::start(vec![([127, 0, 0, 1], port).into()]).await?;
        let through = format!(":{}", cable.address().port());
        let url = url.replace(&format!(":{port}"), &through);
        Ok((cable, url))
    }

    /// Starts so many nodes with packs in a bucket, each with cables and a clock of its own.
    pub async fn start_exposed(
        count: usize,
        env: &[(&str, &str)],
    ) -> Result<(Self, Vec<Surroundings>)> {
        let mut cluster = Self::start_on_with(Packs::s3().await?, 0, env).await?;
        let mut surroundings = Vec::new();
        for _ in 0..count {
            let (to_database, database_url) = cluster.cable_to_database().await?;
            let to_store = Balancer::start(vec![cluster.s3().address()]).await?;
            let node = cluster.prepare()?;
            let clock = Clock::new(node.work_dir())?;
            node.set_env("DATABASE_URL", &database_url);
            let endpoint = format!("http://{}", to_store.address());
            node.set_env("AWS_ENDPOINT_URL", &endpoint);
            for (name, value) in clock.settings()? {
                node.set_env(&name, &value);
            }
            node.launch().await?;
            surroundings.push(Surroundings {
                to_database,
                to_store,
                clock,
            });
        }
        Ok((cluster, surroundings))
    }

    /// What faults befall, beside each other.
    pub fn parts(&mut self) -> (&[Node], &mut PostgresServer, &S3Server) {
        let Packs::S3(store) = &self.packs else {
            panic!("the packs of this cluster are in a directory")
        };
        (&self.nodes, &mut self.server, store)
    }

    /// Starts so many nodes, with packs in a bucket and limits shared by Redis, that clients know by the
    /// address of a balancer alone.
    pub async fn start_balanced(count: usize, env: &[(&str, &str)]) -> Result<Balanced> {
        let redis = RedisServer::start().await?;
        let redis_url = redis.url();
        let env = [env, &[("GRIPFAST_REDIS_URL", &redis_url)]].concat();
        let mut cluster = Self::start_on_with(Packs::s3().await?, 0, &env).await?;
        let mut addresses = Vec::new();
        for _ in 0..count {
            addresses.push(cluster.prepare()?.authority().parse()?);
        }
        let front = Node::prepare(BINARY, &[])?;
        let listener = tokio::net::TcpListener::bind(front.authority()).await?;
        let balancer = Balancer::serve(listener, addresses)?;
        cluster.domain = front.authority();
        for node in &mut cluster.nodes {
            node.set_env("NGIT_DOMAIN", &cluster.domain);
            node.launch().await?;
        }
        Ok(Balanced {
            cluster,
            front,
            _balancer: balancer,
            _redis: redis,
        })
    }

    /// A further node with an empty disk, which is not running yet.
    pub fn prepare(&mut self) -> Result<&mut Node> {
        let node = Node::prepare(BINARY, &[])?;
        self.take_in(node)
    }

    /// A further node with the disk that it has, which is not running.
    pub fn take_in(&mut self, mut node: Node) -> Result<&mut Node> {
        if self.domain.is_empty() {
            self.domain = node.authority();
        }
        node.set_env("NGIT_DOMAIN", &self.domain);
        node.set_env("DATABASE_URL", &self.server.url());
        self.packs.set_in(&mut node)?;
        if let Some(bytes) = self.cache_bytes {
            node.set_env("GRIPFAST_CLUSTER_CACHE_BYTES", &bytes.to_string());
        }
        node.set_env("GRIPFAST_CLUSTER_LEASE", LEASE);
        node.set_env("GRIPFAST_NODE_NAME", &format!("node-{}", self.nodes.len()));
        for (key, value) in &self.env {
            node.set_env(key, value);
        }
        self.nodes.push(node);
        Ok(self.nodes.last_mut().expect("one was pushed"))
    }

    /// A further node with an empty disk, which serves.
    pub async fn join(&mut self) -> Result<()> {
        self.prepare()?.launch().await
    }

    /// The S3 server that packs are kept in.
    pub fn s3(&self) -> &S3Server {
        match &self.packs {
            Packs::S3(server) => server,
            Packs::Directory(_) => panic!("the packs of this cluster are in a directory"),
        }
    }

    /// Bytes of all files of packs and snapshots that the nodes share.
    pub fn stored_bytes(&self) -> Result<u64> {
        let root = match &self.packs {
            Packs::Directory(dir) => dir.path().join("packs"),
            Packs::S3(server) => server.directory().join("packs/packs"),
        };
        let mut bytes = 0;
        for part in std::fs::read_dir(root)? {
            for file in std::fs::read_dir(part?.path())? {
                // One that was just removed has none.
                bytes += file?.metadata().map_or(0, |file| file.len());
            }
        }
        Ok(bytes)
    }

    /// An announcement of a project of this service.
    pub fn announcement(&self, local: &LocalProject, age: u64) -> Event {
        local.announcement_at(&[&self.nodes[0]], &[], age)
    }

    /// Announces a project at one node and pushes it there; returns the state.
    pub async fn publish(&self, local: &LocalProject, at: usize, age: u64) -> Result<Event> {
        let node = &self.nodes[at];
        let mut relay = node.connect().await?;
        relay.publish_ok(&self.announcement(local, age)).await?;
        let state = local.state(age);
        relay.publish_ok(&state).await?;
        local.push(node).await?;
        Ok(state)
    }

    /// What `gripfast cluster status` says.
    pub async fn status(&self) -> Result<Value> {
        let url = self.server.url();
        let arguments = ["cluster", "status", "--json", "--database-url", &url];
        let output = self.nodes[0].command(&arguments).output().await?;
        serde_json::from_slice(&output.stdout).with_context(|| {
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            format!("cluster status: {complaint}")
        })
    }

    /// The node that leads, once one does.
    pub async fn leader(&self) -> Result<usize> {
        until_ok("a node leads", async || {
            let leader = self.status().await?["leader"].clone();
            let name = leader.as_str().and_then(|name| name.strip_prefix("node-"));
            Ok(name.and_then(|number| number.parse().ok()))
        })
        .await
    }

    /// Waits until every running node has applied all of the log. One that ends meanwhile, as a leader
    /// does that finds out that it slept, is not waited for.
    pub async fn settle(&mut self) -> Result<()> {
        until_ok("every node has caught up", async || {
            let status = self.status().await?;
            let nodes = status["nodes"].as_array().context("no nodes")?;
            let behind = nodes.iter().filter(|node| node["records_behind"] != 0);
            let behind: Vec<&str> = behind.filter_map(|node| node["node"].as_str()).collect();
            let is_awaited = self.nodes.iter_mut().enumerate().any(|(at, node)| {
                behind.contains(&format!("node-{at}").as_str()) && node.is_running()
            });
            Ok((!is_awaited).then_some(()))
        })
        .await
    }

    /// Kills every node and starts all with further environment variables.
    pub async fn crash_and_restart(&mut self, env: &[(&str, &str)]) -> Result<()> {
        for node in &mut self.nodes {
            for (key, value) in env {
                node.set_env(key, value);
            }
            node.kill();
        }
        self.start_ended().await
    }

    /// Waits until every node is ready, and starts those that have ended as a service manager does: once
    /// more where one ends before it is ready. A new leader ends the sessions of the one before it, also
    /// those of its next life.
    pub async fn start_ended(&mut self) -> Result<()> {
        // Beside each other: one may need another to be ready.
        for node in &mut self.nodes {
            if !node.is_running() {
                node.spawn()?;
            }
        }
        for node in &mut self.nodes {
            let started = until_ok("the node is ready", async || {
                if !node.is_running() {
                    node.spawn()?;
                }
                let ready = node.get("/readyz").await;
                Ok(ready.is_ok_and(|it| it.status == 200).then_some(()))
            });
            let started = started.await;
            started.with_context(|| format!("log:\n{}", node.log()))?;
        }
        Ok(())
    }

    /// Every node lists the same refs of a project at this moment.
    pub async fn refs_everywhere(&self, local: &LocalProject) -> Result<Vec<(String, String)>> {
        let first = git::ls_remote(&local.url(&self.nodes[0])).await?;
        for node in &self.nodes[1..] {
            let refs = git::ls_remote(&local.url(node)).await?;
            ensure!(refs == first, "{refs:?} is not {first:?}");
        }
        Ok(first)
    }

    /// Waits until every running node has all packs that it keeps on its disk.
    pub async fn has_all_packs(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            if self.cache_bytes.is_none() && node.is_running() {
                let root = node.data_dir().join("git");
                while_advancing("the fetching of packs", DEADLINE, async || {
                    let missing = missing_packs(&root).len() as u64;
                    Ok((missing > 0).then_some(missing))
                })
                .await?;
            }
        }
        Ok(())
    }

    /// Stops all nodes and compares what is on their disks.
    pub async fn stop_and_compare(&mut self) -> Result<()> {
        self.settle().await?;
        self.has_all_packs().await?;
        // The leader last: nobody else begins to lead, and to change something, meanwhile.
        let leader = self.leader().await?;
        let followers = (0..self.nodes.len()).filter(|at| *at != leader);
        for at in followers.chain([leader]) {
            let node = &mut self.nodes[at];
            if node.is_running() {
                ensure!(node.stop().await?.success(), "{}", node.log());
            }
            ensure!(!node.log().contains("panicked"), "{}", node.log());
        }
        let copies: Result<Vec<Copy>> = self.nodes.iter().map(Copy::read).collect();
        let copies = copies?;
        let first = copies.first().context("no node")?;
        ensure!(!first.events.is_empty(), "nothing to compare");
        for (at, copy) in copies.iter().enumerate() {
            ensure!(copy == first, "node-{at}: {copy:#?} is not {first:#?}");
        }
        for node in &self.nodes {
            sound(&node.data_dir().join("git")).await?;
        }
        Ok(())
    }
}

/// What a node that does not run has on its disk.
#[derive(Debug, PartialEq, Eq)]
struct Copy {
    events: Vec<String>,
    /// `packed-refs` and `HEAD` of each repository, archived ones too, by its path.
    repositories: BTreeMap<String, (String, String)>,
}

impl Copy {
    fn read(node: &Node) -> Result<Self> {
        let store = EventStore::open(&node.data_dir().join("relay/events"), Options::default())?;
        let limits = Limits {
            default_limit: usize::MAX,
            max_limit: usize::MAX,
        };
        let mut events = Vec::new();
        let now = nostr::prelude::Timestamp::now();
        store.read()?.query(
            &[grip_nostr::Filter::default()],
            limits,
            now,
            &mut |stored| {
                events.push(String::from_utf8_lossy(stored.json).into_owned());
                std::ops::ControlFlow::Continue(())
            },
        )?;
        events.sort();
        let mut repositories = BTreeMap::new();
        let root = node.data_dir().join("git");
        for path in [repositories_below(&root)?, archives_below(&root)?].concat() {
            let text = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
            let named = path.strip_prefix(node.data_dir())?;
            let named = named.to_string_lossy().into_owned();
            repositories.insert(named, (text("packed-refs"), text("HEAD")));
        }
        Ok(Self {
            events,
            repositories,
        })
    }
}

/// The repositories of all owners.
fn repositories_below(root: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    for owner in std::fs::read_dir(root)? {
        let owner = owner?;
        if !owner.file_name().to_string_lossy().starts_with("npub1") {
            continue;
        }
        for repository in std::fs::read_dir(owner.path())? {
            found.push(repository?.path());
        }
    }
    Ok(found)
}

/// The archived repositories of all owners.
fn archives_below(root: &Path) -> Result<Vec<std::path::PathBuf>> {
    let archive = root.join(".archive");
    if !archive.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for owner in std::fs::read_dir(archive)? {
        for stamp in std::fs::read_dir(owner?.path())? {
            for repository in std::fs::read_dir(stamp?.path())? {
                found.push(repository?.path());
            }
        }
    }
    Ok(found)
}

/// Names of the stores below a root whose packs are not all there.
pub fn missing_packs(root: &Path) -> Vec<String> {
    let stores = std::fs::read_dir(root.join(".objects"));
    let stores = stores.into_iter().flatten().flatten();
    let cold = stores.filter(|store| store.path().join("missing-packs").exists());
    cold.map(|store| store.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Every object that a ref of any repository needs is there, where all packs are.
async fn sound(root: &Path) -> Result<()> {
    let cold = missing_packs(root);
    for path in repositories_below(root)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if cold.iter().any(|store| *store == name) {
            continue;
        }
        let checked = git::run(&path, ["fsck", "--full", "--strict", "--no-dangling"]).await?;
        checked
            .text()
            .with_context(|| format!("fsck of {}", path.display()))?;
    }
    Ok(())
}
