//! A small budget goes to what is new.

use grip_queue::NewJob;
use grip_testkit::github::Setup;

use super::*;
use crate::testing::{roles, world_with};

/// Does what is due of every kind but polling, as workers at once would, until nothing is.
async fn work(world: &World) {
    let kinds = roles();
    loop {
        let mut some = 0;
        // Those that should go last get the first chance.
        for (kind, role) in kinds.iter().rev() {
            let leases = world.queue().claim(kind, 3, LEASE).await.unwrap();
            some += leases.len();
            for lease in &leases {
                let outcome = world.context.run(*role, lease).await;
                world.settle(lease, outcome).await;
            }
        }
        if some == 0 {
            return;
        }
    }
}

/// A world without a token, with people that were asked for long ago.
async fn with_old(test: &grip_db::TestDatabase, count: usize) -> World {
    let world = world_with(test.db(), ageless(), Setup::default()).await;
    world.host.set_limits(|limits| limits.anonymous = 5_000);
    for n in 0..count {
        world.host.add_user(&format!("old{n}"));
        let mut event = world.host.push_event(&format!("old{n}"), "acme/one");
        put(&mut event, "/repo/id", json!(7));
        world.accept(&[&event]).await;
    }
    world.work().await;
    assert_eq!(world.calls("/users/old"), count);
    test.db().shift_clock_ms(2 * DAY_MS);
    world
}

/// Goes on with sixty calls an hour, and a gateway that has to learn it.
fn with_sixty(world: &mut World) {
    world.host.set_limits(|limits| limits.anonymous = 60);
    world.host.renew_budgets();
    world.host.forget();
    let github = crate::testing::gateway(&world.host, &[]);
    let context = Arc::get_mut(&mut world.context).expect("nobody else has it");
    context.github = github;
}

fn refreshes(count: usize) -> Vec<NewJob> {
    let job = |n: usize| {
        NewJob::new("github-refresh", format!("user {}", 1_000 + n)).payload(format!("old{n}"))
    };
    (0..count).map(job).collect()
}

on_both_engines! {
    async fn sixty_calls_an_hour_go_to_new_events_before_any_refresh(test: TestDatabase) {
        let mut world = with_old(&test, 20).await;
        with_sixty(&mut world);
        // The old ones have waited longest.
        world.queue().enqueue(refreshes(20)).await.unwrap();
        for n in 0..50 {
            world.host.add_user(&format!("new{n}"));
            let mut event = world.host.push_event(&format!("new{n}"), "acme/two");
            put(&mut event, "/actor/url", json!(format!("https://api.github.com/users/new{n}")));
            world.accept(&[&event]).await;
        }
        work(&world).await;
        assert_eq!(world.calls("/users/new"), 50);
        assert_eq!(world.calls("/repos/acme/two"), 1);
        assert_eq!(world.calls("/users/old"), 0, "nine are left, which is less than a quarter");
        assert_eq!(world.host.counts().over_budget, 0);
        let waiting = world.queue().find("github-refresh", "user 1000").await.unwrap().unwrap();
        assert_eq!((waiting.state, waiting.attempts), (State::Waiting, 0));
    }

    async fn refreshes_leave_a_quarter_to_what_may_come(test: TestDatabase) {
        let mut world = with_old(&test, 60).await;
        // Nothing has changed, but the answers are told anew: each costs a call.
        for n in 0..60 {
            world.host.set_user(json!({ "id": 1_000 + n, "login": format!("old{n}"), "bio": "new" }));
        }
        with_sixty(&mut world);
        world.queue().enqueue(refreshes(60)).await.unwrap();
        work(&world).await;
        assert_eq!(world.calls("/users/old"), 45);
        assert_eq!(world.host.remaining(None), 15);
    }
}
