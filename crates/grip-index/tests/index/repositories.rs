//! One repository's turn.

use grip_db::TestDatabase;
use grip_index::{Options, Reader, SourceError};
use grip_queue::State;

use crate::support::{FakeSource, Running, reopened};

grip_db::on_both_engines! {
    async fn a_source_is_listed_and_its_versions_are_in_the_feed(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1), ("v2.0.0", 2), ("sub/v0.1.0", 1), ("release-7", 3)]);
        source.go_mod("one", "sub", "module fake.example/acme/one/sub\n");
        source.add("empty");
        let running = Running::settled(test.db(), &[&source]).await;
        let expected = [
            "fake.example/acme/one@v1.0.0",
            "fake.example/acme/one/sub@v0.1.0",
        ];
        assert_eq!(running.feed().await, expected);
        let tags = running.tags("fake.example/acme/one").await;
        assert_eq!(tags.len(), 4);
        let v2 = tags.iter().find(|tag| tag.name == "v2.0.0").unwrap();
        assert!(v2.why.as_ref().unwrap().contains("v0 and v1"), "{v2:?}");
        let plain = tags.iter().find(|tag| tag.name == "release-7").unwrap();
        assert_eq!((&plain.why, plain.created_ms), (&None, None));
        let status = running.index.status().await.unwrap();
        let counts = (status.repos, status.repos_indexed, status.tags, status.claims);
        assert_eq!(counts, (2, 2, 4, 2));
        assert_eq!((status.versions, status.repos_gone), (2, 0));
        assert!(status.sources[0].is_configured && status.sources[0].finished_ms.is_some());
    }

    async fn a_repository_without_tags_finishes(test: TestDatabase) {
        let source = FakeSource::new("acme");
        source.add("empty");
        let running = Running::settled(test.db(), &[&source]).await;
        let repos = running.index.repos("", 10, Reader::All).await.unwrap();
        assert!(repos[0].finished_ms.is_some());
        assert_eq!(running.job(&source.full("empty")).await.state, State::Waiting);
    }

    async fn a_restart_repeats_nothing_within_the_period(test: TestDatabase) {
        let source = FakeSource::new("acme");
        for repo in ["a", "b", "c"] {
            source.add(repo);
            source.tag(repo, "v1.0.0", 1);
        }
        let running = Running::settled(test.db(), &[&source]).await;
        let feed = running.feed().await;
        let test = reopened(test, running).await;
        source.calls();
        let running = Running::settled(test.db(), &[&source]).await;
        // Whatever would be repeated is before this in the queue.
        running.turn(&source, "b").await;
        assert_eq!(source.calls(), ["tags fake.example/acme/b"]);
        assert_eq!(running.feed().await, feed);
    }

    async fn what_is_new_is_asked_about_once_and_nothing_else(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1)]);
        let running = Running::settled(test.db(), &[&source]).await;
        source.calls();
        source.tag("one", "v1.1.0", 2);
        source.tag("one", "v1.1.1", 2);
        source.tag("one", "latest", 3);
        running.turn(&source, "one").await;
        let expected = [
            "tags fake.example/acme/one",
            "go.mod fake.example/acme/one 2 ",
            "created fake.example/acme/one 2",
        ];
        assert_eq!(source.calls(), expected);
        running.turn(&source, "one").await;
        assert_eq!(source.calls(), ["tags fake.example/acme/one"]);
        assert_eq!(running.feed().await.len(), 3);
    }

    async fn moved_and_removed_tags_are_told_and_not_silently_rewritten(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1), ("v1.1.0", 1)]);
        let running = Running::settled(test.db(), &[&source]).await;
        let before = running.changes(0).await;
        source.tag("one", "v1.0.0", 2);
        source.untag("one", "v1.1.0");
        running.turn(&source, "one").await;
        let seen = running.changes(before[1].at_ns).await;
        let changes = running.change_lines(before[1].at_ns).await;
        let expected = [
            "moved fake.example/acme/one@v1.0.0 2",
            "removed fake.example/acme/one@v1.1.0 1",
        ];
        assert_eq!(changes, expected);
        assert_eq!(seen[0].previous, Some(before[0].commit.clone()));
        assert_eq!(seen[0].created_ms, 2_000);
        assert_eq!(running.feed().await, ["fake.example/acme/one@v1.0.0"]);
        let version = running.index.version("fake.example/acme/one", "v1.0.0").await;
        let version = version.unwrap().unwrap();
        // Seen first when it was first seen, wherever it is now.
        assert_eq!(version.first_seen_ns, before[0].at_ns);
        assert_eq!(version.commit, seen[0].commit);
    }

    async fn a_version_that_comes_again_is_seen_by_who_follows(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1)]);
        let running = Running::settled(test.db(), &[&source]).await;
        let first = running.index.stamp().await.unwrap();
        source.untag("one", "v1.0.0");
        running.turn(&source, "one").await;
        let gone = running.index.stamp().await.unwrap();
        assert!(running.feed().await.is_empty() && gone > first);
        source.tag("one", "v1.0.0", 1);
        running.turn(&source, "one").await;
        let version = running.index.version("fake.example/acme/one", "v1.0.0").await;
        assert!(version.unwrap().unwrap().first_seen_ns > gone);
        running.turn(&source, "one").await;
        let last = running.index.stamp().await.unwrap();
        running.turn(&source, "one").await;
        assert_eq!(running.index.stamp().await.unwrap(), last);
    }

    async fn an_unchanged_repository_costs_one_call_and_no_change(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1)]);
        source.use_etags();
        let running = Running::settled(test.db(), &[&source]).await;
        let before = running.index.repos("", 1, Reader::All).await.unwrap()[0].clone();
        source.calls();
        running.turn(&source, "one").await;
        assert_eq!(source.calls(), ["tags fake.example/acme/one"]);
        let after = running.index.repos("", 1, Reader::All).await.unwrap()[0].clone();
        assert!(after.finished_ms > before.finished_ms);
        assert_eq!((after.tags, after.claims), (1, 1));
    }

    async fn other_settings_judge_again_without_a_single_question(test: TestDatabase) {
        let source = FakeSource::new("acme");
        source.use_etags();
        source.add_named("one", "module go.example/tool\n");
        source.tag("one", "v1.0.0", 1);
        let running = Running::settled(test.db(), &[&source]).await;
        assert_eq!(running.feed().await, ["go.example/tool@v1.0.0"]);
        source.calls();
        source.set_policy("believe nobody", false);
        running.turn(&source, "one").await;
        assert_eq!(source.calls(), ["tags fake.example/acme/one"]);
        assert!(running.feed().await.is_empty());
        let tags = running.tags(&source.full("one")).await;
        assert!(tags[0].why.as_ref().unwrap().contains("nothing proves"));
        source.set_policy("", true);
        running.turn(&source, "one").await;
        assert_eq!(running.feed().await, ["go.example/tool@v1.0.0"]);
    }

    async fn a_repository_that_is_gone_takes_its_versions_along(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1)]);
        let running = Running::settled(test.db(), &[&source]).await;
        let before = running.index.stamp().await.unwrap();
        source.remove("one");
        running.turn(&source, "one").await;
        assert_eq!(running.change_lines(before).await, ["removed fake.example/acme/one@v1.0.0 1"]);
        assert!(running.feed().await.is_empty());
        let repos = running.index.repos("", 10, Reader::All).await.unwrap();
        assert!(repos[0].gone_ms.is_some());
        let status = running.index.status().await.unwrap();
        assert_eq!((status.repos, status.repos_gone, status.versions), (0, 1, 0));
        let job = running.queue.find("index-repo", &source.full("one")).await;
        assert_eq!(job.unwrap(), None);
        // And comes back with the next listing that has it.
        source.add("one");
        source.tag("one", "v1.0.0", 1);
        running.list(&source).await;
        assert_eq!(running.feed().await, ["fake.example/acme/one@v1.0.0"]);
    }

    async fn what_was_learned_about_a_commit_goes_with_its_last_tag(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1), ("v1.0.1", 2)]);
        let running = Running::settled(test.db(), &[&source]).await;
        source.tag("one", "v1.0.0", 3);
        running.turn(&source, "one").await;
        source.calls();
        source.tag("one", "v1.0.0", 1);
        source.tag("one", "v1.0.2", 2);
        running.turn(&source, "one").await;
        let expected = [
            "tags fake.example/acme/one",
            "go.mod fake.example/acme/one 1 ",
            "created fake.example/acme/one 1",
        ];
        assert_eq!(source.calls(), expected);
    }

    async fn a_name_with_a_nul_is_nobodys_and_an_answer_all_the_same(test: TestDatabase) {
        let source = FakeSource::new("acme");
        for repo in ["a", "ab", "b"] {
            source.add(repo);
            source.tag(repo, "v1.0.0", 1);
        }
        let running = Running::settled(test.db(), &[&source]).await;
        let index = &running.index;
        assert_eq!(index.repo("fake.example/acme/a\0").await.unwrap(), None);
        let tags = |repo: &'static str, after: &'static str| index.tags(repo, after, 10);
        assert!(tags("\0", "").await.unwrap().is_empty());
        assert_eq!(tags("fake.example/acme/a", "v\0").await.unwrap().len(), 1);
        let repos = index.repos("fake.example/acme/a\0z", 10, Reader::All).await.unwrap();
        let names: Vec<_> = repos.iter().map(|repo| repo.name.as_str()).collect();
        assert_eq!(names, ["fake.example/acme/ab", "fake.example/acme/b"]);
    }

    async fn a_hundred_thousand_tags_are_one_turn(test: TestDatabase) {
        const TAGS: u32 = 100_000;
        let source = FakeSource::one(&[]);
        for n in 0..TAGS {
            // Most of them at one commit: what is shown here is the amount of rows.
            source.tag("one", &format!("v0.{}.{}", n / 1_000, n % 1_000), n % 7);
        }
        let running = Running::settled(test.db(), &[&source]).await;
        let status = running.index.status().await.unwrap();
        let count = i64::from(TAGS);
        assert_eq!((status.tags, status.claims, status.versions), (count, count, count));
        source.calls();
        source.tag("one", "v1.0.0", 1);
        source.untag("one", "v0.0.0");
        running.turn(&source, "one").await;
        assert_eq!(source.calls(), ["tags fake.example/acme/one"]);
        let changes = running.change_lines(status.stamp_ns).await;
        let expected = [
            "removed fake.example/acme/one@v0.0.0 0",
            "added fake.example/acme/one@v1.0.0 1",
        ];
        assert_eq!(changes, expected);
    }
}

