//! The fetch over smart HTTP, one request at a time.
//!
//! Invariant: one HTTP request of git per call, whatever the host says, and before the first one to a
//! host what the [`Preflight`] has to know. What an answer teaches is kept
//! as [`Negotiations`] of the URL, and the next call asks better.
//!
//! Invariant: every byte that a host sends goes through the meter of its fetch, and no pack takes
//! what must stay free on the disk.
//!
//! Invariant: a pack is never in memory; it is checked in quarantine, and only the wanted objects
//! with what they link to become part of the store.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use grip_egress::{Bearer, DocumentResponse, Egress, Forbidden, Preflight, Request, RequestPolicy};
use grip_git::{
    Caps, DiskUser, Payer, RepoError, Repositories,
    remote::{self, RemoteRef, Version},
};
use grip_limits::Permit;
use grip_types::Identifier;
use parking_lot::Mutex;
use tokio::{
    select,
    time::{Instant, sleep},
};
use url::Url;

use crate::{
    fetch::{Fetch, FetchError, Fetched, Job},
    meter::{Meter, Metered, MinimumRate},
};

mod exchange;
mod free_space;
mod listing;
mod negotiation;
mod protocol_v0;
mod request;
mod url_facts;

use exchange::{Lesson, Response, Step};
use free_space::{FreeSpace, LOOK_EVERY, SpacePermit};
use negotiation::Negotiations;

/// How much a fetch may bring.
#[derive(Clone, Copy, Debug)]
pub struct GitOptions {
    /// Largest pack taken; default 2 GiB.
    pub max_pack_bytes: u64,
    /// How long no byte of a pack may come; default 60 s.
    pub stall: Duration,
    /// Most refs read from one host; default 100,000.
    pub max_refs: usize,
    /// Nobody is asked while less than this is free on the disk; default 256 MiB.
    pub min_free_bytes: u64,
    /// The same for what no author wants who maintains something served here; default 1 GiB.
    pub stranger_min_free_bytes: u64,
    /// The least that a host may send on average, in bytes a second; default 8 KiB.
    pub min_rate: u64,
    /// For so long it may send less, since it may have to count its objects first; default 2 min.
    pub rate_grace: Duration,
}

impl Default for GitOptions {
    fn default() -> Self {
        Self {
            max_pack_bytes: 2 << 30,
            stall: Duration::from_secs(60),
            max_refs: 100_000,
            min_free_bytes: 256 << 20,
            stranger_min_free_bytes: 1 << 30,
            min_rate: 8 << 10,
            rate_grace: Duration::from_secs(120),
        }
    }
}

/// Makes the credential for a clone URL; none where its host is shown none.
pub type Credentials = Arc<dyn Fn(&Url) -> Option<Bearer> + Send + Sync>;

/// Fetches over the one way out into the repositories. Cheap to clone; clones know the same.
#[derive(Clone)]
pub struct GitFetch {
    egress: Egress,
    repositories: Repositories,
    options: GitOptions,
    credentials: Credentials,
    preflight: Option<Arc<dyn Preflight>>,
    knowledge: Arc<Mutex<Negotiations>>,
    floor: Arc<FreeSpace>,
}

impl GitFetch {
    pub fn new(egress: Egress, repositories: Repositories, options: GitOptions) -> Self {
        Self {
            egress,
            repositories,
            options,
            credentials: Arc::new(|_| None),
            preflight: None,
            knowledge: Arc::default(),
            floor: Arc::new(FreeSpace::default()),
        }
    }

    /// Shows what `credentials` makes for a clone URL to its host, and to no other.
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Asks no host before `preflight` was asked about it.
    pub fn with_preflight(mut self, preflight: Arc<dyn Preflight>) -> Self {
        self.preflight = Some(preflight);
        self
    }

