//! The job of a push: wakes what waits for it and enqueues the records behind it.

use grip_github::{Login, RepoName};
use grip_queue::{Lease, NewJob, Outcome, State};

use super::{Context, JobError, REFRESH, millis, new_kind};
use crate::{
    extract::{Actor, Push},
    store::{RecordKind, finish_in},
};

impl Context {
    /// Processes one push. What it asks for and the end of the job are one transaction, so that
    /// nothing is lost or done twice; listeners may be notified twice.
    pub(super) async fn process_push(&self, lease: &Lease) -> Result<Outcome, JobError> {
        let Some((raw, _)) = self.store.event(&lease.key).await? else {
            // Retention was faster.
            return Ok(Outcome::Done);
        };
        let push = Push::reread(&lease.key, &raw)
            .map_err(|why| JobError::Useless(format!("the event cannot be read: {why}")))?;
        let live_from = self.store.now_ms() - millis(self.options.live_for);
        let is_live = push.at_ms.is_none_or(|at| at >= live_from);
        if is_live && push.repository_name.is_some() {
            self.pushes.pushed(&push).await;
        }
        let mut jobs = Vec::new();
        let behind = self.options.enrich.then(|| behind(&push));
        for (record_kind, id, name) in behind.into_iter().flatten() {
            jobs.extend(self.wanted(record_kind, id, name, is_live).await?);
        }
        let (queue, lease) = (self.queue.clone(), lease.clone());
        self.store
            .db()
            .write(move |mut db| {
                Box::pin(async move {
                    if !jobs.is_empty() {
                        queue.enqueue_in(&mut db, jobs).await?;
                    }
                    grip_tasks::fault::point("ingest.enrichment.enqueued");
                    finish_in(&mut db, &queue, &lease).await
                })
            })
            .await?;
        Ok(Outcome::Finished)
    }

    /// The job that asks for something, unless it is known well enough.
    async fn wanted(
        &self,
        record_kind: RecordKind,
        id: i64,
        name: String,
        is_live: bool,
    ) -> Result<Option<NewJob>, JobError> {
        let known = self.store.known(record_kind, id).await?;
        if known
            .as_ref()
            .is_some_and(|known| self.is_fresh(known.fetched_at))
        {
            return Ok(None);
        }
        let job = if known.is_none() && is_live {
            NewJob::new(new_kind(record_kind), id.to_string())
        } else {
            NewJob::new(REFRESH, refresh_key(record_kind, id))
        };
        let job = job.payload(name);
        // What failed for good is tried again, but not for each push.
        let found = self.queue.find(&job.kind, &job.key).await?;
        let died = found
            .filter(|found| found.state == State::Dead)
            .and_then(|found| found.dead_ms);
        Ok(match died {
            None => Some(job),
            Some(at) if self.is_fresh(at) => None,
            Some(_) => Some(job.revive()),
        })
    }
}

/// The repository always; the person only where it is one.
fn behind(push: &Push) -> Vec<(RecordKind, i64, String)> {
    let name = push.repository_name.clone().unwrap_or_default();
    let name = RepoName::parse(&name).map_or_else(|_| String::new(), |name| name.to_string());
    let mut all = vec![(RecordKind::Repository, push.repository_id, name)];
    if let (Actor::User(login), Some(id)) = (&push.actor, push.actor_id)
        && Login::parse(login).is_ok()
    {
        all.push((RecordKind::User, id, login.clone()));
    }
    all
}

pub(super) fn refresh_key(record_kind: RecordKind, id: i64) -> String {
    match record_kind {
        RecordKind::User => format!("user {id}"),
        RecordKind::Repository => format!("repo {id}"),
    }
}

pub(super) fn read_refresh_key(key: &str) -> Option<(RecordKind, i64)> {
    let (record_kind, id) = key.split_once(' ')?;
    let record_kind = match record_kind {
        "user" => RecordKind::User,
        "repo" => RecordKind::Repository,
        _ => return None,
    };
    Some((record_kind, id.parse().ok()?))
}
