//! Fetch of users and repositories from GitHub.

use grip_github::{Etag, Login, Record, RepoKey, RepoName, Response};
use grip_queue::{Lease, Outcome};

use super::{Context, JobError, new_kind, process_push::read_refresh_key, refresh_budget};
use crate::{
    extract,
    store::{Known, RecordKind},
};

/// What a fetch brought.
enum Fetched {
    Same,
    Fresh {
        record: extract::Record,
        etag: Option<String>,
    },
}

impl Context {
    /// Asks for what nobody has asked for.
    pub(super) async fn enrich_new(
        &self,
        record_kind: RecordKind,
        lease: &Lease,
    ) -> Result<Outcome, JobError> {
        let id = lease.key.parse();
        let id = id.map_err(|_| JobError::Useless("the job names no id".to_owned()))?;
        self.enrich(record_kind, id, lease).await
    }

    /// Asks again, once nothing new waits for the same budget.
    pub(super) async fn refresh(&self, lease: &Lease) -> Result<Outcome, JobError> {
        let Some((record_kind, id)) = read_refresh_key(&lease.key) else {
            return Err(JobError::Useless("the job names no id".to_owned()));
        };
        let mut new_waits = false;
        for kind in [
            super::push_kind(true),
            new_kind(RecordKind::User),
            new_kind(RecordKind::Repository),
        ] {
            // The dead lie at the end of time.
            let due = self.queue.next_due(kind).await?;
            new_waits |= due.is_some_and(|due| due < i64::MAX);
        }
        let percent = self.options.refresh_reserve_percent;
        match refresh_budget::check(&self.github.budget(), new_waits, percent) {
            Ok(()) => self.enrich(record_kind, id, lease).await,
            Err(deferred) => {
                let until = deferred.until.map(|until| self.moment(until));
                let soon = self
                    .store
                    .now_ms()
                    .saturating_add(refresh_budget::wait_ms(id));
                Ok(Outcome::Postponed {
                    until_ms: until.unwrap_or(soon).max(soon),
                    reason: deferred.why.to_owned(),
                })
            }
        }
    }

    async fn enrich(
        &self,
        record_kind: RecordKind,
        id: i64,
        lease: &Lease,
    ) -> Result<Outcome, JobError> {
        let known = self.store.known(record_kind, id).await?;
        if known
            .as_ref()
            .is_some_and(|known| self.is_fresh(known.fetched_at))
        {
            return Ok(Outcome::Done);
        }
        match self.fetch(record_kind, id, &lease.payload, known).await? {
            Fetched::Same => {
                self.store
                    .touch(&self.queue, lease, record_kind, id)
                    .await?;
            }
            Fetched::Fresh { record, etag } => {
                let saving = self
                    .store
                    .save(&self.queue, lease, record_kind, record, etag);
                saving.await?;
            }
        }
        Ok(Outcome::Finished)
    }

    /// Asks by the name of the latest event; of what is known, for changes only.
    async fn fetch(
        &self,
        record_kind: RecordKind,
        id: i64,
        name: &str,
        known: Option<Known>,
    ) -> Result<Fetched, JobError> {
        let last_name = known.as_ref().and_then(|known| known.name.as_deref());
        // A mark fits only what was asked for by the same name.
        let etag = known.as_ref().and_then(|known| known.etag.as_deref());
        let etag = etag.filter(|_| last_name.is_some_and(|last| last.eq_ignore_ascii_case(name)));
        let etag = etag.and_then(Etag::parse);
        let name = Some(name).filter(|name| !name.is_empty()).or(last_name);
        let answer = match record_kind {
            RecordKind::User => {
                let login = Login::parse(name.unwrap_or_default());
                let login = login.map_err(|error| JobError::Useless(error.to_string()))?;
                self.github.user_raw(&login, etag.as_ref()).await?
            }
            RecordKind::Repository => {
                let by_id = RepoKey::Id(id.unsigned_abs());
                let by_name = name.and_then(|name| RepoName::parse(name).ok());
                let key = by_name.map_or(by_id, RepoKey::Name);
                self.github.repository_raw(&key, etag.as_ref()).await?
            }
        };
        match answer {
            Response::NotModified => Ok(Fetched::Same),
            Response::Fresh(Record { text, etag, .. }) => {
                let read = record_kind.read(text.as_bytes());
                let record = read.map_err(|why| {
                    JobError::Useless(format!("what GitHub says cannot be read: {why}"))
                })?;
                if record.id != id {
                    return Err(JobError::Useless(format!(
                        "the name belongs to another one by now: {} and not {id}",
                        record.id
                    )));
                }
                let etag = etag.map(|etag| etag.as_str().to_owned());
                Ok(Fetched::Fresh { record, etag })
            }
        }
    }
}
