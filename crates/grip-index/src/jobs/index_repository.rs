//! The job that indexes one repository.

use std::{collections::HashSet, sync::Arc};

use futures_util::future::BoxFuture;
use grip_go::ModulePath;
use grip_queue::{Handler, Job, Outcome};

use super::{Context, JobError, PUSHED, tag_reader::TagReader};
use crate::{
    Occasion, Source, SourceError, TagAt, Tags, Trust,
    diff::{self, Differences, Merge, Seen},
    store::{Begun, Changed, Gone, Judged, Publication, TagRow},
};

/// Changes when the rules do, so that every repository is judged again.
const RULES: &str = "1";
/// Tags that are read of what is kept, and looked at, at a time.
const AT_ONCE: usize = 1_000;

/// Does the jobs that index repositories.
pub(crate) struct IndexRepository(pub(crate) Arc<Context>);

/// One repository and its sources.
pub(super) struct Repo {
    pub(super) name: String,
    /// Those of its sources that are configured here; the first is asked.
    sources: Vec<Arc<dyn Source>>,
    pub(super) location: Option<ModulePath>,
}

impl Handler for IndexRepository {
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match self.index(&job).await {
                Ok(()) => Outcome::Finished,
                Err(error) => self.0.outcome(&job, error),
            }
        })
    }
}

impl IndexRepository {
    async fn index(&self, job: &Job) -> Result<(), JobError> {
        let begun = self.0.store.begin_repo(&job.key).await?;
        let Some(begun) = begun.filter(|begun| !begun.sources.is_empty()) else {
            return self.remove(job).await;
        };
        let repo = self.repo(&job.key, &begun)?;
        let is_missing = begun.sources.iter().all(|(_, is_missing)| *is_missing);
        let is_doubted = is_missing || job.payload == PUSHED;
        if is_doubted && !repo.is_ours(is_missing).await? {
            return self.remove(job).await;
        }
        let occasion = Occasion {
            job: job.id,
            asked: job.asked,
            finished_ms: begun.finished_ms,
        };
        let policy = repo.policy();
        let is_judged = begun.policy.as_ref() == Some(&policy);
        let etag = begun.etag.filter(|_| is_judged);
        let tags = repo.source().tags(&repo.name, etag.clone(), occasion).await;
        match tags.map_err(|error| repo.job_error(error))? {
            Tags::Gone => self.remove(job).await,
            Tags::Unchanged => {
                let same = Publication {
                    repo: repo.name.clone(),
                    etag,
                    policy,
                    ..Publication::default()
                };
                self.publish(job, &repo, same).await
            }
            Tags::All { tags, etag } => {
                let mut found = self.find_out(&repo, tags, !is_judged).await?;
                let is_settled =
                    |changed: &Changed| !matches!(changed.judged, Judged::Unsettled(_));
                // What is not settled is asked again, even if the tags stay as they are.
                found.etag = etag.filter(|_| found.changed.iter().all(is_settled));
                found.policy = policy;
                // The listing may be old, and what was published cannot be taken back.
                let is_news = !found.changed.is_empty();
                if is_news && !is_doubted && !repo.is_ours(false).await? {
                    return self.remove(job).await;
                }
                self.publish(job, &repo, found).await
            }
        }
    }

    fn repo(&self, name: &str, begun: &Begun) -> Result<Repo, JobError> {
        let sources = begun.sources.iter();
        let sources: Vec<_> = sources
            .filter_map(|(name, _)| self.0.source(name))
            .collect();
        if sources.is_empty() {
            let names: Vec<_> = begun.sources.iter().map(|(name, _)| &**name).collect();
            return Err(JobError::Elsewhere(names.join(" or ")));
        }
        let mut locations = sources.iter().map(|source| source.location(name));
        Ok(Repo {
            name: name.to_owned(),
            location: locations.next().flatten(),
            sources: sources.into_iter().cloned().collect(),
        })
    }

