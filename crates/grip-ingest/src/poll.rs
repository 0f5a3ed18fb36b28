//! Polling of event lists.
//!
//! Invariant: what is noted about a list (its mark, what was seen) is what was true when all of it
//! was read that had to be. A look that breaks off keeps the events it has got, and leaves no
//! trace otherwise: the next one has to meet the same events, or there is a hole.

mod pages;

use std::time::Duration;

use bytes::Bytes;
use grip_db::DbError;
use grip_github::{Etag, EventSource, Response};
use grip_queue::{Failure, Lease, NewJob, Outcome};

use self::pages::PollPages;
use crate::{
    accept::{Batch, off_runtime},
    jobs::{Context, JobError, POLL, millis},
    store::{Polled, SourceRow, accept_in, end_poll_in},
};

/// Pages that are read in one look, however many the host offers.
const MOST_PAGES: usize = 10;
/// How soon a list is looked at again that cannot be read for good, or not from here.
const LATER: Duration = Duration::from_secs(60 * 60);

impl Context {
    pub(crate) fn poll_job(&self, source: &EventSource) -> NewJob {
        NewJob::new(POLL, source.to_string()).every(self.options.poll_every)
    }

    /// Looks at a list once. It is looked at again whatever becomes of this time.
    pub(crate) async fn poll(&self, lease: &Lease) -> Outcome {
        let mut sources = self.options.sources.iter();
        let Some(source) = sources.find(|source| source.to_string() == lease.key) else {
            return self.later("this list is not configured where it was tried");
        };
        match self.look(source, lease).await {
            Ok(()) => Outcome::Finished,
            Err(error) => match self.after(&error) {
                Outcome::Failed(Failure {
                    class: grip_queue::Class::Permanent,
                    reason,
                }) => {
                    tracing::warn!(%source, %reason, "a list of events cannot be read");
                    self.later(&reason)
                }
                outcome => outcome,
            },
        }
    }

    fn later(&self, reason: &str) -> Outcome {
        Outcome::Postponed {
            until_ms: self.store.now_ms() + millis(LATER),
            reason: reason.to_owned(),
        }
    }

    async fn look(&self, source: &EventSource, lease: &Lease) -> Result<(), JobError> {
        let Some(before) = self.store.source(&lease.key).await? else {
            return Err(JobError::Useless(
                "nothing is known of this list".to_owned(),
            ));
        };
        let interval = before.poll_interval_ms;
        let mut pages = PollPages::new(before.clone());
        let read = self.read(source, &before, &mut pages).await;
        let (batch, polled, interval) = match read {
            Ok(None) => (Batch::default(), Polled::Unchanged, interval),
            Ok(Some(end)) => {
                let interval = end.poll_interval_ms.or(interval);
                let now = self.store.now_ms();
                let (batch, polled) =
                    pages.finish(end.etag, end.poll_interval_ms, end.has_ended, now);
                (batch, polled, interval)
            }
            Err(error) => {
                // What has come is kept: by the next look it may have moved out of the list.
                let (batch, live_for) = (pages.unfinished(), self.options.live_for);
                self.store
                    .accept(&self.queue, &lease.key, batch, live_for)
                    .await?;
                return Err(error);
            }
        };
        self.end(source, lease, batch, polled, interval).await?;
        Ok(())
    }

    /// Reads pages until they meet what was seen before; none where nothing has changed.
    async fn read(
        &self,
        source: &EventSource,
        before: &SourceRow,
        pages: &mut PollPages,
    ) -> Result<Option<End>, JobError> {
        let mark = before.etag.as_deref().and_then(Etag::parse);
        let mut end = End::default();
        let mut at = None;
        loop {
            let mark = mark.as_ref().filter(|_| at.is_none());
            let page = match self.github.events(source, at, mark).await? {
                Response::NotModified => return Ok(None),
                Response::Fresh(page) => page,
            };
            let events = page.events.iter();
            let events: Vec<_> = events
                .map(|event| Bytes::copy_from_slice(event.get().as_bytes()))
                .collect();
            let bytes = events.iter().map(Bytes::len).sum();
            let mut taking = std::mem::take(pages);
            let taken = off_runtime(&self.group, bytes, move || {
                taking.take(&events);
                taking
            });
            *pages = taken.await?;
            if at.is_none() {
                end.etag = page.etag.map(|etag| etag.as_str().to_owned());
                end.poll_interval_ms = page.poll_interval.map(millis);
            }
            end.has_ended = page.next.is_none();
            if pages.has_met() || end.has_ended || pages.count() >= MOST_PAGES {
                return Ok(Some(end));
            }
            at = page.next;
        }
    }

    /// Keeps the events and what the list is like, asks for the next look, and ends this one: one
    /// transaction.
    async fn end(
        &self,
        source: &EventSource,
        lease: &Lease,
        batch: Batch,
        polled: Polled,
        interval_ms: Option<i64>,
    ) -> Result<(), DbError> {
        let wanted = Duration::from_millis(interval_ms.unwrap_or(0).unsigned_abs());
        let every = self.options.poll_every.max(wanted);
        let due = self.store.now_ms().saturating_add(millis(every));
        let next = self.poll_job(source).every(every).due_ms(due);
        let (queue, lease) = (self.queue.clone(), lease.clone());
        let live_for = self.options.live_for;
        self.store
            .db()
            .write(move |mut db| {
                Box::pin(async move {
                    accept_in(&mut db, &queue, &lease.key, &batch, live_for).await?;
                    end_poll_in(&mut db, &queue, &lease, polled, next).await
                })
            })
            .await
    }
}

/// How a look ended.
#[derive(Default)]
struct End {
    etag: Option<String>,
    poll_interval_ms: Option<i64>,
    /// There was no further page.
    has_ended: bool,
}

#[cfg(test)]
mod tests;
