use std::time::Duration;

use grip_db::{DbError, plan};
use grip_queue::{NewJob, Queue};

use super::{
    Changed, Ending, Gone, Judged, Publication, Store, publish::AT_ONCE, sql::sql,
    tag_batch::TagBatch,
};
use crate::{
    Audience, FeedQuery, Reader, TagAt,
    diff::{self, Seen},
    testing,
};

fn seen(count: u32) -> Vec<Seen> {
    let oid = |n: u32| {
        let bytes = [[1; 16].as_slice(), &n.to_be_bytes()].concat();
        grip_types::Oid::from_bytes(&bytes).unwrap()
    };
    let tag = |n: u32| TagAt {
        name: format!("v1.0.{n}"),
        object: oid(n),
        commit: oid(n),
    };
    diff::sorted((0..count).map(tag).collect())
}

fn publication(repo: &str, count: u32) -> Publication {
    let seen = seen(count);
    let judged = |(at, seen): (usize, &Seen)| {
        let version = Judged::Version {
            path: "go.example/a".into(),
            version: seen.name.clone(),
            proven: true,
            created: 1_000,
        };
        Changed {
            at,
            judged: version,
            is_new: true,
            before: None,
        }
    };
    Publication {
        repo: repo.to_owned(),
        changed: seen.iter().enumerate().map(judged).collect(),
        seen,
        ..Publication::default()
    }
}

async fn claimed(queue: &Queue, store: &Store, repo: &str) -> Ending {
    let db = store.db().clone();
    let named = [vec![repo.to_owned()].into()];
    let _: Vec<(String,)> = db
        .write(|mut db| Box::pin(async move { db.fetch_all(&sql::ADD_REPOS, &named).await }))
        .await
        .unwrap();
    let job = NewJob::new("test", repo).every(Duration::from_secs(60));
    queue.enqueue(vec![job]).await.unwrap();
    let leases = queue.claim("test", 1, Duration::from_millis(10)).await;
    Ending {
        queue: queue.clone(),
        lease: leases.unwrap().remove(0),
        again: None,
    }
}

/// The same job, claimed once more.
async fn claimed_again(ending: &Ending) -> Ending {
    assert!(ending.queue.retry("test", "a").await.unwrap());
    let leases = ending.queue.claim("test", 1, Duration::from_secs(60)).await;
    Ending {
        lease: leases.unwrap().remove(0),
        ..ending.clone()
    }
}

/// Tags, claims and versions.
async fn counts(store: &Store) -> (i64, i64, i64) {
    let status = store.status(&[]).await.unwrap();
    (status.tags, status.claims, status.versions)
}

grip_db::statements! {
    mod dense {
        VERSION = "INSERT INTO index_versions (first_seen_ns, path, version, created, \
                   org_repo_name, tag_name, commit_oid) VALUES ($1, $2, 'v1.0.0', 0, 'r', 't', 'c')";
        FOR = "INSERT INTO index_versions (first_seen_ns, path, version, created, org_repo_name, \
               tag_name, commit_oid, audience) VALUES ($1, $2, 'v1.0.0', 0, 'r', 't', 'c', $3)";
        CHANGE = "INSERT INTO index_changes (at_ns, op, path, version, created, org_repo_name, \
                  tag_name, commit_oid) VALUES ($1, 'added', $2, 'v1.0.0', 0, 'r', 't', 'c')";
        CLOCK = "UPDATE index_clock SET last_ns = $1";
        UNDO = "DELETE FROM _sqlx_migrations WHERE version = 10";
        CHANGES = "SELECT path, at_ns FROM index_changes ORDER BY at_ns";
    }
}

