//! Logging of versions as they are listed, and comparison of those whose tags have moved.
//!
//! Invariant: whatever order versions are asked for in, every version of this node's repositories
//! that the feed lists and that can be zipped gets into the log without anybody asking.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use grip_go::{ModulePath, Version};
use grip_tasks::CancellationToken;
use grip_types::ErrorChain;
use tokio::time::{sleep, timeout};

use super::{Proxy, ProxyError, indexed_versions, module_reader::ModuleCommit};
use crate::{MovedVersion, SumDb, Sums, store};

/// Versions that are logged together.
const AT_ONCE: usize = 64;
/// How often the feed is looked at where nobody tells of a change.
const POLL: Duration = Duration::from_secs(60);
/// Pause after a failure.
const AGAIN: Duration = Duration::from_secs(2);
/// Versions that are remembered for a second attempt; those beyond are logged when they are asked for.
const MAX_SECOND_ATTEMPTS: usize = 1_024;

/// Logs what the feed lists.
pub struct Recorder {
    proxy: Proxy,
    sumdb: SumDb,
    /// Listed versions that could not be read: perhaps their tags have moved before the index knew.
    unreadable: Vec<(String, String)>,
    /// For hosts that did not answer, the path and version of the move they were asked about last.
    held_up: HashMap<String, (String, String)>,
}

impl Recorder {
    /// None where there is no checksum database.
    pub fn new(proxy: Proxy) -> Option<Self> {
        let sumdb = proxy.sumdb()?.clone();
        Some(Self {
            proxy,
            sumdb,
            unreadable: Vec::new(),
            held_up: HashMap::new(),
        })
    }

