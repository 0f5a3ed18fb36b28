//! Duplicate detection between a webhook delivery and a list event of the same push.
//!
//! The two share no id. They are taken for one where repository, ref and both commits are the same
//! and they happened within ten minutes of each other, the nearest first, and each for one other
//! at most. So a ref that is moved there, back and there again is three pushes.

use std::collections::{BTreeMap, BTreeSet};

use grip_db::{Connection, DbError, Value};

use crate::extract::Push;

/// How far the timestamps of the two may lie apart.
const WINDOW_MS: i64 = 10 * 60 * 1_000;
/// Nothing comes longer than this before it happened, whatever the clocks say.
const EARLY_MS: i64 = 60 * 60 * 1_000;
/// Pushes that are older do not come by two ways at the same moment.
const RECENT_MS: i64 = 60 * 60 * 1_000;
/// Pushes to one ref that a delivery is compared with, the latest.
const MOST: i64 = 1_000;

grip_db::statements! {
    pub(crate) mod sql {
        // One at a time, where one push may arrive by two ways at the same moment.
        ONE_AT_A_TIME = {
            sqlite: "SELECT 1",
            postgres: "SELECT 1 FROM pg_advisory_xact_lock(7236850771054493)",
        };
        PAIRED = "SELECT event_id FROM push_events WHERE event_id <> id AND event_id {in $1}";
        LONE_DELIVERIES = "SELECT id, event_id, delivery_id, repository_id, ref AS git_ref, head, \
                           \"before\", github_created_at, created_at FROM push_events \
                           WHERE event_id IS NULL AND head {in $1} ORDER BY created_at, id";
        // $repository, $ref, $came after, $most
        TO_REF = "SELECT id, event_id, delivery_id, repository_id, ref AS git_ref, head, \
                  \"before\", github_created_at, created_at FROM push_events \
                  WHERE repository_id = $1 AND ref = $2 AND created_at >= $3 \
                  ORDER BY created_at DESC, id DESC LIMIT $4";
        PAIR_DELIVERY = "UPDATE push_events SET event_id = $2, updated_at = $3 \
                         WHERE id = $1 AND event_id IS NULL";
        PAIR_EVENT = "UPDATE push_events SET delivery_id = $2, updated_at = $3 \
                      WHERE id = $1 AND delivery_id IS NULL";
    }
}

/// What is compared of a push that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    id: String,
    event_id: Option<String>,
    delivery_id: Option<String>,
    repository_id: i64,
    git_ref: String,
    head: String,
    before: Option<String>,
    github_created_at: Option<i64>,
    created_at: i64,
}

grip_db::from_row!(Row {
    id,
    event_id,
    delivery_id,
    repository_id,
    git_ref,
    head,
    before,
    github_created_at,
    created_at,
});

impl Row {
    fn at(&self) -> i64 {
        self.github_created_at.unwrap_or(self.created_at)
    }

    fn moves_alike(&self, push: &Push) -> bool {
        self.repository_id == push.repository_id
            && self.git_ref == push.git_ref
            && self.head == push.head
            && self.before == push.before
    }
}

/// Lets nobody else add pushes until the transaction ends, if the same may arrive by another way at
/// this moment.
pub(super) async fn begin<'p>(
    db: &mut Connection<'_>,
    mut pushes: impl Iterator<Item = &'p Push>,
    now: i64,
) -> Result<(), DbError> {
    let is_recent = |push: &Push| push.at_ms.is_none_or(|at| at >= now - RECENT_MS);
    if pushes.any(|push| push.delivery_id().is_some() || is_recent(push)) {
        let _: (i32,) = db.fetch_one(&sql::ONE_AT_A_TIME, &[]).await?;
    }
    Ok(())
}

/// The ids of those that are kept under another name already; that they are is noted.
pub(super) async fn known(
    db: &mut Connection<'_>,
    pushes: &[&Push],
    now: i64,
) -> Result<BTreeSet<String>, DbError> {
    let (deliveries, events): (Vec<&Push>, Vec<&Push>) =
        pushes.iter().partition(|push| push.delivery_id().is_some());
    let mut known = BTreeSet::new();
    if !events.is_empty() {
        known = known_events(db, &events, now).await?;
    }
    for push in deliveries {
        if is_known_delivery(db, push, now).await? {
            known.insert(push.id.clone());
        }
    }
    Ok(known)
}

