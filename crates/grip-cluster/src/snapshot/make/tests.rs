use grip_store::Options;
use grip_testkit::PostgresServer;

use super::*;
use crate::cluster::tests::{LEASE, node};

/// A backup of the database may name a snapshot that was replaced since: its file stays for the grace time.
#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_a_replaced_snapshot_is_left_to_the_sweep() {
    let server = PostgresServer::start().await.unwrap();
    let cluster = node(&server, "a").await;
    let lease = cluster.acquire(LEASE).await.unwrap().expect("nobody leads");
    let dir = tempfile::tempdir().unwrap();
    let packs = PackStore::open(dir.path().join("store").to_str().unwrap()).unwrap();
    let store = EventStore::open(&dir.path().join("events"), Options::default()).unwrap();
    let log = Arc::new(Log::new(&lease, packs.clone(), Tip::default()));
    let options = SnapshotOptions {
        records: u64::MAX,
        away: Duration::ZERO,
    };
    let snapshots = Snapshots::new(
        &lease,
        packs.clone(),
        (store, log),
        dir.path().to_owned(),
        options,
        TaskGroup::new("snapshots"),
    );
    let file = dir.path().join("made");
    for seq in 1..=3 {
        fs::write(&file, format!("snapshot {seq}")).unwrap();
        let stored = packs.put(&file, 1).await.unwrap();
        let digest = format!("digest {seq}");
        snapshots
            .record(&Tip { seq, digest }, stored)
            .await
            .unwrap();
    }
    let made = cluster.snapshots().await.unwrap();
    snapshots.work().await.unwrap();
    assert_eq!(cluster.snapshots().await.unwrap(), made[..KEPT]);
    for snapshot in &made {
        packs.get(&snapshot.file(), &file).await.unwrap();
    }
    cluster.db().close().await;
}
