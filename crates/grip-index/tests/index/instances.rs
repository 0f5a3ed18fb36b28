//! Several instances on one database.

use std::{collections::BTreeMap, time::Duration};

use grip_db::TestDatabase;
use grip_index::Options;
use grip_testkit::{PostgresServer, until};

use crate::support::{FakeSource, Running};

const REPOS: usize = 300;

#[tokio::test]
async fn instances_split_the_work_and_none_of_it_is_done_twice() {
    let server = PostgresServer::start().await.unwrap();
    let test = TestDatabase::postgres(&server.url()).await;
    let source = FakeSource::new("acme");
    source.set_page(50);
    for n in 0..REPOS {
        let repo = format!("r{n:03}");
        source.add(&repo);
        source.tag(&repo, "v1.0.0", n as u32);
    }
    let mut running = Vec::new();
    for node in ["a", "b", "c"] {
        let db = test.another(node).await;
        let options = Options {
            workers: 2,
            number_of_items_to_take: 1,
            poll: Duration::from_millis(200),
            ..Options::default()
        };
        running.push(Running::with(&db, &[&source], options).await);
    }
    until("all is indexed", || async {
        let status = running[0].index.status().await.unwrap();
        (status.repos_indexed == REPOS as i64).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(running[2].feed().await.len(), REPOS);
    let mut count = BTreeMap::<String, usize>::new();
    for call in source.calls() {
        *count.entry(call).or_default() += 1;
    }
    let twice: Vec<_> = count.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(count.len(), 3 * REPOS + REPOS / 50 + 1);
    let mut done: Vec<u64> = Vec::new();
    for one in running {
        let workers = one.index.workers();
        done.push(workers.iter().map(|worker| worker.done_total).sum());
        one.stop().await;
    }
    assert!(done.iter().all(|done| *done > 0), "{done:?}");
    assert_eq!(done.iter().sum::<u64>(), REPOS as u64 + 1);
}

#[tokio::test]
async fn a_change_told_by_one_instance_is_seen_through_another() {
    let server = PostgresServer::start().await.unwrap();
    let test = TestDatabase::postgres(&server.url()).await;
    let source = FakeSource::one(&[]);
    let running = Running::settled(test.db(), &[&source]).await;
    let db = test.another("reader").await;
    let mut topic = db.topic(grip_index::TOPIC);
    let reader = Running::start(&db, &[]).await;
    topic.mark_unchanged();
    source.tag("one", "v1.0.0", 1);
    running.turn(&source, "one").await;
    grip_testkit::within("the reader is notified", topic.changed())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(reader.feed().await, ["fake.example/acme/one@v1.0.0"]);
}