async fn known_events(
    db: &mut Connection<'_>,
    events: &[&Push],
    now: i64,
) -> Result<BTreeSet<String>, DbError> {
    let ids = events.iter().map(|push| push.id.clone()).collect();
    let paired: Vec<(String,)> = db.fetch_all(&sql::PAIRED, &[Value::Texts(ids)]).await?;
    let mut known: BTreeSet<String> = paired.into_iter().map(|(id,)| id).collect();
    let heads: BTreeSet<&String> = events.iter().map(|push| &push.head).collect();
    let heads = heads.into_iter().cloned().collect();
    let heads = [Value::Texts(heads)];
    let lone: Vec<Row> = db.fetch_all(&sql::LONE_DELIVERIES, &heads).await?;
    if lone.is_empty() {
        return Ok(known);
    }
    let others = events.iter().filter(|push| !known.contains(&push.id));
    for (event, delivery) in pair(others.copied(), lone, now) {
        let values = [delivery.into(), event.clone().into(), now.into()];
        if db.execute(&sql::PAIR_DELIVERY, &values).await? == 1 {
            known.insert(event);
        }
    }
    Ok(known)
}

/// Which events and deliveries are of the same push, in the order in which they happened.
fn pair<'p>(
    events: impl Iterator<Item = &'p Push>,
    mut lone: Vec<Row>,
    now: i64,
) -> BTreeMap<String, String> {
    let mut events: Vec<&Push> = events.collect();
    events.sort_by_key(|push| (push.at_ms.unwrap_or(now), push.id.len(), &push.id));
    let mut pairs = BTreeMap::new();
    for push in events {
        if let Some(at) = nearest(push, &lone, now) {
            let delivery = lone.remove(at);
            pairs.insert(push.id.clone(), delivery.id);
        }
    }
    pairs
}

/// The position of the row of the same push, if there is one.
fn nearest(push: &Push, rows: &[Row], now: i64) -> Option<usize> {
    let at = push.at_ms.unwrap_or(now);
    let far = |row: &Row| row.at().abs_diff(at);
    let rows = rows.iter().enumerate();
    rows.filter(|(_, row)| row.moves_alike(push) && far(row) <= WINDOW_MS.unsigned_abs())
        .min_by_key(|(_, row)| far(row))
        .map(|(position, _)| position)
}

async fn is_known_delivery(
    db: &mut Connection<'_>,
    push: &Push,
    now: i64,
) -> Result<bool, DbError> {
    let since = push.at_ms.unwrap_or(now) - EARLY_MS;
    let values = [
        push.repository_id.into(),
        push.git_ref.clone().into(),
        since.into(),
        MOST.into(),
    ];
    let rows: Vec<Row> = db.fetch_all(&sql::TO_REF, &values).await?;
    let is_it = |row: &Row| row.delivery_id.as_deref() == push.delivery_id();
    if rows.iter().any(is_it) || is_delivered_twice(push, &rows) {
        return Ok(true);
    }
    let lone: Vec<Row> = rows
        .into_iter()
        .filter(|row| row.delivery_id.is_none() && row.event_id.as_ref() == Some(&row.id))
        .collect();
    let (Some(at), Some(id)) = (nearest(push, &lone, now), push.delivery_id()) else {
        return Ok(false);
    };
    let values = [lone[at].id.clone().into(), id.into(), now.into()];
    Ok(db.execute(&sql::PAIR_EVENT, &values).await? == 1)
}

/// Whether another webhook has delivered the same push: at the same moment, and the ref was not
/// moved since, so that it cannot have been moved there again.
fn is_delivered_twice(push: &Push, rows: &[Row]) -> bool {
    let is_same = |row: &&Row| {
        row.delivery_id.is_some() && row.github_created_at == push.at_ms && row.moves_alike(push)
    };
    let delivered = rows.iter().find(is_same).filter(|_| push.at_ms.is_some());
    delivered.is_some_and(|delivered| {
        let since = rows
            .iter()
            .filter(|row| row.created_at >= delivered.created_at);
        since.into_iter().all(|row| row.moves_alike(push))
    })
}

#[cfg(test)]
mod tests;
