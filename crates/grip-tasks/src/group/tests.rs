use std::{
    future::pending,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::time::{Instant, sleep};

use super::*;

const GRACE: Duration = Duration::from_secs(10);

fn status_of(group: &TaskGroup, kind: &str) -> TaskStatus {
    let found = group.status().into_iter().find(|s| s.kind == kind);
    found.expect("the kind was started")
}

#[tokio::test(start_paused = true)]
async fn tasks_that_heed_the_token_are_drained() {
    let group = TaskGroup::new("test");
    let token = group.token();
    let saved = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&saved);
    group.spawn("worker", async move {
        token.cancelled().await;
        sleep(GRACE / 2).await;
        done.store(true, Ordering::Relaxed);
    });

    let began = Instant::now();
    assert_eq!(group.shutdown(GRACE).await, Ended::Drained);
    assert_eq!(began.elapsed(), GRACE / 2);
    assert!(saved.load(Ordering::Relaxed));
    assert_eq!(status_of(&group, "worker").aborted_total, 0);
}

#[tokio::test(start_paused = true)]
async fn tasks_that_outlast_the_grace_are_aborted_and_counted() {
    let group = TaskGroup::new("test");
    let deaf = group.spawn("deaf", pending::<()>());
    group.spawn("deaf", pending::<()>());
    let token = group.token();
    group.spawn("polite", async move { token.cancelled().await });

    let began = Instant::now();
    assert_eq!(group.shutdown(GRACE).await, Ended::Aborted { left: 2 });
    assert_eq!(began.elapsed(), GRACE);
    assert!(deaf.await.unwrap_err().is_cancelled());
    let status = status_of(&group, "deaf");
    assert_eq!((status.running, status.aborted_total), (0, 2));
    let polite = status_of(&group, "polite");
    assert_eq!((polite.aborted_total, polite.canceled_total), (0, 1));
    assert_eq!(group.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_outermost_group_tells_of_every_task_and_what_ended_before_a_stop_is_not_canceled() {
    let root = TaskGroup::new("node");
    let (front, back) = (root.child("front"), root.child("back"));
    front.spawn("short", async {}).await.unwrap();
    back.spawn("deaf", pending::<()>());
    let kinds: Vec<_> = front.root().status().iter().map(|s| s.kind).collect();
    assert_eq!(kinds, ["deaf", "short"]);
    assert_eq!(status_of(&root, "short").canceled_total, 0);
    assert_eq!((front.running(), root.running()), (0, 1));
    assert_eq!(root.shutdown(GRACE).await, Ended::Aborted { left: 1 });
    assert_eq!(root.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_child_ends_with_its_parent() {
    let group = TaskGroup::new("node");
    let child = group.child("relay");
    let grandchild = child.child("session");
    child.spawn("polite", {
        let token = child.token();
        async move { token.cancelled().await }
    });
    grandchild.spawn("deaf", pending::<()>());
    drop(grandchild);

    assert_eq!(status_of(&group, "polite").group, "node/relay");
    assert_eq!(status_of(&group, "deaf").group, "node/relay/session");
    assert_eq!(group.shutdown(GRACE).await, Ended::Aborted { left: 1 });
    assert!(child.token().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_child_can_end_alone() {
    let group = TaskGroup::new("node");
    let child = group.child("relay");
    group.spawn("sibling", pending::<()>());
    child.spawn("deaf", pending::<()>());

    assert_eq!(child.shutdown(GRACE).await, Ended::Aborted { left: 1 });
    assert!(!group.token().is_cancelled());
    assert_eq!(status_of(&group, "sibling").running, 1);
}

#[tokio::test(start_paused = true)]
async fn dropped_children_leave_no_trace() {
    let group = TaskGroup::new("node");
    for _ in 0..10 {
        let child = group.child("connection");
        let task = child.spawn("session", async {});
        drop(child);
        task.await.unwrap();
    }
    group.inner.tracker.wait().await;
    assert!(group.inner.state.lock().children.is_empty());
    assert!(group.inner.state.lock().running.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_starts_after_the_abort_is_aborted_too() {
    let group = TaskGroup::new("test");
    group.spawn("deaf", pending::<()>());
    let _ = group.shutdown(GRACE).await;
    let late = group.child("late").spawn("deaf", pending::<()>());
    assert!(late.await.unwrap_err().is_cancelled());
    let late = group.spawn("deaf", pending::<()>());
    assert!(late.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_panic_is_counted_and_reaches_the_handle() {
    let group = TaskGroup::new("test");
    let handle = group.spawn("faulty", async { panic!("no such thing") });
    assert!(handle.await.unwrap_err().is_panic());
    let handle = group.spawn_blocking("faulty", || panic!("nor this"));
    assert!(handle.await.unwrap_err().is_panic());
    group.inner.tracker.wait().await;
    let status = status_of(&group, "faulty");
    assert_eq!((status.panicked_total, status.aborted_total), (2, 0));
    assert_eq!((status.running, status.started_total), (0, 2));
}

#[tokio::test]
async fn blocking_work_is_waited_for() {
    let group = TaskGroup::new("test");
    let token = group.token();
    let answer = group.spawn_blocking("reader", move || {
        tokio::runtime::Handle::current().block_on(token.cancelled());
        7
    });
    assert_eq!(group.shutdown(GRACE).await, Ended::Drained);
    assert_eq!(answer.await.unwrap(), 7);
}

#[tokio::test]
async fn work_of_low_priority_gives_way_and_is_owned_like_any_other() {
    let group = TaskGroup::new("test");
    let threads = LowPriorityThreads::new(1).unwrap();
    let work = || rustix::process::getpriority_process(None).unwrap();
    let here = group.spawn_blocking("usual", work).await.unwrap();
    let there = group.spawn_low_priority(&threads, "low", work).await;
    assert!(there.unwrap() > here, "a higher number gives way");

    let (begun, begins) = tokio::sync::oneshot::channel();
    let (end, ends) = std::sync::mpsc::sync_channel::<()>(1);
    group.spawn_low_priority(&threads, "low", move || {
        begun.send(()).unwrap();
        ends.recv()
    });
    let waiting = group.spawn_low_priority(&threads, "low", || ());
    begins.await.unwrap();
    drop(threads);
    end.send(()).unwrap();
    waiting.await.unwrap();
    assert_eq!(group.shutdown(GRACE).await, Ended::Drained);
}
