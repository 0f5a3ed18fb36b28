//! Events that the operator's rules took out of service (G01-112, G01-124): kept unseen for a while,
//! so that a rule that is taken back has lost nothing.

use std::{sync::Arc, time::Duration};

use grip_db::{Db, DbError, Value};
use grip_nostr::{Event, PullRequest, kinds};
use grip_types::Origin;

use crate::{
    Policy,
    enforce::is_hosted,
    error::GraspError,
    grasp::{Core, now},
    incoming::own_identifier,
};

/// How long they are kept.
const KEPT: Duration = Duration::from_secs(90 * 24 * 3600);
/// Events that are read in one step.
const BATCH: i64 = 500;

grip_db::statements! {
    pub(crate) mod sql {
        PUT = "INSERT INTO holding (node, id, author, event, held_at) VALUES ($1, $2, $3, $4, $5) \
               ON CONFLICT (node, id) DO UPDATE SET held_at = excluded.held_at";
        LIST = "SELECT id, event FROM holding WHERE node = $1 AND id > $2 ORDER BY id LIMIT $3";
        REMOVE = "DELETE FROM holding WHERE node = $1 AND id = $2";
        EXPIRE = "DELETE FROM holding WHERE node = $1 AND held_at < $2";
    }
}

/// The rows of this node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Holding {
    db: Db,
}

impl Holding {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(crate) async fn put(&self, events: &[Event], held_at: i64) -> Result<(), DbError> {
        let rows: Vec<[Value; 5]> = events
            .iter()
            .map(|event| {
                let json = serde_json::to_string(event).expect("an event is always JSON");
                [
                    Value::from(self.db.node()),
                    event.id.to_hex().into(),
                    event.pubkey.to_hex().into(),
                    json.into(),
                    held_at.into(),
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

    /// Up to [`BATCH`] events after an id, and the id of the last; none at the end.
    async fn after(&self, id: &str) -> Result<Option<(String, Vec<Event>)>, DbError> {
        let named = [self.db.node().into(), id.into(), BATCH.into()];
        let read = self
            .db
            .read(|mut db| Box::pin(async move { db.fetch_all(&sql::LIST, &named).await }));
        let rows: Vec<(String, String)> = read.await?;
        let Some(last) = rows.last().map(|(id, _)| id.clone()) else {
            return Ok(None);
        };
        let events = rows
            .iter()
            .filter_map(|(_, json)| serde_json::from_str(json).ok());
        Ok(Some((last, events.collect())))
    }

    async fn remove(&self, event: &Event) -> Result<(), DbError> {
        let named = [Value::from(self.db.node()), event.id.to_hex().into()];
        let written = self.db.write_in_order(|mut db| {
            Box::pin(async move { db.execute(&sql::REMOVE, &named).await })
        });
        written.await.map(drop)
    }

    async fn expire(&self, before: i64) -> Result<(), DbError> {
        let named = [Value::from(self.db.node()), before.into()];
        let written = self.db.write_in_order(|mut db| {
            Box::pin(async move { db.execute(&sql::EXPIRE, &named).await })
        });
        written.await.map(drop)
    }
}

impl Core {
    /// Takes events out of service by a rule of the operator, and keeps them.
    pub(crate) async fn put_on_hold(
        self: &Arc<Self>,
        events: Vec<Event>,
    ) -> Result<(), GraspError> {
        self.holding.put(&events, now().get()).await?;
        self.end_served(events).await
    }

    /// Brings back what the rules in force do not take out any more, each as if it came anew.
    pub(crate) async fn restore_from_holding(
        self: &Arc<Self>,
        policy: &Policy,
    ) -> Result<(), GraspError> {
        let kept_since = now().get() - KEPT.as_millis() as i64;
        self.holding.expire(kept_since).await?;
        let (mut after, mut back) = (String::new(), Vec::new());
        while let Some((last, events)) = self.holding.after(&after).await? {
            after = last;
            let may_return = |event: &Event| {
                let is_taken = event.kind != kinds::ANNOUNCEMENT || is_hosted(event, policy);
                is_taken && !is_banned(event, policy)
            };
            back.extend(events.into_iter().filter(may_return));
        }
        // What others rest on first.
        back.sort_by_key(|event| (rank(event), event.created_at));
        for event in back {
            if rank(&event) < 3 {
                let answer = self.process(event.clone(), Origin::Submitted.into()).await;
                tracing::info!(id = %event.id, accepted = answer.accepted, answer.message, "event brought back");
            } else {
                self.commit.events(vec![event.clone()]).await?;
            }
            self.holding.remove(&event).await?;
        }
        Ok(())
    }
}

fn is_banned(event: &Event, policy: &Policy) -> bool {
    let is_announcement = event.kind == kinds::ANNOUNCEMENT;
    let addr = own_identifier(event).filter(|_| is_announcement);
    let addr = addr.map(|identifier| grip_nostr::RepoAddr::new(event.pubkey, identifier));
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
            let holding = Holding::new(database.db().clone());
            let keys = Keys::generate();
            let event = |text: &str| EventBuilder::new(Kind::from(1), text).finalize(&keys).unwrap();
            let (a, b) = (event("a"), event("b"));
            holding.put(&[a.clone(), b.clone()], 10).await.unwrap();
            let (_, listed) = holding.after("").await.unwrap().unwrap();
            assert_eq!(listed.len(), 2);
            holding.remove(&a).await.unwrap();
            let (last, listed) = holding.after("").await.unwrap().unwrap();
            assert_eq!(listed, [b]);
            assert!(holding.after(&last).await.unwrap().is_none());
            holding.expire(11).await.unwrap();
            assert!(holding.after("").await.unwrap().is_none());
        }

        async fn every_statement_is_understood(database: TestDatabase) {
            prepare_all(database.db(), sql::ALL).await.unwrap();
        }
    }
}
