//! The feed while it is changed, and the log of its changes.

use std::collections::HashMap;

use grip_db::{Column, Connection, DbError};
use serde::Serialize;

use super::{
    Store, TOPIC,
    publish::AT_ONCE,
    rows::{ints, maybe_texts, pair_columns, texts},
    sql::sql,
};
use crate::rules::{self, Claim, Live, Step};

/// Changes that are forgotten by one statement.
const FORGET_AT_ONCE: i64 = 10_000;

/// What happened to a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Added,
    /// It is at another commit, tag or repository, or has another date.
    Moved,
    Removed,
}

/// One change of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When it happened, in nanoseconds since 1970: unique, and the cursor of what follows.
    pub at_ns: i64,
    pub op: Op,
    pub path: String,
    pub version: String,
    /// The date of the tag in milliseconds since 1970.
    pub created_ms: i64,
    pub repo: String,
    pub tag: String,
    pub commit: String,
    /// The commit it was at before a move.
    pub previous: Option<String>,
}

/// A page of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changes {
    Page(Vec<Change>),
    /// Changes after the cursor are no longer kept: begin with the feed, and go on from here.
    Forgotten {
        up_to_ns: i64,
    },
}

impl Op {
    fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Moved => "moved",
            Self::Removed => "removed",
        }
    }

    fn read(text: &str) -> Self {
        match text {
            "added" => Self::Added,
            "removed" => Self::Removed,
            _ => Self::Moved,
        }
    }
}

/// The feed, held against everybody else who would change it.
pub(super) struct Feed {
    claimed_ns: i64,
    last_ns: i64,
    /// How many more versions there are.
    more: i64,
}

/// What one chunk of versions comes to.
#[derive(Default)]
struct Effects {
    added: Vec<Live>,
    moved: Vec<Live>,
    removed: Vec<i64>,
    changes: Vec<Change>,
}

impl Feed {
    /// Takes the clock until the commit. What the clock shows may go back; this does not.
    pub(super) async fn lock(db: &mut Connection<'_>, now_ms: i64) -> Result<Self, DbError> {
        let now_ns = now_ms.saturating_mul(1_000_000).min(i64::MAX / 2);
        let (claimed_ns,): (i64,) = db.fetch_one(&sql::TAKE_CLOCK, &[now_ns.into()]).await?;
        Ok(Self {
            claimed_ns,
            last_ns: claimed_ns,
            more: 0,
        })
    }

    /// The moment for new claims: later than those of all who held the clock before.
    pub(super) fn claimed_ns(&self) -> i64 {
        self.claimed_ns
    }

    /// Brings these versions up to date with the tags that claim them.
    pub(super) async fn settle(
        mut self,
        db: &mut Connection<'_>,
        mut touched: Vec<(String, String)>,
    ) -> Result<(), DbError> {
        touched.sort_unstable();
        touched.dedup();
        for pairs in touched.chunks(AT_ONCE) {
            let columns = pair_columns(pairs);
            let claims: Vec<Claim> = db.fetch_rows(&sql::CLAIMS, &columns, &[]).await?;
            let live: Vec<Live> = db.fetch_rows(&sql::LIVE, &columns, &[]).await?;
            let effects = self.decide(pairs, &claims, live);
            effects.write(db).await?;
        }
        let (last, more) = (self.last_ns, self.more);
        db.execute(&sql::SET_CLOCK, &[last.into(), more.into()])
            .await?;
        if last > self.claimed_ns {
            db.notify(TOPIC).await?;
        }
        Ok(())
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
            let (live, best) = (live.remove(pair), rules::winner(claims));
            self.apply(&mut effects, live, best);
        }
        effects
    }

    fn apply(&mut self, effects: &mut Effects, live: Option<Live>, best: Option<&Claim>) {
        let Some(step) = rules::step(live.as_ref(), best) else {
            return;
        };
        self.last_ns += 1;
        let at_ns = self.last_ns;
        match (step, live, best) {
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
    }
}

impl Effects {
    async fn write(self, db: &mut Connection<'_>) -> Result<(), DbError> {
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
            let columns = change_columns(&self.changes);
            db.execute_rows(&sql::ADD_CHANGES, &columns, &[]).await?;
        }
        Ok(())
    }
}

pub(super) fn version_columns(rows: &[Live]) -> [Column; 7] {
    [
        ints(rows, |row| row.first_seen_ns),
        texts(rows, |row| &row.path),
        texts(rows, |row| &row.version),
        ints(rows, |row| row.created),
        texts(rows, |row| &row.org_repo_name),
        texts(rows, |row| &row.tag_name),
        texts(rows, |row| &row.commit_oid),
    ]
}

fn change_columns(rows: &[Change]) -> [Column; 9] {
    [
        ints(rows, |row| row.at_ns),
        texts(rows, |row| row.op.as_str()),
        texts(rows, |row| &row.path),
        texts(rows, |row| &row.version),
        ints(rows, |row| row.created_ms),
        texts(rows, |row| &row.repo),
        texts(rows, |row| &row.tag),
        texts(rows, |row| &row.commit),
        maybe_texts(rows, |row| row.previous.as_deref()),
    ]
}

#[derive(sqlx::FromRow)]
struct Row {
    at_ns: i64,
    op: String,
    path: String,
    version: String,
    created: i64,
    org_repo_name: String,
    tag_name: String,
    commit_oid: String,
    previous_oid: Option<String>,
}

impl From<Row> for Change {
    fn from(row: Row) -> Self {
        Self {
            at_ns: row.at_ns,
            op: Op::read(&row.op),
            path: row.path,
            version: row.version,
            created_ms: row.created,
            repo: row.org_repo_name,
            tag: row.tag_name,
            commit: row.commit_oid,
            previous: row.previous_oid,
        }
    }
}

impl Store {
    /// The changes after a moment.
    pub(crate) async fn changes(&self, after_ns: i64, limit: usize) -> Result<Changes, DbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let (rows, (up_to_ns,)): (Vec<Row>, (i64,)) = self
            .db
            .read(move |mut db| {
                Box::pin(async move {
                    let asked = [after_ns.into(), limit.into()];
                    let rows = db.fetch_all(&sql::CHANGES, &asked).await?;
                    // Read afterwards: what was forgotten in between is noticed.
                    let forgotten = db.fetch_one(&sql::FORGOTTEN, &[]).await?;
                    Ok((rows, forgotten))
                })
            })
            .await?;
        Ok(match after_ns < up_to_ns {
            true => Changes::Forgotten { up_to_ns },
            false => Changes::Page(rows.into_iter().map(Change::from).collect()),
        })
    }

    /// Forgets changes before a moment, and says how many there were.
    pub(crate) async fn forget_changes(&self, before_ns: i64) -> Result<u64, DbError> {
        let mut total = 0;
        loop {
            let forgotten = self.forget_some(before_ns).await?;
            total += forgotten;
            if forgotten < FORGET_AT_ONCE as u64 {
                return Ok(total);
            }
        }
    }

    async fn forget_some(&self, before_ns: i64) -> Result<u64, DbError> {
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    let asked = [before_ns.into(), FORGET_AT_ONCE.into()];
                    let gone: Vec<(i64,)> = db.fetch_all(&sql::FORGET, &asked).await?;
                    let Some((last,)) = gone.iter().max() else {
                        return Ok(0);
                    };
                    db.execute(&sql::SET_FORGOTTEN, &[(*last).into()]).await?;
                    Ok(gone.len() as u64)
                })
            })
            .await
    }
}
