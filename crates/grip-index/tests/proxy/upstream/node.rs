//! A node that indexes an organisation on a made-up GitHub.

use std::{convert::Infallible, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use grip_db::TestDatabase;
use grip_egress::Egress;
use grip_git::{Options as GitOptions, Repositories};
use grip_github::{GitHub, Login, Owner, Token};
use grip_go::{ModulePath, Version};
use grip_index::{
    GitHubOptions, GitHubSource, Index, PrivateRepos, Reader, Record, SumDb, SumDbRequest,
    hosted::{Hosted, ModulePaths, Parts},
    proxy::{
        Caller, Options, Proxy, ProxyError, SumCheck, SumCheckParts, Upstream, UpstreamHost,
        UpstreamOptions, UpstreamParts, UpstreamStatus,
    },
};
use grip_limits::Throttle;
use grip_queue::Queue;
use grip_tasks::TaskGroup;
use grip_testkit::{
    FakeGitHub, WorkTree,
    github::{Limits, Setup},
    until,
};
use grip_types::{Domain, NetworkPrefixes, Service};
use http_body_util::Full;
use hyper::{Response, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::support::{ServedSet, ask, module, open_sumdb, start_recorder};

const TOKEN: &str = "the-token";
pub const PATH: &str = "github.com/acme/lib";

/// A node that indexes an organisation, and its GitHub.
pub struct Node {
    dir: TempDir,
    pub github: FakeGitHub,
    pub test: TestDatabase,
    index: Index,
    pub proxy: Proxy,
    _group: TaskGroup,
}

#[derive(Default)]
pub struct Settings {
    pub options: UpstreamOptions,
    /// The checksum database of another node, and what it is not asked about.
    pub checker: Option<(String, Vec<&'static str>)>,
}

impl Settings {
    pub fn new() -> Self {
        Self {
            options: UpstreamOptions {
                failure_for: Duration::ZERO,
                ..UpstreamOptions::default()
            },
            checker: None,
        }
    }
}

pub fn caller(last: u8) -> Caller {
    let ip = IpAddr::from([192, 0, 2, last]);
    Caller {
        network: Some(NetworkPrefixes::default().network(ip)),
        ..Caller::default()
    }
}

pub fn reader() -> Caller {
    Caller {
        reader: Reader::All,
        ..Caller::default()
    }
}

fn egress(domain: &str) -> Egress {
    let throttle = Throttle::memory(grip_limits::Options {
        limits: grip_limits::Limits {
            in_flight: 6,
            per_window: 1_000_000,
            window: Duration::from_secs(1),
        },
        ..grip_limits::Options::default()
    });
    let options = grip_egress::Options {
        private_hosts: vec![Domain::parse(domain).unwrap()],
        ..grip_egress::Options::default()
    };
    Egress::new(options, throttle).unwrap()
}

impl Node {
    pub async fn new() -> Self {
        Self::with(Settings::new()).await
    }

    pub async fn with(settings: Settings) -> Self {
        let dir = TempDir::new().unwrap();
        let setup = Setup {
            tokens: vec![TOKEN.to_owned()],
            base: String::new(),
            limits: Limits {
                unmetered: true,
                ..Limits::default()
            },
        };
        let github = FakeGitHub::with("127.0.0.1", setup).await.unwrap();
        let group = TaskGroup::new("test");
        let repositories = Repositories::open(GitOptions::new(dir.path().join("git"))).unwrap();
        let gateway = GitHub::new(
            grip_github::Options {
                api: github.api().parse().unwrap(),
                tokens: vec![Token::new(TOKEN).unwrap()],
                ..grip_github::Options::default()
            },
            egress(&github.domain()),
        )
        .unwrap();
        let hosted = Hosted::new(Parts {
            repositories: repositories.clone(),
            served: Arc::<ServedSet>::default(),
            module_paths: ModulePaths::of(&Service::parse("git.example").unwrap()),
            claims: Vec::new(),
            node: String::new(),
            group: group.clone(),
        });
        let owner = Owner::Org(Login::parse("acme").unwrap());
        let options = GitHubOptions {
            private: PrivateRepos::All,
            graphql: false,
            ..GitHubOptions::default()
        };
        let source = GitHubSource::new(gateway.clone(), "github.com", owner, options);
        let test = TestDatabase::sqlite().await;
        let index = Index::start(grip_index::Parts {
            db: test.db().clone(),
            queue: Queue::new(test.db().clone()),
            sources: vec![Arc::new(hosted.clone()), Arc::new(source)],
            options: grip_index::Options {
                poll: Duration::from_millis(100),
                ..grip_index::Options::default()
            },
            group: group.clone(),
        });
        let index = index.await.unwrap();
        let sumdb = open_sumdb(&test, dir.path(), &group).await;
        let checker = settings.checker.map(|(key, excepted)| {
            SumCheck::new(SumCheckParts {
                key: key.parse().unwrap(),
                egress: egress("127.0.0.1"),
                excepted: excepted.iter().map(|it| it.parse().unwrap()).collect(),
            })
        });
        let upstream = Upstream::start(UpstreamParts {
            hosts: vec![UpstreamHost {
                name: "github.com".to_owned(),
                url: github.api().parse().unwrap(),
                egress: egress(&github.domain()),
                credentials: gateway.clone_credentials().to_vec(),
            }],
            repositories,
            directory: dir.path().join("modules"),
            options: settings.options,
            checker,
            group: group.clone(),
        })
        .unwrap();
        let proxy = Proxy::new(
            test.db().clone(),
            hosted,
            Some(sumdb),
            Some(upstream),
            Options::default(),
        );
        start_recorder(&proxy, &group);
        Self {
            dir,
            github,
            test,
            index,
            proxy,
            _group: group,
        }
    }

    /// A node with one public repository that holds a module, tagged v1.0.0.
    pub async fn with_module(settings: Settings) -> (Self, WorkTree) {
        let node = Self::with(settings).await;
        let work = module(PATH);
        work.git(["tag", "v1.0.0"]).unwrap();
        node.github.add("acme/lib");
        node.publish("lib", &work).await;
        (node, work)
    }

    /// Has GitHub serve all of `work`, and waits until the index knows its tags.
    pub async fn publish(&self, name: &str, work: &WorkTree) {
        let full = format!("acme/{name}");
        self.github.publish(&full, work).unwrap();
        let mut expected = self.github.tags(&full);
        expected.sort();
        let repo = format!("github.com/{full}");
        let known = || async {
            self.index
                .source_push("github.com", "acme", name)
                .await
                .unwrap();
            let tags = self.index.tags(&repo, "", 100).await.unwrap();
            let tags: Vec<_> = tags.into_iter().map(|tag| (tag.name, tag.commit)).collect();
            (tags == expected).then_some(())
        };
        until("the index knows the tags", known).await.unwrap();
    }

    /// Has GitHub show a repository to everybody, and waits until the index knows it.
    pub async fn open_to_everybody(&self, name: &str) {
        self.github
            .change(&format!("acme/{name}"), |repo| repo.private = false);
        let listed = || async {
            self.index
                .source_push("github.com", "acme", name)
                .await
                .unwrap();
            self.get("list", caller(1)).await.ok()
        };
        until("the index knows that it is public", listed)
            .await
            .unwrap();
    }

    pub async fn get(&self, file: &str, caller: Caller) -> Result<Bytes, ProxyError> {
        ask(&self.proxy, &format!("{PATH}/@v/{file}"), caller).await
    }

    pub fn status(&self) -> UpstreamStatus {
        self.proxy.upstream_status().unwrap()
    }

    /// Requests to the git server.
    pub fn fetches(&self, name: &str) -> usize {
        let path = format!("/acme/{name}.git/git-upload-pack");
        self.github.requests_for(&path).len()
    }

    pub fn cached_files(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.dir.path().join("modules")).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    }

    pub async fn record(&self, version: &str) -> Option<Record> {
        let (path, version) = (
            ModulePath::parse(PATH).unwrap(),
            Version::parse(version).unwrap(),
        );
        self.proxy
            .sumdb()
            .unwrap()
            .find(&path, &version)
            .await
            .unwrap()
    }
}

/// The checksum database of a node on a port of its own: its GOSUMDB, and what it was asked for.
pub async fn serve_sumdb(node: &Node) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let sumdb = node.proxy.sumdb().unwrap().clone();
    let setting = format!("{} http://127.0.0.1:{port}/db", sumdb.verifier());
    let noted = Arc::clone(&asked);
    let serving = async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (sumdb, noted) = (sumdb.clone(), Arc::clone(&noted));
            let answer = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let (sumdb, noted) = (sumdb.clone(), Arc::clone(&noted));
                async move {
                    let path = request.uri().path().trim_start_matches("/db/").to_owned();
                    noted.lock().push(path.clone());
                    let body = sumdb_file(&sumdb, &path).await;
                    let status = if body.is_some() { 200 } else { 404 };
                    let response = Response::builder().status(status);
                    let body = Full::new(body.unwrap_or_default());
                    Ok::<_, Infallible>(response.body(body).unwrap())
                }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer);
            drop(grip_tasks::TaskGroup::new("db").spawn("connection", connection));
        }
    };
    drop(node._group.spawn("sumdb", serving));
    (setting, asked)
}

async fn sumdb_file(sumdb: &SumDb, path: &str) -> Option<Bytes> {
    match SumDbRequest::parse(path)? {
        SumDbRequest::Lookup(path, version) => {
            let record = sumdb.find(&path, &version).await.unwrap()?;
            let head = sumdb.latest().await.unwrap();
            Some(format!("{}\n{}\n{head}", record.id, record.text()).into())
        }
        SumDbRequest::Tile(tile) => sumdb.tile(tile).await.unwrap(),
        _ => None,
    }
}
