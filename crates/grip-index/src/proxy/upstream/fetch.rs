//! The fetch of one commit from another host, and the module made of it.

use std::{
    hash::{BuildHasher as _, RandomState},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};

use grip_egress::{Bearer, Egress, Request, RequestPolicy};
use grip_git::{Caps, DiskUser, Payer, Snapshot, remote};
use grip_github::RepoName;
use grip_go::{ModulePath, Version, tag};
use grip_limits::{Lane, Permit, Reason};
use grip_types::{Domain, Identifier};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{ACCEPT, CONTENT_TYPE},
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Instant, sleep_until, timeout_at},
};
use url::Url;

use super::{
    Inner, UpstreamHost, User, Wanted,
    failure::FetchFailure,
    fetch_budget::Fetching,
    module_file::{FetchedModule, Finished, ModuleFacts},
    turns::FetchTurn,
};
use crate::proxy::{
    module_reader::{check, module_of},
    zip::ZipPlan,
};

/// How long a fetch waits for its turn at a busy host: go counts a refusal as the end of the build, so
/// it is held up for as long as a request may take.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long it waits at least before it tries again.
const MIN_WAIT: Duration = Duration::from_millis(50);
/// Bytes of an answer beside its pack.
const BESIDE_PACK: u64 = 2 * remote::MAX_ASIDE_BYTES as u64;
const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");

impl Inner {
    /// Fetches a module, checks it and keeps it. Paid by who started the flight.
    pub(super) async fn fetch(
        self: &Arc<Self>,
        key: &str,
        wanted: &Arc<Wanted>,
        user: User,
        mut turn: FetchTurn<'_>,
    ) -> Result<Arc<FetchedModule>, FetchFailure> {
        let fetching = match user {
            User::Network(network) => {
                let begun = self.budget.begin(network);
                begun.map_err(|retry_after| FetchFailure::BudgetSpent { retry_after })?
            }
            User::Known | User::Nobody => Fetching::unpaid(),
        };
        let fetched = self.fetch_snapshot(wanted, &fetching, &mut turn).await;
        let bytes = fetching.received();
        self.counts
            .fetched_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        let snapshot = fetched.map_err(|failure| match fetching.wait() {
            // Another network may have it fetched.
            Some(retry_after) => FetchFailure::BudgetSpent { retry_after },
            None => failure,
        })?;
        let (inner, of) = (Arc::clone(self), Arc::clone(wanted));
        let finished = self
            .off_runtime(move || inner.make(&of, &snapshot))
            .await??;
        if let Some(checker) = &self.checker
            && wanted.is_public
        {
            checker.check(&finished.0).await?;
        }
        let (inner, key) = (Arc::clone(self), key.to_owned());
        let kept = self.off_runtime(move || inner.cache.put(&key, finished.1, user));
        kept.await?.map_err(|error| {
            tracing::warn!(%error, "failed to keep a fetched module");
            FetchFailure::later("this node cannot keep it right now")
        })
    }

    /// Fetches the commit, with one credential after another where it is not public.
    async fn fetch_snapshot(
        &self,
        wanted: &Wanted,
        fetching: &Fetching<'_>,
        turn: &mut FetchTurn<'_>,
    ) -> Result<Snapshot, FetchFailure> {
        let (host, name) = self.place(&wanted.repo)?;
        if wanted.is_public {
            let permit = permit_at(host, &name, turn).await?;
            return self
                .fetch_as(host, &name, wanted, None, fetching, permit)
                .await;
        }
        let mut last = FetchFailure::Missing(format!("there is no token for {}", host.name));
        for credential in &host.credentials {
            let permit = permit_at(host, &name, turn).await?;
            let fetched = self.fetch_as(host, &name, wanted, Some(credential), fetching, permit);
            match fetched.await {
                Err(denied @ FetchFailure::Denied(_)) => last = denied,
                // Who was not let in might have found it.
                Err(FetchFailure::Missing(_)) if matches!(last, FetchFailure::Denied(_)) => {}
                Err(missing @ FetchFailure::Missing(_)) => last = missing,
                fetched => return fetched,
            }
        }
        Err(last)
    }

