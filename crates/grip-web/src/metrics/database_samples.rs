//! Figures of the database, as they were at the last sample.
//!
//! Invariant: a scraper is shown the last sample and never waits for one, but for the first, and for
//! that no longer than a moment.

use std::{fmt, sync::Arc, time::Duration};

use grip_db::DbError;
use grip_index::{
    Index, Reader, SourceStatus, Status, SumDbStatus,
    proxy::{Proxy, UpstreamStatus},
};
use grip_ingest::{Ingest, Stats};
use grip_queue::{KindStats, Queue};
use grip_tasks::{CancellationToken, TaskGroup};
use parking_lot::Mutex;
use prometheus_client::{encoding::DescriptorEncoder, metrics::MetricType};
use tokio::{
    sync::Notify,
    time::{Instant, timeout, timeout_at},
};

use super::{
    cached_count::CachedCount,
    collected::{counter, counters, gauge, gauges, labelled},
    ingest::IngestSample,
};
use crate::{Web, pages::unsigned, restricted};

/// How often is counted, and for how long after the last scrape: nothing is where nobody reads it.
const EVERY: Duration = Duration::from_secs(10);
const WATCHED: Duration = Duration::from_secs(300);
/// How long a scrape waits for the first sample.
const FIRST: Duration = Duration::from_secs(2);
/// Sources that have a series of their own.
const SOURCES: usize = 100;

/// Samples the database for scrapers.
pub(crate) struct DatabaseSamples {
    queue: Queue,
    index: Option<Arc<Index>>,
    proxy: Option<Proxy>,
    ingest: Option<Arc<Ingest>>,
    last: Mutex<Sample>,
    scraped: Notify,
    /// Cancelled by the first sample.
    sampled: CancellationToken,
    index_status: CachedCount<Status>,
    watch_status: CachedCount<grip_ingest::Status>,
    watch_stats: CachedCount<Stats>,
}

/// The figures of one moment.
#[derive(Clone, Default)]
pub(crate) struct Sample {
    is_away: bool,
    kinds: Vec<KindStats>,
    index: Option<Status>,
    sumdb: Option<SumDbStatus>,
    /// Requests for moved versions: answered as logged, refused.
    moved_requests: [u64; 2],
    upstream: Option<UpstreamStatus>,
    ingest: Option<IngestSample>,
}

impl DatabaseSamples {
    pub(crate) fn new(web: &Web) -> Self {
        Self {
            queue: web.queue.clone(),
            index: web.index.clone(),
            proxy: web.proxy.clone(),
            ingest: web.watch.as_ref().map(|watch| Arc::clone(&watch.ingest)),
            last: Mutex::default(),
            scraped: Notify::new(),
            sampled: CancellationToken::new(),
            index_status: CachedCount::default(),
            watch_status: CachedCount::default(),
            watch_stats: CachedCount::default(),
        }
    }

    /// Looks after each scrape and again and again, until `group` stops.
    pub(crate) fn start(self: &Arc<Self>, group: &TaskGroup) {
        let (samples, stop) = (Arc::clone(self), group.token());
        group.spawn("metrics", async move {
            stop.run_until_cancelled(samples.keep_sampling()).await;
        });
    }

    async fn keep_sampling(&self) {
        loop {
            self.scraped.notified().await;
            let mut until = Instant::now() + WATCHED;
            while Instant::now() < until {
                self.refresh().await;
                let next = Instant::now() + EVERY;
                if timeout_at(next, self.scraped.notified()).await.is_ok() {
                    until = Instant::now() + WATCHED;
                }
            }
        }
    }

    /// Notes a scrape: the next sample is taken. Waits where there was none yet.
    pub(crate) async fn scraped(&self) {
        self.scraped.notify_one();
        // A database that does not answer is no reason to show nothing at all.
        let _ = timeout(FIRST, self.sampled.cancelled()).await;
    }

    /// Looks once; where that fails, the last counts stay.
    async fn refresh(&self) {
        let counted = self.count().await;
        {
            let mut last = self.last.lock();
            match counted {
                Ok(counted) => *last = counted,
                Err(error) => {
                    tracing::debug!(%error, "failed to sample the database");
                    last.is_away = is_away(&error);
                }
            }
        }
        self.sampled.cancel();
    }

