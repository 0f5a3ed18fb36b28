//! The watch over the object store in which the nodes of a cluster keep packs for each other.

use std::time::Duration;

use grip_cluster::PackStore;
use grip_tasks::TaskGroup;
use grip_web::Readiness;
use tokio::time::sleep;

/// What `/readyz` calls it.
const PART: &str = "object_store";
const EVERY: Duration = Duration::from_secs(15);

const MEANING: &str = "pushes are refused, and clones of repositories whose packs are not on this disk; what \
                       is here is served. Start it again, or correct cluster_packs and the variables AWS_*";

/// Has `/readyz` and the log say when packs cannot be stored for the other nodes, nor fetched.
pub(super) fn watch(packs: &PackStore, readiness: &Readiness, group: &TaskGroup) {
    let (packs, readiness, stop) = (packs.clone(), readiness.clone(), group.token());
    let watching = async move {
        let mut why_before = None;
        loop {
            let why = packs.failure().await;
            match &why {
                _ if why == why_before => {}
                Some(reason) => tracing::error!(reason, "the object store is away: {MEANING}"),
                None => tracing::info!("the object store is back"),
            }
            let shown = why.as_ref().map(|why| format!("{why}: {MEANING}"));
            readiness.degrade(PART, shown);
            why_before = why;
            sleep(EVERY).await;
        }
    };
    group.spawn("cluster.store", async move {
        stop.run_until_cancelled(watching).await;
    });
}
