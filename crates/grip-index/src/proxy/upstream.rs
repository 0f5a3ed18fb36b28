//! Modules of repositories on other hosts, fetched when they are asked for and cached.
//!
//! Whose share is used up:
//!
//! | bound | counts against |
//! |---|---|
//! | versions that the feed lists, for readers who may see them | nobody can ask for another |
//! | [`UNDER_WAY`] fetches that run or wait, see [`turns`] for what runs | everybody |
//! | [`PER_NETWORK`] of these | one network of clients |
//! | bytes an hour | the network that had them fetched |
//! | requests to one host | the host, by the throttle that all of the node shares |
//! | bytes of the cache | see [`cache`] for what goes first |
//!
//! Invariants:
//! - One version of one repository is fetched once, however many ask for it at once.
//! - What was fetched of a restricted repository answers for no public one.
//! - A module is made of the commit that the index names, which its id proves.
//! - A credential goes to the host it is for, and only for what not everybody may see.

mod cache;
mod failure;
mod fetch;
mod fetch_budget;
mod module_file;
mod options;
mod sum_check;
mod turns;

use std::{
    io,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use grip_git::Repositories;
use grip_go::{ModulePath, Version};
use grip_tasks::{CancellationToken, Jobs, Permit, Permits, Refused, SingleFlight, TaskGroup};
use grip_types::{ClientNetwork, Oid};
use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::{sync::Semaphore, time::Instant};

use super::{ProxyError, zip};
use cache::Cache;
pub(super) use cache::User;
use failure::FetchFailure;
use fetch_budget::FetchBudget;
pub(super) use module_file::{FetchedModule, ModuleFacts};
pub use options::{UpstreamHost, UpstreamOptions, UpstreamParts};
pub use sum_check::{InvalidSumDb, SumCheck, SumCheckParts, SumDbKey};
use turns::Turns;

/// Fetches that run or wait for their turn.
const UNDER_WAY: usize = 256;
/// Of these, those of one network: go ends the build when one is refused, and asks for many at once.
const PER_NETWORK: usize = 32;
/// Failures that are remembered.
const MAX_FAILURES: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();

/// What was fetched since the start, and what is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamStatus {
    pub fetched: u64,
    pub failed: u64,
    /// Modules that another checksum database knows with other sums.
    pub untrusted: u64,
    pub cache_hits: u64,
    pub fetched_bytes: u64,
    pub cache_bytes: u64,
    pub cached_modules: u64,
}

/// Fetches and keeps modules of other hosts. Clones are the same one.
#[derive(Clone)]
pub struct Upstream {
    inner: Arc<Inner>,
    flights: Arc<Flights>,
}

type Flights = SingleFlight<String, FetchContext, Result<Arc<FetchedModule>, FetchFailure>>;
type FetchJobs = Jobs<String, FetchContext, Result<Arc<FetchedModule>, FetchFailure>>;

struct Inner {
    hosts: Vec<UpstreamHost>,
    repositories: Repositories,
    options: UpstreamOptions,
    cache: Cache,
    budget: FetchBudget,
    networks: Permits<ClientNetwork>,
    turns: Turns,
    failures: Mutex<LruCache<String, (Instant, FetchFailure)>>,
    /// MiB of file contents in memory, over all zips that are made.
    memory: Arc<Semaphore>,
    checker: Option<SumCheck>,
    counts: Counts,
    group: TaskGroup,
}

#[derive(Default)]
struct Counts {
    fetched: AtomicU64,
    failed: AtomicU64,
    untrusted: AtomicU64,
    hits: AtomicU64,
    fetched_bytes: AtomicU64,
}

/// One version, and where it is.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) path: ModulePath,
    pub(super) version: Version,
    /// Its repository, by its name in the index.
    pub(super) repo: String,
    pub(super) tag: String,
    pub(super) commit: Oid,
    /// Whether everybody may see its repository.
    pub(super) is_public: bool,
}

/// Who asks, and whether something may be fetched for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchFor {
    pub(super) user: User,
    pub(super) may_fetch: bool,
}

#[derive(Clone)]
struct FetchContext {
    wanted: Arc<Wanted>,
    user: User,
    /// Held for as long as the fetch waits or runs.
    _share: Option<Arc<Permit<ClientNetwork>>>,
}

