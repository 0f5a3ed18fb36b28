mod budget;
mod retries;

use grip_db::on_both_engines;
use grip_queue::{Finished, State};
use grip_testkit::github::Behaviour;
use serde_json::{Value, json};

use super::*;
use crate::{
    store::Key,
    testing::{Fixture, LEASE, ageless, fixture, put},
};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A world with two people and a push of one of them.
async fn pushed(db: &grip_db::Db) -> (Fixture, Value) {
    let fixture = fixture(db, ageless()).await;
    fixture.host.add_user("jo");
    fixture.host.add_user("al");
    let event = fixture.host.push_event("jo", "acme/one");
    (fixture, event)
}

async fn is_known(fixture: &Fixture, record_kind: RecordKind, name: &str) -> bool {
    let key = Key::Name(name.to_owned());
    fixture
        .context
        .store
        .stored(record_kind, &key)
        .await
        .unwrap()
        .is_some()
}

on_both_engines! {
    async fn the_same_event_ten_times_is_one_row_and_one_call_each(test: TestDatabase) {
        let (fixture, event) = pushed(test.db()).await;
        for _ in 0..10 {
            fixture.accept(&[&event]).await;
            fixture.work().await;
        }
        assert_eq!(fixture.calls("/users/jo"), 1);
        assert_eq!(fixture.calls("/repos/acme/one"), 1);
        assert_eq!(fixture.host.count(), 2);
        assert!(is_known(&fixture, RecordKind::User, "jo").await);
        assert!(is_known(&fixture, RecordKind::Repository, "acme/one").await);
        assert_eq!(fixture.pushes.0.lock().as_slice(), [event["id"].as_str().unwrap()]);
        assert_eq!(fixture.context.store.totals(0).await.unwrap().pushes_since, 1);
        assert!(fixture.queue().stats().await.unwrap().iter().all(|kind| kind.due + kind.waiting + kind.dead == 0));
    }

    async fn only_people_are_asked_for_and_every_repository(test: TestDatabase) {
        let fixture = fixture(test.db(), ageless()).await;
        fixture.host.add_user("octocat");
        for (at, (url, asked)) in [
            (Some("https://api.github.com/users/octocat"), true),
            (Some("https://api.github.com/users/github-actions[bot]"), false),
            (Some("https://api.github.com/orgs/github"), false),
            (None, false),
        ].into_iter().enumerate() {
            let repo = format!("acme/r{at}");
            let mut event = fixture.host.push_event("octocat", &repo);
            put(&mut event, "/actor/id", json!(1_000 + at));
            put(&mut event, "/actor/url", json!(url));
            fixture.host.forget();
            fixture.accept(&[&event]).await;
            fixture.work().await;
            assert_eq!(fixture.calls("/users/"), usize::from(asked), "{url:?}");
            assert_eq!(fixture.calls(&format!("/repos/{repo}")), 1, "{url:?}");
        }
    }

    async fn what_is_fresh_is_not_asked_for_and_what_is_old_only_for_changes(test: TestDatabase) {
        let (fixture, first) = pushed(test.db()).await;
        let pushes: Vec<_> = (0..3).map(|_| fixture.host.push_event("jo", "acme/one")).collect();
        fixture.accept(&[&first]).await;
        fixture.work().await;
        test.db().shift_clock_ms(DAY_MS - 60_000);
        fixture.accept(&[&pushes[0]]).await;
        fixture.work().await;
        assert_eq!(fixture.host.count(), 2, "still fresh");

        test.db().shift_clock_ms(DAY_MS);
        fixture.host.forget();
        fixture.accept(&[&pushes[1]]).await;
        fixture.work().await;
        let seen = fixture.host.requests();
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|seen| seen.conditional && seen.status == 304), "{seen:?}");
        let jo = fixture.context.store.known(RecordKind::User, 1_000).await.unwrap().unwrap();
        assert!(fixture.context.is_fresh(jo.fetched_at), "the answer counts although nothing changed");

        test.db().shift_clock_ms(DAY_MS + 1_000);
        fixture.host.set_user(json!({ "id": 1_000, "login": "jo", "bio": "new" }));
        fixture.host.forget();
        fixture.accept(&[&pushes[2]]).await;
        fixture.work().await;
        assert_eq!(fixture.host.count(), 2);
        let jo = fixture.context.store.stored(RecordKind::User, &Key::Id(1_000)).await.unwrap().unwrap();
        assert_eq!(jo.fields["bio"], "new");
    }

    async fn a_job_that_finds_it_fresh_makes_no_call(test: TestDatabase) {
        let (fixture, event) = pushed(test.db()).await;
        fixture.accept(&[&event]).await;
        fixture.work().await;
        let job = grip_queue::NewJob::new("github-user", "1000").payload("jo");
        fixture.queue().enqueue(vec![job]).await.unwrap();
        fixture.host.forget();
        assert_eq!(fixture.work().await, 1);
        assert_eq!(fixture.host.count(), 0);
    }

    async fn what_follows_from_a_push_and_the_end_of_its_job_are_one(test: TestDatabase) {
        let (fixture, event) = pushed(test.db()).await;
        fixture.accept(&[&event]).await;
        let queue = fixture.queue();
        let old = queue.claim("push-event", 1, LEASE).await.unwrap().remove(0);
        // The one who has it is slow, and somebody else takes over.
        test.db().shift_clock_ms(61_000);
        let new = queue.claim("push-event", 1, LEASE).await.unwrap().remove(0);
        assert_eq!(fixture.context.run(Role::Push, &old).await, Outcome::Finished);
        assert!(queue.find("github-user", "1000").await.unwrap().is_none(), "rolled back");
        assert_eq!(fixture.context.run(Role::Push, &new).await, Outcome::Finished);
        assert!(queue.find("github-user", "1000").await.unwrap().is_some());
        assert!(queue.find("push-event", &new.key).await.unwrap().is_none());
        assert_eq!(queue.finish(&new).await.unwrap(), Finished::Lost);
        fixture.work().await;
        assert_eq!(fixture.host.count(), 2);
    }

    async fn who_dies_while_asking_leaves_the_job_to_the_next(test: TestDatabase) {
        let (fixture, event) = pushed(test.db()).await;
        fixture.accept(&[&event]).await;
        fixture.work_on("push-event", Role::Push).await;
        let queue = fixture.queue();
        let lease = queue.claim("github-user", 1, LEASE).await.unwrap().remove(0);
        drop(lease);
        test.db().shift_clock_ms(61_000);
        fixture.work().await;
        assert!(is_known(&fixture, RecordKind::User, "jo").await);
        assert_eq!(fixture.calls("/users/jo"), 1);
    }

    async fn pushes_of_long_ago_wake_nobody_and_ask_last(test: TestDatabase) {
        let options = Options { live_for: Duration::from_secs(3_600), ..ageless() };
        let fixture = fixture(test.db(), options).await;
        fixture.host.add_user("jo");
        let event = fixture.host.push_event("jo", "acme/one");
        fixture.accept(&[&event]).await;
        let id = event["id"].as_str().unwrap();
        assert!(fixture.queue().find("push-event-old", id).await.unwrap().is_some());
        fixture.work_on("push-event-old", Role::Push).await;
        assert!(fixture.pushes.0.lock().is_empty());
        for key in ["user 1000", "repo 7"] {
            let job = fixture.queue().find("github-refresh", key).await.unwrap();
            assert_eq!(job.map(|job| job.state), Some(State::Due), "{key}");
        }
        fixture.work().await;
        assert!(is_known(&fixture, RecordKind::User, "jo").await);
    }

    async fn a_name_that_belongs_to_another_by_now_is_not_taken_for_it(test: TestDatabase) {
        let (fixture, mut event) = pushed(test.db()).await;
        put(&mut event, "/actor/id", json!(77));
        fixture.accept(&[&event]).await;
        fixture.work().await;
        assert!(!is_known(&fixture, RecordKind::User, "jo").await);
        let job = fixture.queue().find("github-user", "77").await.unwrap().unwrap();
        assert_eq!(job.state, State::Dead);
        let why = job.last_error.unwrap();
        assert!(why.contains("another one by now: 1000 and not 77"), "{why}");
    }

    async fn a_repository_without_a_usable_name_is_asked_for_by_its_id(test: TestDatabase) {
        let (fixture, mut event) = pushed(test.db()).await;
        put(&mut event, "/repo/name", json!("no name/at all"));
        fixture.accept(&[&event]).await;
        fixture.work().await;
        assert_eq!(fixture.calls("/repositories/7"), 1);
        assert!(is_known(&fixture, RecordKind::Repository, "acme/one").await);
    }

    async fn what_failed_for_good_is_not_tried_for_each_push_but_some_day(test: TestDatabase) {
        let (fixture, event) = pushed(test.db()).await;
        fixture.host.behave("/users/jo", Behaviour::status(404, "Not Found"));
        let pushes: Vec<_> = (0..4).map(|_| fixture.host.push_event("jo", "acme/one")).collect();
        for push in [&event, &pushes[0], &pushes[1]] {
            fixture.accept(&[push]).await;
            fixture.work().await;
        }
        assert_eq!(fixture.calls("/users/jo"), 1);
        test.db().shift_clock_ms(2 * DAY_MS);
        fixture.host.behave("/users/jo", Behaviour::Serve);
        fixture.accept(&[&pushes[2]]).await;
        fixture.work().await;
        assert_eq!(fixture.calls("/users/jo"), 2);
        assert!(is_known(&fixture, RecordKind::User, "jo").await);
    }
}