    /// Does one step, and says what the answer means.
    async fn do_step(
        &self,
        job: Job<'_>,
        step: &Step,
        permit: Permit,
        space: &SpacePermit,
    ) -> Result<Response, FetchError> {
        let max_refs = self.options.max_refs;
        match step {
            Step::FetchV2(oids) => {
                let oids = oids.clone();
                let make = move |repositories: &Repositories, identifier: &Identifier| {
                    repositories.fetch_v2(identifier, &oids)
                };
                let (body, permit) = self.body(job.identifier, permit, make).await?;
                let request = request::post(job.url, Version::V2, body, self.max_answer());
                self.pack(job, request, permit, Version::V2, space).await
            }
            Step::FetchV0(request) => {
                let request = Arc::clone(request);
                let make = move |repositories: &Repositories, identifier: &Identifier| {
                    repositories.fetch_v0(identifier, &request.advertised, &request.oids)
                };
                let (body, permit) = self.body(job.identifier, permit, make).await?;
                let request = request::post(job.url, Version::V0, body, self.max_answer());
                self.pack(job, request, permit, Version::V0, space).await
            }
            Step::ListRefs => {
                let most = request::max_refs_bytes(max_refs);
                let request = request::post(job.url, Version::V2, remote::ls_refs_v2(), most);
                let mut body = self.send(job, request, permit).await?;
                let wanted_of = |found: &RemoteRef| {
                    let tips = [Some(found.oid), found.peeled].into_iter().flatten();
                    tips.filter(|oid| job.wants.contains(oid))
                };
                let is_wanted = |found: &RemoteRef| wanted_of(found).next().is_some();
                let refs = remote::read_ls_refs(&mut body, max_refs, is_wanted).await;
                remote::hang_up(&mut body).await;
                Ok(Response::Refs(refs?.iter().flat_map(wanted_of).collect()))
            }
            Step::Advertise => {
                let request = request::info_refs(job.url, request::max_refs_bytes(max_refs));
                let mut body = self.send(job, request, permit).await?;
                // More are not asked for at once; branches are listed before tags.
                let mut room = 2 * remote::MAX_WANTS;
                let is_wanted = |found: &RemoteRef| {
                    let has_room = found.is_head_or_tag() && room > 0;
                    room -= usize::from(has_room);
                    has_room || job.wants.contains(&found.oid)
                };
                let advertised = remote::read_advertisement(&mut body, max_refs, is_wanted).await;
                remote::hang_up(&mut body).await;
                Ok(Response::Advertised(advertised?))
            }
        }
    }

    fn max_answer(&self) -> u64 {
        request::max_pack_answer(self.options.max_pack_bytes)
    }

    /// Makes a request whose response is metered.
    async fn send<'a>(
        &self,
        job: Job<'a>,
        request: Request,
        permit: Permit,
    ) -> Result<Metered<'a, grip_egress::Body>, FetchError> {
        self.send_metered(job.url, request, permit, job.meter).await
    }

    async fn send_metered<'a>(
        &self,
        url: &Url,
        request: Request,
        permit: Permit,
        meter: &'a Meter,
    ) -> Result<Metered<'a, grip_egress::Body>, FetchError> {
        if let Err(forbidden) = self.check(url) {
            permit.unused();
            return Err(FetchError::Forbidden(forbidden));
        }
        let policy = RequestPolicy {
            bearer: (self.credentials)(url),
            ..RequestPolicy::default()
        };
        let preflight = self.preflight.as_deref();
        let preflight = preflight.map(|inner| MeteredPreflight { inner, meter });
        let preflight = preflight.as_ref().map(|it| it as &dyn Preflight);
        let sending = self.egress.send_after(preflight, &policy, request, permit);
        let reply = sending.await?;
        let minimum = MinimumRate {
            bytes_per_second: self.options.min_rate,
            grace: self.options.rate_grace,
        };
        Ok(Metered::new(reply.body, meter, minimum))
    }

    async fn free_bytes(&self) -> Result<u64, FetchError> {
        let repositories = self.repositories.clone();
        blocking(move || repositories.free_bytes()).await
    }

    /// Reserves room on the disk for what a host may send.
    async fn reserve(&self, disk_user: DiskUser) -> Result<SpacePermit, FetchError> {
        let free = self.free_bytes().await?;
        let options = &self.options;
        let floor = match disk_user {
            DiskUser::Maintainer => options.min_free_bytes,
            DiskUser::Stranger => options.min_free_bytes.max(options.stranger_min_free_bytes),
        };
        self.floor.reserve(floor, free, Instant::now())
    }

    /// Ends when the disk has no more room for what comes.
    async fn disk_full(&self, space: &SpacePermit, meter: &Meter) -> FetchError {
        loop {
            sleep(LOOK_EVERY).await;
            let looked = match self.free_bytes().await {
                Ok(free) => space.check(free, meter.received(), Instant::now()),
                Err(error) => Err(error),
            };
            if let Err(error) = looked {
                return error;
            }
        }
    }

    /// The body of a fetch, which names what is here already and need not be sent.
    async fn body(
        &self,
        identifier: &Identifier,
        permit: Permit,
        make: impl FnOnce(&Repositories, &Identifier) -> Result<Bytes, RepoError> + Send + 'static,
    ) -> Result<(Bytes, Permit), FetchError> {
        let (repositories, identifier) = (self.repositories.clone(), identifier.clone());
        match blocking(move || make(&repositories, &identifier)).await {
            Ok(body) => Ok((body, permit)),
            Err(error) => {
                permit.unused();
                Err(error)
            }
        }
    }

    /// Asks for a pack and keeps of it what is wanted.
    async fn pack(
        &self,
        job: Job<'_>,
        request: Request,
        permit: Permit,
        version: Version,
        space: &SpacePermit,
    ) -> Result<Response, FetchError> {
        let body = self.send(job, request, permit).await?;
        let caps = Caps {
            max_pack_bytes: self.options.max_pack_bytes,
            stall: self.options.stall,
            payer: Payer::Fetch,
            progress: None,
            disk_user: job.disk_user,
        };
        let wanted = job.wants.iter().copied().collect();
        let receiving =
            self.repositories
                .receive_fetched(job.identifier, body, version, wanted, caps);
        let arrived = select! {
            received = receiving => received?,
            full = self.disk_full(space, job.meter) => return Err(full),
        };
        let arrived = arrived.into_iter().collect();
        Ok(Response::Pack(arrived))
    }

    fn learn(&self, job: Job<'_>, step: &Step, response: &Response) -> Lesson {
        let now = Instant::now();
        self.knowledge.lock().learn(job, step, response, now)
    }
}

