//! A source in memory, and an index over it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use grip_db::{Db, TestDatabase};
use grip_go::ModulePath;
use grip_index::{
    Audience, Change, Changes, FeedQuery, GoMod, Index, Listed, Listing, Options, Parts, Reader,
    Source, SourceError, SourceFuture, TagAt, TagFacts, TagPage, Tags, TagsQuery, Trust,
};
use grip_queue::{Backoff, Filter, JobFacts, Queue, State};
use grip_tasks::TaskGroup;
use grip_types::Oid;
use parking_lot::Mutex;

pub const HOST: &str = "fake.example";

/// A host in memory with the repositories of one organisation. Notes every call.
pub struct FakeSource {
    name: String,
    owner: String,
    world: Mutex<World>,
}

#[derive(Default)]
struct World {
    repos: BTreeMap<String, BTreeMap<String, u32>>,
    go_mods: BTreeMap<(String, String), Bytes>,
    unlisted: BTreeSet<String>,
    restricted: BTreeSet<String>,
    faults: BTreeMap<String, VecDeque<SourceError>>,
    calls: Vec<String>,
    page: usize,
    etags: bool,
    trusts_others: bool,
    policy: String,
}

pub fn oid(n: u32) -> Oid {
    let mut bytes = [0; 20];
    bytes[16..].copy_from_slice(&n.to_be_bytes());
    bytes[0] = 1;
    Oid::from_bytes(&bytes).unwrap()
}

fn number(oid: &Oid) -> u32 {
    u32::from_be_bytes(oid.as_bytes()[16..].try_into().unwrap())
}

impl FakeSource {
    pub fn new(owner: &str) -> Arc<Self> {
        Self::named(&format!("{HOST}/orgs/{owner}"), owner)
    }

    /// A source of one repository, `one`, with tags at these commits.
    pub fn one(tags: &[(&str, u32)]) -> Arc<Self> {
        let source = Self::new("acme");
        source.add("one");
        for (tag, commit) in tags {
            source.tag("one", tag, *commit);
        }
        source
    }

    pub fn named(name: &str, owner: &str) -> Arc<Self> {
        let world = World {
            page: 100,
            trusts_others: true,
            ..World::default()
        };
        Arc::new(Self {
            name: name.to_owned(),
            owner: owner.to_owned(),
            world: Mutex::new(world),
        })
    }

    /// The repositories that `node` has itself.
    pub fn hosted(node: &str) -> Arc<Self> {
        Self::named(&format!("hosted@{node}"), node)
    }

    /// The name by which the index knows a repository.
    pub fn full(&self, repo: &str) -> String {
        format!("{HOST}/{}/{repo}", self.owner)
    }

    /// Adds a repository whose go.mod names it as a module.
    pub fn add(&self, repo: &str) {
        let full = self.full(repo);
        self.add_named(repo, &format!("module {full}\n"));
    }

    pub fn add_named(&self, repo: &str, go_mod: &str) {
        let full = self.full(repo);
        let mut world = self.world.lock();
        world.repos.insert(full.clone(), BTreeMap::new());
        let text = Bytes::copy_from_slice(go_mod.as_bytes());
        world.go_mods.insert((full, String::new()), text);
    }

    pub fn remove(&self, repo: &str) {
        self.world.lock().repos.remove(&self.full(repo));
    }

    pub fn tag(&self, repo: &str, tag: &str, commit: u32) {
        let full = self.full(repo);
        let mut world = self.world.lock();
        let tags = world.repos.get_mut(&full).expect("the repository is there");
        tags.insert(tag.to_owned(), commit);
    }

    pub fn untag(&self, repo: &str, tag: &str) {
        let full = self.full(repo);
        let mut world = self.world.lock();
        let tags = world.repos.get_mut(&full).expect("the repository is there");
        tags.remove(tag);
    }

