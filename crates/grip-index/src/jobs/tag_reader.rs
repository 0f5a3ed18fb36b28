//! Reading of new and moved tags from a source, each fact once.

use std::{collections::BTreeSet, mem, sync::Arc};

use grip_go::{candidates, tag::VersionTag};
use grip_types::Oid;

use super::{
    JobError,
    index_repository::{Repo, named},
};
use crate::{
    SourceError,
    claim_rules::{self, Known, Verdict},
    diff::Seen,
    store::{Judged, Learned, Store, TagRow},
};

/// Answers that are kept by one statement. So many are lost if the process dies.
const KEEP_AT_ONCE: usize = 20;
/// Files that are asked for together.
const PLACES_AT_ONCE: usize = 100;
/// Unusable answers in one turn, after which the source is not asked any more.
const MOST_BAD: usize = 20;

/// Judges the tags of one repository, with what its source and the cache know of them.
pub(super) struct TagReader<'a> {
    store: &'a Store,
    repo: &'a Repo,
    /// What is known about the tags in hand.
    known: Learned,
    /// What of it is not kept yet.
    fresh: Learned,
    bad: usize,
    /// The latest path, which is mostly also the next.
    path: Arc<str>,
}

/// An answer, or why there is none about this one thing.
type Answer<T> = Result<Result<T, String>, JobError>;

impl<'a> TagReader<'a> {
    pub(super) fn new(store: &'a Store, repo: &'a Repo) -> Self {
        Self {
            store,
            repo,
            known: Learned::default(),
            fresh: Learned::default(),
            bad: 0,
            path: "".into(),
        }
    }

    /// Judges some tags. What was learned before an error is kept.
    pub(super) async fn judge(
        &mut self,
        seen: &[Seen],
        look: &[(usize, Option<TagRow>)],
    ) -> Result<Vec<Judged>, JobError> {
        let (objects, commits) = named(seen, look);
        self.known = Learned::default();
        if !commits.is_empty() {
            let learned = self.store.learned(&self.repo.name, objects, commits);
            self.known = learned.await?;
        }
        self.prefetch(seen, look).await?;
        let mut judged = Vec::with_capacity(look.len());
        for (at, _) in look {
            let one = self.judge_one(&seen[*at]).await;
            if one.is_err() || self.fresh.len() >= KEEP_AT_ONCE {
                self.keep().await?;
            }
            judged.push(one?);
        }
        self.keep().await?;
        Ok(judged)
    }

    /// Asks for the files of many tags at once, where the source can.
    async fn prefetch(
        &mut self,
        seen: &[Seen],
        look: &[(usize, Option<TagRow>)],
    ) -> Result<(), JobError> {
        let mut missing = BTreeSet::new();
        for (at, _) in look {
            let seen = &seen[*at];
            let Some(version) = seen.version() else {
                continue;
            };
            let places = candidates(&version);
            for dir in [Some(places.own), places.major].into_iter().flatten() {
                let place = (seen.commit.to_hex(), dir);
                if !self.known.go_mods.contains_key(&place) {
                    missing.insert((seen.commit, place.1));
                }
            }
        }
        if missing.len() < 2 {
            return Ok(());
        }
        let repo = self.repo;
        let missing: Vec<_> = missing.into_iter().collect();
        for places in missing.chunks(PLACES_AT_ONCE) {
            let found = repo.source().go_mods(&repo.name, places.to_vec()).await;
            let found = found.map_err(|error| repo.job_error(error));
            if found.is_err() {
                self.keep().await?;
            }
            for (commit, dir, found) in found? {
                let (place, known) = ((commit.to_hex(), dir), Known::of(&found));
                self.known.go_mods.insert(place.clone(), known.clone());
                self.fresh.go_mods.insert(place, known);
            }
            self.keep().await?;
        }
        Ok(())
    }

