//! The index: its parts, its workers, and what its users call.

use std::{collections::HashSet, sync::Arc};

use grip_db::{Db, DbError};
use grip_queue::{Handler, NewJob, Queue, Worker, WorkerOptions, WorkerStatus};
use grip_tasks::TaskGroup;

use crate::{
    Audience, Changes, FeedQuery, LeftSources, Options, Page, Reader, RepoFacts, Source, Status,
    TagFacts, VersionAt,
    jobs::{Context, IndexRepository, LEAVE, LeaveSource, ListSource, PUSHED},
    store::Store,
};

/// The most changes, repositories or tags that one answer has.
const MOST: usize = 2_000;

/// What the index is made of.
pub struct Parts {
    pub db: Db,
    pub queue: Queue,
    pub sources: Vec<Arc<dyn Source>>,
    pub options: Options,
    pub group: TaskGroup,
}

/// The index: its workers run as long as it is there. Reading works without any source.
#[must_use = "dropping the index stops its workers"]
pub struct Index {
    context: Arc<Context>,
    workers: Vec<Worker>,
}

impl Index {
    /// Notes the sources and starts the work on them. What was done before is not repeated.
    pub async fn start(parts: Parts) -> Result<Self, DbError> {
        let store = Store::new(parts.db);
        let context = Context::new(store, parts.queue, parts.sources, parts.options);
        Self::start_with(Arc::new(context), &parts.group).await
    }

    pub(crate) async fn start_with(
        context: Arc<Context>,
        group: &TaskGroup,
    ) -> Result<Self, DbError> {
        for source in &context.sources {
            let (queue, job) = (context.queue.clone(), context.list_job(&**source));
            context.store.add_source(queue, source.name(), job).await?;
        }
        context.note_sources().await?;
        let mut workers = vec![start_leaving(&context, group)];
        for is_local in [false, true] {
            let is_such = |source: &Arc<dyn Source>| source.is_local() == is_local;
            if context.sources.iter().any(is_such) {
                workers.extend(start(&context, is_local, group));
            }
        }
        Ok(Self { context, workers })
    }

    /// A page of the feed.
    pub async fn feed(&self, query: &FeedQuery) -> Result<Page, DbError> {
        let limit = query.limit.min(FeedQuery::MOST);
        let query = FeedQuery {
            limit,
            ..query.clone()
        };
        self.context.store.feed(&query).await
    }

    /// What happened to versions after a timestamp, the oldest first. The timestamp of the last
    /// change is where the next page begins.
    pub async fn changes(
        &self,
        after_ns: i64,
        limit: usize,
        reader: Reader,
    ) -> Result<Changes, DbError> {
        let store = &self.context.store;
        store.changes(after_ns, limit.min(MOST), reader).await
    }

    /// Changes whenever the feed does. One tiny query.
    pub async fn stamp(&self) -> Result<i64, DbError> {
        self.context.store.stamp().await
    }

    /// Where a version is.
    pub async fn version(&self, path: &str, version: &str) -> Result<Option<VersionAt>, DbError> {
        self.context.store.version(path, version).await
    }

    /// The versions of a module, in the order of their texts.
    pub async fn versions(&self, path: &str, limit: usize) -> Result<Vec<VersionAt>, DbError> {
        self.context.store.versions(path, limit).await
    }

    pub async fn status(&self) -> Result<Status, DbError> {
        let sources = self.context.sources.iter();
        let names: Vec<_> = sources.map(|source| source.name()).collect();
        self.context.store.status(&names).await
    }

    /// The repositories by name, from the one after `after`.
    pub async fn repos(
        &self,
        after: &str,
        limit: usize,
        reader: Reader,
    ) -> Result<Vec<RepoFacts>, DbError> {
        let store = &self.context.store;
        store.repos(after, limit.min(MOST), reader).await
    }

    /// Those of the repositories that this reader may not see.
    pub async fn unseen(
        &self,
        repos: Vec<String>,
        reader: Reader,
    ) -> Result<HashSet<String>, DbError> {
        self.context.store.unseen(repos, reader).await
    }

    /// Takes leave of a source: false where it is in the settings of this instance.
    pub async fn forget_source(&self, source: &str, how: LeftSources) -> Result<bool, DbError> {
        if self.context.source(source).is_some() {
            return Ok(false);
        }
        let job = NewJob::new(LEAVE, source).payload(how.name()).revive();
        self.context.queue.enqueue(vec![job]).await?;
        Ok(true)
    }

