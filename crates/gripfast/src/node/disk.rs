//! The watch over free space on disk.

use std::time::Duration;

use grip_git::Repositories;
use grip_tasks::TaskGroup;
use grip_web::Readiness;
use tokio::time::sleep;

/// What `/readyz` calls it.
const PART: &str = "disk";
const EVERY: Duration = Duration::from_secs(5);

/// Has `/readyz` say when pushes and events are refused because a disk is nearly full.
pub(super) fn watch(repositories: &Repositories, readiness: &Readiness, group: &TaskGroup) {
    let (repositories, readiness, stop) = (repositories.clone(), readiness.clone(), group.token());
    let looks = group.clone();
    let watching = async move {
        loop {
            let repositories = repositories.clone();
            let look = looks.spawn_blocking("disk.watch", move || repositories.check_free_space());
            if let Ok(found) = look.await {
                let why = found.err().map(|_| {
                    "less than min_free_bytes is free: pushes and events are refused, clones and \
                     queries go on; `gripfast status` shows the disks"
                        .to_owned()
                });
                readiness.degrade(PART, why);
            }
            sleep(EVERY).await;
        }
    };
    group.spawn("disk.watch", async move {
        stop.run_until_cancelled(watching).await;
    });
}
