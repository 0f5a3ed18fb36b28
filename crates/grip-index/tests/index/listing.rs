//! The list of a source's repositories.

use std::time::Duration;

use grip_db::TestDatabase;
use grip_index::{Options, SourceError};
use grip_queue::State;
use grip_testkit::until;

use crate::support::{FakeSource, Running, reopened};

fn many(count: usize, page: usize) -> std::sync::Arc<FakeSource> {
    let source = FakeSource::new("acme");
    source.set_page(page);
    for n in 0..count {
        source.add(&format!("r{n:02}"));
    }
    source
}

fn lists(source: &FakeSource) -> Vec<String> {
    let mut calls = source.calls();
    calls.retain(|call| call.starts_with("list"));
    calls
}

grip_db::on_both_engines! {
    async fn a_listing_goes_on_where_a_restart_interrupted_it(test: TestDatabase) {
        let source = many(10, 3);
        let wait = SourceError::Wait {
            until_ms: 0,
            reason: "the budget is spent".into(),
            counts: false,
        };
        let far = SourceError::Wait {
            until_ms: i64::MAX,
            reason: "the budget is spent".into(),
            counts: false,
        };
        source.fail("list fake.example/acme/r05", [far, wait]);
        let running = Running::start(test.db(), &[&source]).await;
        until("the listing is interrupted", || async {
            let job = running.queue.find("index-list", "fake.example/orgs/acme").await;
            job.unwrap().filter(|job| job.last_error.is_some())
        })
        .await
        .unwrap();
        let expected = ["list ", "list fake.example/acme/r02", "list fake.example/acme/r05"];
        assert_eq!(lists(&source), expected);
        let status = running.index.status().await.unwrap();
        assert_eq!(status.sources[0].found_so_far, Some(6));
        assert_eq!(status.sources[0].finished_ms, None);

        let test = reopened(test, running).await;
        let running = Running::start(test.db(), &[&source]).await;
        running.list(&source).await;
        let expected = ["list fake.example/acme/r05"; 2].map(String::from);
        let mut seen = lists(&source);
        let last = seen.pop();
        assert_eq!(seen, expected);
        assert_eq!(last.as_deref(), Some("list fake.example/acme/r08"));
        let status = running.index.status().await.unwrap();
        assert_eq!((status.repos, status.repos_indexed), (10, 10));
        assert_eq!((status.sources[0].listings, status.sources[0].repos), (1, 10));
    }

    async fn a_listing_leaves_the_times_of_known_repositories_alone(test: TestDatabase) {
        let source = many(3, 100);
        let running = Running::settled(test.db(), &[&source]).await;
        let due = running.job(&source.full("r01")).await.due_ms;
        source.calls();
        source.add("new");
        running.list(&source).await;
        assert_eq!(source.calls(), ["list ", "tags fake.example/acme/new"]);
        assert_eq!(running.job(&source.full("r01")).await.due_ms, due);
    }

    async fn what_a_complete_listing_lacks_is_looked_for_and_removed(test: TestDatabase) {
        let source = many(3, 100);
        source.tag("r01", "v1.0.0", 1);
        source.tag("r02", "v1.0.0", 1);
        let running = Running::settled(test.db(), &[&source]).await;
        source.calls();
        // One is gone; one is missing from the list by mistake.
        source.remove("r01");
        source.unlist("r02");
        let before = running.index.stamp().await.unwrap();
        running.list(&source).await;
        let calls = source.calls();
        assert!(calls.contains(&"is there fake.example/acme/r01".to_owned()));
        assert!(calls.contains(&"is there fake.example/acme/r02".to_owned()));
        assert_eq!(running.change_lines(before).await, ["removed fake.example/acme/r01@v1.0.0 1"]);
        assert_eq!(running.feed().await, ["fake.example/acme/r02@v1.0.0"]);
        // Missing twice in a row is no mistake.
        running.list(&source).await;
        assert!(running.feed().await.is_empty());
    }

    async fn a_repository_that_failed_for_good_and_is_gone_takes_its_versions_along(test: TestDatabase) {
        let source = many(2, 100);
        source.tag("r01", "v1.0.0", 1);
        let running = Running::settled(test.db(), &[&source]).await;
        let no = SourceError::Permanent("the host denies access".into());
        source.fail("tags fake.example/acme/r01", [no]);
        running.turn(&source, "r01").await;
        assert_eq!(running.job(&source.full("r01")).await.state, State::Dead);
        source.remove("r01");
        running.list(&source).await;
        assert!(running.feed().await.is_empty());
        let job = running.queue.find("index-repo", &source.full("r01")).await;
        assert_eq!(job.unwrap(), None);
    }

    async fn a_listed_repository_whose_job_was_dropped_gets_another(test: TestDatabase) {
        let source = many(2, 100);
        let running = Running::settled(test.db(), &[&source]).await;
        let (dropped, kept) = (source.full("r00"), running.job(&source.full("r01")).await);
        assert!(running.queue.remove("index-repo", &dropped).await.unwrap());
        source.calls();
        running.list(&source).await;
        assert_eq!(source.calls(), ["list ", "tags fake.example/acme/r00"]);
        assert_eq!(running.job(&source.full("r01")).await, kept);
    }

    async fn a_source_that_failed_for_good_is_listed_again_by_the_next_start(test: TestDatabase) {
        let source = many(1, 100);
        let no = SourceError::Permanent("the token is not valid".into());
        source.fail("list", [no]);
        let running = Running::settled(test.db(), &[&source]).await;
        let job = running.queue.find("index-list", "fake.example/orgs/acme").await;
        assert_eq!(job.unwrap().unwrap().state, State::Dead);
        let test = reopened(test, running).await;
        let running = Running::settled(test.db(), &[&source]).await;
        assert_eq!(running.index.status().await.unwrap().repos_indexed, 1);
    }

    async fn a_listing_that_fails_half_way_removes_nothing(test: TestDatabase) {
        let source = many(6, 2);
        source.tag("r05", "v1.0.0", 1);
        let running = Running::settled(test.db(), &[&source]).await;
        let bad = SourceError::Permanent("the host answered with nonsense".into());
        source.fail("list fake.example/acme/r01", [bad]);
        running.list(&source).await;
        let job = running.queue.find("index-list", "fake.example/orgs/acme").await;
        let job = job.unwrap().unwrap();
        assert_eq!(job.state, State::Dead);
        assert_eq!(job.last_error.as_deref(), Some("the host answered with nonsense"));
        assert_eq!(running.feed().await, ["fake.example/acme/r05@v1.0.0"]);
        // By hand it begins again.
        source.calls();
        running.list(&source).await;
        assert_eq!(lists(&source)[0], "list ");
    }
}

