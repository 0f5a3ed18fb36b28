//! Followers that keep fewer digits of a timestamp than the feed prints.

use std::{collections::BTreeSet, time::Duration};

use grip_index::{FeedQuery, Options};

use crate::support::{FakeSource, Running};

const REPOS: usize = 8;
const TAGS: usize = 40;

/// A follower that goes on with the last timestamp it has read, rounded down.
struct Follower {
    unit_ns: i64,
    limit: usize,
    since_ns: i64,
    seen: BTreeSet<(String, String)>,
}

impl Follower {
    /// One of each precision, from nanoseconds to seconds, with pages of each size.
    fn all() -> Vec<Self> {
        let units = [1, 1_000, 1_000_000, 1_000_000_000];
        let each = units.into_iter().flat_map(|unit_ns| {
            [1, 10, FeedQuery::MOST].map(|limit| Self {
                unit_ns,
                limit,
                since_ns: 0,
                seen: BTreeSet::new(),
            })
        });
        each.collect()
    }

    async fn read(&mut self, running: &Running) {
        let query = FeedQuery {
            since_ns: self.since_ns,
            limit: self.limit,
            ..FeedQuery::default()
        };
        let page = running.index.feed(&query).await.unwrap().entries;
        assert!(page.len() <= self.limit.max(FeedQuery::MOST + 1));
        for entry in page {
            self.since_ns = entry.first_seen_ns / self.unit_ns * self.unit_ns;
            self.seen.insert((entry.path, entry.version));
        }
    }
}

grip_db::on_both_engines! {
    async fn a_follower_that_rounds_down_neither_sticks_nor_misses(test: TestDatabase) {
        let source = FakeSource::new("acme");
        let repo = |n: usize| format!("r{n}");
        for n in 0..REPOS {
            source.add(&repo(n));
            for tag in 0..TAGS / 2 {
                source.tag(&repo(n), &format!("v1.0.{tag}"), tag as u32);
            }
        }
        let options = Options {
            workers: 8,
            poll: Duration::from_millis(20),
            ..Options::default()
        };
        let running = Running::with(test.db(), &[&source], options).await;
        let mut followers = Follower::all();
        // Tags come while the followers read.
        for tag in TAGS / 2..TAGS {
            for n in 0..REPOS {
                source.tag(&repo(n), &format!("v1.0.{tag}"), tag as u32);
            }
            if tag % 5 == 0 {
                for n in 0..REPOS {
                    running.index.source_push(crate::support::HOST, "acme", &repo(n)).await.unwrap();
                }
            }
            for follower in &mut followers {
                follower.read(&running).await;
            }
        }
        for n in 0..REPOS {
            running.index.source_push(crate::support::HOST, "acme", &repo(n)).await.unwrap();
        }
        running.settle().await;
        for mut follower in followers {
            // A page that brings nothing new is the end, as it is for every follower.
            let mut before = None;
            while before != Some((follower.since_ns, follower.seen.len())) {
                before = Some((follower.since_ns, follower.seen.len()));
                follower.read(&running).await;
            }
            let kept = (follower.unit_ns, follower.limit);
            assert_eq!(follower.seen.len(), REPOS * TAGS, "unit and limit {kept:?}");
        }
        running.stop().await;
    }
}
