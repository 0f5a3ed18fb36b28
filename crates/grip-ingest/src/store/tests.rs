mod json;
mod reextraction;
mod retention;

use std::time::Duration;

use grip_db::{Db, DbError, on_both_engines, plan, prepare_all};
use grip_queue::{NewJob, Queue, State};
use serde_json::{Value, json};

use super::*;
use crate::{
    accept::{Accepted, Arrival, Batch},
    extract,
    fields::{REPOSITORY, USER},
    testing::{LEASE, arrival, put, words},
};

const LIVE: Duration = Duration::from_secs(u32::MAX as u64);

pub(super) fn push(id: u64) -> Value {
    json!({
        "id": id.to_string(),
        "type": "PushEvent",
        "actor": { "id": 7, "login": "jo", "url": "https://api.github.com/users/jo" },
        "repo": { "id": 9, "name": "acme/one" },
        "payload": { "push_id": id, "ref": "refs/heads/main", "head": "0".repeat(40), "before": "1".repeat(40) },
        "created_at": "2026-01-25T18:44:36Z",
    })
}

pub(super) struct Kept {
    pub(super) store: Store,
    pub(super) queue: Queue,
}

pub(super) fn kept(db: &Db) -> Kept {
    let (store, queue) = (Store::new(db.clone()), Queue::new(db.clone()));
    Kept { store, queue }
}

impl Kept {
    pub(super) async fn accept(&self, events: &[Value]) -> Accepted {
        let arrivals: Vec<_> = events.iter().map(arrival).collect();
        self.arrive(&arrivals).await
    }

    async fn arrive(&self, arrivals: &[Arrival]) -> Accepted {
        let batch = Batch::read(arrivals);
        let accepting = self.store.accept(&self.queue, "test", batch, LIVE);
        accepting.await.unwrap()
    }

    /// The ids of all events that a query finds, page by page.
    async fn paged(&self, mut query: EventQuery) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            let page = self.store.events(&query).await.unwrap();
            assert!(page.len() <= query.limit);
            let Some(last) = page.last() else {
                return ids;
            };
            query.after = Some(last.cursor());
            ids.extend(page.into_iter().map(|event| event.id));
        }
    }

    pub(super) async fn ids(&self) -> Vec<String> {
        let query = EventQuery {
            limit: 1_000,
            ..EventQuery::default()
        };
        let events = self.store.events(&query).await.unwrap();
        events.into_iter().map(|event| event.id).collect()
    }

    /// Keeps a person or a repository, as its job would.
    pub(super) async fn save(&self, record_kind: RecordKind, words: &Value) {
        let text = words.to_string();
        let record = match record_kind {
            RecordKind::User => extract::user(text.as_bytes()),
            RecordKind::Repository => extract::repository(text.as_bytes()),
        };
        let job = NewJob::new("test", "a");
        self.queue.enqueue(vec![job]).await.unwrap();
        let leases = self.queue.claim("test", 1, LEASE).await.unwrap();
        let etag = Some("W/\"1\"".to_owned());
        let saving = self
            .store
            .save(&self.queue, &leases[0], record_kind, record.unwrap(), etag);
        saving.await.unwrap();
        assert!(self.queue.find("test", "a").await.unwrap().is_none());
    }
}

grip_db::statements! {
    mod planner {
        ANALYZE = "ANALYZE push_events";
    }
}

