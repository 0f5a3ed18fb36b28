use std::time::Duration;

use grip_db::{Db, Server, prepare_all};
use grip_git::{ChangeLog, LoggedChange, PackFile, StoredPack};
use grip_testkit::{PostgresServer, until_ok};
use grip_types::Identifier;

use super::*;
use crate::{Log, PackStore, log::GIT};

pub(crate) const LEASE: Duration = Duration::from_secs(60);

pub(crate) async fn node(server: &PostgresServer, name: &str) -> Cluster {
    node_of(server, "harbour", name).await
}

pub(crate) async fn node_of(server: &PostgresServer, cluster: &str, name: &str) -> Cluster {
    let db = Db::connect(&Server::new(server.url(), name)).await.unwrap();
    let member = Member {
        cluster: cluster.to_owned(),
        node: name.to_owned(),
        address: "127.0.0.1:7334".to_owned(),
    };
    Cluster::open(db, member).await.unwrap()
}

#[tokio::test]
async fn every_statement_is_understood() {
    let server = PostgresServer::start().await.unwrap();
    let cluster = node(&server, "a").await;
    prepare_all(cluster.db(), sql::ALL).await.unwrap();
    let of_snapshots = crate::snapshot::sql::ALL;
    prepare_all(cluster.db(), of_snapshots).await.unwrap();
    let of_sweeps = crate::sweep::sql::ALL;
    prepare_all(cluster.db(), of_sweeps).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = Db::open(&dir.path().join("x.sqlite")).await.unwrap();
    prepare_all(&file, sql::ALL).await.unwrap();
    prepare_all(&file, of_snapshots).await.unwrap();
    prepare_all(&file, of_sweeps).await.unwrap();
    file.close().await;
    cluster.db().close().await;
}

/// A record is in the log once, however often it was tried, and never in an epoch that is over.
#[tokio::test]
async fn records_are_of_the_present_epoch_and_have_no_gaps() {
    let server = PostgresServer::start().await.unwrap();
    let (a, b) = (node(&server, "a").await, node(&server, "b").await);
    let first = a.acquire(LEASE).await.unwrap().expect("nobody leads");
    assert!(b.acquire(LEASE).await.unwrap().is_none(), "one leads");
    let append = |by: &Cluster, epoch, number, text: &str| {
        let by = by.clone();
        let record = NewRecord {
            epoch,
            number,
            kind: GIT,
            payload: text.as_bytes().to_vec(),
            digest: format!("digest of {text}"),
        };
        async move {
            // The sessions of a former leader are ended: it tries again, as the log does.
            let append = async || {
                let appended = by.append(&record).await?;
                Ok(Some(appended))
            };
            until_ok("the database answers", append).await.unwrap()
        }
    };
    let epoch = first.epoch();
    assert_eq!(append(&a, epoch, 1, "one").await, Some(1));
    assert_eq!(append(&a, epoch, 1, "one").await, Some(1), "tried again");
    assert_eq!(append(&a, epoch, 3, "three").await, None, "two is missing");
    assert_eq!(append(&a, epoch, 2, "two").await, Some(2));
    first.release().await.unwrap();
    let second = b.acquire(LEASE).await.unwrap().expect("it was given up");
    assert_eq!(second.epoch(), epoch + 1);
    assert_eq!(append(&a, epoch, 3, "late").await, None);
    assert_eq!(append(&b, second.epoch(), 1, "new").await, Some(3));
    let read = b.read(0).await.unwrap();
    let read: Vec<(i64, String)> = read
        .into_iter()
        .map(|record| (record.seq, String::from_utf8(record.payload).unwrap()))
        .collect();
    let expected = [(1, "one"), (2, "two"), (3, "new")];
    assert_eq!(read, expected.map(|(seq, text)| (seq, text.to_owned())));
    assert!(first.keep().await.contains("another node leads"));
    let state = b.known_state().await.unwrap();
    assert_eq!(state.tip().digest, "digest of new");
    assert!(state.is_led() && state.left_ms <= i64::try_from(LEASE.as_millis()).unwrap());
    b.resign().await.unwrap();
    assert!(!b.known_state().await.unwrap().is_led());
    for cluster in [a, b] {
        cluster.db().close().await;
    }
}

/// A leader that is started again within its lease leads again, in a new epoch.
#[tokio::test]
async fn a_node_takes_its_own_lead_again_at_once() {
    let server = PostgresServer::start().await.unwrap();
    let a = node(&server, "a").await;
    let first = a.acquire(LEASE).await.unwrap().expect("nobody leads");
    let again = a.acquire(LEASE).await.unwrap().expect("it is its own");
    assert_eq!(again.epoch(), first.epoch() + 1);
    let cache = CacheUse { hits: 3, misses: 1 };
    a.report(6, CacheUse::default()).await.unwrap();
    a.report(7, cache).await.unwrap();
    a.keep_key("admin.token", "aa").await.unwrap();
    a.keep_key("admin.token", "bb").await.unwrap();
    let keys = a.keys().await.unwrap();
    assert_eq!(keys, [("admin.token".to_owned(), "aa".to_owned())]);
    let nodes = a.nodes().await.unwrap();
    assert_eq!((nodes[0].node.as_str(), nodes[0].seq), ("a", 7));
    assert_eq!(nodes[0].cache_use(), cache);
    a.db().close().await;
}

/// A former leader that starts again while another takes the lead is let be: it ended while it started.
#[tokio::test]
async fn the_next_life_of_a_former_leader_keeps_its_sessions() {
    let server = PostgresServer::start().await.unwrap();
    let a = node(&server, "a").await;
    let lease = a.acquire(Duration::from_millis(1)).await.unwrap();
    lease.expect("nobody leads");
    let is_over = async || Ok((!a.known_state().await?.is_led()).then_some(()));
    until_ok("its time is over", is_over).await.unwrap();
    a.db().close().await;
    let (again, b) = (node(&server, "a").await, node(&server, "b").await);
    b.acquire(LEASE).await.unwrap().expect("nobody leads");
    again.known_state().await.expect("its session goes on");
    for cluster in [again, b] {
        cluster.db().close().await;
    }
}

/// What was stored two generations ago may be removed any moment, so no record names it any more; the same
/// content that is stored now is another file.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_names_nothing_that_was_stored_long_ago() {
    let server = PostgresServer::start().await.unwrap();
    let a = node(&server, "a").await;
    let lease = a.acquire(LEASE).await.unwrap().expect("nobody leads");
    let dir = tempfile::tempdir().unwrap();
    let packs = PackStore::open(dir.path().join("store").to_str().unwrap()).unwrap();
    let log = Log::new(&lease, packs, Tip::default());
    let file = dir.path().join("pack-1.pack");
    std::fs::write(&file, "content").unwrap();
    let store = || log.store_pack(vec![file.clone()]).unwrap();
    let record = |files: Vec<PackFile>| LoggedChange::Pack {
        identifier: Identifier::parse("x").unwrap(),
        pack: StoredPack {
            name: "pack-1".to_owned(),
            files,
        },
    };
    let append = |change| ChangeLog::append(&log, change);
    let first = store();
    assert_eq!(store(), first);
    let oldest = log.advance(lease.generation() + 1);
    assert_eq!(oldest, first[0].generation, "one under way may still end");
    assert_eq!(append(record(first.clone())).unwrap(), 1);
    log.advance(lease.generation() + 2);
    let refused = append(record(first.clone())).unwrap_err().to_string();
    assert!(refused.contains("push again"), "{refused}");
    let again = store();
    assert_ne!(again, first);
    assert_eq!(append(record(again)).unwrap(), 2);
    a.db().close().await;
}
