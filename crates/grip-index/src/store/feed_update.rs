//! Update of the feed under its lock: which versions appear, move and go.

use std::collections::HashMap;

use grip_db::{Column, Connection, DbError};

use super::{
    Change, Op, TOPIC,
    changes::change_columns,
    publish::AT_ONCE,
    rows::{ints, pair_columns, texts},
    sql::sql,
};
use crate::{
    claim_rules::{self, Claim, Live, Step},
    feed::FeedQuery,
    sumdb::note_moves,
};

/// How far timestamps of the feed lie apart, at least. A whole second has no more than a page of them
/// ([`FeedQuery::MOST`]), so a follower that keeps seconds can be given all of one at once.
const APART_NS: i64 = 1_000_000_000 / FeedQuery::MOST as i64;

/// An update of the feed, which holds its lock until the commit.
pub(super) struct FeedUpdate {
    claimed_ns: i64,
    last_ns: i64,
    /// How many more versions there are.
    more: i64,
}

/// A version that may be another's now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Touched {
    /// Its path and text.
    pub(super) pair: (String, String),
    /// Which claim of this transaction it is touched by, if by a new one.
    pub(super) fresh: Option<usize>,
}

/// The claims of this transaction, which need not be read again.
pub(super) trait Fresh: Sync {
    fn claim(&self, at: usize, claimed_ns: i64) -> Claim;
}

/// What one chunk of versions comes to.
#[derive(Default)]
struct Effects {
    added: Vec<Live>,
    moved: Vec<Live>,
    removed: Vec<i64>,
    changes: Vec<Change>,
}

impl FeedUpdate {
    /// Takes the clock until the commit. What the clock shows may go back; this does not.
    pub(super) async fn lock(db: &mut Connection<'_>, now_ms: i64) -> Result<Self, DbError> {
        let now_ns = now_ms.saturating_mul(1_000_000).min(i64::MAX / 2);
        let asked = [now_ns.into(), APART_NS.into()];
        let (claimed_ns,): (i64,) = db.fetch_one(&sql::TAKE_CLOCK, &asked).await?;
        Ok(Self {
            claimed_ns,
            last_ns: claimed_ns,
            more: 0,
        })
    }

    /// The timestamp of new claims: later than those of all who held the clock before.
    pub(super) fn claimed_ns(&self) -> i64 {
        self.claimed_ns
    }

    /// Brings these versions up to date with the tags that claim them.
    pub(super) async fn apply_claims(
        mut self,
        db: &mut Connection<'_>,
        mut touched: Vec<Touched>,
        fresh: &dyn Fresh,
    ) -> Result<(), DbError> {
        touched.sort_unstable();
        let each = touched
            .chunk_by(|a, b| a.pair == b.pair)
            .collect::<Vec<_>>();
        for some in each.chunks(AT_ONCE) {
            let pairs: Vec<_> = some.iter().map(|same| same[0].pair.clone()).collect();
            let columns = pair_columns(&pairs);
            let rest = [self.claimed_ns.into()];
            let mut claims: Vec<Claim> = db.fetch_rows(&sql::CLAIMS, &columns, &rest).await?;
            let own = some.iter().flat_map(|same| same.iter());
            let own = own.filter_map(|touched| touched.fresh);
            claims.extend(own.map(|at| fresh.claim(at, self.claimed_ns)));
            let live: Vec<Live> = db.fetch_rows(&sql::LIVE, &columns, &[]).await?;
            let effects = self.decide(&pairs, &claims, live);
            effects.write(db, self.claimed_ns / 1_000_000).await?;
        }
        let (last, more) = (self.last_ns, self.more);
        db.execute(&sql::SET_CLOCK, &[last.into(), more.into()])
            .await?;
        if last > self.claimed_ns {
            db.notify(TOPIC).await?;
        }
        Ok(())
    }

    fn next_ns(&mut self) -> i64 {
        self.last_ns += APART_NS;
        self.last_ns
    }

    fn decide(&mut self, pairs: &[(String, String)], claims: &[Claim], live: Vec<Live>) -> Effects {
        let mut claimed = HashMap::<_, Vec<&Claim>>::new();
        for claim in claims {
            let pair = (&claim.path, &claim.version);
            claimed.entry(pair).or_default().push(claim);
        }
        let live = live.into_iter();
        let mut live: HashMap<_, _> = live
            .map(|live| ((live.path.clone(), live.version.clone()), live))
            .collect();
        let mut effects = Effects::default();
        for pair in pairs {
            let claims = claimed.remove(&(&pair.0, &pair.1)).unwrap_or_default();
            let (live, best) = (live.remove(pair), claim_rules::winner(claims));
            self.apply(&mut effects, live, best);
        }
        effects
    }

