//! The job that lists the repositories of a source.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_queue::{Handler, Job, Outcome};

use super::{Context, JobError};
use crate::{Listed, Source, SourceError, store::ListingProgress};

/// Longest name of a repository that is taken in.
const MAX_NAME_BYTES: usize = 1_000;

/// Does the jobs that list sources.
pub(crate) struct ListSource(pub(crate) Arc<Context>);

impl Handler for ListSource {
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match self.list(&job).await {
                Ok(()) => Outcome::Finished,
                Err(error) => self.0.outcome(&job, error),
            }
        })
    }
}

/// Pages of one run, however few repositories are on them.
const MOST_PAGES: usize = 100_000;

impl ListSource {
    async fn list(&self, job: &Job) -> Result<(), JobError> {
        let source = self.0.source(&job.key);
        let source = source.ok_or_else(|| JobError::Elsewhere(job.key.clone()))?;
        self.0.note_sources().await?;
        let mut progress = self.0.store.begin_listing(source.name()).await?;
        let mut pages = 0;
        loop {
            let page = match source.list(progress.next.clone()).await {
                Ok(page) => page,
                Err(error) => return Err(self.stopped(&**source, error).await),
            };
            pages += 1;
            let is_endless = pages >= MOST_PAGES;
            if page.next.is_some() && (page.next == progress.next || is_endless) {
                let stuck = "the list of repositories does not go on".to_owned();
                let error = SourceError::Permanent(stuck);
                return Err(self.stopped(&**source, error).await);
            }
            progress.next = page.next;
            self.keep(&**source, &mut progress, page.repos).await?;
            if progress.next.is_none() {
                return self.end(&**source, &progress, job).await;
            }
        }
    }

    async fn keep(
        &self,
        source: &dyn Source,
        progress: &mut ListingProgress,
        mut repos: Vec<Listed>,
    ) -> Result<(), JobError> {
        repos.sort_unstable();
        repos.dedup_by(|later, first| later.name == first.name);
        repos.retain(|repo| is_name(&repo.name));
        progress.found += repos.len() as i64;
        if progress.found > self.0.options.max_repos as i64 {
            let most = self.0.options.max_repos;
            let error = SourceError::Permanent(format!("it has more than {most} repositories"));
            return Err(self.stopped(source, error).await);
        }
        let queue = self.0.queue.clone();
        let listed =
            self.0
                .store
                .page_listed(queue, source.name(), progress, repos, self.maker(source));
        let new = listed.await?;
        tracing::debug!(source = source.name(), new, "a page of repositories");
        Ok(())
    }

    fn maker(&self, source: &dyn Source) -> Box<dyn Fn(&str) -> grip_queue::NewJob + Send + Sync> {
        let context = Arc::clone(&self.0);
        let (name, is_local) = (source.name().to_owned(), source.is_local());
        Box::new(move |repo| context.repo_job_of(&name, is_local, repo))
    }

    /// What is wrong for good with a place in a list is not begun with again.
    async fn stopped(&self, source: &dyn Source, error: SourceError) -> JobError {
        if matches!(error, SourceError::Permanent(_))
            && let Err(error) = self.0.store.forget_page(source.name()).await
        {
            return error.into();
        }
        JobError::Source(source.name().to_owned(), error)
    }

    async fn end(
        &self,
        source: &dyn Source,
        progress: &ListingProgress,
        job: &Job,
    ) -> Result<(), JobError> {
        self.forget_changes().await;
        let store = &self.0.store;
        let ending = self.0.ending(job, self.0.list_job(source));
        let ended = store.end_listing(source.name(), progress, self.maker(source), ending);
        let missed = ended.await?;
        let (name, found) = (source.name(), progress.found);
        tracing::info!(source = name, found, missed, "all repositories are listed");
        Ok(())
    }

    /// Drops changes that are too old. What is left over is seen to by the next listing.
    async fn forget_changes(&self) {
        let keep = i64::try_from(self.0.options.keep_changes.as_nanos()).unwrap_or(i64::MAX);
        let now = self.0.store.now_ms().saturating_mul(1_000_000);
        let forgotten = self.0.store.forget_changes(now.saturating_sub(keep)).await;
        if let Err(error) = forgotten {
            tracing::warn!(%error, "old changes of the index could not be removed");
        }
    }
}

fn is_name(repo: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&repo.len()) && !repo.chars().any(char::is_control)
}