    fn place(&self, repo: &str) -> Result<(&UpstreamHost, RepoName), FetchFailure> {
        let found = self.hosts.iter().find_map(|host| {
            let name = repo.strip_prefix(&host.name)?.strip_prefix('/')?;
            Some((host, RepoName::parse(name).ok()?))
        });
        found.ok_or_else(|| FetchFailure::NotFound("its host is not known here".to_owned()))
    }

    async fn fetch_as(
        &self,
        host: &UpstreamHost,
        name: &RepoName,
        wanted: &Wanted,
        credential: Option<&Bearer>,
        fetching: &Fetching<'_>,
        permit: Permit,
    ) -> Result<Snapshot, FetchFailure> {
        let url = clone_url(&host.url, name);
        let policy = RequestPolicy {
            bearer: credential.cloned(),
            ..RequestPolicy::default()
        };
        let max_pack_bytes = self.options.max_pack_bytes;
        let request = upload_pack(url, wanted, max_pack_bytes.saturating_add(BESIDE_PACK));
        let reply = host.egress.send_with(&policy, request, permit).await;
        let reply = reply.map_err(|error| FetchFailure::of_egress(&host.name, &error))?;
        let body = Counted {
            body: reply.body,
            fetching,
        };
        let caps = Caps {
            max_pack_bytes: max_pack_bytes.min(fetching.allowed()),
            stall: self.options.stall,
            payer: Payer::Fetch,
            progress: None,
            disk_user: DiskUser::Stranger,
        };
        let identifier = unused_identifier();
        let taken = self
            .repositories
            .receive_snapshot(&identifier, body, wanted.commit, caps);
        taken
            .await
            .map_err(|error| FetchFailure::of_receive(&host.name, &error))
    }

    /// Makes the module of a commit. Blocks.
    fn make(
        &self,
        wanted: &Wanted,
        snapshot: &Snapshot,
    ) -> Result<(ModuleFacts, Finished), FetchFailure> {
        let what = wanted.what();
        let tag = tag::read(&wanted.tag)
            .ok_or_else(|| FetchFailure::NotFound("its tag names no version".to_owned()))?;
        let location = ModulePath::parse(&wanted.repo);
        // A host whose name no module path can begin with may hold modules with other paths.
        let location = location.or_else(|_| ModulePath::parse("nowhere.invalid"));
        let location = location.map_err(|error| FetchFailure::NotFound(error.to_string()))?;
        let module = module_of(snapshot, &what, &tag, &location)?;
        check(&what, &module, &wanted.path, &wanted.version)?;
        let plan = ZipPlan::make(snapshot, &module, self.zip_bounds())?;
        let sums = plan.sums()?;
        let failed = |error: std::io::Error| {
            tracing::warn!(%error, "failed to write a fetched module");
            FetchFailure::later("this node cannot write it right now")
        };
        let commit = snapshot.commit();
        let commit = commit.map_err(|error| FetchFailure::NotFound(error.to_string()))?;
        let mut draft = self.cache.draft().map_err(failed)?;
        let written = plan.write_to(&mut draft);
        written.map_err(|error| failed(std::io::Error::other(error)))?;
        let facts = ModuleFacts {
            path: wanted.path.to_string(),
            version: wanted.version.to_string(),
            repo: wanted.repo.clone(),
            is_public: wanted.is_public,
            tag: wanted.tag.clone(),
            commit: wanted.commit.to_hex(),
            dir: module.dir.clone(),
            committed_at_ms: commit.committed_at_ms,
            has_go_mod: module.has_go_mod,
            zip_sum: sums.zip,
            go_mod_sum: sums.go_mod,
            zip_bytes: 0,
            go_mod_bytes: 0,
            go_mod_digest: String::new(),
            chunk_digests: Vec::new(),
        };
        let finished = draft.finish(facts.clone(), &plan.go_mod());
        Ok((facts, finished.map_err(failed)?))
    }

