//! The watch over free space on disk.

use std::time::Duration;

use grip_git::Repositories;
use grip_tasks::TaskGroup;
use grip_web::Readiness;
use tokio::time::sleep;

/// What `/readyz` calls it.
const PART: &str = "disk";
const EVERY: Duration = Duration::from_secs(5);

const WHY: &str = "less than min_free_bytes is free: pushes and events are refused, clones and \
                   queries go on. To go on, make room, or lower min_free_bytes; `gripfast status` \
                   shows the disks";

/// Has `/readyz` and the log say when pushes and events are refused because a disk is nearly full.
pub(super) fn watch(repositories: &Repositories, readiness: &Readiness, group: &TaskGroup) {
    let (repositories, readiness, stop) = (repositories.clone(), readiness.clone(), group.token());
    let looks = group.clone();
    let watching = async move {
        let mut was_full = false;
        loop {
            let repositories = repositories.clone();
            let look = looks.spawn_blocking("disk.watch", move || repositories.check_free_space());
            if let Ok(found) = look.await {
                let is_full = found.is_err();
                match (was_full, is_full) {
                    (false, true) => tracing::error!("{WHY}"),
                    (true, false) => tracing::info!("enough is free on the disk again"),
                    _ => {}
                }
                was_full = is_full;
                readiness.degrade(PART, is_full.then(|| WHY.to_owned()));
            }
            sleep(EVERY).await;
        }
    };
    group.spawn("disk.watch", async move {
        stop.run_until_cancelled(watching).await;
    });
}
