use std::pin::pin;

use tokio::sync::mpsc;

use super::*;
use crate::TaskGroup;

/// Polls once, so that the future takes its place.
async fn begin<F: Future>(future: &mut std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

fn owner(n: u8) -> Owner {
    Owner {
        key: [n; 32],
        is_served: false,
    }
}

fn served(n: u8) -> Owner {
    Owner {
        is_served: true,
        ..owner(n)
    }
}

#[tokio::test(start_paused = true)]
async fn turns_come_in_the_order_of_arrival() {
    let lanes = Lanes::new(100);
    let group = TaskGroup::new("test");
    let first = lanes.enter(&"repo", owner(1)).await.unwrap();
    let (report, mut order) = mpsc::channel(100);
    for number in 0..50 {
        let (lanes, report) = (lanes.clone(), report.clone());
        group.spawn("entrant", async move {
            let _turn = lanes.enter(&"repo", owner(1)).await.unwrap();
            report.send(number).await.unwrap();
        });
        // On the one thread of this test the task takes its place before the next one starts.
        tokio::task::yield_now().await;
    }
    drop(report);
    assert_eq!(lanes.waiting(), 50);
    drop(first);
    let mut seen = Vec::new();
    while let Some(number) = order.recv().await {
        seen.push(number);
    }
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn lanes_do_not_wait_for_each_other_and_leave_the_map_when_idle() {
    let lanes = Lanes::new(1);
    let one = lanes.enter(&1, owner(1)).await.unwrap();
    let two = lanes.enter(&2, owner(1)).await.unwrap();
    assert_eq!(lanes.in_use(), 2);
    drop(one);
    assert_eq!(lanes.in_use(), 1);
    drop(two);
    assert_eq!(lanes.in_use(), 0);
}

#[tokio::test]
async fn one_more_than_may_wait_is_refused() {
    let lanes = Lanes::new(1);
    let first = lanes.enter(&"repo", owner(1)).await.unwrap();
    let mut second = pin!(lanes.enter(&"repo", owner(1)));
    assert!(begin(&mut second).await.is_none());
    assert_eq!(lanes.enter(&"repo", owner(1)).await.unwrap_err(), Busy);
    drop(first);
    let second = second.await.unwrap();
    assert_eq!(second.key(), &"repo");
}

#[tokio::test]
async fn a_waiter_that_gives_up_is_taken_out_of_its_lane() {
    let lanes = Lanes::new(1);
    let first = lanes.enter(&"repo", owner(1)).await.unwrap();
    {
        let mut impatient = pin!(lanes.enter(&"repo", owner(1)));
        assert!(begin(&mut impatient).await.is_none());
    }
    assert_eq!(lanes.waiting(), 0);
    let mut patient = pin!(lanes.enter(&"repo", owner(1)));
    assert!(begin(&mut patient).await.is_none());
    drop(first);
    assert!(patient.await.is_ok());
    assert_eq!(lanes.in_use(), 0);
}

#[tokio::test]
async fn a_turn_granted_to_one_who_has_left_goes_to_the_next() {
    let lanes = Lanes::new(2);
    let first = lanes.enter(&"repo", owner(1)).await.unwrap();
    let mut next = Box::pin(lanes.enter(&"repo", owner(1)));
    assert!(begin(&mut next.as_mut()).await.is_none());
    let mut last = Box::pin(lanes.enter(&"repo", owner(1)));
    assert!(begin(&mut last.as_mut()).await.is_none());
    // Grants the turn to `next`, which is dropped before it looks.
    drop(first);
    drop(next);
    let last = begin(&mut last.as_mut()).await;
    drop(last.expect("the turn was passed on").unwrap());
    assert_eq!(lanes.in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn callers_that_want_the_same_keys_in_different_orders_both_get_them() {
    let lanes = Lanes::new(10);
    let group = TaskGroup::new("test");
    let tasks: Vec<_> = [vec![1, 2, 3, 1], vec![3, 2, 1]]
        .into_iter()
        .cycle()
        .take(10)
        .map(|keys| {
            let lanes = lanes.clone();
            group.spawn("entrant", async move {
                let turns = lanes.enter_all(keys, |_| owner(1)).await.unwrap();
                tokio::task::yield_now().await;
                turns.len()
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), 3);
    }
    assert_eq!(lanes.in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_somebody_keeps_busy_holds_up_no_other_that_is_named_beside_it() {
    let lanes = Lanes::new(10);
    let kept = lanes.enter(&2, owner(1)).await.unwrap();
    let mut both = pin!(lanes.enter_all(vec![1, 2], |_| owner(1)));
    assert!(begin(&mut both).await.is_none());
    assert_eq!(
        lanes.waiting(),
        1,
        "it has the first and waits for the second"
    );
    let others = async {
        for _ in 0..5 {
            drop(lanes.enter(&1, served(2)).await.unwrap());
        }
        tokio::time::Instant::now()
    };
    let began = tokio::time::Instant::now();
    let done = tokio::select! {
        _ = &mut both => panic!("the second is kept"),
        done = others => done,
    };
    assert!(done - began <= FIRST_HOLD, "{:?}", done - began);
    drop(kept);
    assert_eq!(both.await.unwrap().len(), 2);
    assert_eq!(lanes.in_use(), 0);
}

#[tokio::test]
async fn a_refused_set_of_turns_gives_back_those_it_had() {
    let lanes = Lanes::new(0);
    let held = lanes.enter(&2, owner(1)).await.unwrap();
    assert_eq!(
        lanes
            .enter_all(vec![1, 2, 3], |_| owner(1))
            .await
            .unwrap_err(),
        Busy
    );
    assert_eq!(lanes.in_use(), 1);
    drop(held);
}

/// Enters with each owner and says in which order they have their turns.
async fn order_of(owners: &[Owner]) -> Vec<u8> {
    let lanes = Lanes::new(100);
    let group = TaskGroup::new("test");
    let first = lanes
        .enter(&"repo", owner(0))
        .await
        .expect("the lane is empty");
    let (report, mut order) = mpsc::channel(100);
    for owner in owners.iter().copied() {
        let (lanes, report) = (lanes.clone(), report.clone());
        group.spawn("entrant", async move {
            let turn = lanes.enter(&"repo", owner).await;
            let _turn = turn.expect("there is room");
            let reported = report.send(owner.key[0]).await;
            reported.expect("somebody listens");
        });
        tokio::task::yield_now().await;
    }
    drop((report, first));
    let mut seen = Vec::new();
    while let Some(owner) = order.recv().await {
        seen.push(owner);
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn owners_take_turns_however_many_wait_for_one_of_them() {
    let all = [owner(1), owner(1), owner(1), owner(2), owner(3)];
    assert_eq!(order_of(&all).await, [1, 2, 3, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn strangers_have_one_turn_of_four_beside_who_is_served() {
    let strangers = (1..=5).map(owner);
    let all: Vec<Owner> = strangers.chain([served(9); 5]).collect();
    assert_eq!(order_of(&all).await, [9, 9, 9, 1, 9, 9, 2, 3, 4, 5]);
}

#[tokio::test]
async fn in_a_full_lane_who_has_most_makes_room_and_hears_of_it() {
    let lanes = Lanes::new(2);
    let first = lanes.enter(&"repo", owner(1)).await.unwrap();
    let mut earlier = pin!(lanes.enter(&"repo", owner(1)));
    assert!(begin(&mut earlier).await.is_none());
    let mut later = pin!(lanes.enter(&"repo", owner(1)));
    assert!(begin(&mut later).await.is_none());
    let mut other = pin!(lanes.enter(&"repo", owner(2)));
    assert!(begin(&mut other).await.is_none());
    assert_eq!(later.await.unwrap_err(), Busy);
    assert_eq!(lanes.enter(&"repo", owner(1)).await.unwrap_err(), Busy);
    drop(first);
    drop(earlier.await.unwrap());
    drop(other.await.unwrap());
    assert_eq!((lanes.in_use(), lanes.waiting()), (0, 0));
}
