//! The fetch over smart HTTP, one request at a time.
//!
//! Invariant: one HTTP request per call, whatever the host says. What an answer teaches is kept
//! as [`Negotiations`] of the URL, and the next call asks better.
//!
//! Invariant: a pack is never in memory; it is checked in quarantine, and only the wanted objects
//! with what they link to become part of the store.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use grip_egress::{Egress, Forbidden};
use grip_git::{
    Caps, Repositories,
    remote::{self, Version},
};
use grip_limits::Permit;
use grip_types::{Identifier, Oid};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, sink},
    time::{Instant, timeout},
};
use url::Url;

use crate::fetch::{Fetch, FetchError, Fetched, Job};

mod exchange;
mod free_space;
mod negotiation;
mod protocol_v0;
mod request;
mod url_facts;

use exchange::{Lesson, Response, Step};
use free_space::FreeSpace;
use negotiation::Negotiations;

/// What may follow a pack before we hang up, and how long it may take.
const MAX_TAIL_BYTES: u64 = 64 << 10;
const TAIL_TIME: Duration = Duration::from_secs(1);

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
}

impl Default for GitOptions {
    fn default() -> Self {
        Self {
            max_pack_bytes: 2 << 30,
            stall: Duration::from_secs(60),
            max_refs: 100_000,
            min_free_bytes: 256 << 20,
        }
    }
}

/// Fetches over the one way out into the repositories. Cheap to clone; clones know the same.
#[derive(Clone)]
pub struct GitFetch {
    egress: Egress,
    repositories: Repositories,
    options: GitOptions,
    knowledge: Arc<Mutex<Negotiations>>,
    floor: Arc<FreeSpace>,
}

impl GitFetch {
    pub fn new(egress: Egress, repositories: Repositories, options: GitOptions) -> Self {
        Self {
            egress,
            repositories,
            options,
            knowledge: Arc::default(),
            floor: Arc::new(FreeSpace::new(options.min_free_bytes)),
        }
    }

    /// Does one step, and says what the answer means.
    async fn do_step(
        &self,
        job: Job<'_>,
        step: &Step,
        permit: Permit,
    ) -> Result<Response, FetchError> {
        let max_refs = self.options.max_refs;
        match step {
            Step::FetchV2(oids) => {
                let (haves, permit) = self.haves(job.identifier, permit).await?;
                let body = remote::fetch_v2(oids, &haves);
                let request = request::post(job.url, Version::V2, body, self.max_answer());
                self.pack(job, request, permit, Version::V2).await
            }
            Step::FetchV0(request) => {
                let (haves, permit) = self.haves(job.identifier, permit).await?;
                let body = remote::fetch_v0(&request.advertised, &request.oids, &haves);
                let request = request::post(job.url, Version::V0, body, self.max_answer());
                self.pack(job, request, permit, Version::V0).await
            }
            Step::ListRefs => {
                let most = request::max_refs_bytes(max_refs);
                let request = request::post(job.url, Version::V2, remote::ls_refs_v2(), most);
                let mut body = self.egress.send(request, permit).await?.body;
                let refs = remote::read_ls_refs(&mut body, max_refs).await;
                hang_up(&mut body).await;
                Ok(Response::Refs(refs?))
            }
            Step::Advertise => {
                let request = request::info_refs(job.url, request::max_refs_bytes(max_refs));
                let mut body = self.egress.send(request, permit).await?.body;
                let advertised = remote::read_advertisement(&mut body, max_refs).await;
                hang_up(&mut body).await;
                Ok(Response::Advertised(advertised?))
            }
        }
    }

    fn max_answer(&self) -> u64 {
        request::max_pack_answer(self.options.max_pack_bytes)
    }

    /// Says whether the disk has room for what a host may send.
    async fn check_room(&self) -> Result<(), FetchError> {
        let repositories = self.repositories.clone();
        let free = blocking(move || repositories.free_bytes()).await?;
        self.floor.check(free, Instant::now())
    }

    /// What is here already and need not be sent.
    async fn haves(
        &self,
        identifier: &Identifier,
        permit: Permit,
    ) -> Result<(Vec<Oid>, Permit), FetchError> {
        let (repositories, identifier) = (self.repositories.clone(), identifier.clone());
        let looking = blocking(move || repositories.known_tips(&identifier, remote::MAX_HAVES));
        match looking.await {
            Ok(haves) => Ok((haves, permit)),
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
        request: grip_egress::Request,
        permit: Permit,
        version: Version,
    ) -> Result<Response, FetchError> {
        let mut body = self.egress.send(request, permit).await?.body;
        let caps = Caps {
            max_pack_bytes: self.options.max_pack_bytes,
            stall: self.options.stall,
        };
        let quarantine = match remote::open_pack(&mut body, version).await {
            Ok(mut pack) => {
                let receiving = self
                    .repositories
                    .receive_within(job.identifier, &mut pack, caps);
                receiving.await.map_err(FetchError::from)
            }
            Err(error) => Err(error.into()),
        };
        // The host is done: others may ask it while we work on what it sent.
        hang_up(&mut body).await;
        drop(body);
        let wanted: Vec<Oid> = job.wants.iter().copied().collect();
        let kept = quarantine?.prune_to(&wanted).await?;
        let (quarantine, arrived) = (kept.quarantine, kept.arrived);
        let arrived = blocking(move || {
            if arrived.is_empty() {
                // Nothing came because it is here already: another fetch was quicker.
                let kinds = quarantine.kinds(&wanted).map_err(std::io::Error::other)?;
                let here = wanted.iter().zip(kinds).filter(|(_, kind)| kind.is_some());
                return Ok(here.map(|(oid, _)| *oid).collect());
            }
            quarantine.promote()?;
            Ok::<_, std::io::Error>(arrived)
        });
        let arrived: BTreeSet<Oid> = arrived.await?.into_iter().collect();
        Ok(Response::Pack(arrived))
    }

    fn learn(&self, job: Job<'_>, step: &Step, response: &Response) -> Lesson {
        let now = Instant::now();
        self.knowledge.lock().learn(job, step, response, now)
    }
}

impl Fetch for GitFetch {
    fn check(&self, url: &Url) -> Result<(), Forbidden> {
        self.egress.check(url).map(drop)
    }

    async fn fetch(&self, job: Job<'_>, permit: Permit) -> Result<Fetched, FetchError> {
        if let Err(error) = self.check_room().await {
            permit.unused();
            return Err(error);
        }
        let step = self.knowledge.lock().step(job, Instant::now());
        tracing::debug!(url = %grip_egress::Shown(job.url), step = step.name(), "sending a request");
        let result = self.do_step(job, &step, permit).await;
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

/// Reads the few bytes after the end of an answer, so that it counts as complete.
async fn hang_up(body: &mut (impl AsyncRead + Unpin)) {
    let mut tail = body.take(MAX_TAIL_BYTES);
    let mut nowhere = sink();
    let reading = tokio::io::copy(&mut tail, &mut nowhere);
    // Whatever is wrong with it, what came before is judged by itself.
    let _ = timeout(TAIL_TIME, reading).await;
}

async fn blocking<T, E, W>(work: W) -> Result<T, FetchError>
where
    T: Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
    W: FnOnce() -> Result<T, E> + Send + 'static,
{
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| FetchError::Local(Box::new(error)))?;
    done.map_err(|error| FetchError::Local(Box::new(error)))
}