    /// Runs until `stop`. Whatever it cuts off is done after the next start.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut changes = self.proxy.inner.db.topic(store::TOPIC);
        let recording = async {
            loop {
                changes.borrow_and_update();
                match self.record_all().await {
                    Ok(()) => {
                        // Woken late at worst, never not at all.
                        let _ = timeout(POLL, changes.changed()).await;
                    }
                    Err(error) => {
                        let why = ErrorChain(&error).to_string();
                        tracing::warn!(error = %why, "versions are logged as soon as that is over");
                        sleep(AGAIN).await;
                    }
                }
            }
        };
        stop.run_until_cancelled(recording).await;
    }

    /// Logs all that the feed lists and the log does not have, and decides on moves.
    async fn record_all(&mut self) -> Result<(), ProxyError> {
        for (path, version) in std::mem::take(&mut self.unreadable) {
            if let Found::Version(at, sums) = self.summed(&path, &version).await? {
                let new = self.proxy.new_record(&at, sums);
                self.sumdb.append(vec![new]).await?;
            }
        }
        let mut after = self.sumdb.progress().await?;
        loop {
            let page = self.sumdb.listed(after, AT_ONCE).await?;
            let Some(last) = page.last() else {
                break;
            };
            after = last.0;
            let mut new = Vec::new();
            for (_, path, version) in page {
                match self.summed(&path, &version).await? {
                    Found::Version(at, sums) => new.push(self.proxy.new_record(&at, sums)),
                    Found::Unreadable if self.unreadable.len() < MAX_SECOND_ATTEMPTS => {
                        self.unreadable.push((path, version));
                    }
                    Found::Unreadable | Found::Nothing => {}
                }
            }
            self.sumdb.append(new).await?;
            self.sumdb.set_progress(after).await?;
        }
        self.decide_moves().await
    }

    /// A version that is here and not logged, with its sums.
    async fn summed(&self, path: &str, version: &str) -> Result<Found, ProxyError> {
        let (Ok(path), Ok(version)) = (ModulePath::parse(path), Version::parse(version)) else {
            return Ok(Found::Nothing);
        };
        let claims = indexed_versions::version(&self.proxy.inner.db, &path, &version).await?;
        let is_here = |claim| self.proxy.root_of(&path, claim).is_some();
        if !claims.iter().any(is_here) || self.sumdb.find(&path, &version).await?.is_some() {
            return Ok(Found::Nothing);
        }
        let found = async {
            let at = self.proxy.locate(&path, &version).await?;
            self.proxy.check_room_for(&self.sumdb, &at).await?;
            let sums = self.proxy.sums(&self.proxy.inner.recording, &at).await?;
            Ok(Found::Version(Box::new(at), sums))
        };
        let found = skipped(found.await, &path, &version)?;
        // Reading that ends with the node says nothing of the version.
        if found.is_none() && self.proxy.inner.hosted.group().token().is_cancelled() {
            return Err(ProxyError::cut_short());
        }
        Ok(found.unwrap_or(Found::Unreadable))
    }

    /// Decides on moves, on each host up to the first that it does not answer: a busy host would hold
    /// up the others with every one of its own. The next pass goes on behind that one, so that a
    /// single repository does not hold up its host for ever.
    async fn decide_moves(&mut self) -> Result<(), ProxyError> {
        let mut after = (String::new(), String::new());
        let resumed = std::mem::take(&mut self.held_up);
        let mut busy = HashSet::new();
        loop {
            let page = self.sumdb.undecided((&after.0, &after.1)).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = (last.path.clone(), last.version.clone());
            for moved in page {
                let host = host_of(&moved.repo).to_owned();
                let at = (moved.path.clone(), moved.version.clone());
                let was_asked = resumed.get(&host).is_some_and(|last| at <= *last);
                if was_asked || busy.contains(&host) {
                    continue;
                }
                if self.decide(&moved).await? == Decision::NoAnswer {
                    self.held_up.insert(host.clone(), at);
                    busy.insert(host);
                }
            }
        }
    }

    async fn decide(&self, moved: &MovedVersion) -> Result<Decision, ProxyError> {
        let path = ModulePath::parse(&moved.path);
        let (Ok(path), Ok(version)) = (path, Version::parse(&moved.version)) else {
            return Ok(Decision::Done);
        };
        let is_here = self.proxy.inner.hosted.repository(&moved.repo).is_some();
        // Those of other nodes are theirs to compare.
        if !is_here && !self.proxy.fetches(&moved.repo) {
            return Ok(Decision::Done);
        }
        let claims = indexed_versions::version(&self.proxy.inner.db, &path, &version).await?;
        let (Some(record), Some(claim)) = (
            self.sumdb.find(&path, &version).await?,
            claims.into_iter().find(|claim| claim.repo == moved.repo),
        ) else {
            return Ok(Decision::Done);
        };
        let sums = async {
            if !is_here {
                return self.proxy.sums_elsewhere(&path, &version, claim).await;
            }
            let located = self.proxy.locate_indexed(&path, claim).await;
            let at = located.unwrap_or_else(|| {
                Err(ProxyError::not_found(&path, "its repository is not served"))
            })?;
            self.proxy.sums(&self.proxy.inner.recording, &at).await
        };
        let sums = sums.await;
        let is_answer = matches!(
            sums,
            Ok(_) | Err(ProxyError::NotFound { .. } | ProxyError::Untrusted { .. })
        );
        if !is_here && !is_answer {
            return Ok(Decision::NoAnswer);
        }
        if let Some(sums) = skipped(sums, &path, &version)?
            && record.has(&sums)
        {
            self.sumdb.relocate(&record, moved).await?;
            return Ok(Decision::Done);
        }
        let MovedVersion {
            repo,
            tag,
            commit,
            logged,
            ..
        } = moved;
        tracing::warn!(
            %path, %version, %repo, %tag, commit, logged,
            "a tag has moved away from what the checksum database has logged",
        );
        self.sumdb.differs(moved).await?;
        Ok(Decision::Done)
    }
}

/// What became of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// It is decided, or not for this node to decide.
    Done,
    /// Its host did not answer.
    NoAnswer,
}

/// The host of a repository, by the name of that in the index.
fn host_of(repo: &str) -> &str {
    repo.split_once('/').map_or(repo, |(host, _)| host)
}

/// What there is of a listed version.
enum Found {
    Version(Box<ModuleCommit>, Sums),
    /// It is here, and cannot be served.
    Unreadable,
    /// It is logged already, or another's.
    Nothing,
}

/// What cannot be read is left out, so that no repository holds up the others; faults of the database
/// are for another attempt.
fn skipped<T>(
    found: Result<T, ProxyError>,
    path: &ModulePath,
    version: &Version,
) -> Result<Option<T>, ProxyError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_passing() => Err(error),
        Err(error) => {
            tracing::debug!(%path, %version, %error, "a version cannot be logged");
            Ok(None)
        }
    }
}