    async fn off_runtime<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, FetchFailure> {
        let done = self.group.spawn_blocking("go-proxy-upstream", work).await;
        done.map_err(|_| FetchFailure::later("the work was cut short"))
    }
}

/// Waits for the permit to fetch a repository from its host.
async fn permit_at(
    host: &UpstreamHost,
    name: &RepoName,
    turn: &mut FetchTurn<'_>,
) -> Result<Permit, FetchFailure> {
    let domain = host.egress.check(&clone_url(&host.url, name));
    let domain = domain.map_err(|error| FetchFailure::NotFound(error.to_string()))?;
    permit(&host.egress, &domain, Lane::Git, Some(turn)).await
}

/// Waits for a permit of the host, unless it wants to be left alone for longer than anybody waits. Others have
/// `turn` meanwhile.
pub(super) async fn permit(
    egress: &Egress,
    domain: &Domain,
    lane: Lane,
    mut turn: Option<&mut FetchTurn<'_>>,
) -> Result<Permit, FetchFailure> {
    let throttle = egress.throttle();
    let deadline = Instant::now() + PATIENCE;
    let mut freed = throttle.freed();
    loop {
        freed.borrow_and_update();
        let refused = match throttle.acquire(domain, lane).await {
            Ok(permit) => return Ok(permit),
            Err(refused) => refused,
        };
        let is_passing = matches!(refused.reason, Reason::InFlight | Reason::Window);
        let is_soon = refused.retry_at <= deadline || refused.reason == Reason::InFlight;
        if !is_passing || !is_soon || Instant::now() >= deadline {
            return Err(FetchFailure::of_refusal(&refused));
        }
        // It is an estimate, which may have passed.
        let moment = refused
            .retry_at
            .max(Instant::now() + MIN_WAIT)
            .min(deadline);
        let waiting = async {
            tokio::select! {
                // The sender is the throttle, which is held here.
                _ = timeout_at(deadline, freed.changed()) => {}
                () = sleep_until(moment) => {}
            }
        };
        match &mut turn {
            Some(turn) => turn.give_up_for(waiting).await,
            None => waiting.await,
        }
    }
}

/// A name under which a fetch has its share of the memory of git. Nobody can know it beforehand, and
/// so use up the share with a repository of that name.
fn unused_identifier() -> Identifier {
    let number = RandomState::new().hash_one(());
    Identifier::parse(&format!("go-proxy-{number:016x}")).expect("it is an identifier")
}

fn clone_url(base: &Url, name: &RepoName) -> Url {
    let mut url = base.clone();
    let below = base.path().trim_end_matches('/');
    url.set_path(&format!("{below}/{name}.git/git-upload-pack"));
    url
}

fn upload_pack(url: Url, wanted: &Wanted, max_bytes: u64) -> Request {
    let mut headers = HeaderMap::new();
    let text = HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, text("application/x-git-upload-pack-request"));
    headers.insert(ACCEPT, text("application/x-git-upload-pack-result"));
    headers.insert(GIT_PROTOCOL, text("version=2"));
    Request {
        method: Method::POST,
        url,
        headers,
        body: remote::fetch_snapshot_v2(&wanted.commit),
        max_bytes,
    }
}

/// A body whose bytes are counted as they come.
struct Counted<'a> {
    body: grip_egress::Body,
    fetching: &'a Fetching<'a>,
}

impl AsyncRead for Counted<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.body).poll_read(cx, buffer))?;
        let read = buffer.filled().len().saturating_sub(before);
        self.fetching.receive(read as u64);
        Poll::Ready(Ok(()))
    }
}

impl Wanted {
    /// `<module>@<version>`
    pub(super) fn what(&self) -> String {
        let Self { path, version, .. } = self;
        let (path, version): (&ModulePath, &Version) = (path, version);
        format!("{path}@{version}")
    }
}
