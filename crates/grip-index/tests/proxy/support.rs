//! A node's repositories, an index of them, and a server for the go command.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    io::Write as _,
    ops::Deref,
    path::Path,
    process::{Output, Stdio},
    sync::Arc,
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use grip_db::TestDatabase;
use grip_git::{Options as GitOptions, Repositories};
use grip_index::{
    Index, Source as _, SumDb, SumDbOptions, Tags, TagsQuery,
    hosted::{Claim, Hosted, ModulePaths, Parts},
    proxy::{Answer, Caller, Fault, Options, Proxy, ProxyError, Recorder, Request},
};
use grip_nostr::ServedRepositories;
use grip_queue::Queue;
use grip_tasks::TaskGroup;
use grip_testkit::{Author, WorkTree, git, until};
use grip_types::{Identifier, Oid, RefEdit, RefName, RepoAddr, Service};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{Response, body::Frame, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::TcpListener;

pub const DOMAIN: &str = "git.example";

/// What a test has of a node.
pub struct World {
    _dir: TempDir,
    pub repositories: Repositories,
    pub hosted: Hosted,
    pub served: Arc<ServedSet>,
    pub test: TestDatabase,
    index: Index,
    pub proxy: Proxy,
    pub owner: Author,
    pub group: TaskGroup,
}

/// The repositories that count as served.
#[derive(Default)]
pub struct ServedSet(Mutex<BTreeSet<RepoAddr>>);

impl ServedSet {
    pub fn add(&self, repo: &RepoAddr) {
        self.0.lock().insert(repo.clone());
    }

    pub fn remove(&self, repo: &RepoAddr) {
        self.0.lock().remove(repo);
    }
}

impl ServedRepositories for ServedSet {
    fn is_served(&self, repo: &RepoAddr) -> bool {
        self.0.lock().contains(repo)
    }

    fn page(&self, after: Option<&RepoAddr>, limit: usize) -> Vec<RepoAddr> {
        let all = self.0.lock();
        let behind = all
            .iter()
            .filter(|repo| after.is_none_or(|after| *repo > after));
        behind.take(limit).cloned().collect()
    }
}

/// The checksum database of a node with its data in `dir`.
pub async fn open_sumdb(test: &TestDatabase, dir: &Path, group: &TaskGroup) -> SumDb {
    let options = SumDbOptions {
        db: test.db().clone(),
        name: None,
        default_name: "sum.example".to_owned(),
        seed: [7; 32],
        directory: dir.join("sumdb"),
        group: group.clone(),
    };
    SumDb::open(options).await.unwrap()
}

/// Has every version logged that a proxy with a checksum database serves.
pub fn start_recorder(proxy: &Proxy, group: &TaskGroup) {
    if let Some(recorder) = Recorder::new(proxy.clone()) {
        drop(group.spawn("recorder", recorder.run(group.token())));
    }
}

impl World {
    pub async fn new() -> Self {
        Self::with(Options::default(), "").await
    }

    /// `claimed` is a prefix that the owner may speak for, besides places.
    pub async fn with(options: Options, claimed: &str) -> Self {
        Self::made(options, claimed, false).await
    }

    /// A node that logs checksums.
    pub async fn logging() -> Self {
        Self::made(Options::default(), "", true).await
    }

    async fn made(options: Options, claimed: &str, is_logging: bool) -> Self {
        let dir = TempDir::new().unwrap();
        let repositories = Repositories::open(GitOptions::new(dir.path().join("git"))).unwrap();
        let served = Arc::<ServedSet>::default();
        let owner = Author::new();
        let group = TaskGroup::new("test");
        let claims = match claimed {
            "" => Vec::new(),
            prefix => vec![Claim::parse(&format!("{prefix}={}", owner.npub())).unwrap()],
        };
        let hosted = Hosted::new(Parts {
            repositories: repositories.clone(),
            served: Arc::clone(&served) as Arc<dyn ServedRepositories>,
            module_paths: ModulePaths::of(&Service::parse(DOMAIN).unwrap()),
            claims,
            node: String::new(),
            group: group.clone(),
        });
        let test = TestDatabase::sqlite().await;
        let index = Index::start(grip_index::Parts {
            db: test.db().clone(),
            queue: Queue::new(test.db().clone()),
            sources: vec![Arc::new(hosted.clone())],
            options: grip_index::Options::default(),
            group: group.clone(),
        });
        let index = index.await.unwrap();
        let sumdb = if is_logging {
            Some(open_sumdb(&test, dir.path(), &group).await)
        } else {
            None
        };
        let proxy = Proxy::new(test.db().clone(), hosted.clone(), sumdb, None, options);
        start_recorder(&proxy, &group);
        Self {
            _dir: dir,
            repositories,
            hosted,
            served,
            test,
            index,
            proxy,
            owner,
            group,
        }
    }

    pub fn repo(&self, identifier: &str) -> RepoAddr {
        RepoAddr::new(self.owner.pubkey(), Identifier::parse(identifier).unwrap())
    }

    /// The module path of a repository's root.
    pub fn path(&self, identifier: &str) -> String {
        format!("{DOMAIN}/{}/{identifier}", self.owner.npub())
    }

    /// Makes all of `work` a served repository, and indexes it.
    pub async fn publish(&self, identifier: &str, work: &WorkTree) -> RepoAddr {
        let repo = self.repo(identifier);
        self.push(&repo, work).await;
        self.index(&repo).await;
        repo
    }

    /// Brings the objects and refs of `work` into a repository, and removes all other refs.
    pub async fn push(&self, repo: &RepoAddr, work: &WorkTree) {
        self.repositories.create(repo).unwrap();
        let pack = pack(work.path());
        let quarantine = self.repositories.receive(&repo.identifier, &pack[..]).await;
        quarantine.unwrap().promote().unwrap();
        let wanted = refs(work);
        let known = self.repositories.refs(repo).unwrap();
        let is_gone = |name: &RefName| wanted.iter().all(|(wanted, _)| wanted != name);
        let gone = known.iter().map(|r| r.name.clone()).filter(is_gone);
        let edit = |name: RefName, new| RefEdit {
            old: known.get(&name).map(|found| found.oid),
            name,
            new,
        };
        let mut edits: Vec<RefEdit> = gone.map(|name| edit(name, None)).collect();
        edits.extend(
            wanted
                .iter()
                .map(|(name, oid)| edit(name.clone(), Some(*oid))),
        );
        let head = RefName::parse("refs/heads/main").unwrap();
        self.repositories
            .update_refs(repo, &edits, Some(&head))
            .unwrap();
        self.served.add(repo);
    }

    /// Has the index look at a repository, and waits until it knows all of its tags.
    pub async fn index(&self, repo: &RepoAddr) {
        let name = self.hosted.name_of(repo);
        let tags = self.hosted.tags(&name, TagsQuery::default()).await.unwrap();
        let Tags::Page(page) = tags else {
            panic!("{tags:?}");
        };
        let tags = page
            .tags
            .into_iter()
            .map(|tag| (tag.name, tag.commit.to_hex()));
        let expected: BTreeSet<(String, String)> = tags.collect();
        self.index.repos_changed(vec![name.clone()]).await.unwrap();
        let known = || async { (self.known_tags(&name).await == expected).then_some(()) };
        until("the index knows the tags", known).await.unwrap();
    }

    async fn known_tags(&self, repo: &str) -> BTreeSet<(String, String)> {
        let (mut known, mut after) = (BTreeSet::new(), String::new());
        loop {
            let page = self.index.tags(repo, &after, 2_000).await.unwrap();
            let Some(last) = page.last() else {
                return known;
            };
            after = last.name.clone();
            known.extend(page.into_iter().map(|tag| (tag.name, tag.commit)));
        }
    }

    pub async fn ask(&self, path: &str) -> Result<Bytes, ProxyError> {
        ask(&self.proxy, path, Caller::default()).await
    }

    pub async fn text(&self, path: &str) -> String {
        let answer = self.ask(path).await;
        let bytes = answer.unwrap_or_else(|error| panic!("{path}: {error}"));
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    pub async fn json(&self, path: &str) -> serde_json::Value {
        serde_json::from_str(&self.text(path).await).unwrap()
    }

    /// What the proxy says instead of an answer.
    pub async fn refusal(&self, path: &str) -> String {
        match self.ask(path).await {
            Err(error @ ProxyError::NotFound { .. }) => error.to_string(),
            other => panic!("{path}: {other:?}"),
        }
    }

    /// Serves the proxy on a port of its own, and gives the value of GOPROXY.
    pub async fn serve(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (proxy, group) = (self.proxy.clone(), self.group.clone());
        let serving = async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let proxy = proxy.clone();
                let answer = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let (proxy, path) = (proxy.clone(), request.uri().path().to_owned());
                    async move { Ok::<_, Infallible>(respond(&proxy, &path).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer);
                drop(group.spawn("connection", connection));
            }
        };
        drop(self.group.spawn("server", serving));
        format!("http://127.0.0.1:{port}/go")
    }
}

/// What a proxy answers to who asks.
pub async fn ask(proxy: &Proxy, path: &str, caller: Caller) -> Result<Bytes, ProxyError> {
    Ok(match proxy.answer(&Request::parse(path)?, caller).await? {
        Answer::List(text) => text.into(),
        Answer::Info(bytes) | Answer::GoMod(bytes) => bytes,
        Answer::Zip(zip) => {
            let mut body = zip.open().await?;
            let mut all = Vec::new();
            while let Some(chunk) = body.next().await {
                all.extend(chunk.map_err(|_| ProxyError::Unavailable {
                    source: Fault::CutShort,
                })?);
            }
            all.into()
        }
    })
}

type HttpBody = UnsyncBoxBody<Bytes, std::io::Error>;

async fn respond(proxy: &Proxy, path: &str) -> Response<HttpBody> {
    let whole = |status: u16, bytes: Bytes| {
        let body = Full::new(bytes).map_err(|never| match never {});
        Response::builder()
            .status(status)
            .header("content-type", "text/plain; charset=utf-8")
            .body(body.boxed_unsync())
            .unwrap()
    };
    let answer = async {
        let request = Request::parse(path.strip_prefix("/go/").unwrap_or_default())?;
        match proxy.answer(&request, Caller::default()).await? {
            Answer::List(text) => Ok(whole(200, text.into())),
            Answer::Info(bytes) | Answer::GoMod(bytes) => Ok(whole(200, bytes)),
            Answer::Zip(zip) => {
                let body = zip.open().await?.map(|chunk| chunk.map(Frame::data));
                Ok(Response::new(StreamBody::new(body).boxed_unsync()))
            }
        }
    };
    answer.await.unwrap_or_else(|error: ProxyError| {
        let status = match error {
            ProxyError::NotFound { .. } => 404,
            ProxyError::Busy { .. } => 503,
            _ => 500,
        };
        whole(status, error.to_string().into())
    })
}

fn refs(work: &WorkTree) -> Vec<(RefName, Oid)> {
    let listed = work
        .git(["for-each-ref", "--format=%(refname) %(objectname)"])
        .unwrap();
    let pair = |line: &str| {
        let (name, oid) = line.split_once(' ').unwrap();
        (RefName::parse(name).unwrap(), oid.parse().unwrap())
    };
    listed.lines().map(pair).collect()
}

/// A pack of all that the refs of a repository reach.
fn pack(directory: &Path) -> Vec<u8> {
    let mut child = git::command(
        directory,
        ["pack-objects", "--quiet", "--stdout", "--revs", "--all"],
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// Sets many refs at once.
pub fn set_refs(work: &WorkTree, names: impl Iterator<Item = String>, oid: &str) {
    let mut child = git::command(work.path(), ["update-ref", "--stdin"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for name in names {
        writeln!(stdin, "update {name} {oid}").unwrap();
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

/// Writes an object that git's own commands would not.
pub fn write_object(work: &WorkTree, kind: &str, contents: &[u8]) -> String {
    let arguments = ["hash-object", "-w", "-t", kind, "--literally", "--stdin"];
    let mut child = git::command(work.path(), arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(contents).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A node with one repository, whose root is a module unless it is empty.
pub struct Scene {
    pub world: World,
    identifier: &'static str,
    /// The module path of its root.
    pub path: String,
    work: WorkTree,
}

impl Deref for Scene {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Scene {
    /// A repository with one module at its root, tagged.
    pub async fn new(identifier: &'static str, tags: &[&str]) -> Self {
        Self::with(Options::default(), identifier, tags).await
    }

    pub async fn with(options: Options, identifier: &'static str, tags: &[&str]) -> Self {
        let world = World::with(options, "").await;
        let path = world.path(identifier);
        Self::of(world, identifier, path).tagged(tags)
    }

    /// A repository without a commit.
    pub async fn empty(identifier: &'static str) -> Self {
        let world = World::new().await;
        Self {
            path: world.path(identifier),
            world,
            identifier,
            work: WorkTree::init().unwrap(),
        }
    }

    /// A repository whose go.mod names the module `path`.
    pub fn of(world: World, identifier: &'static str, path: String) -> Self {
        let work = module(&path);
        Self {
            world,
            identifier,
            path,
            work,
        }
    }

    pub fn tagged(self, tags: &[&str]) -> Self {
        tags.iter().for_each(|tag| self.tag(tag));
        self
    }

    pub fn git<const N: usize>(&self, arguments: [&str; N]) -> String {
        self.work.git(arguments).unwrap()
    }

    pub fn commit(&self, file: &str, text: &str) -> String {
        self.work.commit(file, text).unwrap()
    }

    pub fn tag(&self, tag: &str) {
        self.git(["tag", tag]);
    }

    pub fn tip(&self, revision: &str) -> String {
        self.work.tip(revision).unwrap()
    }

    pub fn work(&self) -> &WorkTree {
        &self.work
    }

    /// Has the repository served as it is now, and indexed.
    pub async fn publish(&self) -> RepoAddr {
        self.world.publish(self.identifier, &self.work).await
    }

    /// Has the repository served as it is now; the index does not know yet.
    pub async fn push(&self) {
        let repo = self.world.repo(self.identifier);
        self.world.push(&repo, &self.work).await;
    }

    /// What the proxy answers to `@v/…`.
    pub async fn get(&self, file: &str) -> String {
        self.world.text(&format!("{}/@v/{file}", self.path)).await
    }

    pub async fn zip(&self, version: &str) -> Bytes {
        let file = format!("{}/@v/{version}.zip", self.path);
        self.world.ask(&file).await.unwrap()
    }

    pub async fn info(&self, revision: &str) -> serde_json::Value {
        serde_json::from_str(&self.get(&format!("{revision}.info")).await).unwrap()
    }

    /// The version that a branch or a commit has.
    pub async fn version(&self, revision: &str) -> String {
        self.info(revision).await["Version"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub async fn latest(&self) -> serde_json::Value {
        self.world.json(&format!("{}/@latest", self.path)).await["Version"].clone()
    }

    /// The proxy refuses `@v/…` for this reason.
    pub async fn refuses(&self, file: &str, reason: &str) {
        let said = self
            .world
            .refusal(&format!("{}/@v/{file}", self.path))
            .await;
        assert!(said.contains(reason), "{file}: {said}");
    }

    /// The go command, with this node as its proxy.
    pub async fn go(&self) -> Go {
        Go::new(&self.world.serve().await)
    }
}

/// A repository with one module at its root.
pub fn module(path: &str) -> WorkTree {
    let work = WorkTree::init().unwrap();
    let go_mod = format!("module {path}\n\ngo 1.19\n");
    work.commit("go.mod", &go_mod).unwrap();
    let text = "package hello\n\nconst Greeting = \"hello\"\n";
    work.commit("hello.go", text).unwrap();
    work
}

/// The go command with a module of its own to work in, and nothing of the user's.
pub struct Go {
    dir: TempDir,
    proxy: String,
}

impl Go {
    pub fn new(proxy: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let main = dir.path().join("main");
        std::fs::create_dir(&main).unwrap();
        std::fs::write(main.join("go.mod"), "module example.com/main\n\ngo 1.19\n").unwrap();
        let proxy = proxy.to_owned();
        Self { dir, proxy }
    }

    /// Runs go, which succeeds.
    pub async fn does(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        output.unwrap_or_else(|error| panic!("go {arguments:?}: {error}"))
    }

    /// Runs go, which fails and says so.
    pub async fn fails(&self, arguments: &[&str], reason: &str) {
        let said = self.run(arguments).await.unwrap_err();
        assert!(said.contains(reason), "go {arguments:?}: {said}");
    }

    /// Whether the main module requires a module, of which this is the path and the version's
    /// beginning.
    pub fn requires(&self, module: &str) -> bool {
        self.main_go_mod().contains(module)
    }

    async fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let Output {
            status,
            stdout,
            stderr,
        } = self.output(arguments).await;
        let (stdout, stderr) = (text(stdout), text(stderr));
        if status.success() {
            Ok(stdout)
        } else {
            Err(format!("{stdout}{stderr}"))
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the real go command is the client here"
    )]
    async fn output(&self, arguments: &[&str]) -> Output {
        let below = |name: &str| self.dir.path().join(name);
        tokio::process::Command::new("go")
            .current_dir(below("main"))
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", below("home"))
            .env("GOPATH", below("path"))
            .env("GOMODCACHE", below("modules"))
            .env("GOCACHE", below("cache"))
            .env("GOFLAGS", "-mod=mod -modcacherw")
            .env("GOPROXY", &self.proxy)
            .env("GONOSUMDB", "*")
            .env("GOSUMDB", "off")
            .env("GOTELEMETRY", "off")
            .kill_on_drop(true)
            .output()
            .await
            .expect("go is installed")
    }

    /// A file of the module cache.
    pub fn cached(&self, name: &str) -> String {
        let path = self.dir.path().join("modules").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
    }

    pub fn has(&self, name: &str) -> bool {
        self.dir.path().join("modules").join(name).exists()
    }

    /// Writes a file of the main module.
    pub fn write(&self, name: &str, contents: &str) {
        std::fs::write(self.dir.path().join("main").join(name), contents).unwrap();
    }

    fn main_go_mod(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("main/go.mod")).unwrap()
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}
