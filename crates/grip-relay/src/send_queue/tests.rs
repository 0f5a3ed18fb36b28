use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::StreamExt as _;
use grip_types::{ClientNetwork, NetworkPrefixes};
use tokio::time::{advance, timeout};

use super::*;
use crate::quota::Quota;

fn network() -> Option<ClientNetwork> {
    Some(NetworkPrefixes::default().network([203, 0, 113, 1].into()))
}

fn send_queue(limit: usize) -> SendQueue {
    with_quota(limit, &Quota::new(64 << 20))
}

fn with_quota(limit: usize, quota: &Arc<Quota>) -> SendQueue {
    SendQueue::new(limit, quota.holder(network()), Arc::new(Stats::default()))
}

fn text(length: usize) -> Bytes {
    vec![b'x'; length].into()
}

fn offer(send_queue: &SendQueue, length: usize, expires: u64) -> bool {
    send_queue.offer(&text(1), &text(length), expires, Instant::now())
}

/// Takes what is queued without sending it.
async fn take(send_queue: &SendQueue) -> Batch {
    send_queue.take(|| 0).await.unwrap()
}

#[tokio::test]
async fn relay_6_an_event_that_expired_in_the_queue_is_not_sent() {
    let send_queue = send_queue(1_000);
    assert!(offer(&send_queue, 1, 100) && offer(&send_queue, 2, 200));
    let frames = send_queue.drain(150).await.unwrap();
    assert_eq!(frames, [Frame::Text(Bytes::from_static(b"xxx]"))]);
    assert_eq!(send_queue.progress(), (1, false));
    assert_eq!(send_queue.stats.outbound_bytes.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn answers_wait_for_room_and_live_events_do_not() {
    let send_queue = send_queue(2 * COMFORTABLE_BYTES);
    let room = send_queue.reserve(COMFORTABLE_BYTES).await;
    room.send([text(COMFORTABLE_BYTES)]);
    assert!(offer(&send_queue, 100, NEVER));
    let waiting = send_queue.reserve(1);
    tokio::pin!(waiting);
    let minute = Duration::from_secs(60);
    assert!(timeout(minute, &mut waiting).await.is_err());
    let batch = take(&send_queue).await;
    assert!(
        timeout(minute, &mut waiting).await.is_err(),
        "taken is not sent"
    );
    send_queue.sent(batch.bytes, batch.answers);
    waiting.await.send([text(1)]);
    let frames = send_queue.drain(0).await.unwrap();
    assert_eq!(frames, [Frame::Text(text(1))]);
}

#[tokio::test]
async fn relay_8_a_live_event_that_does_not_fit_cuts_the_reader_and_is_not_lost_in_silence() {
    let send_queue = send_queue(1_000);
    assert!(offer(&send_queue, 900, NEVER));
    assert!(!offer(&send_queue, 200, NEVER));
    assert!(!offer(&send_queue, 1, NEVER), "nothing after the gap");
    send_queue.overflowed().await;
    let last = Frame::Close(1008, "slow".into());
    send_queue.close([last.clone()], true);
    assert_eq!(send_queue.drain(0).await.unwrap(), [last]);
    assert!(send_queue.drain(0).await.is_none());
    send_queue.reserve(1).await.send([text(1)]);
    assert!(
        send_queue.drain(0).await.is_none(),
        "a closed queue takes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_behind_for_a_second_delays_the_writer_no_more_and_pays_for_what_it_holds()
{
    let quota = Quota::new(9 << 20);
    let (slow, other) = (with_quota(8 << 20, &quota), with_quota(8 << 20, &quota));
    let mega = 1 << 20;
    assert!(offer(&slow, mega, NEVER));
    assert_eq!(quota.used(), 0, "what all subscribers share costs nobody");
    assert_eq!(slow.stats.lagging_bytes.get(), 0);
    advance(LAG).await;
    assert!(offer(&slow, 100_000, NEVER));
    assert!(slow.stats.lagging_bytes.get() > mega as u64);
    assert!(quota.used() > mega);
    // The share of its network is a ninth of all, which is one.
    assert!(!offer(&slow, 100_000, NEVER));
    slow.overflowed().await;
    assert!(offer(&other, mega, NEVER), "a reader that is not behind");
    // What the slow one has goes with it.
    slow.drain(0).await.unwrap();
    assert_eq!((quota.used(), slow.stats.lagging_bytes.get()), (0, 0));
}

/// A socket whose other side reads nothing.
struct Stuck;

impl futures_util::Stream for Stuck {
    type Item = Frame;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Frame>> {
        Poll::Pending
    }
}

impl Sink<Frame> for Stuck {
    type Error = ();

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
        Poll::Pending
    }

    fn start_send(self: Pin<&mut Self>, _: Frame) -> Result<(), ()> {
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
        Poll::Pending
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_takes_nothing_is_found_out_without_another_event() {
    let quota = Quota::new(9 << 20);
    let send_queue = with_quota(8 << 20, &quota);
    assert!(offer(&send_queue, 2 << 20, NEVER) && offer(&send_queue, 2 << 20, NEVER));
    let (sink, _stream) = Stuck.split();
    let run = send_queue.run(sink);
    tokio::pin!(run);
    tokio::select! {
        () = &mut run => panic!("nothing ends it"),
        () = send_queue.overflowed() => {}
    }
    assert!(send_queue.stats.lagging_bytes.get() > 0);
}

#[tokio::test(start_paused = true)]
async fn answers_shrink_where_the_network_has_no_quota_and_large_ones_wait_for_it() {
    let quota = Quota::new(9 << 20);
    let mut taken = quota.holder(network());
    assert!(taken.resize(1 << 20));
    let send_queue = with_quota(8 << 20, &quota);
    assert_eq!(send_queue.reserve(256 << 10).await.bytes(), SMALL_BYTES);
    let whole = send_queue.reserve_whole(256 << 10);
    tokio::pin!(whole);
    let minute = Duration::from_secs(60);
    assert!(timeout(minute, &mut whole).await.is_err());
    drop(taken);
    let room = timeout(minute, whole).await.unwrap();
    assert_eq!(room.bytes(), 256 << 10);
    drop(room);
    assert_eq!(quota.used(), 0);
}
