mod budget;
mod retries;

use grip_db::on_both_engines;
use grip_queue::{Finished, State};
use grip_testkit::github::Behaviour;
use serde_json::{Value, json};

use super::*;
use crate::{
    store::Key,
    testing::{LEASE, World, ageless, put, world},
};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A world with two people and a push of one of them.
async fn pushed(db: &grip_db::Db) -> (World, Value) {
    let world = world(db, ageless()).await;
    world.host.add_user("jo");
    world.host.add_user("al");
    let event = world.host.push_event("jo", "acme/one");
    (world, event)
}

async fn is_known(world: &World, what: What, name: &str) -> bool {
    let key = Key::Name(name.to_owned());
    world
        .context
        .store
        .stored(what, &key)
        .await
        .unwrap()
        .is_some()
}

on_both_engines! {
    async fn the_same_event_ten_times_is_one_row_and_one_call_each(test: TestDatabase) {
        let (world, event) = pushed(test.db()).await;
        for _ in 0..10 {
            world.accept(&[&event]).await;
            world.work().await;
        }
        assert_eq!(world.calls("/users/jo"), 1);
        assert_eq!(world.calls("/repos/acme/one"), 1);
        assert_eq!(world.host.count(), 2);
        assert!(is_known(&world, What::User, "jo").await);
        assert!(is_known(&world, What::Repository, "acme/one").await);
        assert_eq!(world.told.0.lock().as_slice(), [event["id"].as_str().unwrap()]);
        assert_eq!(world.context.store.totals(0).await.unwrap().pushes_since, 1);
        assert!(world.queue().stats().await.unwrap().iter().all(|kind| kind.due + kind.waiting + kind.dead == 0));
    }

    async fn only_people_are_asked_for_and_every_repository(test: TestDatabase) {
        let world = world(test.db(), ageless()).await;
        world.host.add_user("octocat");
        for (at, (url, asked)) in [
            (Some("https://api.github.com/users/octocat"), true),
            (Some("https://api.github.com/users/github-actions[bot]"), false),
            (Some("https://api.github.com/orgs/github"), false),
            (None, false),
        ].into_iter().enumerate() {
            let repo = format!("acme/r{at}");
            let mut event = world.host.push_event("octocat", &repo);
            put(&mut event, "/actor/id", json!(1_000 + at));
            put(&mut event, "/actor/url", json!(url));
            world.host.forget();
            world.accept(&[&event]).await;
            world.work().await;
            assert_eq!(world.calls("/users/"), usize::from(asked), "{url:?}");
            assert_eq!(world.calls(&format!("/repos/{repo}")), 1, "{url:?}");
        }
    }

    async fn what_is_fresh_is_not_asked_for_and_what_is_old_only_for_changes(test: TestDatabase) {
        let (world, first) = pushed(test.db()).await;
        let pushes: Vec<_> = (0..3).map(|_| world.host.push_event("jo", "acme/one")).collect();
        world.accept(&[&first]).await;
        world.work().await;
        test.db().shift_clock_ms(DAY_MS - 60_000);
        world.accept(&[&pushes[0]]).await;
        world.work().await;
        assert_eq!(world.host.count(), 2, "still fresh");

        test.db().shift_clock_ms(DAY_MS);
        world.host.forget();
        world.accept(&[&pushes[1]]).await;
        world.work().await;
        let seen = world.host.requests();
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|seen| seen.conditional && seen.status == 304), "{seen:?}");
        let jo = world.context.store.known(What::User, 1_000).await.unwrap().unwrap();
        assert!(world.context.is_fresh(jo.fetched_at), "the answer counts although nothing changed");

        test.db().shift_clock_ms(DAY_MS + 1_000);
        world.host.set_user(json!({ "id": 1_000, "login": "jo", "bio": "new" }));
        world.host.forget();
        world.accept(&[&pushes[2]]).await;
        world.work().await;
        assert_eq!(world.host.count(), 2);
        let jo = world.context.store.stored(What::User, &Key::Id(1_000)).await.unwrap().unwrap();
        assert_eq!(jo.fields["bio"], "new");
    }

    async fn a_job_that_finds_it_fresh_makes_no_call(test: TestDatabase) {
        let (world, event) = pushed(test.db()).await;
        world.accept(&[&event]).await;
        world.work().await;
        let job = grip_queue::NewJob::new("github-user", "1000").payload("jo");
        world.queue().enqueue(vec![job]).await.unwrap();
        world.host.forget();
        assert_eq!(world.work().await, 1);
        assert_eq!(world.host.count(), 0);
    }

    async fn what_follows_from_a_push_and_the_end_of_its_job_are_one(test: TestDatabase) {
        let (world, event) = pushed(test.db()).await;
        world.accept(&[&event]).await;
        let queue = world.queue();
        let old = queue.claim("push-event", 1, LEASE).await.unwrap().remove(0);
        // The one who has it is slow, and somebody else takes over.
        test.db().shift_clock_ms(61_000);
        let new = queue.claim("push-event", 1, LEASE).await.unwrap().remove(0);
        assert_eq!(world.context.run(Role::Push, &old).await, Outcome::Finished);
        assert!(queue.find("github-user", "1000").await.unwrap().is_none(), "rolled back");
        assert_eq!(world.context.run(Role::Push, &new).await, Outcome::Finished);
        assert!(queue.find("github-user", "1000").await.unwrap().is_some());
        assert!(queue.find("push-event", &new.key).await.unwrap().is_none());
        assert_eq!(queue.finish(&new).await.unwrap(), Finished::Lost);
        world.work().await;
        assert_eq!(world.host.count(), 2);
    }

    async fn who_dies_while_asking_leaves_the_job_to_the_next(test: TestDatabase) {
        let (world, event) = pushed(test.db()).await;
        world.accept(&[&event]).await;
        world.work_on("push-event", Role::Push).await;
        let queue = world.queue();
        let lease = queue.claim("github-user", 1, LEASE).await.unwrap().remove(0);
        drop(lease);
        test.db().shift_clock_ms(61_000);
        world.work().await;
        assert!(is_known(&world, What::User, "jo").await);
        assert_eq!(world.calls("/users/jo"), 1);
    }

    async fn pushes_of_long_ago_wake_nobody_and_ask_last(test: TestDatabase) {
        let options = Options { live_for: Duration::from_secs(3_600), ..ageless() };
        let world = world(test.db(), options).await;
        world.host.add_user("jo");
        let event = world.host.push_event("jo", "acme/one");
        world.accept(&[&event]).await;
        let id = event["id"].as_str().unwrap();
        assert!(world.queue().find("push-event-old", id).await.unwrap().is_some());
        world.work_on("push-event-old", Role::Push).await;
        assert!(world.told.0.lock().is_empty());
        for key in ["user 1000", "repo 7"] {
            let job = world.queue().find("github-refresh", key).await.unwrap();
            assert_eq!(job.map(|job| job.state), Some(State::Due), "{key}");
        }
        world.work().await;
        assert!(is_known(&world, What::User, "jo").await);
    }

    async fn a_name_that_belongs_to_another_by_now_is_not_taken_for_it(test: TestDatabase) {
        let (world, mut event) = pushed(test.db()).await;
        put(&mut event, "/actor/id", json!(77));
        world.accept(&[&event]).await;
        world.work().await;
        assert!(!is_known(&world, What::User, "jo").await);
        let job = world.queue().find("github-user", "77").await.unwrap().unwrap();
        assert_eq!(job.state, State::Dead);
        let why = job.last_error.unwrap();
        assert!(why.contains("another one by now: 1000 and not 77"), "{why}");
    }

    async fn a_repository_without_a_usable_name_is_asked_for_by_its_id(test: TestDatabase) {
        let (world, mut event) = pushed(test.db()).await;
        put(&mut event, "/repo/name", json!("no name/at all"));
        world.accept(&[&event]).await;
        world.work().await;
        assert_eq!(world.calls("/repositories/7"), 1);
        assert!(is_known(&world, What::Repository, "acme/one").await);
    }

    async fn what_failed_for_good_is_not_tried_for_each_push_but_some_day(test: TestDatabase) {
        let (world, event) = pushed(test.db()).await;
        world.host.behave("/users/jo", Behaviour::status(404, "Not Found"));
        let pushes: Vec<_> = (0..4).map(|_| world.host.push_event("jo", "acme/one")).collect();
        for push in [&event, &pushes[0], &pushes[1]] {
            world.accept(&[push]).await;
            world.work().await;
        }
        assert_eq!(world.calls("/users/jo"), 1);
        test.db().shift_clock_ms(2 * DAY_MS);
        world.host.behave("/users/jo", Behaviour::Serve);
        world.accept(&[&pushes[2]]).await;
        world.work().await;
        assert_eq!(world.calls("/users/jo"), 2);
        assert!(is_known(&world, What::User, "jo").await);
    }
}