grip_db::on_both_engines! {
    async fn timestamps_of_an_earlier_version_are_spread_in_their_order(test: TestDatabase) {
        // Nanoseconds apart, with one that lies where the others are spread to, and one far later.
        let first = 1_577_836_800_000_000_001;
        let stamps = [first, first + 1, first + 2, first + 700_000, first + 9_000_000_000];
        let old: Vec<_> = stamps.iter().zip(["a", "b", "c", "d", "e"]).collect();
        let written = old.iter().map(|(ns, path)| (**ns, path.to_string())).collect::<Vec<_>>();
        let last = stamps[4];
        test.db().write(move |mut db| Box::pin(async move {
            for (ns, path) in &written {
                db.execute(&dense::VERSION, &[(*ns).into(), path.as_str().into()]).await?;
                db.execute(&dense::CHANGE, &[(*ns).into(), path.as_str().into()]).await?;
            }
            db.execute(&dense::CLOCK, &[last.into()]).await?;
            db.execute(&dense::UNDO, &[]).await
        })).await.unwrap();
        let test = test.reopen().await;
        let store = Store::new(test.db().clone());
        let entries = store.feed(&FeedQuery::default()).await.unwrap().entries;
        let base = first - 1;
        let expected = [0, 500_000, 1_000_000, 1_500_000, 9_000_000_000].map(|ns| base + ns);
        let seen: Vec<_> = entries.iter().map(|entry| (entry.path.as_str(), entry.first_seen_ns)).collect();
        assert_eq!(seen, ["a", "b", "c", "d", "e"].into_iter().zip(expected).collect::<Vec<_>>());
        let changes: Vec<(String, i64)> = test.db().fetch_all(&dense::CHANGES, &[]).await.unwrap();
        let changes: Vec<_> = changes.iter().map(|(path, ns)| (path.as_str(), *ns)).collect();
        assert_eq!(changes, seen);
        assert_eq!(store.stamp().await.unwrap(), expected[4]);
        // A follower misses nothing that came after what it had read.
        for (at, stamp) in stamps.iter().enumerate() {
            let query = FeedQuery { since_ns: *stamp, ..FeedQuery::default() };
            let page = store.feed(&query).await.unwrap().entries;
            assert!(page.len() >= stamps.len() - at - 1);
        }
    }

    async fn every_statement_is_understood(test: TestDatabase) {
        grip_db::prepare_all(test.db(), sql::ALL).await.unwrap();
        grip_db::prepare_all(test.db(), testing::sql::ALL).await.unwrap();
    }

    async fn a_turn_whose_job_somebody_else_has_changes_nothing(test: TestDatabase) {
        let (store, queue) = (Store::new(test.db().clone()), Queue::new(test.db().clone()));
        let ours = claimed(&queue, &store, "a").await;
        // Our lease has run out, and another has claimed the job.
        let theirs = loop {
            let leases = queue.claim("test", 1, Duration::from_secs(60)).await.unwrap();
            if let Some(lease) = leases.into_iter().next() {
                break Ending { lease, ..ours.clone() };
            }
        };
        let stamp = store.stamp().await.unwrap();
        let lost = store.publish(publication("a", 3), ours.clone()).await;
        assert!(matches!(lost, Err(DbError::Aborted)), "{lost:?}");
        let lost = store.remove_repo("a", ours).await;
        assert!(matches!(lost, Err(DbError::Aborted)), "{lost:?}");
        assert_eq!(store.stamp().await.unwrap(), stamp);
        assert!(store.tags("a", "", 10).await.unwrap().is_empty());
        assert!(store.feed(&FeedQuery::default()).await.unwrap().entries.is_empty());
        let status = store.status(&[]).await.unwrap();
        assert_eq!((status.repos_indexed, status.repos_gone), (0, 0));
        store.publish(publication("a", 3), theirs).await.unwrap();
        assert_eq!(store.feed(&FeedQuery::default()).await.unwrap().entries.len(), 3);
    }

    async fn many_tags_come_and_go_in_batches_and_none_for_who_lost_the_job(test: TestDatabase) {
        let (store, queue) = (Store::new(test.db().clone()), Queue::new(test.db().clone()));
        let count = 2 * AT_ONCE as u32 + 1;
        let many = i64::from(count);
        let first = claimed(&queue, &store, "a").await;
        let mut whole = publication("a", count);
        whole.etag = Some("all".to_owned());
        store.publish(whole, first.clone()).await.unwrap();
        assert_eq!(counts(&store).await, (many, many, many));
        let etag = store.begin_repo("a").await.unwrap().unwrap().etag;
        assert_eq!(etag.as_deref(), Some("all"));

        // Half of them are gone; an end by a worker that lost the job changes nothing.
        let gone = |seen: Seen| Gone {
            before: Some(("go.example/a".to_owned(), seen.name.clone())),
            name: seen.name,
        };
        let half = || Publication {
            repo: "a".to_owned(),
            gone: seen(count - 1).into_iter().map(gone).collect(),
            ..Publication::default()
        };
        let stamp = store.stamp().await.unwrap();
        let lost = store.publish(half(), first.clone()).await;
        assert!(matches!(lost, Err(DbError::Aborted)), "{lost:?}");
        let lost = store.remove_repo("a", first.clone()).await;
        assert!(matches!(lost, Err(DbError::Aborted)), "{lost:?}");
        assert_eq!(store.stamp().await.unwrap(), stamp);

        // A crash after the first batch: what is left is true, and known by no mark.
        let second = claimed_again(&first).await;
        let batch = TagBatch::all(half()).remove(0);
        store.write_batch(batch, second.clone()).await.unwrap();
        let rest = many - AT_ONCE as i64;
        assert_eq!(counts(&store).await, (rest, rest, rest));
        assert_eq!(store.begin_repo("a").await.unwrap().unwrap().etag, None);

        store.remove_repo("a", second).await.unwrap();
        assert_eq!(counts(&store).await, (0, 0, 0));
        assert!(store.tags("a", "", 10).await.unwrap().is_empty());
        assert!(queue.find("test", "a").await.unwrap().is_none());
    }

    async fn a_repository_that_is_named_again_while_it_is_removed_stays(test: TestDatabase) {
        let (store, queue) = (Store::new(test.db().clone()), Queue::new(test.db().clone()));
        let ending = claimed(&queue, &store, "a").await;
        let job = NewJob::new("test", "a").every(Duration::from_secs(60));
        let listing = NewJob::new("list", "here");
        store.add_source(queue.clone(), "here", listing).await.unwrap();
        let anybody = Audience::Anybody;
        let named = store.name_repos(queue.clone(), "here", vec!["a".into()], vec![job], anybody);
        named.await.unwrap();
        let removed = store.remove_repo("a", ending).await;
        assert!(matches!(removed, Err(DbError::Aborted)), "{removed:?}");
        let begun = store.begin_repo("a").await.unwrap().unwrap();
        assert_eq!(begun.sources, [("here".to_owned(), false)]);
        assert_eq!(store.status(&[]).await.unwrap().repos_gone, 0);
    }

    async fn how_a_stranger_is_answered_does_not_depend_on_what_is_restricted(test: TestDatabase) {
        for (ns, path, audience) in [(1, "a.example/x", 0), (2, "a.example/y", 1), (3, "a.example/z", 1)] {
            let row = [ns.into(), path.into(), audience.into()];
            test.db().execute(&dense::FOR, &row).await.unwrap();
        }
        let store = Store::new(test.db().clone());
        let below = ["a.example".into(), "a.example/".into(), "a.example0".into()];
        assert_eq!(store.count_below(&below, Reader::Anybody).await.unwrap(), 1);
        assert_eq!(store.count_below(&below, Reader::All).await.unwrap(), 3);
        let query = FeedQuery { path: Some("a.example".to_owned()), ..FeedQuery::default() };
        assert_eq!(store.feed(&query).await.unwrap().entries.len(), 1);
    }

    async fn a_page_is_one_range_of_an_index_however_many_versions_there_are(test: TestDatabase) {
        let (_, last_ns) = testing::fill(test.db(), 20_000).await.unwrap();
        let store = Store::new(test.db().clone());
        assert_eq!(store.stamp().await.unwrap(), last_ns);
        assert_eq!(store.status(&[]).await.unwrap().versions, 20_000);
        for statement in [&sql::SEEN, &sql::CREATED] {
            let values = [0.into(), 2_000.into()];
            let plan = plan(test.db(), statement, &values).await.to_lowercase();
            let is_range = plan.contains("using index") || plan.contains("using integer primary key")
                || plan.contains("index scan");
            assert!(is_range, "{plan}");
            assert!(!plan.contains("sort") && !plan.contains("temp b-tree"), "{plan}");
        }
        let query = FeedQuery { since_ns: last_ns - 9_000_000, ..FeedQuery::default() };
        let page = store.feed(&query).await.unwrap();
        assert_eq!((page.entries.len(), page.stamp_ns), (10, last_ns));
        for path in [None, Some("example.com".to_owned())] {
            let after = FeedQuery { since_ns: last_ns + 1, path, ..FeedQuery::default() };
            let page = store.feed(&after).await.unwrap();
            assert_eq!((page.entries.len(), page.stamp_ns), (0, last_ns));
        }
    }
}