impl Upstream {
    /// Opens the cache and starts to work. Blocks for as long as it takes to list the directory.
    pub fn start(parts: UpstreamParts) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            cache: Cache::open(parts.directory, parts.options.cache_bytes)?,
            budget: FetchBudget::new(parts.options.bytes_per_hour),
            hosts: parts.hosts,
            repositories: parts.repositories,
            options: parts.options,
            networks: Permits::new(),
            turns: Turns::new(),
            failures: Mutex::new(LruCache::new(MAX_FAILURES)),
            memory: Arc::new(Semaphore::new(zip::MEMORY_MIB)),
            checker: parts.checker,
            counts: Counts::default(),
            group: parts.group,
        });
        let (flights, jobs) = SingleFlight::new(UNDER_WAY);
        let (token, group) = (inner.group.token(), inner.group.clone());
        group.spawn("go-proxy.fetches", run(Arc::clone(&inner), jobs, token));
        let flights = Arc::new(flights);
        Ok(Self { inner, flights })
    }

    /// Whether a repository of the index is on one of the hosts.
    pub(super) fn covers(&self, repo: &str) -> bool {
        let mut hosts = self.inner.hosts.iter();
        hosts.any(|host| {
            let below = repo.strip_prefix(&host.name);
            below.is_some_and(|below| below.starts_with('/'))
        })
    }

    /// Where git clones a repository of the index from.
    pub(super) fn clone_url(&self, repo: &str) -> String {
        let found = self.inner.hosts.iter().find_map(|host| {
            let below = repo.strip_prefix(&host.name)?;
            Some(format!(
                "{}{below}",
                host.url.as_str().trim_end_matches('/')
            ))
        });
        found.unwrap_or_else(|| format!("https://{repo}"))
    }

    /// The module, from the cache or from its host. Cancel safe: what was begun is there for the
    /// next who asks.
    pub(super) async fn get(
        &self,
        wanted: Wanted,
        by: FetchFor,
    ) -> Result<Arc<FetchedModule>, ProxyError> {
        let what = wanted.what();
        let key = wanted.key();
        let wanted = Arc::new(wanted);
        let user = by.user;
        loop {
            if let Some(module) = self.cached(&key, user).await? {
                self.inner.counts.hits.fetch_add(1, Ordering::Relaxed);
                return Ok(module);
            }
            if !by.may_fetch {
                return Err(ProxyError::not_found(what, "nobody has asked for it yet"));
            }
            if let Some(failure) = self.inner.recent_failure(&key) {
                return Err(failure.into_error(&what));
            }
            let flight = match self.flights.join(&key) {
                Some(flight) => flight,
                None => {
                    let context = self.inner.admit(Arc::clone(&wanted), user)?;
                    let started = self.flights.join_or_start(&key, context);
                    started.map_err(|refused| match refused {
                        Refused::Full => busy(),
                        Refused::Closed => ProxyError::cut_short(),
                    })?
                }
            };
            let is_joined = flight.is_joined;
            let landed = flight.wait().await.ok_or_else(ProxyError::cut_short)?;
            match landed {
                // That was another's budget.
                Err(FetchFailure::BudgetSpent { .. }) if is_joined => {}
                Err(failure) => return Err(failure.into_error(&what)),
                Ok(module) => {
                    if is_joined {
                        // A second user counts as one, though the first had it fetched.
                        drop(self.cached(&key, user).await);
                    }
                    return Ok(module);
                }
            }
        }
    }

    /// Forgets a module whose file has turned out to be damaged. Blocks.
    pub(super) fn forget(&self, module: &FetchedModule) {
        let key = module.facts.key();
        if let Err(error) = self.inner.cache.remove(&key) {
            tracing::warn!(%error, "failed to remove a damaged module");
        }
    }

    pub fn status(&self) -> UpstreamStatus {
        let counts = &self.inner.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (cache_bytes, cached) = self.inner.cache.usage();
        UpstreamStatus {
            fetched: read(&counts.fetched),
            failed: read(&counts.failed),
            untrusted: read(&counts.untrusted),
            cache_hits: read(&counts.hits),
            fetched_bytes: read(&counts.fetched_bytes),
            cache_bytes,
            cached_modules: cached as u64,
        }
    }

    async fn cached(
        &self,
        key: &str,
        user: User,
    ) -> Result<Option<Arc<FetchedModule>>, ProxyError> {
        let (inner, key) = (Arc::clone(&self.inner), key.to_owned());
        let reading = move || inner.cache.get(&key, user);
        let read = self.inner.group.spawn_blocking("go-proxy-cache", reading);
        let read = read.await.map_err(|_| ProxyError::cut_short())?;
        read.or_else(|error| {
            tracing::warn!(%error, "failed to read a cached module");
            Ok(None)
        })
    }
}