#[tokio::test]
async fn more_tags_than_allowed_are_refused_with_the_reason() {
    let test = TestDatabase::sqlite().await;
    let source = FakeSource::one(&[]);
    for n in 0..11 {
        source.tag("one", &format!("v0.0.{n}"), n);
    }
    let options = Options {
        max_tags: 10,
        ..Options::default()
    };
    let running = Running::with(test.db(), &[&source], options).await;
    running.settle().await;
    let job = running.job(&source.full("one")).await;
    assert_eq!(job.state, State::Dead);
    assert_eq!(job.last_error.as_deref(), Some("it has more than 10 tags"));
    assert!(running.feed().await.is_empty());
}

#[tokio::test]
async fn an_answer_about_one_tag_that_is_unusable_is_asked_for_again_next_time() {
    let test = TestDatabase::sqlite().await;
    let source = FakeSource::one(&[("v1.0.0", 1), ("v1.1.0", 2)]);
    source.use_etags();
    let nonsense = SourceError::Permanent("the host answered with nonsense".into());
    source.fail("go.mod fake.example/acme/one 1", [nonsense]);
    let running = Running::settled(test.db(), &[&source]).await;
    assert_eq!(running.feed().await, ["fake.example/acme/one@v1.1.0"]);
    let tags = running.tags(&source.full("one")).await;
    assert_eq!(
        tags[0].why.as_deref(),
        Some("the host answered with nonsense")
    );
    source.calls();
    running.turn(&source, "one").await;
    let expected = [
        "tags fake.example/acme/one",
        "go.mod fake.example/acme/one 1 ",
        "created fake.example/acme/one 1",
    ];
    assert_eq!(source.calls(), expected);
    assert_eq!(running.feed().await.len(), 2);
    assert_eq!(running.tags(&source.full("one")).await[0].why, None);
}
