//! A small budget goes to what is new.

use grip_queue::NewJob;
use grip_testkit::github::Setup;

use super::*;
use crate::testing::{fixture_with, roles};

/// Does what is due of every kind but polling, as workers at once would, until nothing is.
async fn work(fixture: &Fixture) {
    let kinds = roles();
    loop {
        let mut some = 0;
        // Those that should go last get the first chance.
        for (kind, role) in kinds.iter().rev() {
            let leases = fixture.queue().claim(kind, 3, LEASE).await.unwrap();
            some += leases.len();
            for lease in &leases {
                let outcome = fixture.context.run(*role, lease).await;
                fixture.apply_outcome(lease, outcome).await;
            }
        }
        if some == 0 {
            return;
        }
    }
}

/// A world without a token, with people that were asked for long ago.
async fn with_old(test: &grip_db::TestDatabase, count: usize) -> Fixture {
    let fixture = fixture_with(test.db(), ageless(), Setup::default()).await;
    fixture.host.set_limits(|limits| limits.anonymous = 5_000);
    for n in 0..count {
        fixture.host.add_user(&format!("old{n}"));
        let mut event = fixture.host.push_event(&format!("old{n}"), "acme/one");
        put(&mut event, "/repo/id", json!(7));
        fixture.accept(&[&event]).await;
    }
    fixture.work().await;
    assert_eq!(fixture.calls("/users/old"), count);
    test.db().shift_clock_ms(2 * DAY_MS);
    fixture
}

/// Goes on with sixty calls an hour, and a gateway that has to learn it.
fn with_sixty(fixture: &mut Fixture) {
    fixture.host.set_limits(|limits| limits.anonymous = 60);
    fixture.host.renew_budgets();
    fixture.host.forget();
    let github = crate::testing::gateway(&fixture.host, &[]);
    let context = Arc::get_mut(&mut fixture.context).expect("nobody else has it");
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
        let mut fixture = with_old(&test, 20).await;
        with_sixty(&mut fixture);
        // The old ones have waited longest.
        fixture.queue().enqueue(refreshes(20)).await.unwrap();
        for n in 0..50 {
            fixture.host.add_user(&format!("new{n}"));
            let mut event = fixture.host.push_event(&format!("new{n}"), "acme/two");
            put(&mut event, "/actor/url", json!(format!("https://api.github.com/users/new{n}")));
            fixture.accept(&[&event]).await;
        }
        work(&fixture).await;
        assert_eq!(fixture.calls("/users/new"), 50);
        assert_eq!(fixture.calls("/repos/acme/two"), 1);
        assert_eq!(fixture.calls("/users/old"), 0, "nine are left, which is less than a quarter");
        assert_eq!(fixture.host.counts().over_budget, 0);
        let waiting = fixture.queue().find("github-refresh", "user 1000").await.unwrap().unwrap();
        assert_eq!((waiting.state, waiting.attempts), (State::Waiting, 0));
    }

    async fn refreshes_leave_a_quarter_to_what_may_come(test: TestDatabase) {
        let mut fixture = with_old(&test, 60).await;
        // Nothing has changed, but the responses are sent in full again: each costs a call.
        for n in 0..60 {
            fixture.host.set_user(json!({ "id": 1_000 + n, "login": format!("old{n}"), "bio": "new" }));
        }
        with_sixty(&mut fixture);
        fixture.queue().enqueue(refreshes(60)).await.unwrap();
        work(&fixture).await;
        assert_eq!(fixture.calls("/users/old"), 45);
        assert_eq!(fixture.host.remaining(None), 15);
    }
}