    /// One repository.
    pub async fn repo(&self, name: &str) -> Result<Option<RepoFacts>, DbError> {
        self.context.store.repo_facts(name).await
    }

    /// The tags of a repository by name, from the one after `after`, and why those that are not in
    /// the feed are not.
    pub async fn tags(
        &self,
        repo: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<TagFacts>, DbError> {
        let store = &self.context.store;
        store.tag_facts(repo, after, limit.min(MOST)).await
    }

    pub fn workers(&self) -> Vec<WorkerStatus> {
        self.workers.iter().map(Worker::status).collect()
    }

    /// Repositories on this node have changed, all at once: their turns are now.
    pub async fn repos_changed(&self, repos: Vec<String>) -> Result<(), DbError> {
        let local = self.context.sources.iter().find(|source| source.is_local());
        match local {
            Some(source) => self.name_repos(&**source, repos).await,
            None => Ok(()),
        }
    }

    /// Somebody has pushed to a repository of another host. Says whether it is one of ours; its
    /// turn is now.
    pub async fn source_push(&self, host: &str, owner: &str, repo: &str) -> Result<bool, DbError> {
        let mut ours = false;
        for source in &self.context.sources {
            if let Some(name) = source.covers(host, owner, repo) {
                self.name_repos(&**source, vec![name]).await?;
                ours = true;
            }
        }
        Ok(ours)
    }

    /// The same of a repository that not everybody may see. A source that leaves such out hears of
    /// it only if it is there already and so has to go: the names in the index are public.
    pub async fn private_push(&self, host: &str, owner: &str, repo: &str) -> Result<bool, DbError> {
        let mut ours = false;
        for source in &self.context.sources {
            let Some(name) = source.covers(host, owner, repo) else {
                continue;
            };
            let known = self.context.store.repo_facts(&name).await?;
            let is_there = known.is_some_and(|facts| facts.gone_ms.is_none());
            if source.takes_private() || is_there {
                self.name_repos(&**source, vec![name]).await?;
                ours = true;
            }
        }
        Ok(ours)
    }

    async fn name_repos(&self, source: &dyn Source, repos: Vec<String>) -> Result<(), DbError> {
        let context = &self.context;
        let job = |repo: &String| {
            let job = context.repo_job(source, repo).revive();
            if source.is_local() {
                job
            } else {
                job.payload(PUSHED)
            }
        };
        let jobs = repos.iter().map(job).collect();
        let queue = context.queue.clone();
        let store = &context.store;
        let at_first = if source.takes_private() {
            Audience::Readers
        } else {
            Audience::Anybody
        };
        let name = source.name();
        store.name_repos(queue, name, repos, jobs, at_first).await
    }

    /// Stops the work and waits until it is given back.
    pub async fn shutdown(self) {
        for worker in self.workers {
            worker.shutdown().await;
        }
    }
}

/// Starts the worker that takes leave of sources; any instance can.
fn start_leaving(context: &Arc<Context>, group: &TaskGroup) -> Worker {
    let options = WorkerOptions {
        at_once: 1,
        take: 1,
        poll: context.options.poll,
        ..WorkerOptions::default()
    };
    let handler = Arc::new(LeaveSource(Arc::clone(context)));
    Worker::start(
        context.queue.clone(),
        LEAVE.to_owned(),
        handler,
        options,
        group,
    )
}

fn start(context: &Arc<Context>, is_local: bool, group: &TaskGroup) -> [Worker; 2] {
    let options = &context.options;
    let names = context
        .sources
        .iter()
        .map(|source| source.name().to_owned());
    // What is on this node alone has kinds of its own; the rest is for who has its source.
    let able: Option<Vec<String>> = (!is_local).then(|| names.collect());
    let worker = |kind: String, handler: Arc<dyn Handler>, at_once: usize, take: usize| {
        let options = WorkerOptions {
            capabilities: able.clone(),
            at_once,
            take,
            lease: options.indexing_ttl,
            poll: options.poll,
            ..WorkerOptions::default()
        };
        Worker::start(context.queue.clone(), kind, handler, options, group)
    };
    let take = options.number_of_items_to_take;
    [
        worker(
            context.list_kind(is_local),
            Arc::new(ListSource(Arc::clone(context))),
            1,
            1,
        ),
        worker(
            context.repo_kind(is_local),
            Arc::new(IndexRepository(Arc::clone(context))),
            options.workers,
            take,
        ),
    ]
}
