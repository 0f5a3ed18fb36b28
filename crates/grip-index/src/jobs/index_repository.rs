//! The job that indexes one repository.

use std::{collections::HashSet, sync::Arc};

use futures_util::future::BoxFuture;
use grip_go::ModulePath;
use grip_queue::{Handler, Job, Outcome};

use super::{
    Context, JobError, PUSHED,
    tag_list::{TagList, WholeList},
    tag_reader::TagReader,
};
use crate::{
    Audience, Source, SourceError, Trust,
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
        let was_hidden = begun.audience == Audience::Nobody;
        let is_doubted = is_missing || was_hidden || job.payload == PUSHED;
        let mut audience = begun.audience;
        if is_doubted {
            match repo.audience(is_missing).await? {
                Some(now) => audience = now,
                None => return self.remove(job).await,
            }
        }
        let policy = repo.policy();
        let is_judged = begun.policy.as_ref() == Some(&policy);
        let etag = begun.etag.clone().filter(|_| is_judged);
        let tags = self.0.tag_list(job, &repo, &begun, etag.clone()).await?;
        let found = match tags {
            TagList::Gone => return self.remove(job).await,
            TagList::Unchanged => Publication {
                repo: repo.name.clone(),
                etag,
                ..Publication::default()
            },
            TagList::All(list) => {
                let is_told = list.audience.is_some();
                audience = list.audience.unwrap_or(audience);
                let found = self.find_out(&repo, list, !is_judged).await?;
                // The listing may be old, and what was published cannot be taken back.
                let is_news = !found.changed.is_empty();
                if is_news && !is_doubted && !is_told {
                    match repo.audience(false).await? {
                        Some(now) => audience = now,
                        None => return self.remove(job).await,
                    }
                }
                found
            }
        };
        // Before anything is published for those who could see it until now.
        if audience != begun.audience || audience != begun.shown {
            self.0.store.set_audience(&repo.name, audience).await?;
        }
        let found = Publication {
            policy,
            audience,
            ..found
        };
        self.publish(job, &repo, found).await
    }

    fn repo(&self, name: &str, begun: &Begun) -> Result<Repo, JobError> {
        let sources = begun.sources.iter();
        let sources: Vec<_> = sources
            .filter_map(|(name, _)| self.0.source(name))
            .collect();
        if sources.is_empty() {
            let (first, _) = &begun.sources[0];
            return Err(JobError::Elsewhere(first.clone()));
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
        list: WholeList,
        again: bool,
    ) -> Result<Publication, JobError> {
        let seen = diff::sorted(list.tags);
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
        let missing = differences.gone.len();
        let gone = self
            .confirmed(repo, differences.gone, list.is_one_page)
            .await?;
        let is_settled = |changed: &Changed| !matches!(changed.judged, Judged::Unsettled(_));
        // What is not settled is asked again, even if the tags stay as they are.
        let is_all = gone.len() == missing && found.changed.iter().all(is_settled);
        found.etag = list.etag.filter(|_| is_all);
        found.gone(gone);
        found.seen = seen;
        Ok(found)
    }

    /// Those of the tags that a list lacks which are no more: a page that shifted while the list
    /// was read may have hidden the others.
    async fn confirmed(
        &self,
        repo: &Repo,
        missing: Vec<TagRow>,
        is_one_page: bool,
    ) -> Result<Vec<TagRow>, JobError> {
        if is_one_page || missing.is_empty() {
            return Ok(missing);
        }
        let names = missing.iter().map(|row| row.tag_name.clone()).collect();
        let gone = repo.source().confirm_gone(&repo.name, names).await;
        let gone: HashSet<String> = gone
            .map_err(|error| repo.job_error(error))?
            .into_iter()
            .collect();
        let missing = missing.into_iter();
        Ok(missing.filter(|row| gone.contains(&row.tag_name)).collect())
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
        let ending = self
            .0
            .ending(job, self.0.repo_job(repo.source(), &repo.name));
        self.0.store.publish(found, ending).await?;
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

    /// Asks whether it is one of its source's, and who may see it: by its name alone where the
    /// listing lacks it, and otherwise as a listing of now would have it.
    async fn audience(&self, is_missing: bool) -> Result<Option<Audience>, JobError> {
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
