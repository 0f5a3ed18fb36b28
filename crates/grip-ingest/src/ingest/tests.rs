use grip_db::on_both_engines;
use grip_testkit::until;
use serde_json::json;

use super::*;
use crate::testing::{self, Fixture, ageless, arrival};

async fn started(db: &Db) -> (Fixture, Ingest, TaskGroup) {
    let fixture = testing::fixture(db, ageless()).await;
    let context = Arc::clone(&fixture.context);
    let group = context.group.clone();
    let ingest = Ingest::start_with(context).await.unwrap();
    (fixture, ingest, group)
}

on_both_engines! {
    async fn what_happens_is_polled_kept_and_enriched_with_no_other_hand(test: TestDatabase) {
        let fixture = testing::fixture(test.db(), ageless()).await;
        let group = TaskGroup::new("test");
        fixture.host.add_user("jo");
        let event = fixture.host.push("jo", "acme/one");
        let options = Options { sources: vec!["repos/acme/one".parse().unwrap()], ..ageless() };
        let parts = Parts {
            db: test.db().clone(),
            queue: fixture.context.queue.clone(),
            github: fixture.context.github.clone(),
            pushes: fixture.pushes.clone(),
            options,
            group: group.clone(),
        };
        let ingest = Ingest::start(parts).await.unwrap();
        let key = Key::Name("JO".to_owned());
        let jo = until("the person is known", async || ingest.user(&key).await.unwrap()).await.unwrap();
        assert_eq!(jo.fields["login"], "jo");
        let key = Key::Name("acme/one".to_owned());
        until("the repository is known", async || ingest.repository(&key).await.unwrap()).await.unwrap();
        let query = EventQuery { limit: 10, ..EventQuery::default() };
        let events = ingest.events(&query).await.unwrap();
        assert_eq!((events.len(), events[0].id.as_str()), (1, event["id"].as_str().unwrap()));
        assert_eq!(events[0].source, "repos/acme/one");
        assert_eq!(fixture.pushes.0.lock().len(), 1);

        let stats = ingest.stats().await.unwrap();
        assert_eq!((stats.pushes_total, stats.pushes_last_hour, stats.users, stats.repositories), (1, 1, 1, 1));
        let status = ingest.status().await.unwrap();
        let source = &status.sources[0];
        assert_eq!((source.source.as_str(), source.polls, source.is_configured), ("repos/acme/one", 1, true));
        assert_eq!(source.counts["PushEvent"], 1);
        assert!(source.due_at.is_some() && source.last_error.is_none());
        assert_eq!(status.budgets[0].limit, Some(5_000));
        assert!(status.budgets[0].per_hour.is_some() && status.budgets[0].reset_at.is_some());
        assert!(ingest.gaps(true, 0, 10).await.unwrap().is_empty());
        assert!(serde_json::to_string(&status).unwrap().contains("repos/acme/one"));
        ingest.shutdown().await;
        let ended = group.shutdown(Duration::from_secs(10)).await;
        assert!(matches!(ended, grip_tasks::Ended::Drained), "{ended:?}");
    }

    async fn all_ways_in_are_one(test: TestDatabase) {
        let (fixture, ingest, group) = started(test.db()).await;
        fixture.host.add_user("jo");
        let event = fixture.host.push_event("jo", "acme/one");
        let accepted = ingest.accept("backfill", vec![arrival(&event)]).await.unwrap();
        assert_eq!(accepted.new, 1);
        let body = json!({
            "ref": "refs/heads/main", "before": "0".repeat(40), "after": "1".repeat(40),
            "repository": { "id": 7, "full_name": "acme/one" },
            "sender": { "id": 1_000, "login": "jo", "url": "https://api.github.com/users/jo" },
        });
        let delivery = || Arrival::Delivery { id: "72d3162e".to_owned(), body: body.to_string().into() };
        for new in [1, 0, 0] {
            let accepted = ingest.accept("webhook", vec![delivery()]).await.unwrap();
            assert_eq!((accepted.new, accepted.known), (new, 1 - new));
        }
        let long: Vec<_> = (0..400).map(|n| {
            let mut event = event.clone();
            event["id"] = json!((1_000 + n).to_string());
            event["payload"]["padding"] = json!("x".repeat(2_000));
            arrival(&event)
        }).collect();
        assert_eq!(ingest.accept("backfill", long).await.unwrap().new, 400);
        let notified = || std::future::ready((fixture.pushes.0.lock().len() >= 402).then_some(()));
        until("listeners are notified of all", notified).await.unwrap();
        let known = async || ingest.user(&Key::Id(1_000)).await.unwrap();
        until("the person is known", known).await.unwrap();
        assert_eq!(fixture.calls("/users/jo"), 1);
        let status = ingest.status().await.unwrap();
        let counts = |source: &str| status.sources.iter().find(|found| found.source == source).map(|found| found.counts["PushEvent"]);
        assert_eq!((counts("backfill"), counts("webhook")), (Some(401), Some(1)));
        ingest.shutdown().await;
        let ended = group.shutdown(Duration::from_secs(10)).await;
        assert!(matches!(ended, grip_tasks::Ended::Drained), "{ended:?}");
    }

    async fn everything_is_read_again_by_itself_when_asked_for(test: TestDatabase) {
        let (fixture, ingest, group) = started(test.db()).await;
        let event = fixture.host.push_event("jo", "acme/one");
        ingest.accept("backfill", vec![arrival(&event)]).await.unwrap();
        // Where the database is a server, jsonb of what is kept is looked through as well.
        let all = match test.db().engine() {
            grip_db::Engine::Sqlite => 4,
            grip_db::Engine::Postgres => 7,
        };
        for _ in 0..2 {
            ingest.reextract().await.unwrap();
            let done = async || {
                let status = ingest.status().await.unwrap();
                let done = status.progress.iter().filter(|work| work.finished_at.is_some());
                (done.count() == all).then_some(status.progress)
            };
            let progress = until("all is read again", done).await.unwrap();
            assert_eq!((progress[0].work.as_str(), progress[0].done, progress[0].failed), ("events", 1, 0));
        }
        ingest.shutdown().await;
        let ended = group.shutdown(Duration::from_secs(10)).await;
        assert!(matches!(ended, grip_tasks::Ended::Drained), "{ended:?}");
    }
}
