//! Events and repositories that were taken out of service (G01-112): kept unseen for a while, so that
//! an owner who announces again, or a rule that is taken back, has lost nothing.
//!
//! Events are rows, each with its reason and its repository; repositories lie in the archive, each with
//! the time of its removal. Both end together, by the daily pass.

mod tips;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use grip_db::{Db, DbError, Value};
use grip_git::{Archived, NamedTips, WithheldTips};
use grip_nostr::{Event, EventId, PublicKey, PullRequest, RepoAddr, State, Timestamp, kinds};
use grip_tasks::fault;
use grip_types::{EventSource, Identifier, Origin};

use crate::{
    Grasp, LookError, Policy,
    admission::{Outcome, own_identifier},
    enforce::is_hosted,
    error::GraspError,
    grasp::{Core, now},
    lifecycle::Aged,
};

/// Events that are read in one step.
const BATCH: i64 = 500;
/// How often events are tried that hang on others.
const MAX_PASSES: usize = 8;
/// Repositories that are listed.
const MAX_LISTED: i64 = 10_000;

grip_db::statements! {
    pub(crate) mod sql {
        PUT = "INSERT INTO holding (node, id, author, event, held_at, reason, coordinate) \
               VALUES ($1, $2, $3, $4, $5, $6, $7) \
               ON CONFLICT (node, id) DO UPDATE SET held_at = excluded.held_at, \
               reason = excluded.reason, coordinate = excluded.coordinate";
        LIST = "SELECT id, event, reason, coordinate FROM holding \
                WHERE node = $1 AND id > $2 ORDER BY id LIMIT $3";
        LIST_OF = "SELECT id, event, reason, coordinate FROM holding \
                   WHERE node = $1 AND id > $2 AND coordinate = $4 ORDER BY id LIMIT $3";
        LIST_BY = "SELECT id, event, reason, coordinate FROM holding \
                   WHERE node = $1 AND id > $2 AND author = $4 ORDER BY id LIMIT $3";
        SUMMARY = "SELECT coordinate, reason, COUNT(*), MIN(held_at) FROM holding \
                   WHERE node = $1 GROUP BY coordinate, reason ORDER BY coordinate, reason LIMIT $2";
        BEGINNING = "SELECT id FROM holding \
                     WHERE node = $1 AND id >= $2 AND id <= $3 ORDER BY id LIMIT $4";
        SHOW = "SELECT event, reason, coordinate, held_at FROM holding WHERE node = $1 AND id = $2";
        FIND = "SELECT held_at FROM holding WHERE node = $1 AND id = $2";
        REMOVE = "DELETE FROM holding WHERE node = $1 AND id = $2 RETURNING id";
        REMOVE_OF = "DELETE FROM holding WHERE node = $1 AND coordinate = $2 RETURNING id";
        EXPIRE = "DELETE FROM holding WHERE node = $1 AND held_at <= $2 RETURNING id";
        FIRST = "SELECT held_at FROM holding WHERE node = $1 ORDER BY held_at LIMIT 1";
    }
}

/// Why an event was taken out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldingReason {
    /// By a request of its author, or with the repository it hung on.
    Deleted,
    /// All events of its author, or the repository by an order.
    Banned,
    /// Its repository.
    Blacklist,
    Whitelist,
}

impl HoldingReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "nip09",
            Self::Banned => "banned",
            Self::Blacklist => "blacklist",
            Self::Whitelist => "whitelist",
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "nip09" => Self::Deleted,
            "banned" => Self::Banned,
            "whitelist" => Self::Whitelist,
            _ => Self::Blacklist,
        }
    }
}

impl fmt::Display for HoldingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is kept of one repository, or of none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// `npub/identifier`; none for events of no repository.
    pub repository: Option<RepoAddr>,
    /// `nip09`, `banned`, `blacklist`, `whitelist`; `archive` for a repository of which no event is kept.
    pub reason: &'static str,
    pub events: u64,
    /// Archived copies of its refs.
    pub archives: u64,
    /// When the first of it is destroyed.
    pub until: Timestamp,
}

/// The rows of this node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Holding {
    db: Db,
    /// What the rows name of the objects here: git gives it out to nobody.
    withheld: WithheldTips,
}