    async fn count(&self) -> Result<Sample, DbError> {
        let kinds = self.queue.stats().await?;
        let index = match &self.index {
            Some(index) => Some(self.index_status(index).await?),
            None => None,
        };
        let sumdb = match self.proxy.as_ref().and_then(Proxy::sumdb) {
            Some(sumdb) => sumdb.status().await.ok(),
            None => None,
        };
        let ingest = match &self.ingest {
            Some(ingest) => Some(IngestSample {
                status: self.watch_status(ingest).await?,
                stats: self.watch_stats(ingest).await?,
            }),
            None => None,
        };
        Ok(Sample {
            is_away: false,
            kinds: of_this_node(kinds, self.queue.db().node()),
            index,
            sumdb,
            moved_requests: self.proxy.as_ref().map_or([0; 2], Proxy::moved_requests),
            upstream: self.proxy.as_ref().and_then(Proxy::upstream_status),
            ingest,
        })
    }

    /// How the index is, or was a moment ago.
    pub(crate) async fn index_status(&self, index: &Index) -> Result<Status, DbError> {
        self.index_status.get(index.status()).await
    }

    /// How it goes with GitHub, or went a moment ago.
    pub(crate) async fn watch_status(
        &self,
        ingest: &Ingest,
    ) -> Result<grip_ingest::Status, DbError> {
        self.watch_status.get(ingest.status()).await
    }

    /// How much there is of GitHub, or was a moment ago.
    pub(crate) async fn watch_stats(&self, ingest: &Ingest) -> Result<Stats, DbError> {
        self.watch_stats.get(ingest.stats()).await
    }

    pub(super) fn ingest(&self) -> Option<&Ingest> {
        self.ingest.as_deref()
    }

    /// What was found last; whether a database server can be reached is known without a look.
    pub(crate) fn look(&self) -> Sample {
        let mut last = self.last.lock().clone();
        last.is_away |= self.queue.db().outage().borrow().is_some();
        last
    }
}

/// Whether an error means a database that cannot be used, and not one at work.
fn is_away(error: &DbError) -> bool {
    !matches!(
        error,
        DbError::Busy
            | DbError::TimedOut
            | DbError::Locked(_)
            | DbError::Conflict(_)
            | DbError::Aborted
    )
}

/// The kinds that all instances share, and those of this one without its name: other instances
/// show their own.
fn of_this_node(kinds: Vec<KindStats>, node: &str) -> Vec<KindStats> {
    let of_ours = |mut stats: KindStats| match stats.kind.split_once('@') {
        None => Some(stats),
        Some((kind, of)) if of == node => {
            stats.kind = kind.to_owned();
            Some(stats)
        }
        Some(_) => None,
    };
    let mut kinds: Vec<_> = kinds.into_iter().filter_map(of_ours).collect();
    // A kind that has both shared jobs and jobs of this node is one series.
    kinds.sort_by(|a, b| a.kind.cmp(&b.kind));
    kinds.dedup_by(|next, kept| {
        let is_same = next.kind == kept.kind;
        if is_same {
            kept.due += next.due;
            kept.waiting += next.waiting;
            kept.leased += next.leased;
            kept.dead += next.dead;
            kept.oldest_due_age_ms = kept.oldest_due_age_ms.max(next.oldest_due_age_ms);
        }
        is_same
    });
    kinds
}

impl Sample {
    /// The same without what this reader may not see.
    pub(crate) fn for_reader(mut self, reader: Reader) -> Self {
        let is_complete =
            reader == Reader::All || !self.index.as_ref().is_some_and(Status::has_restricted);
        if !is_complete {
            self.kinds
                .retain(|kind| !restricted::JOB_KINDS.contains(&kind.kind.as_str()));
            self.index = self.index.map(|status| status.for_reader(reader));
        }
        self
    }

    /// The jobs that may be claimed, by kind.
    pub(crate) fn due(&self) -> impl Iterator<Item = (&str, u64)> {
        self.column(|kind| kind.due)
    }

    /// The jobs that failed for good, by kind.
    pub(crate) fn dead(&self) -> impl Iterator<Item = (&str, u64)> {
        self.column(|kind| kind.dead)
    }

    fn column(&self, of: fn(&KindStats) -> i64) -> impl Iterator<Item = (&str, u64)> {
        let kinds = self.kinds.iter();
        kinds.map(move |kind| (kind.kind.as_str(), unsigned(of(kind))))
    }

