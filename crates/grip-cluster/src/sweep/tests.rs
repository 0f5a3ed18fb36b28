use grip_testkit::PostgresServer;

use super::*;
use crate::{
    Tip,
    cluster::tests::{LEASE, node_of},
};

/// Removes what was found unneeded by the sweep before.
const NO_GRACE: SweepOptions = SweepOptions {
    grace: Duration::ZERO,
    away: Duration::ZERO,
};

async fn sweep(sweep: &mut Sweep) -> Result<(), SweepError> {
    sweep.due = Instant::now();
    sweep.run_if_due().await
}

/// A cluster that has swept its store removes nothing of another one that comes to use it, until that one's
/// mark is taken away.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_removed_from_a_store_that_two_clusters_use() {
    let server = PostgresServer::start().await.unwrap();
    let first = node_of(&server, "harbour", "a").await;
    let second = node_of(&server, "quay", "b").await;
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let packs = PackStore::open(store.to_str().unwrap()).unwrap();
    let lease = first.acquire(LEASE).await.unwrap().expect("nobody leads");
    let log = Arc::new(Log::new(&lease, packs.clone(), Tip::default()));
    let mut sweeps = Sweep::new(
        (&first, lease.epoch()),
        (packs.clone(), log),
        dir.path().to_owned(),
        NO_GRACE,
        TaskGroup::new("sweep"),
    );
    let own = first.mark(&packs).await.unwrap();
    assert_eq!(first.mark(&packs).await.unwrap(), own, "it keeps its mark");
    sweep(&mut sweeps).await.unwrap();
    let other = second.mark(&packs).await.unwrap();
    assert_ne!(other, own);
    let file = dir.path().join("pack-1.pack");
    fs::write(&file, "content").unwrap();
    let stored = packs.put(&file, 0).await.unwrap();
    let copy = dir.path().join("copy");
    for _ in 0..3 {
        let refused = sweep(&mut sweeps).await.unwrap_err();
        assert!(matches!(refused, SweepError::Shared { own: kept } if kept == own));
        packs.get(&stored, &copy).await.unwrap();
    }
    fs::remove_file(store.join("clusters").join(other)).unwrap();
    sweep(&mut sweeps).await.unwrap();
    packs.get(&stored, &copy).await.unwrap();
    sweep(&mut sweeps).await.unwrap();
    packs.get(&stored, &copy).await.unwrap_err();
    for cluster in [first, second] {
        cluster.db().close().await;
    }
}