on_both_engines! {
    async fn every_statement_is_understood(test: TestDatabase) {
        prepare_all(test.db(), sql::ALL).await.unwrap();
        prepare_all(test.db(), &field_sql::all()).await.unwrap();
    }

    async fn every_field_has_its_column_and_comes_back(test: TestDatabase) {
        let kept = kept(test.db());
        for (record_kind, fields, by_name) in [
            (RecordKind::User, USER, "login ü '\"\\ 1"),
            (RecordKind::Repository, REPOSITORY, "FULL_name ü '\"\\ 3"),
        ] {
            let (words, expected) = words(fields);
            // Twice: a row is added, then replaced.
            kept.save(record_kind, &words).await;
            kept.save(record_kind, &words).await;
            let stored = kept.store.stored(record_kind, &Key::Id(1_000)).await.unwrap().unwrap();
            for (column, shown) in &expected {
                assert_eq!(&stored.fields[*column], shown, "{column}");
            }
            assert_eq!(stored.fields.len(), fields.len());
            assert_eq!((stored.raw, stored.unfit.len()), (words.to_string(), 0));
            let named = kept.store.stored(record_kind, &Key::Name(by_name.to_owned())).await;
            assert_eq!(named.unwrap().unwrap().fields, stored.fields);
            let known = kept.store.known(record_kind, 1_000).await.unwrap().unwrap();
            assert_eq!(known.etag.as_deref(), Some("W/\"1\""));
            assert!(kept.store.known(record_kind, 1_001).await.unwrap().is_none());
        }
    }

    async fn the_tables_have_no_other_columns_than_the_fields(test: TestDatabase) {
        let kept = kept(test.db());
        for (record_kind, fields, statement) in [
            (RecordKind::User, USER, &sql::USER),
            (RecordKind::Repository, REPOSITORY, &sql::REPOSITORY),
        ] {
            kept.save(record_kind, &words(fields).0).await;
            let row: records::AnyRow = test
                .db()
                .fetch_one(statement, &[1_000.into()])
                .await
                .unwrap();
            let more = ["raw", "unfit", "etag", "fetched_at", "created_at", "updated_at"];
            let mut expected: Vec<_> = fields.iter().map(|field| field.column).chain(more).collect();
            let mut found: Vec<_> = row.0.keys().map(String::as_str).collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected);
        }
    }

    async fn odd_values_are_kept_aside_and_nul_is_no_trouble(test: TestDatabase) {
        let kept = kept(test.db());
        let mut words = words(USER).0;
        put(&mut words, "/bio", json!("a\0b"));
        put(&mut words, "/followers", json!("many"));
        kept.save(RecordKind::User, &words).await;
        let stored = kept.store.stored(RecordKind::User, &Key::Id(1_000)).await.unwrap().unwrap();
        assert_eq!(stored.fields["bio"], "a\u{fffd}b");
        assert_eq!((stored.fields["followers"].clone(), stored.unfit), (Value::Null, vec!["followers".to_owned()]));
        assert_eq!(stored.raw, words.to_string());
    }

    async fn pushes_are_listed_by_when_they_happened_not_by_when_they_came(test: TestDatabase) {
        let kept = kept(test.db());
        let at = |id: u64, moment: Value| {
            let mut event = push(id);
            event["created_at"] = moment;
            event
        };
        // The newest first; then older ones, several of one moment, and one of before 1970.
        kept.accept(&[at(11, json!("2026-01-25T18:44:36Z"))]).await;
        kept.accept(&[at(99, json!("1969-12-31T23:59:59Z")), at(98, json!("2015-01-01T15:00:00Z"))]).await;
        let same = (41..=45).map(|id| at(id, json!("2020-01-01T00:00:00Z")));
        kept.accept(&same.collect::<Vec<_>>()).await;
        // GitHub does not say when: it counts as of now.
        kept.accept(&[at(12, Value::Null)]).await;
        let expected = ["12", "11", "45", "44", "43", "42", "41", "98", "99"];
        assert_eq!(kept.ids().await, expected);
        for limit in 1..=10 {
            for (repository, actor) in [(None, None), (Some(9), None), (None, Some(7))] {
                let query = EventQuery { limit, repository, actor, ..EventQuery::default() };
                assert_eq!(kept.paged(query).await, expected, "{limit} {repository:?} {actor:?}");
            }
        }
    }

    async fn a_page_of_pushes_is_one_range_of_an_index(test: TestDatabase) {
        let kept = kept(test.db());
        // Of many repositories and people.
        let events = (1..=2_000).map(|id| {
            let mut event = push(id);
            put(&mut event, "/repo/id", json!(1 + id % 100));
            put(&mut event, "/actor/id", json!(1 + id % 100));
            event
        });
        kept.accept(&events.collect::<Vec<_>>()).await;
        test.db().execute(&planner::ANALYZE, &[]).await.unwrap();
        for (statement, index, of) in [
            (&sql::EVENTS, "push_events_at", None),
            (&sql::EVENTS_OF_REPOSITORY, "push_events_repository_at", Some(9)),
            (&sql::EVENTS_OF_ACTOR, "push_events_actor_at", Some(7)),
        ] {
            let mut values = vec![i64::MAX.into(), "".into(), 10.into()];
            values.extend(of.map(grip_db::Value::from));
            let plan = plan(test.db(), statement, &values).await.to_lowercase();
            assert!(plan.contains(index), "{plan}");
            assert!(!plan.contains("sort") && !plan.contains("temp b-tree"), "{plan}");
        }
    }

    async fn the_same_event_ten_times_is_one_row_and_one_job(test: TestDatabase) {
        let kept = kept(test.db());
        let event = push(5_000_000_000);
        for turn in 0..4 {
            let accepted = kept.accept(&[event.clone(), event.clone()]).await;
            let new = u64::from(turn == 0);
            assert_eq!(accepted, Accepted { new, known: 2 - new, ..Accepted::default() });
        }
        let two = futures_util::future::join(kept.accept(std::slice::from_ref(&event)), kept.accept(std::slice::from_ref(&event)));
        assert_eq!(two.await.0.new, 0);
        assert_eq!(kept.ids().await, ["5000000000"]);
        let job = kept.queue.find("push-event", "5000000000").await.unwrap().unwrap();
        assert_eq!((job.state, job.asked), (State::Due, 0));
    }

    async fn events_that_come_at_once_from_many_sides_are_kept_once(test: TestDatabase) {
        let kept = kept(test.db());
        let events: Vec<_> = (1..=60).map(push).collect();
        let sides = (0..6).map(|side| {
            let mut mine = events.clone();
            mine.rotate_left(side * 10);
            let kept = &kept;
            async move { kept.accept(&mine).await.new }
        });
        let new = futures_util::future::join_all(sides).await;
        assert_eq!(new.iter().sum::<u64>(), 60);
        assert_eq!(kept.ids().await.len(), 60);
        let stats = kept.queue.stats().await.unwrap();
        assert_eq!((stats[0].kind.as_str(), stats[0].due), ("push-event", 60));
    }

    async fn an_event_and_its_job_are_there_together_or_not_at_all(test: TestDatabase) {
        let kept = kept(test.db());
        let batch = std::sync::Arc::new(Batch::read(&[arrival(&push(1))]));
        let queue = kept.queue.clone();
        let stopped = test.db().write(move |mut db| Box::pin(async move {
            let accepted = accept_in(&mut db, &queue, "test", &batch, LIVE).await?;
            assert_eq!(accepted.new, 1);
            // Here the process is killed, or the server goes away.
            Err::<(), _>(DbError::Aborted)
        }));
        assert!(matches!(stopped.await, Err(DbError::Aborted)));
        assert!(kept.ids().await.is_empty());
        assert!(kept.queue.find("push-event", "1").await.unwrap().is_none());
        assert_eq!(kept.store.counts().await.unwrap(), []);
        assert_eq!(kept.accept(&[push(1)]).await.new, 1);
        assert!(kept.queue.find("push-event", "1").await.unwrap().is_some());
    }

    async fn what_cannot_be_read_is_kept_aside_once_with_its_reason(test: TestDatabase) {
        let kept = kept(test.db());
        let deep = "[".repeat(100_000);
        let long = format!("{{\"id\":\"{}\"}}", "9".repeat(26 << 20));
        let arrivals: Vec<_> = [
            &b"[]"[..],
            b"{\"id\":\"1\",\"type\":\"PushEvent\"}",
            b"{\"id\":1,\"type\":\"PushEvent\"}",
            b"{\"id\":\"\xff\"}",
            b"a\0b",
            deep.as_bytes(),
            long.as_bytes(),
        ]
        .map(|body| Arrival::Event(bytes::Bytes::copy_from_slice(body)))
        .into();
        let expected = Accepted { rejected: 7, ..Accepted::default() };
        assert_eq!(kept.arrive(&arrivals).await, expected);
        assert_eq!(kept.arrive(&arrivals[..1]).await.rejected, 1);
        let bad = Arrival::Delivery { id: "a b".to_owned(), body: "{}".into() };
        assert_eq!(kept.arrive(&[bad]).await.rejected, 1);
        let rejected = kept.store.recent_rejections(100).await.unwrap();
        assert_eq!(rejected.len(), 8);
        let of = |bytes: i64| rejected.iter().find(|one| one.bytes == bytes).unwrap();
        let mut times: Vec<_> = rejected.iter().filter(|one| one.bytes == 2).map(|one| one.times).collect();
        times.sort_unstable();
        assert_eq!(times, [1, 2]);
        assert!(of((26 << 20) + 9).reason.starts_with("it is longer than"));
        assert!(of(100_000).reason.contains("recursion limit"));
        assert!(rejected.iter().all(|one| one.source == "test" && !one.reason.is_empty()));
    }

    async fn events_are_listed_the_latest_first_page_by_page(test: TestDatabase) {
        let kept = kept(test.db());
        for id in 1..=25 {
            let mut event = push(id);
            put(&mut event, "/repo/id", json!(1 + id % 2));
            put(&mut event, "/actor/id", json!(1 + id % 5));
            put(&mut event, "/created_at", json!(format!("2026-01-25T18:44:{id:02}Z")));
            kept.accept(&[event]).await;
        }
        let mut query = EventQuery { limit: 10, ..EventQuery::default() };
        let mut all = Vec::new();
        loop {
            let page = kept.store.events(&query).await.unwrap();
            query.after = page.last().map(StoredEvent::cursor);
            if page.is_empty() {
                break;
            }
            all.extend(page.into_iter().map(|event| event.id));
        }
        assert_eq!(all, (1..=25).rev().map(|id| id.to_string()).collect::<Vec<_>>());
        let of = EventQuery { limit: 99, repository: Some(1), ..EventQuery::default() };
        assert_eq!(kept.store.events(&of).await.unwrap().len(), 12);
        let of = EventQuery { limit: 99, actor: Some(1), ..EventQuery::default() };
        let found = kept.store.events(&of).await.unwrap();
        assert_eq!(found.len(), 5);
        assert_eq!((found[0].git_ref.as_str(), found[0].push_id), ("refs/heads/main", Some(25)));
        assert_eq!(serde_json::from_str::<Value>(&found[0].raw).unwrap()["id"], "25");
    }
}
