//! The watch over free space on disk.

use std::time::Duration;

use grip_git::{DiskUser, Repositories};
use grip_tasks::TaskGroup;
use grip_web::Readiness;
use tokio::time::sleep;

/// What `/readyz` calls it.
const PART: &str = "disk";
const EVERY: Duration = Duration::from_secs(5);

const WHY: &str = "less than min_free_bytes is free: pushes and events are refused, clones and \
                   queries go on. To go on, make room, or lower min_free_bytes; `gripfast status` \
                   shows the disks";
const WHY_STRANGERS: &str = "less than stranger_min_free_bytes is free: events and pull requests of those \
                             who maintain nothing here are refused";

/// Has `/readyz` and the log say when pushes and events are refused because a disk is nearly full.
pub(super) fn watch(repositories: &Repositories, readiness: &Readiness, group: &TaskGroup) {
    let (repositories, readiness, stop) = (repositories.clone(), readiness.clone(), group.token());
    let looks = group.clone();
    let watching = async move {
        let mut refused_before = None;
        loop {
            let repositories = repositories.clone();
            let look = move || repositories.check_free_space(DiskUser::Stranger);
            if let Ok(found) = looks.spawn_blocking("disk.watch", look).await {
                // Whose floor was reached: that of maintainers is that of all.
                let refused = found.err().map(|full| full.disk_user);
                let is_full = refused == Some(DiskUser::Maintainer);
                match refused {
                    _ if refused == refused_before => {}
                    Some(DiskUser::Maintainer) => tracing::error!("{WHY}"),
                    Some(DiskUser::Stranger) => tracing::warn!("{WHY_STRANGERS}"),
                    None => tracing::info!("enough is free on the disk again"),
                }
                refused_before = refused;
                readiness.degrade(PART, is_full.then(|| WHY.to_owned()));
            }
            sleep(EVERY).await;
        }
    };
    group.spawn("disk.watch", async move {
        stop.run_until_cancelled(watching).await;
    });
}
