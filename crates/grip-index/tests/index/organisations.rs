//! Needs of organisations: restricted repositories, sources that leave, access that returns,
//! instances with different settings.

use std::time::Duration;

use grip_db::TestDatabase;
use grip_index::{Audience, LeftSources, Op, Options, Reader, SourceError};
use grip_queue::State;
use grip_testkit::{PostgresServer, until};

use crate::support::{FakeSource, HOST, Running, reopened};

fn ops(changes: &[grip_index::Change]) -> Vec<(Op, String)> {
    let each = changes.iter();
    each.map(|it| (it.op, it.version.clone())).collect()
}

grip_db::on_both_engines! {
    async fn restricted_repositories_are_for_readers_alone(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1)]);
        source.add("secret");
        source.tag("secret", "v1.0.0", 2);
        source.restrict("secret", true);
        let running = Running::settled(test.db(), &[&source]).await;
        let public = ["fake.example/acme/one@v1.0.0"];
        assert_eq!(running.feed_for(Reader::Anybody).await, public);
        assert_eq!(running.feed().await.len(), 2);
        assert_eq!(running.changes_for(0, Reader::Anybody).await.len(), 1);
        assert_eq!(running.changes(0).await.len(), 2);
        let names = running.index.repos("", 10, Reader::Anybody).await.unwrap();
        assert_eq!(names.len(), 1, "{names:?}");
        let secret = running.index.repo(&source.full("secret")).await.unwrap().unwrap();
        assert_eq!(secret.audience, Audience::Readers);
        assert!(!Reader::Anybody.sees(secret.audience) && Reader::All.sees(secret.audience));
        running.stop().await;
    }

    async fn a_version_with_another_audience_goes_for_one_and_comes_for_the_other(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1), ("v1.1.0", 2)]);
        let running = Running::settled(test.db(), &[&source]).await;
        let before = running.index.stamp().await.unwrap();
        source.restrict("one", true);
        running.list(&source).await;
        assert_eq!(running.feed_for(Reader::Anybody).await, Vec::<String>::new());
        assert_eq!(running.feed().await.len(), 2);
        let told = running.changes_for(before, Reader::Anybody).await;
        assert_eq!(ops(&told), [(Op::Removed, "v1.0.0".into()), (Op::Removed, "v1.1.0".into())]);

        // A follower who has read everything until now hears of it when it is for anybody again.
        let before = running.index.stamp().await.unwrap();
        source.restrict("one", false);
        source.tag("one", "v1.2.0", 3);
        running.list(&source).await;
        assert_eq!(running.feed_for(Reader::Anybody).await.len(), 3);
        let told = running.changes_for(before, Reader::Anybody).await;
        assert!(told.iter().all(|change| change.op == Op::Added), "{told:?}");
        assert_eq!(told.len(), 3);
        assert_eq!(running.index.status().await.unwrap().versions, 3);
        running.stop().await;
    }

    async fn a_repository_that_was_pushed_to_and_became_restricted_tells_strangers_nothing(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1)]);
        let running = Running::settled(test.db(), &[&source]).await;
        source.restrict("one", true);
        source.tag("one", "v1.1.0", 2);
        running.turn(&source, "one").await;
        assert_eq!(running.feed_for(Reader::Anybody).await, Vec::<String>::new());
        let told = running.changes_for(0, Reader::Anybody).await;
        assert!(told.iter().all(|change| change.version == "v1.0.0"), "{told:?}");
        running.stop().await;
    }

    async fn access_that_returns_revives_the_work_within_a_period(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1)]);
        let denied = || SourceError::Denied("the host denies access: \"SAML\"".to_owned());
        source.fail("tags", [denied(), denied()]);
        let running = Running::with(test.db(), &[&source], leaving(LeftSources::Keep)).await;
        running.settle().await;
        let repo = source.full("one");
        let period_ms = Options::default().re_indexing_period.as_millis() as i64 * 11 / 10;
        for _ in 0..2 {
            let job = running.job(&repo).await;
            assert_eq!(job.state, State::Waiting, "{job:?}");
            assert!(job.last_error.unwrap().contains("SAML"));
            let causes = running.queue.causes(Some("index-repo")).await.unwrap();
            assert_eq!((causes[0].dead, causes[0].waiting), (0, 1), "{causes:?}");
            assert!(running.feed().await.is_empty());
            test.db().shift_clock_ms(period_ms);
            until("it was tried again", || async {
                let job = running.job(&repo).await;
                let is_later = job.due_ms.is_some_and(|due| due > test.db().now_ms() + 60_000);
                (job.state == State::Waiting && is_later).then_some(())
            }).await.unwrap();
            running.settle().await;
        }
        assert_eq!(running.feed().await.len(), 1);
        assert_eq!(running.job(&repo).await.last_error, None);
        running.stop().await;
    }

    async fn a_source_that_left_is_forgotten_with_its_rows(test: TestDatabase) {
        let (acme, beta) = (FakeSource::one(&[("v1.0.0", 1)]), FakeSource::new("beta"));
        beta.add("two");
        beta.tag("two", "v1.0.0", 2);
        let running = Running::settled(test.db(), &[&acme, &beta]).await;
        assert_eq!(running.feed().await.len(), 2);
        let name = format!("{HOST}/orgs/beta");
        let how = LeftSources::Remove;
        assert!(!running.index.forget_source(&name, how).await.unwrap(), "it is configured");
        let test = reopened(test, running).await;

        let running = Running::settled(test.db(), &[&acme]).await;
        assert_eq!(running.feed().await.len(), 2, "by default nothing goes");
        let before = running.index.stamp().await.unwrap();
        assert!(running.index.forget_source(&name, how).await.unwrap());
        running.settle().await;
        assert_eq!(running.feed().await, ["fake.example/acme/one@v1.0.0"]);
        assert_eq!(ops(&running.changes(before).await), [(Op::Removed, "v1.0.0".into())]);
        let status = running.index.status().await.unwrap();
        assert_eq!((status.sources.len(), status.repos, status.tags), (1, 1, 1));
        assert!(running.index.repo(&beta.full("two")).await.unwrap().is_none());
        let jobs = running.jobs().await;
        assert!(jobs.iter().all(|job| !job.key.contains("beta")), "{jobs:?}");
        running.stop().await;
    }
}

