//! Pushes, each once, with the job that follows from it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use grip_db::{Column, Connection, DbError, Value};
use grip_queue::{NewJob, Queue};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Store, duplicates, field_sql, retry_on_conflict, sql};
use crate::{
    accept::{Accepted, Batch},
    extract::{Push, TagEvent},
    fields::EVENT,
    jobs::{self, millis},
};

/// Rows of one statement, and the bytes of their texts.
const AT_ONCE: usize = 500;
const AT_ONCE_BYTES: usize = 2 << 20;

/// A push as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StoredEvent {
    pub id: String,
    /// GitHub's id of the event, once a list has shown it.
    #[serde(skip)]
    pub event_id: Option<String>,
    /// GitHub's id of the delivery, if a webhook has delivered it.
    #[serde(skip)]
    pub delivery_id: Option<String>,
    pub actor_id: Option<i64>,
    pub actor_login: Option<String>,
    pub repository_id: i64,
    pub repository_name: Option<String>,
    pub push_id: Option<i64>,
    #[serde(rename = "ref")]
    pub git_ref: String,
    pub head: String,
    pub before: Option<String>,
    pub github_created_at: Option<i64>,
    pub source: String,
    pub created_at: i64,
    #[serde(skip)]
    pub raw: String,
}

grip_db::from_row!(StoredEvent {
    id,
    event_id,
    delivery_id,
    actor_id,
    actor_login,
    repository_id,
    repository_name,
    push_id,
    git_ref,
    head,
    before,
    github_created_at,
    source,
    created_at,
    raw,
});

/// Which events are listed, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// After this one; none: from the start.
    pub after: Option<EventCursor>,
    pub limit: usize,
    /// Only pushes to this repository, by GitHub's id.
    pub repository: Option<i64>,
    /// Only pushes of this person, by GitHub's id; not together with `repository`.
    pub actor: Option<i64>,
}

/// The position of an event in the list: when it happened and its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventCursor {
    pub at: i64,
    pub id: String,
}

impl StoredEvent {
    /// When it happened, in milliseconds since 1970; when it was learned of, where GitHub does not
    /// say.
    pub fn at(&self) -> i64 {
        self.github_created_at.unwrap_or(self.created_at)
    }

    pub fn cursor(&self) -> EventCursor {
        EventCursor {
            at: self.at(),
            id: self.id.clone(),
        }
    }
}

impl Store {
    /// Keeps what arrived, and asks for the work that follows from what is new: one transaction.
    pub(crate) async fn accept(
        &self,
        queue: &Queue,
        source: &str,
        batch: Batch,
        live_for: Duration,
    ) -> Result<Accepted, DbError> {
        let batch = std::sync::Arc::new(batch);
        retry_on_conflict(|| {
            let (queue, batch, source) = (queue.clone(), batch.clone(), source.to_owned());
            self.db.write(move |mut db| {
                Box::pin(async move { accept_in(&mut db, &queue, &source, &batch, live_for).await })
            })
        })
        .await
    }

    pub(crate) async fn event(&self, id: &str) -> Result<Option<(String, i64)>, DbError> {
        let values = [id.into()];
        self.db.fetch_optional(&sql::EVENT, &values).await
    }

    pub(crate) async fn events(&self, query: &EventQuery) -> Result<Vec<StoredEvent>, DbError> {
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let (at, id) = match &query.after {
            Some(place) => (place.at, place.id.clone()),
            None => (i64::MAX, String::new()),
        };
        let mut values: Vec<Value> = vec![at.into(), id.into(), limit.into()];
        let (statement, of) = match (query.repository, query.actor) {
            (Some(of), _) => (&sql::EVENTS_OF_REPOSITORY, Some(of)),
            (None, Some(of)) => (&sql::EVENTS_OF_ACTOR, Some(of)),
            (None, None) => (&sql::EVENTS, None),
        };
        values.extend(of.map(Value::from));
        self.db.fetch_all(statement, &values).await
    }
}