    async fn find_out(
        &self,
        repo: &Repo,
        tags: Vec<TagAt>,
        again: bool,
    ) -> Result<Publication, JobError> {
        let most = self.0.options.max_tags;
        if tags.len() > most {
            let error = SourceError::Permanent(format!("it has more than {most} tags"));
            return Err(repo.job_error(error));
        }
        let seen = diff::sorted(tags);
        let differences = self.compare(repo, &seen, again).await?;
        let mut found = Publication {
            repo: repo.name.clone(),
            ..Publication::default()
        };
        let mut reader = TagReader::new(&self.0.store, repo);
        for some in differences.look.chunks(AT_ONCE) {
            let judged = reader.judge(&seen, some).await?;
            for ((at, kept), judged) in some.iter().zip(judged) {
                found.add(&seen, *at, kept.as_ref(), judged);
            }
        }
        found.gone(differences.gone);
        found.seen = seen;
        Ok(found)
    }

    async fn compare(
        &self,
        repo: &Repo,
        seen: &[Seen],
        again: bool,
    ) -> Result<Differences, JobError> {
        let mut merge = Merge::new(seen, again);
        let mut after = String::new();
        loop {
            let kept = self.0.store.tags(&repo.name, &after, AT_ONCE).await?;
            let Some(last) = kept.last() else {
                return Ok(merge.end());
            };
            after.clone_from(&last.tag_name);
            merge.page(kept);
        }
    }

    async fn publish(&self, job: &Job, repo: &Repo, found: Publication) -> Result<(), JobError> {
        let (changed, gone) = (found.changed.len(), found.gone.len());
        let is_local = repo.source().is_local();
        let ending = self.0.ending(job, self.0.repo_job(is_local, &repo.name));
        self.0.store.publish(found, ending).await?;
        repo.source().finished(&repo.name);
        tracing::debug!(repo = repo.name, changed, gone, "a repository is indexed");
        Ok(())
    }

    async fn remove(&self, job: &Job) -> Result<(), JobError> {
        let ending = self.0.ending(job, grip_queue::NewJob::new("", ""));
        self.0.store.remove_repo(&job.key, ending).await?;
        tracing::info!(repo = job.key, "a repository is gone from the index");
        Ok(())
    }
}

impl Repo {
    pub(super) fn source(&self) -> &dyn Source {
        &*self.sources[0]
    }

    pub(super) fn job_error(&self, error: SourceError) -> JobError {
        JobError::Source(self.source().name().to_owned(), error)
    }

    /// Asks whether it is one of its source's: by its name alone where the listing lacks it, and
    /// otherwise as a listing of now would have it.
    async fn is_ours(&self, is_missing: bool) -> Result<bool, JobError> {
        let answer = if is_missing {
            self.source().is_there(&self.name).await
        } else {
            self.source().admits(&self.name).await
        };
        answer.map_err(|error| self.job_error(error))
    }

    /// The most that any source trusts it.
    pub(super) fn trust(&self, path: &ModulePath) -> Trust {
        let each = self.sources.iter();
        let each = each.map(|source| source.trusts(&self.name, path));
        each.max().unwrap_or(Trust::Refused)
    }

    /// What the judgement of its tags depends on beside themselves.
    fn policy(&self) -> String {
        let mut policy = RULES.to_owned();
        for source in &self.sources {
            policy = format!("{policy} {} {}", source.name(), source.policy());
        }
        format!("{:016x}", crate::claim_rules::fingerprint(&policy))
    }
}

impl Publication {
    fn add(&mut self, seen: &[Seen], at: usize, kept: Option<&TagRow>, judged: Judged) {
        let is_same = kept.is_some_and(|kept| seen[at].is_kept_as(&judged, kept));
        // What is not settled is still to be asked about again.
        if is_same && !matches!(judged, Judged::Unsettled(_)) {
            return;
        }
        self.changed.push(Changed {
            at,
            judged,
            is_new: kept.is_none(),
            before: kept.and_then(TagRow::claim),
        });
    }

    fn gone(&mut self, gone: Vec<TagRow>) {
        self.gone = gone
            .into_iter()
            .map(|row| Gone {
                before: row.claim(),
                name: row.tag_name,
            })
            .collect();
    }
}

/// The parts of a chunk that can be known, each once.
pub(super) fn named(seen: &[Seen], look: &[(usize, Option<TagRow>)]) -> (Vec<String>, Vec<String>) {
    let versions = look.iter().map(|(at, _)| &seen[*at]);
    let versions = versions.filter(|seen| seen.version().is_some());
    let (mut objects, mut commits) = (HashSet::new(), HashSet::new());
    for seen in versions {
        objects.insert(seen.object.to_hex());
        commits.insert(seen.commit.to_hex());
    }
    (objects.into_iter().collect(), commits.into_iter().collect())
}