fn leaving(left_sources: LeftSources) -> Options {
    Options {
        left_sources,
        poll: Duration::from_millis(50),
        ..Options::default()
    }
}

#[tokio::test]
async fn sources_that_leave_the_settings_are_kept_hidden_or_removed_as_these_say() {
    for (how, expected, listed) in [
        (LeftSources::Keep, 2, 2),
        (LeftSources::Hide, 1, 2),
        (LeftSources::Remove, 1, 1),
    ] {
        let test = TestDatabase::sqlite().await;
        let (acme, beta) = (FakeSource::one(&[("v1.0.0", 1)]), FakeSource::new("beta"));
        beta.add("two");
        beta.tag("two", "v1.0.0", 2);
        let running = Running::settled(test.db(), &[&acme, &beta]).await;
        let test = reopened(test, running).await;

        let running = Running::with(test.db(), &[&acme], leaving(how)).await;
        running.settle().await;
        assert_eq!(running.feed().await.len(), expected, "{how:?}");
        assert_eq!(running.feed_for(Reader::Anybody).await.len(), expected);
        let status = running.index.status().await.unwrap();
        assert_eq!(status.sources.len(), listed, "{how:?}");
        let left: Vec<_> = status.sources.iter().filter_map(|it| it.left_ms).collect();
        assert_eq!(left.len(), usize::from(how == LeftSources::Hide));
        let test = reopened(test, running).await;

        // It comes back at once; what was hidden is not read a second time.
        acme.calls();
        beta.calls();
        let running = Running::with(test.db(), &[&acme, &beta], leaving(how)).await;
        running.settle().await;
        assert_eq!(running.feed().await.len(), 2, "{how:?}");
        let read = beta.calls();
        let read = read
            .iter()
            .filter(|call| call.starts_with("go.mod"))
            .count();
        assert_eq!(read, usize::from(how == LeftSources::Remove), "{how:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_repository_that_another_source_lists_stays_when_one_leaves() {
    let test = TestDatabase::sqlite().await;
    let acme = FakeSource::one(&[("v1.0.0", 1)]);
    let again = FakeSource::named("fake.example/users/acme", "acme");
    again.add("one");
    again.tag("one", "v1.0.0", 1);
    let running = Running::settled(test.db(), &[&acme, &again]).await;
    let test = reopened(test, running).await;
    let running = Running::with(test.db(), &[&again], leaving(LeftSources::Remove)).await;
    running.settle().await;
    assert_eq!(running.feed().await.len(), 1);
    // Its work is for who lists it still.
    assert!(
        running
            .queue
            .retry("index-repo", &again.full("one"))
            .await
            .unwrap()
    );
    running.settle().await;
    assert_eq!(running.job(&again.full("one")).await.state, State::Waiting);
    again.tag("one", "v1.1.0", 2);
    running.turn(&again, "one").await;
    assert_eq!(running.feed().await.len(), 2);
    running.stop().await;
}

#[tokio::test]
async fn a_node_that_leaves_a_cluster_takes_its_repositories_along_as_the_settings_say() {
    let server = PostgresServer::start().await.unwrap();
    for how in [LeftSources::Hide, LeftSources::Remove] {
        let test = TestDatabase::postgres(&server.url()).await;
        let options = Options {
            re_indexing_period: Duration::from_secs(1),
            ..leaving(how)
        };
        let begin = async |node: &str| {
            let source = FakeSource::hosted(node);
            source.add("one");
            source.tag("one", "v1.0.0", 1);
            let db = test.another(node).await;
            (Running::with(&db, &[&source], options.clone()).await, db)
        };
        let ((alpha, _db), (beta, beta_db)) = (begin("alpha").await, begin("beta").await);
        let versions = async |running: &Running, count: usize| {
            let have = || async { (running.feed().await.len() == count).then_some(()) };
            until("the feed has so many versions", have).await.unwrap();
        };
        versions(&alpha, 2).await;

        beta.stop().await;
        beta_db.close().await;
        versions(&alpha, 1).await;
        let is_hidden = how == LeftSources::Hide;
        until(
            "what is hidden may come back, and the rest is gone",
            || async {
                let status = alpha.index.status().await.unwrap();
                let jobs = alpha.jobs().await;
                let waits = jobs.iter().any(|job| job.kind == "index-hosted@beta");
                let sources = 1 + usize::from(is_hidden);
                (status.sources.len() == sources && waits == is_hidden).then_some(())
            },
        )
        .await
        .unwrap();

        if is_hidden {
            // It is back with all that it had as soon as it comes back.
            let (again, _db) = begin("beta").await;
            versions(&alpha, 2).await;
            again.stop().await;
        }
        alpha.stop().await;
    }
}

#[tokio::test]
async fn instances_with_other_sources_never_postpone_each_others_work() {
    let server = PostgresServer::start().await.unwrap();
    let test = TestDatabase::postgres(&server.url()).await;
    let owners = ["acme", "beta", "gamma"];
    let sources = owners.map(FakeSource::new);
    for source in &sources {
        for n in 0..40 {
            let repo = format!("r{n:02}");
            source.add(&repo);
            source.tag(&repo, "v1.0.0", n);
        }
    }
    let mut running = Vec::new();
    for (node, source) in ["a", "b", "c"].into_iter().zip(&sources) {
        let db = test.another(node).await;
        let options = Options {
            poll: Duration::from_millis(100),
            ..Options::default()
        };
        running.push(Running::with(&db, &[source], options).await);
    }
    until("all is indexed", || async {
        let status = running[0].index.status().await.unwrap();
        (status.repos_indexed == 120).then_some(())
    })
    .await
    .unwrap();
    for one in &running {
        let workers = one.index.workers();
        let postponed: u64 = workers.iter().map(|worker| worker.postponed_total).sum();
        assert_eq!(postponed, 0, "{workers:?}");
    }
    let jobs = running[0].jobs().await;
    assert!(jobs.iter().all(|job| job.last_error.is_none()), "{jobs:?}");

    // Work that only an absent one can do waits for it, and keeps nobody else from theirs.
    let (key, absent) = (sources[2].full("r00"), running.pop().unwrap());
    absent.stop().await;
    assert!(running[0].queue.retry("index-repo", &key).await.unwrap());
    sources[0].tag("r01", "v2.0.0", 9);
    running[0].turn_alone(&sources[0], "r01").await;
    assert_eq!(running[0].job(&key).await.state, State::Due);
    for one in running {
        one.stop().await;
    }
}