    fn apply(&mut self, effects: &mut Effects, live: Option<Live>, best: Option<&Claim>) {
        let Some(step) = claim_rules::step(live.as_ref(), best) else {
            return;
        };
        let at_ns = self.next_ns();
        match (step, live, best) {
            (Step::Replace, Some(live), Some(best)) => {
                effects.removed.push(live.first_seen_ns);
                effects
                    .changes
                    .push(change(Op::Removed, at_ns, &live, None));
                let at_ns = self.next_ns();
                let live = version(best, at_ns);
                effects.changes.push(change(Op::Added, at_ns, &live, None));
                effects.added.push(live);
            }
            (Step::Add, _, Some(best)) => {
                self.more += 1;
                let live = version(best, at_ns);
                effects.changes.push(change(Op::Added, at_ns, &live, None));
                effects.added.push(live);
            }
            (Step::Move, Some(live), Some(best)) => {
                let moved = version(best, live.first_seen_ns);
                let from = Some(live.commit_oid);
                effects.changes.push(change(Op::Moved, at_ns, &moved, from));
                effects.moved.push(moved);
            }
            (_, Some(live), _) => {
                self.more -= 1;
                effects.removed.push(live.first_seen_ns);
                effects
                    .changes
                    .push(change(Op::Removed, at_ns, &live, None));
            }
            (_, None, _) => {}
        }
    }
}

fn version(claim: &Claim, first_seen_ns: i64) -> Live {
    Live {
        first_seen_ns,
        path: claim.path.clone(),
        version: claim.version.clone(),
        created: claim.created,
        org_repo_name: claim.org_repo_name.clone(),
        tag_name: claim.tag_name.clone(),
        commit_oid: claim.commit_oid.clone(),
        audience: claim.audience,
    }
}

fn change(op: Op, at_ns: i64, live: &Live, previous: Option<String>) -> Change {
    Change {
        at_ns,
        op,
        path: live.path.clone(),
        version: live.version.clone(),
        created_ms: live.created,
        repo: live.org_repo_name.clone(),
        tag: live.tag_name.clone(),
        commit: live.commit_oid.clone(),
        previous,
        audience: live.audience.into(),
        logged: None,
    }
}

impl Effects {
    async fn write(self, db: &mut Connection<'_>, now_ms: i64) -> Result<(), DbError> {
        if !self.removed.is_empty() {
            db.execute(&sql::DROP_VERSIONS, &[self.removed.into()])
                .await?;
        }
        if !self.moved.is_empty() {
            let columns = version_columns(&self.moved);
            db.execute_rows(&sql::MOVE_VERSIONS, &columns, &[]).await?;
        }
        if !self.added.is_empty() {
            let columns = version_columns(&self.added);
            db.execute_rows(&sql::ADD_VERSIONS, &columns, &[]).await?;
        }
        if !self.changes.is_empty() {
            let touched = [
                texts(&self.changes, |change| &change.path),
                texts(&self.changes, |change| &change.version),
            ];
            let is_listed = |change: &&Change| change.op != Op::Removed;
            let listed: Vec<_> = self.changes.iter().filter(is_listed).collect();
            let listed = [
                texts(&listed, |change| &change.path),
                texts(&listed, |change| &change.version),
                texts(&listed, |change| &change.repo),
                texts(&listed, |change| &change.tag),
                texts(&listed, |change| &change.commit),
            ];
            note_moves(db, &touched, &listed, now_ms).await?;
            let columns = change_columns(&self.changes);
            db.execute_rows(&sql::ADD_CHANGES, &columns, &[]).await?;
        }
        Ok(())
    }
}

fn version_columns(rows: &[Live]) -> [Column; 8] {
    [
        ints(rows, |row| row.first_seen_ns),
        texts(rows, |row| &row.path),
        texts(rows, |row| &row.version),
        ints(rows, |row| row.created),
        texts(rows, |row| &row.org_repo_name),
        texts(rows, |row| &row.tag_name),
        texts(rows, |row| &row.commit_oid),
        ints(rows, |row| row.audience),
    ]
}