    pub fn go_mod(&self, repo: &str, dir: &str, text: impl Into<Bytes>) {
        let place = (self.full(repo), dir.to_owned());
        self.world.lock().go_mods.insert(place, text.into());
    }

    /// Leaves a repository out of listings, though it is there.
    pub fn unlist(&self, repo: &str) {
        self.world.lock().unlisted.insert(self.full(repo));
    }

    /// Makes a repository one that not everybody may see, or one that everybody may.
    pub fn restrict(&self, repo: &str, is_restricted: bool) {
        let (full, mut world) = (self.full(repo), self.world.lock());
        if is_restricted {
            world.restricted.insert(full);
        } else {
            world.restricted.remove(&full);
        }
    }

    fn audience(world: &World, repo: &str) -> Audience {
        if world.restricted.contains(repo) {
            Audience::Readers
        } else {
            Audience::Anybody
        }
    }

    /// The next calls that begin so fail, one after the other.
    pub fn fail(&self, call: &str, errors: impl IntoIterator<Item = SourceError>) {
        let mut world = self.world.lock();
        world
            .faults
            .insert(call.to_owned(), errors.into_iter().collect());
    }

    pub fn set_page(&self, page: usize) {
        self.world.lock().page = page;
    }

    pub fn use_etags(&self) {
        self.world.lock().etags = true;
    }

    pub fn set_policy(&self, policy: &str, trusts_others: bool) {
        let mut world = self.world.lock();
        world.policy = policy.to_owned();
        world.trusts_others = trusts_others;
    }

    /// The calls so far, and forgets them.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.world.lock().calls)
    }

    /// Notes a call and says whether it fails.
    fn called(&self, call: String) -> Result<(), SourceError> {
        let mut world = self.world.lock();
        let mut faults = world.faults.iter_mut();
        let fault = faults.find(|(start, faults)| call.starts_with(*start) && !faults.is_empty());
        let fault = fault.and_then(|(_, faults)| faults.pop_front());
        world.calls.push(call);
        fault.map_or(Ok(()), Err)
    }

    fn page(&self, cursor: Option<String>) -> Result<Listing, SourceError> {
        let after = cursor.unwrap_or_default();
        self.called(format!("list {after}"))?;
        let world = self.world.lock();
        let listed = world.repos.keys();
        let listed = listed.filter(|repo| !world.unlisted.contains(*repo) && **repo > after);
        let repos: Vec<_> = listed.take(world.page).cloned().collect();
        let is_full = repos.len() == world.page;
        let next = repos.last().filter(|_| is_full).cloned();
        let listed = repos.into_iter().map(|name| Listed {
            audience: Self::audience(&world, &name),
            name,
        });
        Ok(Listing {
            repos: listed.collect(),
            next,
        })
    }

    fn all_tags(&self, repo: &str, etag: Option<&str>) -> Result<Tags, SourceError> {
        self.called(format!("tags {repo}"))?;
        let world = self.world.lock();
        let Some(tags) = world.repos.get(repo) else {
            return Ok(Tags::Gone);
        };
        let mut hasher = DefaultHasher::new();
        tags.hash(&mut hasher);
        let now = world.etags.then(|| format!("{:x}", hasher.finish()));
        if now.is_some() && now.as_deref() == etag {
            return Ok(Tags::Unchanged);
        }
        let tag = |(name, commit): (&String, &u32)| TagAt {
            name: name.clone(),
            object: oid(*commit),
            commit: oid(*commit),
        };
        Ok(Tags::Page(TagPage {
            tags: tags.iter().map(tag).collect(),
            etag: now,
            ..TagPage::default()
        }))
    }

    fn file(&self, repo: &str, commit: &Oid, dir: &str) -> Result<GoMod, SourceError> {
        self.called(format!("go.mod {repo} {} {dir}", number(commit)))?;
        let world = self.world.lock();
        let text = world.go_mods.get(&(repo.to_owned(), dir.to_owned()));
        Ok(match text {
            Some(text) if text.len() > grip_go::go_mod::MAX_BYTES => GoMod::TooLarge,
            Some(text) => GoMod::Text(text.clone()),
            None => GoMod::Absent,
        })
    }
}