impl Fetch for GitFetch {
    fn check(&self, url: &Url) -> Result<(), Forbidden> {
        self.egress.check(url)?;
        let preflight = self.preflight.as_ref();
        preflight.map_or(Ok(()), |preflight| preflight.check(url))
    }

    async fn fetch(&self, job: Job<'_>, permit: Permit) -> Result<Fetched, FetchError> {
        let space = match self.reserve(job.disk_user).await {
            Ok(space) => space,
            Err(error) => {
                permit.unused();
                return Err(error);
            }
        };
        let step = self.knowledge.lock().step(job, Instant::now());
        tracing::debug!(url = %grip_egress::Shown(job.url), step = step.name(), "sending a request");
        let result = self.do_step(job, &step, permit, &space).await;
        let (response, error) = match result {
            Ok(response) => (response, None),
            Err(error) => match Response::in_error(&error) {
                Some(response) => (response, Some(error)),
                None => return Err(error),
            },
        };
        let lesson = self.learn(job, &step, &response);
        if let Some(error) = error.filter(|_| !lesson.is_answer) {
            return Err(error);
        }
        let arrived = match response {
            Response::Pack(arrived) if arrived.is_empty() => return Err(FetchError::NothingWanted),
            Response::Pack(arrived) => arrived,
            _ => BTreeSet::new(),
        };
        Ok(Fetched {
            arrived,
            resume: lesson.resume,
            note: lesson.note,
        })
    }
}

/// What a host says of itself is paid for like what it sends.
struct MeteredPreflight<'a> {
    inner: &'a dyn Preflight,
    meter: &'a Meter,
}

impl Preflight for MeteredPreflight<'_> {
    fn document(&self, url: &Url) -> Option<Request> {
        self.inner.document(url)
    }

    fn note(&self, document: &Url, response: Option<&DocumentResponse>) {
        let text = response.and_then(|response| response.text.as_ref());
        self.meter.add(text.map_or(0, Vec::len) as u64);
        self.inner.note(document, response);
    }

    fn check(&self, url: &Url) -> Result<(), Forbidden> {
        self.inner.check(url)
    }
}

async fn blocking<T, E, W>(work: W) -> Result<T, FetchError>
where
    T: Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
    W: FnOnce() -> Result<T, E> + Send + 'static,
{
    let done = grip_tasks::spawn_blocking(work).await;
    let done = done.map_err(|error| FetchError::Local(Box::new(error)))?;
    done.map_err(|error| FetchError::Local(Box::new(error)))
}