#[tokio::test]
async fn a_list_without_end_is_refused() {
    let test = TestDatabase::sqlite().await;
    let source = many(10, 2);
    let options = Options {
        max_repos: 5,
        ..Options::default()
    };
    let running = Running::with(test.db(), &[&source], options).await;
    running.settle().await;
    let job = running
        .queue
        .find("index-list", "fake.example/orgs/acme")
        .await;
    let job = job.unwrap().unwrap();
    assert_eq!(job.state, State::Dead);
    assert_eq!(
        job.last_error.as_deref(),
        Some("it has more than 5 repositories")
    );
}

#[tokio::test]
async fn a_new_period_counts_from_the_next_turn_on() {
    let test = TestDatabase::sqlite().await;
    let source = many(1, 100);
    let running = Running::settled(test.db(), &[&source]).await;
    running.stop().await;
    let options = Options {
        re_indexing_period: Duration::from_secs(3_600),
        ..Options::default()
    };
    let running = Running::with(test.db(), &[&source], options).await;
    running.turn(&source, "r00").await;
    let job = running.job(&source.full("r00")).await;
    let hours = 3_600_000..4_000_000;
    assert!(hours.contains(&job.period_ms.unwrap()), "{job:?}");
    let until_due = job.due_ms.unwrap() - test.db().now_ms();
    assert!(until_due < 4_000_000, "{until_due}");
}