impl Inner {
    fn zip_bounds(&self) -> zip::ZipBounds<'_> {
        zip::ZipBounds {
            max_bytes: self.options.max_zip_bytes,
            memory: &self.memory,
        }
    }

    /// Lets a network have one more module fetched, or says why not.
    fn admit(&self, wanted: Arc<Wanted>, user: User) -> Result<FetchContext, ProxyError> {
        let share = match user {
            User::Known | User::Nobody => None,
            User::Network(network) => {
                if let Some(retry_after) = self.budget.wait(network) {
                    return Err(ProxyError::BudgetSpent { retry_after });
                }
                let share = self.networks.try_take(&network, PER_NETWORK);
                Some(Arc::new(share.ok_or_else(busy)?))
            }
        };
        Ok(FetchContext {
            wanted,
            user,
            _share: share,
        })
    }

    fn recent_failure(&self, key: &str) -> Option<FetchFailure> {
        let mut failures = self.failures.lock();
        let (until, failure) = failures.get(key)?;
        if *until > Instant::now() {
            return Some(failure.clone());
        }
        failures.pop(key);
        None
    }

    fn note(&self, key: &str, outcome: &Result<Arc<FetchedModule>, FetchFailure>) {
        let counts = &self.counts;
        let count = match outcome {
            Ok(_) => &counts.fetched,
            Err(FetchFailure::Untrusted(_)) => &counts.untrusted,
            Err(_) => &counts.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        // What one network has spent says nothing to the others.
        if let Err(failure) = outcome
            && !matches!(failure, FetchFailure::BudgetSpent { .. })
        {
            let until = Instant::now() + failure.believed_for(self.options.failure_for);
            let mut failures = self.failures.lock();
            failures.put(key.to_owned(), (until, failure.clone()));
        }
    }
}

impl FetchFailure {
    fn believed_for(&self, most: Duration) -> Duration {
        match self {
            Self::Later { retry_after, .. } => most.min(*retry_after),
            _ => most,
        }
    }
}

/// Does what is queued, until `stop`.
async fn run(inner: Arc<Inner>, mut jobs: FetchJobs, stop: CancellationToken) {
    let under_way = Arc::new(Semaphore::new(UNDER_WAY));
    let working = async {
        loop {
            let permit = Arc::clone(&under_way).acquire_owned().await;
            let (Ok(permit), Some(job)) = (permit, jobs.next().await) else {
                return;
            };
            let (inner, stop) = (Arc::clone(&inner), stop.clone());
            let group = inner.group.clone();
            drop(group.spawn("go-proxy-fetch", async move {
                let _permit = permit;
                let FetchContext { wanted, user, .. } = &job.context;
                let fetching = async {
                    let turn = inner.turns.begin(*user).await;
                    inner.fetch(&job.key, wanted, *user, turn).await
                };
                // Who waits for it is told that the work was cut short.
                let Some(outcome) = stop.run_until_cancelled(fetching).await else {
                    return;
                };
                let (repo, version) = (&wanted.repo, wanted.what());
                match &outcome {
                    Ok(_) => tracing::info!(repo, version, "fetched a module"),
                    Err(failure) => {
                        let reason = failure.reason();
                        tracing::info!(repo, version, reason, "failed to fetch a module");
                    }
                }
                inner.note(&job.key, &outcome);
                job.finish(outcome);
            }));
        }
    };
    stop.run_until_cancelled(working).await;
}

impl Wanted {
    fn key(&self) -> String {
        key([
            self.path.as_str(),
            self.version.as_str(),
            &self.commit.to_hex(),
            &self.repo,
            audience(self.is_public),
        ])
    }
}

impl ModuleFacts {
    fn key(&self) -> String {
        key([
            &self.path,
            &self.version,
            &self.commit,
            &self.repo,
            audience(self.is_public),
        ])
    }
}

fn audience(is_public: bool) -> &'static str {
    if is_public { "public" } else { "restricted" }
}

/// The name of a cached module, of its fetch and of its failure: no part holds a newline.
///
/// With its repository and who may see that, because what was fetched for readers alone tells of it,
/// was not compared with another checksum database, and may fail where another does not.
fn key(parts: [&str; 5]) -> String {
    let digest = Sha256::digest(parts.join("\n"));
    faster_hex::hex_string(&digest)
}

fn busy() -> ProxyError {
    ProxyError::Busy {
        retry_after: Duration::from_secs(5),
    }
}
