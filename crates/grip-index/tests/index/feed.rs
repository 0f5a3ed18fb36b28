//! Queries of the feed.

use std::time::Duration;

use grip_db::TestDatabase;
use grip_index::{Changes, Clock, FeedQuery, Options, Reader};

use crate::support::{FakeSource, Running};

async fn paths(running: &Running, query: FeedQuery) -> Vec<String> {
    let page = running.index.feed(&query).await.unwrap();
    let entries = page.entries.iter();
    entries
        .map(|e| format!("{}@{}", e.path, e.version))
        .collect()
}

grip_db::on_both_engines! {
    async fn a_page_begins_with_the_timestamp_itself(test: TestDatabase) {
        let source = FakeSource::one(&[]);
        for n in 0..7 {
            source.tag("one", &format!("v1.0.{n}"), n);
        }
        let running = Running::settled(test.db(), &[&source]).await;
        let all = running.index.feed(&FeedQuery::default()).await.unwrap().entries;
        assert!(all.is_sorted_by(|a, b| a.first_seen_ns < b.first_seen_ns));
        let query = FeedQuery { since_ns: all[2].first_seen_ns, limit: 3, ..FeedQuery::default() };
        let page = running.index.feed(&query).await.unwrap().entries;
        assert_eq!(page, all[2..5]);
        let none = FeedQuery { since_ns: i64::MAX, ..FeedQuery::default() };
        assert!(paths(&running, none).await.is_empty());
        let past = FeedQuery { since_ns: i64::MIN, ..FeedQuery::default() };
        assert_eq!(paths(&running, past).await.len(), 7);
    }

    async fn the_other_clock_has_the_newest_tag_first(test: TestDatabase) {
        let source = FakeSource::one(&[]);
        for (tag, commit) in [("v1.0.0", 30), ("v1.0.1", 10), ("v1.0.2", 20)] {
            source.tag("one", tag, commit);
        }
        let running = Running::settled(test.db(), &[&source]).await;
        let by_created = |since_ms: i64, since_rest: i64| FeedQuery {
            since_ns: since_ms * 1_000_000 + since_rest,
            clock: Clock::Created,
            ..FeedQuery::default()
        };
        let one = |version: &str| format!("fake.example/acme/one@{version}");
        let all = [one("v1.0.0"), one("v1.0.2"), one("v1.0.1")];
        assert_eq!(paths(&running, by_created(0, 0)).await, all);
        assert_eq!(paths(&running, by_created(20_000, 0)).await, all[..2]);
        assert_eq!(paths(&running, by_created(20_000, 1)).await, all[..1]);
    }

    async fn a_path_narrows_the_feed_to_itself_and_what_is_below(test: TestDatabase) {
        let source = FakeSource::new("acme");
        for repo in ["lib", "lib-extra", "lib.two", "library"] {
            source.add(repo);
            source.tag(repo, "v1.0.0", 1);
        }
        source.go_mod("lib", "sub", "module fake.example/acme/lib/sub\n");
        source.tag("lib", "sub/v0.1.0", 2);
        let running = Running::settled(test.db(), &[&source]).await;
        for clock in [Clock::Seen, Clock::Created] {
            for path in ["fake.example/acme/lib", "fake.example/acme/lib/"] {
                let path = Some(path.to_owned());
                let mut found = paths(&running, FeedQuery { clock, path, ..FeedQuery::default() }).await;
                found.sort();
                let expected = ["fake.example/acme/lib/sub@v0.1.0", "fake.example/acme/lib@v1.0.0"];
                assert_eq!(found, expected, "{clock}");
            }
        }
        let query = FeedQuery { path: Some("fake.example".into()), ..FeedQuery::default() };
        assert_eq!(paths(&running, query).await.len(), 5);
        let query = FeedQuery { path: Some("fake".into()), ..FeedQuery::default() };
        assert!(paths(&running, query).await.is_empty());
        let versions = running.index.versions("fake.example/acme/lib", 10).await.unwrap();
        assert_eq!(versions.len(), 1);
    }

    async fn changes_that_are_no_longer_kept_are_said_to_be_missing(test: TestDatabase) {
        let source = FakeSource::one(&[("v1.0.0", 1)]);
        let options = Options { keep_changes: Duration::ZERO, ..Options::default() };
        let running = Running::with(test.db(), &[&source], options).await;
        running.settle().await;
        let stamp = running.index.stamp().await.unwrap();
        running.list(&source).await;
        let changes = running.index.changes(0, 10, Reader::All).await.unwrap();
        assert_eq!(changes, Changes::Forgotten { up_to_ns: stamp });
        assert!(running.changes(stamp).await.is_empty());
        assert_eq!(running.feed().await.len(), 1, "the feed itself stays");
    }
}

#[tokio::test]
async fn nobody_gets_more_than_a_page() {
    let test = TestDatabase::sqlite().await;
    let source = FakeSource::one(&[]);
    for n in 0..2_100 {
        source.tag("one", &format!("v1.0.{n}"), 1);
    }
    let running = Running::settled(test.db(), &[&source]).await;
    let query = FeedQuery {
        limit: usize::MAX,
        ..FeedQuery::default()
    };
    assert_eq!(paths(&running, query).await.len(), FeedQuery::MOST);
    assert_eq!(running.feed().await.len(), 2_100);
}