/// Like [`Store::accept`], as a part of the caller's transaction.
pub(crate) fn accept_in<'a>(
    db: &'a mut Connection<'_>,
    queue: &'a Queue,
    source: &'a str,
    batch: &'a Batch,
    live_for: Duration,
) -> BoxFuture<'a, Result<Accepted, DbError>> {
    Box::pin(async move {
        let now = queue.db().now_ms();
        let live_from = now.saturating_sub(millis(live_for));
        let pushes: Vec<&Push> = batch.pushes.values().collect();
        duplicates::begin(db, batch.pushes.values(), now).await?;
        let mut new = 0;
        for part in parts(&pushes) {
            let known = duplicates::known(db, part, now).await?;
            let part: Vec<&Push> = part
                .iter()
                .copied()
                .filter(|push| !known.contains(&push.id))
                .collect();
            if part.is_empty() {
                continue;
            }
            let values = [source.into(), now.into()];
            let added: Vec<(String,)> = db
                .fetch_rows(&sql::ADD_EVENTS, &columns(&part), &values)
                .await?;
            new += added.len() as u64;
            grip_tasks::fault::point("ingest.event.saved");
            let job = |id: &String| {
                let is_live = batch.pushes.get(id).and_then(|push| push.at_ms);
                let is_live = is_live.is_none_or(|at| at >= live_from);
                NewJob::new(jobs::push_kind(is_live), id)
            };
            let jobs: Vec<_> = added.iter().map(|(id,)| job(id)).collect();
            if !jobs.is_empty() {
                queue.enqueue_in(db, jobs).await?;
            }
            grip_tasks::fault::point("ingest.event.enqueued");
        }
        let is_live = |tag: &&TagEvent| tag.at_ms.is_none_or(|at| at >= live_from);
        let tagged = batch.tags.values().filter(is_live);
        let jobs: Vec<_> = tagged.map(jobs::tagged_job).collect();
        if !jobs.is_empty() {
            queue.enqueue_in(db, jobs).await?;
        }
        let rejected = reject(db, source, batch, now).await?;
        count(db, source, batch, new).await?;
        Ok(Accepted {
            new,
            known: pushes.len() as u64 - new + batch.twice,
            other: batch.others.values().sum::<i64>().unsigned_abs(),
            rejected,
        })
    })
}

/// Keeps aside what cannot be read; says how many.
async fn reject(
    db: &mut Connection<'_>,
    source: &str,
    batch: &Batch,
    now: i64,
) -> Result<u64, DbError> {
    let all: Vec<_> = batch.rejected.iter().collect();
    for part in all.chunks(20) {
        let columns = [
            Column::Texts(part.iter().map(|(digest, _)| (*digest).clone()).collect()),
            Column::Texts(part.iter().map(|(_, kept)| kept.reason.clone()).collect()),
            Column::Texts(part.iter().map(|(_, kept)| kept.raw.clone()).collect()),
            Column::Ints(part.iter().map(|(_, kept)| kept.bytes).collect()),
            Column::MaybeTexts(
                part.iter()
                    .map(|(_, kept)| kept.delivery_id.clone())
                    .collect(),
            ),
        ];
        let values = [source.into(), now.into()];
        let kept: Vec<(String, i64)> = db.fetch_rows(&sql::REJECT, &columns, &values).await?;
        for (digest, times) in kept {
            if times == 1 {
                let reason = batch.rejected.get(&digest).map(|kept| &kept.reason);
                tracing::warn!(source, %digest, ?reason, "an event cannot be read and is kept aside");
            }
        }
    }
    Ok(all.len() as u64)
}

async fn count(
    db: &mut Connection<'_>,
    source: &str,
    batch: &Batch,
    new: u64,
) -> Result<(), DbError> {
    let pushes = i64::try_from(new).unwrap_or(i64::MAX);
    let mut counts = batch.others.clone();
    if pushes > 0 {
        counts.insert("PushEvent", pushes);
    }
    if counts.is_empty() {
        return Ok(());
    }
    let (types, counts): (Vec<_>, Vec<_>) = counts.into_iter().unzip();
    let columns = [
        Column::Texts(types.into_iter().map(str::to_owned).collect()),
        Column::Ints(counts),
    ];
    db.execute_rows(&sql::COUNT, &columns, &[source.into()])
        .await?;
    Ok(())
}

/// Parts of at most so many rows and bytes, each of events or of deliveries alone: the later ones
/// are compared with the earlier ones.
fn parts<'a, 'p>(mut rest: &'a [&'p Push]) -> Vec<&'a [&'p Push]> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let mut bytes = 0;
        let is_delivery = |push: &Push| push.delivery_id().is_some();
        let fits = |push: &&&Push| {
            bytes += push.raw.len();
            bytes <= AT_ONCE_BYTES && is_delivery(push) == is_delivery(rest[0])
        };
        let many = rest.iter().take(AT_ONCE).take_while(fits).count();
        let (part, others) = rest.split_at(many.max(1));
        parts.push(part);
        rest = others;
    }
    parts
}

/// The id, the fields, and what GitHub wrote.
fn columns(pushes: &[&Push]) -> Vec<Column> {
    let cells: Vec<_> = pushes.iter().map(|push| push.cells()).collect();
    let text = |of: fn(&Push) -> &String| {
        Column::Texts(pushes.iter().map(|push| of(push).clone()).collect())
    };
    let mut columns = vec![text(|push| &push.id)];
    columns.extend(field_sql::columns(EVENT, &cells));
    columns.push(text(|push| &push.raw));
    columns
}
