//! Every row of the table of retries, with real answers and the real queue.

use grip_db::Db;
use grip_queue::{JobFacts, NewJob};

use super::*;
use crate::testing::gateway;

/// Tries a job until it is given up, or twenty times, each time with a gateway that remembers nothing, as after a
/// restart; returns how many calls were made and what became of the job.
async fn tried(db: &Db, behaviour: Behaviour) -> (usize, JobFacts) {
    let mut fixture = fixture(db, ageless()).await;
    fixture.host.behave("/users/jo", behaviour);
    let job = NewJob::new("github-user", "1000").payload("jo");
    fixture.queue().enqueue(vec![job]).await.unwrap();
    for _ in 0..20 {
        let github = gateway(&fixture.host, &["t".to_owned()]);
        let context = Arc::get_mut(&mut fixture.context).expect("nobody else has it");
        context.github = github;
        let role = Role::New(RecordKind::User);
        while fixture.work_on("github-user", role).await == 0 {
            let due = fixture
                .queue()
                .next_due("github-user")
                .await
                .unwrap()
                .unwrap();
            if due == i64::MAX {
                let job = fixture.queue().find("github-user", "1000").await.unwrap();
                return (fixture.calls("/users/jo"), job.unwrap());
            }
            let now = db.now_ms();
            db.shift_clock_ms((due - now).max(1));
        }
    }
    let job = fixture.queue().find("github-user", "1000").await.unwrap();
    (fixture.calls("/users/jo"), job.unwrap())
}

fn bare(code: u16, headers: &[(&str, &str)], body: &str) -> Behaviour {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Behaviour::Bare {
        code,
        headers: headers.iter().map(own).collect(),
        body: body.to_owned(),
    }
}

on_both_engines! {
    async fn a_server_that_fails_is_asked_five_times(test: TestDatabase) {
        for code in [500, 502, 503] {
            let (calls, job) = tried(test.db(), bare(code, &[], "")).await;
            assert_eq!((calls, job.attempts, job.state), (5, 5, State::Dead), "{code}");
            let why = job.last_error.unwrap();
            assert!(why.contains(&code.to_string()), "{why}");
            world_is_clean(test.db()).await;
        }
    }

    async fn a_rate_limit_is_met_at_its_end_however_often_it_binds(test: TestDatabase) {
        for behaviour in [
            bare(429, &[], ""),
            bare(403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-limit", "60"), ("x-ratelimit-reset", "4000000000")], ""),
            bare(403, &[("retry-after", "30")], ""),
            bare(403, &[], "{\"message\":\"API rate limit exceeded\"}"),
        ] {
            let (calls, job) = tried(test.db(), behaviour.clone()).await;
            assert_eq!(job.state, State::Waiting, "{behaviour:?}");
            assert!(calls > 3 && job.limited > 3, "{calls} {}", job.limited);
            assert!(job.last_error.unwrap().contains("rate limit"));
            world_is_clean(test.db()).await;
        }
    }

    async fn a_refusal_is_final_and_keeps_its_reason(test: TestDatabase) {
        for (behaviour, reason) in [
            (bare(403, &[], "{\"message\":\"Forbidden\"}"), "denies access"),
            (Behaviour::status(404, "Not Found"), "not there"),
            (bare(410, &[], ""), "gone for good"),
            (bare(422, &[], ""), "status 422"),
            (bare(451, &[], ""), "status 451"),
        ] {
            let (calls, job) = tried(test.db(), behaviour).await;
            assert_eq!((calls, job.state), (1, State::Dead), "{reason}");
            let why = job.last_error.unwrap();
            assert!(why.contains(reason), "{why}");
            world_is_clean(test.db()).await;
        }
    }
}

/// Makes room for the next job of the same name.
async fn world_is_clean(db: &Db) {
    let queue = Queue::new(db.clone());
    assert!(queue.remove("github-user", "1000").await.unwrap());
}

#[tokio::test]
async fn a_limit_that_is_known_beforehand_costs_neither_a_call_nor_a_try() {
    let test = grip_db::TestDatabase::sqlite().await;
    let fixture = fixture(test.db(), ageless()).await;
    fixture.host.add_user("jo");
    fixture.host.use_up(Some(0), 4_999);
    let jobs = [("1000", "jo"), ("1001", "al"), ("1002", "bo")];
    let jobs = jobs.map(|(id, name)| NewJob::new("github-user", id).payload(name));
    fixture.queue().enqueue(jobs.into()).await.unwrap();
    for _ in 0..3 {
        fixture
            .work_on("github-user", Role::New(RecordKind::User))
            .await;
    }
    assert_eq!(fixture.host.count(), 1, "the first call shows it");
    for id in ["1001", "1002"] {
        let job = fixture
            .queue()
            .find("github-user", id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (job.attempts, job.limited, job.state),
            (0, 0, State::Waiting)
        );
        let wait = job.due_ms.unwrap() - test.db().now_ms();
        assert!((3_500_000..=3_610_000).contains(&wait), "{wait}");
    }
}
