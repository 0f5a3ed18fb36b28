use std::{
    convert::Infallible,
    sync::atomic::{AtomicU32, Ordering},
};

use super::*;
use crate::Ended;

const EVERY: Duration = Duration::from_secs(60);

/// Starts work that counts its runs and fails or panics where `fault` says so.
fn counting(group: &TaskGroup, fault: fn(u32) -> Result<(), String>) -> (Periodic, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    let periodic = Periodic::start(group, "count", EVERY, move || {
        let run = count.fetch_add(1, Ordering::Relaxed) + 1;
        async move { fault(run).map(|()| format!("run {run}")) }
    });
    (periodic, runs)
}

/// Lets every task that can move now do so.
async fn settle() {
    tokio::time::advance(Duration::from_millis(1)).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_runs_at_the_start_and_then_by_the_timer() {
    let group = TaskGroup::new("test");
    let (periodic, runs) = counting(&group, |_| Ok(()));
    settle().await;
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(
        periodic.status().last_outcome,
        Some(Outcome::Done("run 1".into()))
    );
    tokio::time::advance(EVERY).await;
    settle().await;
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(group.shutdown(EVERY).await, Ended::Drained);
}

#[tokio::test(start_paused = true)]
async fn a_poke_runs_it_at_once_and_many_pokes_run_it_once() {
    let group = TaskGroup::new("test");
    let (periodic, runs) = counting(&group, |_| Ok(()));
    settle().await;
    for _ in 0..5 {
        periodic.poke();
    }
    settle().await;
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(periodic.status().runs_total, 2);
    assert!(periodic.status().last_started.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_failed_or_panicking_run_is_shown_and_does_not_end_the_loop() {
    let group = TaskGroup::new("test");
    let (periodic, _) = counting(&group, |run| match run {
        1 => Err("disk full".into()),
        2 => panic!("boom"),
        _ => Ok(()),
    });
    settle().await;
    assert_eq!(
        periodic.status().last_outcome,
        Some(Outcome::Failed("disk full".into()))
    );
    periodic.poke();
    settle().await;
    assert_eq!(
        periodic.status().last_outcome,
        Some(Outcome::Failed("panicked: boom".into()))
    );
    periodic.poke();
    settle().await;
    let status = periodic.status();
    assert_eq!((status.runs_total, status.failed_total), (3, 2));
    assert_eq!(status.last_outcome, Some(Outcome::Done("run 3".into())));
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_run_under_way() {
    let group = TaskGroup::new("test");
    let finished = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&finished);
    let periodic = Periodic::start(&group, "slow", EVERY, move || {
        let count = Arc::clone(&count);
        async move {
            sleep(Duration::from_secs(5)).await;
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>("done")
        }
    });
    settle().await;
    assert!(periodic.status().running);
    assert_eq!(group.shutdown(EVERY).await, Ended::Drained);
    assert_eq!(finished.load(Ordering::Relaxed), 1);
}