impl Source for FakeSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_local(&self) -> bool {
        self.name.starts_with("hosted@")
    }

    fn policy(&self) -> String {
        self.world.lock().policy.clone()
    }

    fn list(&self, cursor: Option<String>) -> SourceFuture<'_, Listing> {
        Box::pin(async move { self.page(cursor) })
    }

    fn tags<'a>(&'a self, repo: &'a str, query: TagsQuery) -> SourceFuture<'a, Tags> {
        Box::pin(async move { self.all_tags(repo, query.etag.as_deref()) })
    }

    fn is_there<'a>(&'a self, repo: &'a str) -> SourceFuture<'a, Option<Audience>> {
        Box::pin(async move {
            self.called(format!("is there {repo}"))?;
            let world = self.world.lock();
            let is_there = world.repos.contains_key(repo);
            Ok(is_there.then(|| Self::audience(&world, repo)))
        })
    }

    fn admits<'a>(&'a self, repo: &'a str) -> SourceFuture<'a, Option<Audience>> {
        Box::pin(async move { Ok(Some(Self::audience(&self.world.lock(), repo))) })
    }

    fn created<'a>(&'a self, repo: &'a str, tag: &'a TagAt) -> SourceFuture<'a, i64> {
        Box::pin(async move {
            let commit = number(&tag.commit);
            self.called(format!("created {repo} {commit}"))?;
            Ok(i64::from(commit) * 1_000)
        })
    }

    fn go_mod<'a>(
        &'a self,
        repo: &'a str,
        commit: &'a Oid,
        dir: &'a str,
    ) -> SourceFuture<'a, GoMod> {
        Box::pin(async move { self.file(repo, commit, dir) })
    }

    fn location(&self, repo: &str) -> Option<ModulePath> {
        ModulePath::parse(repo).ok()
    }

    fn trusts(&self, repo: &str, path: &ModulePath) -> Trust {
        let root = ModulePath::parse(repo).unwrap();
        match (path.is_within(&root), self.world.lock().trusts_others) {
            (true, _) => Trust::Proven,
            (false, true) => Trust::Chosen,
            (false, false) => Trust::Refused,
        }
    }

    fn covers(&self, host: &str, owner: &str, repo: &str) -> Option<String> {
        (host == HOST && owner == self.owner).then(|| self.full(repo))
    }
}

/// An index over sources that a test keeps for itself.
pub struct Running {
    pub index: Index,
    pub queue: Queue,
    pub group: TaskGroup,
}

impl Running {
    pub async fn start(db: &Db, sources: &[&Arc<FakeSource>]) -> Self {
        Self::with(db, sources, Options::default()).await
    }

    pub async fn with(db: &Db, sources: &[&Arc<FakeSource>], options: Options) -> Self {
        let each = sources.iter();
        let sources = each.map(|source| Arc::clone(source) as Arc<dyn Source>);
        Self::over(db, sources.collect(), options).await
    }

    pub async fn over(db: &Db, sources: Vec<Arc<dyn Source>>, options: Options) -> Self {
        let backoff = Backoff {
            first: Duration::from_millis(20),
            factor: 1,
        };
        let queue = Queue::with_backoff(db.clone(), backoff);
        let group = TaskGroup::new("test");
        let parts = Parts {
            db: db.clone(),
            queue: queue.clone(),
            sources,
            options,
            group: group.clone(),
        };
        let index = Index::start(parts).await.unwrap();
        Self {
            index,
            queue,
            group,
        }
    }

    /// An index that has done all there is to do.
    pub async fn settled(db: &Db, sources: &[&Arc<FakeSource>]) -> Self {
        let running = Self::start(db, sources).await;
        running.settle().await;
        running
    }

