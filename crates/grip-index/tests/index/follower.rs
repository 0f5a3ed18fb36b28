//! A follower that reads while everything changes, and ends with what the source has.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use grip_db::{Db, TestDatabase};
use grip_index::{FeedQuery, Op, Options};
use grip_testkit::PostgresServer;
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::support::{FakeSource, HOST, Running, oid};

const REPOS: [&str; 3] = ["real", "fork", "other"];

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Tag {
        repo: usize,
        tag: u32,
        commit: u32,
    },
    Untag {
        repo: usize,
        tag: u32,
    },
    Remove {
        repo: usize,
    },
    /// The index hears of a repository.
    Push {
        repo: usize,
    },
    /// The follower reads so many entries and changes.
    Follow {
        limit: usize,
    },
    /// The process dies and another one starts.
    Crash,
    /// The process stops and another one starts.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (repo, tag) = (0..REPOS.len(), 0_u32..4);
    let step = prop_oneof![
        6 => (repo.clone(), tag.clone(), 0_u32..6)
            .prop_map(|(repo, tag, commit)| Step::Tag { repo, tag, commit }),
        3 => (repo.clone(), tag).prop_map(|(repo, tag)| Step::Untag { repo, tag }),
        1 => repo.clone().prop_map(|repo| Step::Remove { repo }),
        6 => repo.prop_map(|repo| Step::Push { repo }),
        4 => (1_usize..4).prop_map(|limit| Step::Follow { limit }),
        1 => Just(Step::Crash),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

type Versions<T> = BTreeMap<(String, String), T>;

/// Reads the feed by its timestamps and the changes by their cursor.
#[derive(Default)]
struct Follower {
    since_ns: i64,
    cursor_ns: i64,
    /// When each was first seen, as the feed says.
    seen: Versions<i64>,
    /// Where each is, as the changes say.
    at: Versions<String>,
}

impl Follower {
    /// Reads a little; says whether there was anything new.
    async fn read(&mut self, running: &Running, limit: usize) -> bool {
        let query = FeedQuery {
            since_ns: self.since_ns,
            // One more than what was read already.
            limit: limit + 1,
            ..FeedQuery::default()
        };
        let mut is_new = false;
        for entry in running.index.feed(&query).await.unwrap().entries {
            assert!(entry.first_seen_ns >= self.since_ns);
            is_new |= entry.first_seen_ns > self.since_ns;
            self.since_ns = entry.first_seen_ns;
            let key = (entry.path, entry.version);
            self.seen.insert(key, entry.first_seen_ns);
        }
        for change in running
            .changes(self.cursor_ns)
            .await
            .into_iter()
            .take(limit)
        {
            is_new = true;
            assert!(change.at_ns > self.cursor_ns);
            self.cursor_ns = change.at_ns;
            let key = (change.path, change.version);
            match change.op {
                Op::Added => {
                    let before = self.at.insert(key, change.commit);
                    assert_eq!(before, None, "added twice");
                }
                Op::Moved => {
                    let before = self.at.insert(key, change.commit);
                    assert_eq!(before, change.previous, "moved from elsewhere");
                }
                Op::Removed => {
                    let before = self.at.remove(&key);
                    assert_eq!(before, Some(change.commit), "removed from elsewhere");
                    if self.seen.get(&key).is_some_and(|seen| *seen < change.at_ns) {
                        self.seen.remove(&key);
                    }
                }
            }
        }
        is_new
    }
}

/// What the source has, by repository.
struct Truth {
    source: Arc<FakeSource>,
    tags: Vec<Option<BTreeMap<u32, u32>>>,
}

fn module(repo: usize) -> String {
    // The fork names where it comes from.
    let of = [0, 0, 2][repo];
    format!("{HOST}/acme/{}", REPOS[of])
}

impl Truth {
    fn new() -> Self {
        let source = FakeSource::new("acme");
        let mut truth = Self {
            source,
            tags: vec![None; REPOS.len()],
        };
        for repo in 0..REPOS.len() {
            truth.add(repo);
        }
        truth
    }

    fn add(&mut self, repo: usize) -> &mut BTreeMap<u32, u32> {
        let tags = &mut self.tags[repo];
        if tags.is_none() {
            let go_mod = format!("module {}\n", module(repo));
            self.source.add_named(REPOS[repo], &go_mod);
        }
        tags.get_or_insert_default()
    }

    fn tag(&mut self, repo: usize, tag: u32, commit: u32) {
        let commit = commit + 100 * repo as u32;
        self.add(repo).insert(tag, commit);
        self.source.tag(REPOS[repo], &format!("v1.0.{tag}"), commit);
    }

    fn untag(&mut self, repo: usize, tag: u32) {
        if let Some(tags) = &mut self.tags[repo] {
            tags.remove(&tag);
            self.source.untag(REPOS[repo], &format!("v1.0.{tag}"));
        }
    }

    fn remove(&mut self, repo: usize) {
        if self.tags[repo].take().is_some() {
            self.source.remove(REPOS[repo]);
        }
    }

    /// The versions there should be: the repository itself counts more than its fork.
    fn versions(&self) -> Versions<String> {
        let mut versions = Versions::new();
        for repo in [1, 0, 2] {
            for (tag, commit) in self.tags[repo].iter().flatten() {
                let key = (module(repo), format!("v1.0.{tag}"));
                versions.insert(key, oid(*commit).to_hex());
            }
        }
        versions
    }
}

async fn started(db: &Db, truth: &Truth) -> Running {
    let options = Options {
        indexing_ttl: Duration::from_millis(400),
        poll: Duration::from_millis(20),
        ..Options::default()
    };
    Running::with(db, &[&truth.source], options).await
}

async fn play(mut test: TestDatabase, steps: Vec<Step>) {
    let mut truth = Truth::new();
    let mut follower = Follower::default();
    let mut running = started(test.db(), &truth).await;
    for step in steps {
        match step {
            Step::Tag { repo, tag, commit } => truth.tag(repo, tag, commit),
            Step::Untag { repo, tag } => truth.untag(repo, tag),
            Step::Remove { repo } => truth.remove(repo),
            Step::Push { repo } => {
                let push = running.index.source_push(HOST, "acme", REPOS[repo]).await;
                assert!(push.unwrap());
            }
            Step::Follow { limit } => {
                follower.read(&running, limit).await;
            }
            Step::Crash => {
                let _ = running.group.shutdown(Duration::ZERO).await;
                drop(running);
                test = test.reopen().await;
                running = started(test.db(), &truth).await;
            }
            Step::Restart => {
                running.stop().await;
                test = test.reopen().await;
                running = started(test.db(), &truth).await;
            }
        }
    }
    for repo in REPOS {
        running.index.source_push(HOST, "acme", repo).await.unwrap();
    }
    running.settle().await;
    while follower.read(&running, 3).await {}
    let expected = truth.versions();
    assert_eq!(follower.at, expected);
    let (seen, expected): (Vec<_>, Vec<_>) =
        (follower.seen.keys().collect(), expected.keys().collect());
    assert_eq!(seen, expected);
    running.stop().await;
}

#[test]
fn a_follower_ends_with_what_the_source_has() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runner = TestRunner::new(Config {
        cases: 24,
        max_shrink_iters: 40,
        ..Config::default()
    });
    let played = runner.run(&steps(), |steps| {
        runtime.block_on(async { play(TestDatabase::sqlite().await, steps).await });
        Ok(())
    });
    played.unwrap();
}

#[test]
fn a_follower_of_a_shared_database_ends_with_what_the_source_has() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(PostgresServer::start()).unwrap();
    let mut runner = TestRunner::new(Config {
        cases: 8,
        max_shrink_iters: 20,
        ..Config::default()
    });
    let played = runner.run(&steps(), |steps| {
        runtime.block_on(async { play(TestDatabase::postgres(&server.url()).await, steps).await });
        Ok(())
    });
    played.unwrap();
}
