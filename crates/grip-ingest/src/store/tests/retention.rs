use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{
    Keep, Options,
    retention::Retained,
    store::sources::{Hole, Polled},
    testing::{self, Fixture},
};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn fixture(db: &Db, keep: Keep) -> Fixture {
    let options = Options {
        keep,
        ..testing::ageless()
    };
    testing::fixture(db, options).await
}

fn named(mut event: Value, actor: i64, repository: i64) -> Value {
    put(&mut event, "/actor/id", json!(actor));
    put(&mut event, "/repo/id", json!(repository));
    event
}

/// A hole is found.
async fn add_gap(kept: &Kept) {
    let job = NewJob::new("ingest-poll", "events");
    let adding = kept.store.add_source(&kept.queue, "events", job.clone());
    adding.await.unwrap();
    let leases = kept.queue.claim("ingest-poll", 1, LEASE).await.unwrap();
    let (queue, lease) = (kept.queue.clone(), leases[0].clone());
    let side = |id: &str, at| Some((id.to_owned(), Some(at)));
    let polled = Polled::Changed {
        etag: None,
        poll_interval_ms: None,
        recent: Vec::new(),
        newest: None,
        gap: Some(Hole {
            after: side("1", 1_000),
            before: side("9", 9_000),
        }),
    };
    let noting = kept.store.db().write(move |mut db| {
        Box::pin(async move { end_poll_in(&mut db, &queue, &lease, polled, job).await })
    });
    noting.await.unwrap();
}

on_both_engines! {
    async fn a_dry_run_counts_what_would_go_and_the_real_one_lets_go_of_just_that(test: TestDatabase) {
        let keep = Keep {
            events: Some(DAY * 10),
            enriched: Some(DAY * 5),
            rejected: Some(DAY * 3),
            closed_gaps: Some(DAY * 3),
            open_gaps: Some(DAY * 10),
        };
        let fixture = fixture(test.db(), keep).await;
        let kept = kept(test.db());
        for (record_kind, fields, id) in [(RecordKind::User, USER, 1), (RecordKind::User, USER, 2), (RecordKind::Repository, REPOSITORY, 1), (RecordKind::Repository, REPOSITORY, 2)] {
            let mut words = words(fields).0;
            put(&mut words, "/id", json!(id));
            kept.save(record_kind, &words).await;
        }
        kept.accept(&[named(push(1), 1, 1), named(push(2), 1, 1), json!("nonsense")]).await;
        add_gap(&kept).await;
        assert_eq!(kept.store.close_gaps(1_001, 9_000, "file").await.unwrap(), 0);
        assert_eq!(kept.store.close_gaps(1_000, 8_999, "file").await.unwrap(), 0);
        assert_eq!(kept.store.close_gaps(1_000, 9_000, "file").await.unwrap(), 1);
        add_gap(&kept).await;
        test.db().shift_clock_ms(DAY_MS * 6);
        kept.accept(&[named(push(3), 1, 2), json!("more nonsense")]).await;

        // After six days: nobody is named by no event but the second person.
        let six = Retained { users: 1, rejected: 1, closed_gaps: 1, ..Retained::default() };
        assert_eq!(fixture.context.retention(true).await.unwrap(), six);
        assert_eq!(fixture.context.retention(true).await.unwrap(), six);
        assert_eq!(fixture.context.retention(false).await.unwrap(), six);
        assert_eq!(fixture.context.retention(false).await.unwrap(), Retained::default());
        assert_eq!(kept.ids().await, ["3", "2", "1"]);
        assert_eq!(kept.store.gaps(false, 0, 10).await.unwrap().len(), 1);

        // After eleven: two events, and the repository that only they name.
        test.db().shift_clock_ms(DAY_MS * 5);
        let eleven = Retained { events: 2, repositories: 1, rejected: 1, open_gaps: 1, ..Retained::default() };
        assert_eq!(fixture.context.retention(true).await.unwrap(), eleven);
        assert_eq!(fixture.context.retention(false).await.unwrap(), eleven);
        assert_eq!(kept.ids().await, ["3"]);
        assert!(kept.store.known(RecordKind::User, 1).await.unwrap().is_some());
        assert!(kept.store.known(RecordKind::Repository, 1).await.unwrap().is_none());
        assert!(kept.store.known(RecordKind::Repository, 2).await.unwrap().is_some());
    }

    async fn nothing_goes_that_is_to_be_kept_for_ever(test: TestDatabase) {
        let keep = Keep { rejected: None, closed_gaps: None, open_gaps: None, ..Keep::default() };
        let fixture = fixture(test.db(), keep).await;
        let kept = kept(test.db());
        kept.accept(&[push(1), json!("nonsense")]).await;
        test.db().shift_clock_ms(DAY_MS * 10_000);
        assert_eq!(fixture.context.retention(false).await.unwrap(), Retained::default());
        assert_eq!(kept.ids().await, ["1"]);
    }

    async fn many_go_in_parts(test: TestDatabase) {
        let keep = Keep { events: Some(DAY), ..Keep::default() };
        let fixture = fixture(test.db(), keep).await;
        let kept = Arc::new(kept(test.db()));
        let events: Vec<_> = (1..=4_100).map(push).collect();
        assert_eq!(kept.accept(&events).await.new, 4_100);
        test.db().shift_clock_ms(DAY_MS + 1_000);
        assert_eq!(fixture.context.retention(false).await.unwrap().events, 4_100);
        assert!(kept.ids().await.is_empty());
    }
}
