//! Avatars of users, stored under their digest.
//!
//! Invariants:
//! - A picture is fetched through the one way out, with a permit of its host. Hosts that the
//!   operator named are asked through his own way; an address at any other host must pass the
//!   guard for addresses that strangers name.
//! - Only what begins like a picture and is not too long is kept, whatever it is called.
//! - One job a person: asked for twice, it is fetched once; unchanged, it is not sent again.
//! - A row names a picture only after the picture is in the store. What is read from the store is
//!   checked against its name.

mod avatar_rows;
mod fetch;
mod picture;
mod picture_store;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use grip_db::{Db, DbError};
use grip_egress::Egress;
use grip_queue::{Handler, Job, NewJob, Outcome, Queue, Worker, WorkerOptions};
use grip_tasks::TaskGroup;
use grip_types::Domain;

use self::avatar_rows::AvatarRows;
pub use self::{
    picture::{Kind, MAX_BYTES, NoPicture, Picture},
    picture_store::PictureStore,
};
use crate::jobs::millis;

/// Fetches the picture of one person; the key is GitHub's id.
pub(crate) const FETCH: &str = "github-avatar";
/// Looks for people whose picture is missing or old.
pub(crate) const FIND_MISSING: &str = "github-avatars";

/// People that are looked at in one go.
const AT_ONCE: usize = 500;

/// What it is made of.
pub struct AvatarParts {
    pub db: Db,
    pub queue: Queue,
    pub pictures: PictureStore,
    /// The way to hosts that strangers name: public ones.
    pub egress: Egress,
    /// The way to the hosts below; may be the same.
    pub named: Egress,
    pub options: AvatarOptions,
    pub group: TaskGroup,
}

/// How pictures are fetched; every field has a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvatarOptions {
    /// Hosts that pictures come from. Default: those of github.com.
    pub hosts: Vec<Domain>,
    /// How long a picture counts as fresh. Default: a week.
    pub fresh_for: Duration,
    /// How often people without a fresh picture are looked for. Default: 10 minutes.
    pub look_every: Duration,
    /// Pictures that are fetched at a time. Default: 2.
    pub workers: usize,
}

impl Default for AvatarOptions {
    fn default() -> Self {
        let hosts = ["avatars.githubusercontent.com", "github.com"];
        let domain = |host| Domain::parse(host).expect("because it is one");
        Self {
            hosts: hosts.into_iter().map(domain).collect(),
            fresh_for: Duration::from_secs(7 * 24 * 60 * 60),
            look_every: Duration::from_secs(600),
            workers: 2,
        }
    }
}

/// Keeps pictures of all people that are known: its workers run as long as it is there.
#[must_use = "dropping it stops its workers"]
pub struct Avatars {
    context: Arc<Context>,
    workers: Vec<Worker>,
}

pub(crate) struct Context {
    rows: AvatarRows,
    queue: Queue,
    pictures: PictureStore,
    egress: Egress,
    named: Egress,
    options: AvatarOptions,
}

/// Why a picture cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AvatarError {
    #[error("the picture cannot be looked up")]
    Database(#[from] DbError),
    #[error("the picture cannot be read from its store")]
    Store(#[from] object_store::Error),
}

impl Avatars {
    pub async fn start(parts: AvatarParts) -> Result<Self, DbError> {
        let group = parts.group.clone();
        let context = Arc::new(Context::new(parts));
        let look = NewJob::new(FIND_MISSING, "all").every(context.options.look_every);
        context.queue.enqueue(vec![look.revive()]).await?;
        let start = |kind: &str, at_once| {
            let options = WorkerOptions {
                at_once,
                ..WorkerOptions::default()
            };
            let handler = Arc::new(JobHandler(Arc::clone(&context)));
            Worker::start(context.queue.clone(), kind, handler, options, &group)
        };
        let workers = vec![
            start(FIND_MISSING, 1),
            start(FETCH, context.options.workers),
        ];
        Ok(Self { context, workers })
    }

    /// The picture of a person, by GitHub's id.
    pub async fn picture(&self, user: i64) -> Result<Option<Picture>, AvatarError> {
        self.context.picture(user).await
    }

    /// Asks for somebody's picture now.
    pub async fn want(&self, user: i64) -> Result<(), DbError> {
        let job = NewJob::new(FETCH, user.to_string()).revive();
        self.context.queue.enqueue(vec![job]).await.map(drop)
    }

    /// Stops the work and waits until it is given back.
    pub async fn shutdown(self) {
        for worker in self.workers {
            worker.shutdown().await;
        }
    }
}

impl Context {
    pub(crate) fn new(parts: AvatarParts) -> Self {
        Self {
            rows: AvatarRows::new(parts.db),
            queue: parts.queue,
            pictures: parts.pictures,
            egress: parts.egress,
            named: parts.named,
            options: parts.options,
        }
    }

    async fn picture(&self, user: i64) -> Result<Option<Picture>, AvatarError> {
        let Some(digest) = self.rows.digest(user).await? else {
            return Ok(None);
        };
        let picture = self.pictures.get(&digest).await?;
        if picture.is_none() {
            // However it was lost, it is fetched again.
            tracing::warn!(user, %digest, "a picture is not in its store any more");
            self.rows.forget(user, &digest).await?;
            let job = NewJob::new(FETCH, user.to_string());
            self.queue.enqueue(vec![job]).await?;
        }
        Ok(picture)
    }

    pub(crate) async fn run(&self, kind: &str, key: &str) -> Outcome {
        let done = match kind {
            FIND_MISSING => self.find_missing().await,
            _ => self.fetch(key).await,
        };
        done.unwrap_or_else(|error| self.after(error))
    }

    /// Asks for the pictures of people who have none, or an old one; removes those of people who are
    /// not known any more.
    async fn find_missing(&self) -> Result<Outcome, fetch::FetchError> {
        let before = self.rows.now_ms() - millis(self.options.fresh_for);
        let mut after = 0;
        loop {
            let users = self.rows.without(after, before, AT_ONCE).await?;
            let Some(last) = users.last() else {
                break;
            };
            after = *last;
            let jobs = users
                .iter()
                .map(|user| NewJob::new(FETCH, user.to_string()));
            self.queue.enqueue(jobs.collect()).await?;
        }
        for (user, digest) in self.rows.gone(AT_ONCE).await? {
            self.rows.remove(user).await?;
            if let Some(digest) = digest {
                self.remove_unused(&digest).await?;
            }
        }
        Ok(Outcome::Done)
    }
}

/// The handler of both kinds of avatar jobs.
struct JobHandler(Arc<Context>);

impl Handler for JobHandler {
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let lease = job.lease();
            self.0.run(&lease.kind, &lease.key).await
        })
    }
}

#[cfg(test)]
mod tests;