    pub(super) fn encode(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether the database can be used, as far as is known";
        gauge(out, "database_up", help, u64::from(!self.is_away))?;
        self.encode_queues(out)?;
        if let Some(status) = &self.index {
            encode_index(status, out)?;
        }
        if let Some(status) = &self.sumdb {
            encode_sumdb(status, self.moved_requests, out)?;
        }
        if let Some(status) = &self.upstream {
            encode_upstream(status, out)?;
        }
        match &self.ingest {
            Some(ingest) => ingest.encode(out),
            None => Ok(()),
        }
    }

    fn encode_queues(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "For how long the job has been due that has been due longest, by queue";
        let oldest = self.column(|kind| kind.oldest_due_age_ms / 1000);
        gauges(out, "queue_oldest_age_seconds", help, "queue", oldest)?;
        let help = "Jobs that failed for good and wait for the operator, by queue";
        gauges(out, "queue_dead_total", help, "queue", self.dead())?;
        let rows = self.kinds.iter().flat_map(|kind| {
            let states = [
                ("due", kind.due),
                ("waiting", kind.waiting),
                ("leased", kind.leased),
                ("dead", kind.dead),
            ];
            let queue = kind.kind.as_str();
            states.map(|(state, n)| ([("queue", queue), ("state", state)], unsigned(n)))
        });
        let help = "Jobs in the database, by queue and state";
        labelled(out, MetricType::Gauge, "queue_jobs", help, rows)
    }
}

// A table: one metric a line.
#[rustfmt::skip]
fn encode_index(status: &Status, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let listed = |s: &SourceStatus| unsigned(s.finished_ms.unwrap_or(0) / 1000);
    let sources = status.sources.iter().take(SOURCES).map(|s| (s.name.as_str(), listed(s)));
    gauge(out, "index_versions", "Module versions in the feed", unsigned(status.versions))?;
    gauge(out, "index_repositories", "Repositories that are indexed", unsigned(status.repos))?;
    gauge(out, "index_tags", "Tags that are known", unsigned(status.tags))?;
    gauge(out, "index_last_change_timestamp_seconds", "When the feed last changed, in unix time", unsigned(status.stamp_ns / 1_000_000_000))?;
    gauges(out, "index_last_listing_timestamp_seconds", "When the list of a source's repositories was last complete, in unix time; 0 for never", "source", sources)
}

// A table: one metric a line.
#[rustfmt::skip]
fn encode_sumdb(status: &SumDbStatus, moved: [u64; 2], out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let [as_logged, refused] = moved;
    gauge(out, "sumdb_records", "Module versions in the checksum database", status.records)?;
    gauge(out, "sumdb_moved_versions", "Listed versions whose tags lead to something else than what was logged", unsigned(status.moved))?;
    counters(out, "sumdb_moved_requests", "Requests for such versions, by what became of them", "result", [("as_logged", as_logged), ("refused", refused)])
}

// A table: one metric a line.
#[rustfmt::skip]
fn encode_upstream(status: &UpstreamStatus, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let results = [("ok", status.fetched), ("failed", status.failed), ("untrusted", status.untrusted)];
    counters(out, "go_proxy_fetches", "Modules that were asked of other hosts, by what became of it", "result", results)?;
    counter(out, "go_proxy_fetched_bytes", "Bytes that other hosts sent of modules", status.fetched_bytes)?;
    counter(out, "go_proxy_cache_hits", "Requests for modules of other hosts that the cache answered", status.cache_hits)?;
    gauge(out, "go_proxy_cache_bytes", "Bytes of modules of other hosts in the cache", status.cache_bytes)?;
    gauge(out, "go_proxy_cache_modules", "Modules of other hosts in the cache", status.cached_modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instance_shows_shared_work_and_its_own() {
        let stats = |kind: &str| KindStats {
            kind: kind.into(),
            due: 1,
            waiting: 0,
            leased: 0,
            dead: 0,
            oldest_due_age_ms: 0,
        };
        let kinds = ["index-list", "index-list@a", "wanted@a", "wanted@b"];
        let kinds = kinds.map(stats).to_vec();
        let of = |node| {
            let shown = of_this_node(kinds.clone(), node).into_iter();
            shown
                .map(|stats| (stats.kind, stats.due))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("a"), [("index-list".into(), 2), ("wanted".into(), 1)]);
        assert_eq!(of(""), [("index-list".into(), 1)]);
    }
}