    pub async fn jobs(&self) -> Vec<JobFacts> {
        self.queue.list(&Filter::default(), 1_000).await.unwrap()
    }

    /// Waits until nothing is due within the next half minute.
    pub async fn settle(&self) {
        let idle = || async {
            let soon = self.queue.db().now_ms() + 30_000;
            let is_busy = |job: &JobFacts| match job.state {
                State::Due | State::Leased => true,
                State::Waiting => job.due_ms.is_some_and(|due| due < soon),
                State::Dead => false,
            };
            !self.jobs().await.iter().any(is_busy)
        };
        let waiting = async {
            while !idle().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        waited.expect("sooner or later nothing is due");
    }

    /// Gives a repository its turn and waits for the end of it.
    pub async fn turn(&self, source: &FakeSource, repo: &str) {
        let pushed = self.index.source_push(HOST, &source.owner, repo).await;
        assert!(pushed.unwrap(), "{repo} is of {}", source.name);
        self.settle().await;
    }

    /// The same where others have work that this one cannot do: waits for this repository alone.
    pub async fn turn_alone(&self, source: &FakeSource, repo: &str) {
        let pushed = self.index.source_push(HOST, &source.owner, repo).await;
        assert!(pushed.unwrap(), "{repo} is of {}", source.name);
        let full = source.full(repo);
        let waiting = async {
            while self.job(&full).await.state != State::Waiting {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        waited.expect("sooner or later it has had its turn");
    }

    /// Has a source listed again, and waits for what follows.
    pub async fn list(&self, source: &FakeSource) {
        assert!(self.queue.retry("index-list", &source.name).await.unwrap());
        self.settle().await;
    }

    pub async fn job(&self, repo: &str) -> JobFacts {
        let job = self.queue.find("index-repo", repo).await.unwrap();
        job.expect("the repository has a job")
    }

    /// The whole feed as `path@version`, as readers of restricted repositories see it.
    pub async fn feed(&self) -> Vec<String> {
        self.feed_for(Reader::All).await
    }

    pub async fn feed_for(&self, reader: Reader) -> Vec<String> {
        let mut all = Vec::new();
        let mut query = FeedQuery {
            reader,
            ..FeedQuery::default()
        };
        loop {
            let page = self.index.feed(&query).await.unwrap();
            let is_last = page.entries.len() < FeedQuery::MOST;
            for entry in page.entries {
                query.since_ns = entry.first_seen_ns + 1;
                all.push(format!("{}@{}", entry.path, entry.version));
            }
            if is_last {
                return all;
            }
        }
    }

    pub async fn changes(&self, after_ns: i64) -> Vec<Change> {
        self.changes_for(after_ns, Reader::All).await
    }

    pub async fn changes_for(&self, after_ns: i64, reader: Reader) -> Vec<Change> {
        match self.index.changes(after_ns, 2_000, reader).await.unwrap() {
            Changes::Page(changes) => changes,
            other => panic!("no page: {other:?}"),
        }
    }

    /// The changes as `op path@version commit`.
    pub async fn change_lines(&self, after_ns: i64) -> Vec<String> {
        let changes = self.changes(after_ns).await;
        let changes = changes.iter().map(|change| {
            let op = format!("{:?}", change.op).to_lowercase();
            let commit = number(&change.commit.parse().unwrap());
            format!("{op} {}@{} {commit}", change.path, change.version)
        });
        changes.collect()
    }

    pub async fn tags(&self, repo: &str) -> Vec<TagFacts> {
        self.index.tags(repo, "", 2_000).await.unwrap()
    }

    /// Stops as a node does that is shut down.
    pub async fn stop(self) {
        self.index.shutdown().await;
        let _ = self.group.shutdown(Duration::from_secs(10)).await;
    }
}

/// The next start on the same database.
pub async fn reopened(test: TestDatabase, running: Running) -> TestDatabase {
    running.stop().await;
    test.reopen().await
}