/// Which rows are read.
#[derive(Clone, Copy)]
enum By<'a> {
    All,
    Repository(&'a RepoAddr),
    Author(&'a PublicKey),
}

/// An event that is kept.
pub(crate) struct KeptEvent {
    pub(crate) event: Event,
    pub(crate) reason: HoldingReason,
    pub(crate) repository: Option<RepoAddr>,
    pub(crate) held_at: i64,
}

struct HeldRow {
    event: Event,
    reason: HoldingReason,
    coordinate: String,
}

impl Holding {
    pub(crate) fn new(db: Db, withheld: WithheldTips) -> Self {
        Self { db, withheld }
    }

    /// The kept states and pull requests, which come back to their objects.
    pub(crate) async fn about_git(&self) -> Result<Vec<Event>, DbError> {
        let (mut after, mut found) = (String::new(), Vec::new());
        while let Some((last, rows)) = self.after(&after, By::All).await? {
            after = last;
            let events = rows.into_iter().map(|row| row.event);
            let is_wanted = |it: &Event| it.kind == kinds::STATE || PullRequest::is_one(it);
            found.extend(events.filter(is_wanted));
        }
        Ok(found)
    }

    /// Withholds the objects of all that is kept. For the start: nothing is put or removed meanwhile.
    pub(crate) async fn withhold_kept(&self) -> Result<(), DbError> {
        let (mut after, mut named) = (String::new(), Vec::new());
        while let Some((last, rows)) = self.after(&after, By::All).await? {
            after = last;
            for HeldRow {
                event, coordinate, ..
            } in rows
            {
                named.extend(named_by(&event, addr_of(&coordinate).as_ref()));
            }
        }
        self.withheld.replace(named);
        Ok(())
    }

    /// Keeps events with the repository each belongs to.
    pub(crate) async fn put(
        &self,
        events: &[(Event, Option<RepoAddr>)],
        reason: HoldingReason,
    ) -> Result<(), DbError> {
        self.put_at(events, reason, now().get()).await
    }

    /// The same, put at a time (unix milliseconds).
    pub(crate) async fn put_at(
        &self,
        events: &[(Event, Option<RepoAddr>)],
        reason: HoldingReason,
        held_at: i64,
    ) -> Result<(), DbError> {
        if events.is_empty() {
            return Ok(());
        }
        // First: as long as refs show it, it is given out all the same.
        for (event, addr) in events {
            for named in named_by(event, addr.as_ref()) {
                self.withheld.add(named);
            }
        }
        let rows: Vec<[Value; 7]> = events
            .iter()
            .map(|(event, addr)| {
                let json = serde_json::to_string(event).expect("an event is always JSON");
                let coordinate = addr.as_ref().map(RepoAddr::path).unwrap_or_default();
                [
                    Value::from(self.db.node()),
                    event.id.to_hex().into(),
                    event.pubkey.to_hex().into(),
                    json.into(),
                    held_at.into(),
                    reason.as_str().into(),
                    coordinate.into(),
                ]
            })
            .collect();
        let written = self.db.write_in_order(|mut db| {
            Box::pin(async move {
                for row in rows {
                    db.execute(&sql::PUT, &row).await?;
                }
                Ok(())
            })
        });
        written.await
    }

    /// Up to [`BATCH`] rows after an id, and the id of the last; none at the end.
    async fn after(
        &self,
        id: &str,
        which: By<'_>,
    ) -> Result<Option<(String, Vec<HeldRow>)>, DbError> {
        let mut named = vec![
            Value::from(self.db.node()),
            id.to_owned().into(),
            BATCH.into(),
        ];
        let statement = match which {
            By::All => &sql::LIST,
            By::Repository(addr) => {
                named.push(addr.path().into());
                &sql::LIST_OF
            }
            By::Author(author) => {
                named.push(author.to_hex().into());
                &sql::LIST_BY
            }
        };
        let rows: Vec<(String, String, String, String)> =
            self.db.fetch_all(statement, &named).await?;
        let Some(last) = rows.last().map(|(id, ..)| id.clone()) else {
            return Ok(None);
        };
        let rows = rows
            .into_iter()
            .filter_map(|(_, json, reason, coordinate)| {
                Some(HeldRow {
                    event: serde_json::from_str(&json).ok()?,
                    reason: HoldingReason::parse(&reason),
                    coordinate,
                })
            });
        Ok(Some((last, rows.collect())))
    }

    /// Says whether an event is kept.
    pub(crate) async fn has(&self, id: &EventId) -> Result<bool, DbError> {
        let named = [Value::from(self.db.node()), id.to_hex().into()];
        let found: Option<(i64,)> = self.db.fetch_optional(&sql::FIND, &named).await?;
        Ok(found.is_some())
    }

    /// At most `max` kept events whose ids begin with these hex digits, in lower case.
    pub(crate) async fn beginning_with(
        &self,
        hex: &str,
        max: usize,
    ) -> Result<Vec<EventId>, DbError> {
        let named = [
            Value::from(self.db.node()),
            hex.to_owned().into(),
            format!("{hex:f<64}").into(),
            (max as i64).into(),
        ];
        let found: Vec<(String,)> = self.db.fetch_all(&sql::BEGINNING, &named).await?;
        let ids = found.iter();
        Ok(ids.filter_map(|(id,)| EventId::from_hex(id).ok()).collect())
    }

    /// A kept event, why it was taken out of service, the repository it belongs to, and when that was
    /// (unix milliseconds).
    pub(crate) async fn find(&self, id: &EventId) -> Result<Option<KeptEvent>, DbError> {
        let named = [Value::from(self.db.node()), id.to_hex().into()];
        let found: Option<(String, String, String, i64)> =
            self.db.fetch_optional(&sql::SHOW, &named).await?;
        Ok(found.and_then(|(json, reason, coordinate, held_at)| {
            Some(KeptEvent {
                event: serde_json::from_str(&json).ok()?,
                reason: HoldingReason::parse(&reason),
                repository: addr_of(&coordinate),
                held_at,
            })
        }))
    }

    async fn remove(&self, id: &EventId) -> Result<(), DbError> {
        let removed = self.destroy(&sql::REMOVE, id.to_hex().into()).await;
        removed.map(drop)
    }

    /// Destroys what an author made up to a time.
    pub(crate) async fn remove_author(
        &self,
        author: &PublicKey,
        until: Timestamp,
    ) -> Result<(), DbError> {
        let mut after = String::new();
        let by = By::Author(author);
        while let Some((last, rows)) = self.after(&after, by).await? {
            after = last;
            let covered = rows.iter().filter(|row| row.event.created_at <= until);
            for row in covered {
                self.remove(&row.event.id).await?;
            }
        }
        Ok(())
    }

    async fn remove_of(&self, addr: &RepoAddr) -> Result<u64, DbError> {
        self.destroy(&sql::REMOVE_OF, addr.path().into()).await
    }

    /// Destroys what was put until a time.
    async fn expire(&self, until: i64) -> Result<u64, DbError> {
        self.destroy(&sql::EXPIRE, until.into()).await
    }

    /// When the oldest was put.
    async fn first(&self) -> Result<Option<i64>, DbError> {
        let first: Option<(i64,)> = self
            .db
            .fetch_optional(&sql::FIRST, &[self.db.node().into()])
            .await?;
        Ok(first.map(|(first,)| first))
    }

    /// Removes rows; says how many.
    async fn destroy(
        &self,
        statement: &'static grip_db::Statement,
        value: Value,
    ) -> Result<u64, DbError> {
        let named = [Value::from(self.db.node()), value];
        let removed = self.db.write_in_order(move |mut db| {
            Box::pin(async move { db.fetch_all(statement, &named).await })
        });
        let removed: Vec<(String,)> = removed.await?;
        let ids = removed
            .iter()
            .filter_map(|(id,)| EventId::from_hex(id).ok());
        for id in ids {
            self.withheld.remove(id.as_bytes());
        }
        Ok(removed.len() as u64)
    }
}

impl Grasp {
    /// What was taken out of service and is kept, by repository.
    pub async fn held_back(&self) -> Result<Vec<HeldBack>, LookError> {
        Ok(self.core.held_back().await?)
    }

    /// Brings back what is kept of a repository, as far as today's rules and its authors' requests let
    /// it; says how many events are served or held again.
    pub async fn restore_held_back(&self, addr: &RepoAddr) -> Result<usize, LookError> {
        let core = &self.core;
        let policy = core.policy.load_full();
        Ok(core.restore(Some(addr), &policy, |_| true).await?)
    }

    /// Destroys what is kept of a repository; says how many events and archived copies.
    pub async fn purge_held_back(&self, addr: &RepoAddr) -> Result<(u64, usize), LookError> {
        Ok(self.core.purge(addr).await?)
    }
}

impl Core {
    /// Takes events out of service by a rule of the operator, and keeps them.
    pub(crate) async fn put_on_hold(
        self: &Arc<Self>,
        events: Vec<Event>,
        reason: HoldingReason,
    ) -> Result<(), GraspError> {
        let with_repository = |event: &Event| (event.clone(), announced_addr(event));
        let rows: Vec<_> = events.iter().map(with_repository).collect();
        self.holding.put(&rows, reason).await?;
        fault::point("ban.held_back");
        self.hide_tips(&events).await?;
        self.end_served(events).await
    }

    /// Brings back what the rules in force do not take out any more, each as if it came again;
    /// repositories of a blacklist only if the operator has said so (G01-124).
    pub(crate) async fn restore_from_holding(
        self: &Arc<Self>,
        policy: &Policy,
    ) -> Result<(), GraspError> {
        let auto = policy.blacklist_auto_restore;
        let is_due = |row: &HeldRow| match row.reason {
            HoldingReason::Blacklist => auto,
            HoldingReason::Whitelist | HoldingReason::Banned => true,
            // The end of a recovery that a crash cut short.
            HoldingReason::Deleted => self.is_back(&row.coordinate),
        };
        self.restore(None, policy, is_due).await.map(drop)
    }

    /// The owner has announced a repository again: what hung on it comes back (G01-113).
    pub(crate) async fn recover(self: &Arc<Self>, addr: &RepoAddr) {
        let policy = self.policy.load_full();
        let is_deleted = |row: &HeldRow| row.reason == HoldingReason::Deleted;
        if let Err(error) = self.restore(Some(addr), &policy, is_deleted).await {
            error.log("failed to recover what hung on a repository; the next start tries again");
        }
    }

    fn is_back(&self, coordinate: &str) -> bool {
        addr_of(coordinate).is_some_and(|addr| self.hosted.status(&addr).is_some())
    }

    async fn restore(
        self: &Arc<Self>,
        of: Option<&RepoAddr>,
        policy: &Policy,
        is_due: impl Fn(&HeldRow) -> bool,
    ) -> Result<usize, GraspError> {
        let (mut after, mut back) = (String::new(), Vec::new());
        // A deletion puts its rows before it acts: one that is under way has to end first.
        let turns = match of {
            Some(addr) => Some(self.turns(vec![addr.identifier.clone()]).await?),
            None => None,
        };
        let which = of.map_or(By::All, By::Repository);
        while let Some((last, rows)) = self.holding.after(&after, which).await? {
            after = last;
            let may_return = |row: &HeldRow| {
                let event = &row.event;
                let is_taken = event.kind != kinds::ANNOUNCEMENT || is_hosted(event, policy);
                is_due(row) && is_taken && !is_banned(event, policy)
            };
            back.extend(rows.into_iter().filter(may_return).map(|row| row.event));
        }
        drop(turns);
        // What others rest on first.
        back.sort_by_key(|event| (rank(event), event.created_at));
        let mut restored = 0;
        // One may hang on another of the same second.
        for _ in 0..MAX_PASSES {
            let (count, mut left) = (back.len(), Vec::new());
            for event in back {
                if self.bring_back(&event).await? {
                    restored += 1;
                    fault::point("holding.event_back");
                    self.holding.remove(&event.id).await?;
                    fault::point("holding.row_removed");
                } else {
                    left.push(event);
                }
            }
            back = left;
            if back.is_empty() || back.len() == count {
                break;
            }
        }
        Ok(restored)
    }

    /// Says whether the event is served or held now.
    async fn bring_back(self: &Arc<Self>, event: &Event) -> Result<bool, GraspError> {
        let source: EventSource = Origin::Submitted.into();
        let copy = event.clone();
        let look = move |core: &Self| core.look(|view| view.deletion_of(&copy));
        if self.blocking("grasp.look", look).await??.is_some() {
            // Not tried, so that no request counts as used by it.
            return Ok(false);
        }
        if rank(event) < 3 {
            self.show_tips(event).await?;
            let answer = Box::pin(self.process_held_back(event.clone(), source)).await;
            tracing::info!(id = %event.id, accepted = answer.accepted, answer.message, "event brought back");
            if !answer.accepted {
                self.hide_tips(std::slice::from_ref(event)).await?;
            }
            return Ok(answer.accepted);
        }
        let decision = self.decide(event, source).await?;
        match decision.outcome {
            Outcome::Serve => {
                self.commit.events(vec![event.clone()]).await?;
            }
            // A request that was taken out of service with its author.
            Outcome::Retired => self.commit.use_requests(vec![event.id]).await?,
            Outcome::Duplicate(_) => {}
            Outcome::Hold | Outcome::Broadcast | Outcome::Refuse(_) => return Ok(false),
        }
        Ok(true)
    }

    async fn held_back(self: &Arc<Self>) -> Result<Vec<HeldBack>, GraspError> {
        let named = [self.holding.db.node().into(), MAX_LISTED.into()];
        let rows = self.holding.db.fetch_all(&sql::SUMMARY, &named).await?;
        let rows: Vec<(String, String, i64, i64)> = rows;
        let (archives, _) = self.archives().await?;
        let kept = self.lifecycle.holding.as_secs();
        let mut listed: Vec<HeldBack> = Vec::new();
        for (coordinate, reason, events, held_at) in rows {
            let since = u64::try_from(held_at / 1_000).unwrap_or_default();
            listed.push(HeldBack {
                repository: addr_of(&coordinate),
                reason: HoldingReason::parse(&reason).as_str(),
                events: u64::try_from(events).unwrap_or_default(),
                archives: 0,
                until: Timestamp::from_secs(since + kept),
            });
        }
        for Archived { repo, stamp } in archives {
            let until = Timestamp::from_secs(stamp + kept);
            let known = listed
                .iter_mut()
                .find(|it| it.repository.as_ref() == Some(&repo));
            if let Some(known) = known {
                known.archives += 1;
                known.until = known.until.min(until);
            } else {
                listed.push(HeldBack {
                    repository: Some(repo),
                    reason: "archive",
                    events: 0,
                    archives: 1,
                    until,
                });
            }
        }
        Ok(listed)
    }

    async fn purge(self: &Arc<Self>, addr: &RepoAddr) -> Result<(u64, usize), GraspError> {
        let turns = self.turns(vec![addr.identifier.clone()]).await?;
        let events = self.holding.remove_of(addr).await?;
        fault::point("purge.rows_removed");
        let addr = addr.clone();
        let archives = self.destroy_archives(move |it| it.repo == addr).await?;
        drop(turns);
        self.drop_unkept_tips(|_| true).await?;
        Ok((events, archives))
    }

    /// Destroys what was kept long enough: rows and archives in one pass.
    pub(crate) async fn end_holding(
        self: &Arc<Self>,
        now: Timestamp,
        aged: &mut Aged,
    ) -> Result<(), GraspError> {
        let kept: Duration = self.lifecycle.holding;
        let until = now.as_secs().saturating_sub(kept.as_secs());
        let until_ms = i64::try_from(until.saturating_mul(1_000)).unwrap_or(i64::MAX);
        aged.events = self.holding.expire(until_ms).await?;
        aged.archives = self.destroy_archives(move |it| it.stamp <= until).await?;
        self.drop_unkept_tips(|_| true).await?;
        let (archives, unknown) = self.archives().await?;
        aged.unknown = unknown;
        let first = self.holding.first().await?;
        let first = first.and_then(|ms| u64::try_from(ms / 1_000).ok());
        let first = archives.iter().map(|it| it.stamp).chain(first).min();
        aged.next = first.map(|first| Timestamp::from_secs(first + kept.as_secs()));
        if unknown > 0 {
            tracing::warn!(
                unknown,
                "the archive holds what no repository can be told from"
            );
        }
        Ok(())
    }

    async fn archives(self: &Arc<Self>) -> Result<(Vec<Archived>, usize), GraspError> {
        let list = |core: &Self| core.repositories.archives();
        let listed = self.blocking("git.archive", list).await?;
        listed.map_err(|error| GraspError::Stores(Box::new(error)))
    }

    /// Destroys archived repositories; says how many.
    pub(crate) async fn destroy_archives(
        self: &Arc<Self>,
        which: impl Fn(&Archived) -> bool,
    ) -> Result<usize, GraspError> {
        let (mut archives, _) = self.archives().await?;
        archives.retain(|archived| which(archived));
        let count = archives.len();
        let destroy = move |core: &Self| {
            archives.iter().try_for_each(|archived| {
                tracing::info!(repository = %archived.repo, stamp = archived.stamp, "archived repository destroyed");
                core.commit.destroy_archive(archived)
            })?;
            // Stores that were kept for them alone can go.
            core.kept.forget();
            Ok::<_, GraspError>(())
        };
        self.blocking("git.remove", destroy).await??;
        Ok(count)
    }
}

/// Reads `npub/identifier`.
fn addr_of(coordinate: &str) -> Option<RepoAddr> {
    let (npub, name) = coordinate.split_once('/')?;
    RepoAddr::from_segments(npub, name)
}

/// What an event names of the objects of each identifier; of that of `addr` too, which it is kept for.
fn named_by(event: &Event, addr: Option<&RepoAddr>) -> Vec<NamedTips> {
    let named = |identifier: Identifier, tips: Vec<_>| NamedTips {
        identifier,
        event: event.id.to_bytes(),
        tips,
    };
    if let Ok(state) = State::parse(event.clone()) {
        return vec![named(state.identifier.clone(), state.oids())];
    }
    let Ok(request) = PullRequest::parse(event.clone()) else {
        return Vec::new();
    };
    // An update may name its pull request alone.
    let repositories = request.targets.iter().chain(addr);
    let identifiers: BTreeSet<Identifier> = repositories.map(|it| it.identifier.clone()).collect();
    let all = identifiers.into_iter();
    all.map(|identifier| named(identifier, vec![request.tip]))
        .collect()
}

fn announced_addr(event: &Event) -> Option<RepoAddr> {
    let identifier = own_identifier(event).filter(|_| event.kind == kinds::ANNOUNCEMENT)?;
    Some(RepoAddr::new(event.pubkey, identifier))
}

fn is_banned(event: &Event, policy: &Policy) -> bool {
    let addr = announced_addr(event);
    let request = PullRequest::parse(event.clone()).ok();
    let targets = request.map(|request| request.targets).unwrap_or_default();
    let are_all_banned = !targets.is_empty() && targets.iter().all(|target| policy.bans(target));
    policy.bans_author(&event.pubkey)
        || addr.is_some_and(|addr| policy.bans(&addr))
        || are_all_banned
}

fn rank(event: &Event) -> u8 {
    match event.kind {
        kind if kind == kinds::ANNOUNCEMENT => 0,
        kind if kind == kinds::STATE => 1,
        _ if PullRequest::is_one(event) => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use grip_db::{on_both_engines, prepare_all};
    use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Kind};

    use super::*;

    on_both_engines! {
        async fn what_is_put_is_listed_until_it_is_removed_or_old(database: TestDatabase) {
            let withheld = WithheldTips::default();
            let holding = Holding::new(database.db().clone(), withheld);
            let keys = Keys::generate();
            let event = |text: &str| EventBuilder::new(Kind::from(1), text).finalize(&keys).unwrap();
            let (a, b) = (event("a"), event("b"));
            let addr = RepoAddr::new(keys.public_key(), grip_types::Identifier::parse("x").unwrap());
            let rows = [(a.clone(), None), (b.clone(), Some(addr.clone()))];
            holding.put_at(&rows, HoldingReason::Deleted, 10).await.unwrap();
            let (_, listed) = holding.after("", By::All).await.unwrap().unwrap();
            assert_eq!(listed.len(), 2);
            let (_, listed) = holding.after("", By::Repository(&addr)).await.unwrap().unwrap();
            assert_eq!((listed.len(), listed[0].reason), (1, HoldingReason::Deleted));
            holding.remove(&a.id).await.unwrap();
            let (last, listed) = holding.after("", By::All).await.unwrap().unwrap();
            assert_eq!(listed[0].event, b);
            assert!(holding.after(&last, By::All).await.unwrap().is_none());
            assert_eq!(holding.first().await.unwrap(), Some(10));
            assert_eq!(holding.expire(9).await.unwrap(), 0);
            assert_eq!(holding.expire(10).await.unwrap(), 1);
            assert!(holding.after("", By::All).await.unwrap().is_none());
        }

        async fn every_statement_is_understood(database: TestDatabase) {
            prepare_all(database.db(), sql::ALL).await.unwrap();
        }
    }
}