    async fn keep(&mut self) -> Result<(), JobError> {
        if self.fresh.len() > 0 {
            let fresh = mem::take(&mut self.fresh);
            self.store.learn(&self.repo.name, fresh).await?;
        }
        Ok(())
    }

    async fn judge_one(&mut self, seen: &Seen) -> Result<Judged, JobError> {
        let Some(version) = seen.version() else {
            return Ok(Judged::Nothing);
        };
        let verdict = match self.verdict(seen, &version).await? {
            Ok(verdict) => verdict,
            Err(why) => return Ok(Judged::Unsettled(why)),
        };
        let (path, version, proven) = match verdict {
            Verdict::Not(why) => return Ok(Judged::Not(why)),
            Verdict::Version {
                path,
                version,
                proven,
            } => (path, version, proven),
        };
        // Asked last, because most of what is no version needs no date.
        let created = match self.created(seen).await? {
            Ok(created) => created,
            Err(why) => return Ok(Judged::Unsettled(why)),
        };
        if *self.path != *path {
            self.path = path.into();
        }
        Ok(Judged::Version {
            path: Arc::clone(&self.path),
            version,
            proven,
            created,
        })
    }

    async fn verdict(&mut self, seen: &Seen, version: &VersionTag) -> Answer<Verdict> {
        let places = candidates(version);
        let own = match self.go_mod(&seen.commit, &places.own).await? {
            Ok(own) => own,
            Err(why) => return Ok(Err(why)),
        };
        let major = match &places.major {
            None => Known::Absent,
            Some(dir) => match self.go_mod(&seen.commit, dir).await? {
                Ok(major) => major,
                Err(why) => return Ok(Err(why)),
            },
        };
        let repo = self.repo;
        let trust = |path: &_| repo.trust(path);
        let location = repo.location.as_ref();
        Ok(Ok(claim_rules::judge(
            version,
            location,
            (&own, &major),
            trust,
        )))
    }

    async fn go_mod(&mut self, commit: &Oid, dir: &str) -> Answer<Known> {
        let place = (commit.to_hex(), dir.to_owned());
        if let Some(known) = self.known.go_mods.get(&place) {
            return Ok(Ok(known.clone()));
        }
        if let Some(why) = self.refuse() {
            return Ok(Err(why));
        }
        let repo = self.repo;
        let answer = repo.source().go_mod(&repo.name, commit, dir).await;
        let known = match self.usable(answer)? {
            Ok(found) => Known::of(&found),
            Err(why) => return Ok(Err(why)),
        };
        self.known.go_mods.insert(place.clone(), known.clone());
        self.fresh.go_mods.insert(place, known.clone());
        Ok(Ok(known))
    }

    async fn created(&mut self, seen: &Seen) -> Answer<i64> {
        let object = seen.object.to_hex();
        if let Some(created) = self.known.times.get(&object) {
            return Ok(Ok(*created));
        }
        if let Some(why) = self.refuse() {
            return Ok(Err(why));
        }
        let repo = self.repo;
        let answer = repo.source().created(&repo.name, &seen.at()).await;
        let created = match self.usable(answer)? {
            Ok(created) => claim_rules::kept_time(created),
            Err(why) => return Ok(Err(why)),
        };
        self.known.times.insert(object.clone(), created);
        self.fresh.times.insert(object, created);
        Ok(Ok(created))
    }

    fn refuse(&self) -> Option<String> {
        let why = "not asked, because too many answers about this repository were unusable";
        (self.bad >= MOST_BAD).then(|| why.to_owned())
    }

    /// An error about one tag does not fail the others.
    fn usable<T>(&mut self, answer: Result<T, SourceError>) -> Answer<T> {
        match answer {
            Ok(answer) => Ok(Ok(answer)),
            Err(SourceError::Permanent(why)) => {
                self.bad += 1;
                Ok(Err(claim_rules::kept_why(&why)))
            }
            Err(error) => Err(self.repo.job_error(error)),
        }
    }
}
