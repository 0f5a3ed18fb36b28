//! The job that takes leave of a source which nobody has in the settings any more.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_queue::{Handler, Job, Outcome};

use super::{Context, JobError};
use crate::LeftSources;

/// The kind of these jobs; the key is the source, the payload what becomes of its rows.
pub(crate) const LEAVE: &str = "index-leave";

/// Does the jobs that take leave of sources.
pub(crate) struct LeaveSource(pub(crate) Arc<Context>);

impl Handler for LeaveSource {
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match self.leave(&job).await {
                Ok(()) => Outcome::Done,
                Err(error) => self.0.outcome(&job, error),
            }
        })
    }
}

impl LeaveSource {
    /// May be repeated: what is hidden or gone already is not so a second time.
    async fn leave(&self, job: &Job) -> Result<(), JobError> {
        let (context, source) = (&self.0, &*job.key);
        if context.source(source).is_some() {
            // It came back in the meantime.
            return Ok(());
        }
        let (store, queue) = (&context.store, &context.queue);
        let kinds = context.kinds_of(source);
        match LeftSources::named(&job.payload) {
            Some(LeftSources::Hide) => {
                let hidden = store.hide_source(queue, source, &kinds).await?;
                tracing::info!(source, hidden, "hid the repositories of a source that left");
            }
            Some(LeftSources::Remove) => {
                let removed = store.forget_source(queue, source, &kinds).await?;
                tracing::info!(
                    source,
                    removed,
                    "removed the repositories of a source that left"
                );
            }
            Some(LeftSources::Keep) | None => {}
        }
        Ok(())
    }
}
