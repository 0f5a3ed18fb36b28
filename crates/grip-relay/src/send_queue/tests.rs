use std::time::Duration;

use tokio::time::timeout;

use super::*;

fn send_queue(limit: usize) -> SendQueue {
    SendQueue::new(limit, Arc::new(Stats::default()))
}

fn text(length: usize) -> Bytes {
    vec![b'x'; length].into()
}

#[tokio::test]
async fn relay_6_an_event_that_expired_in_the_queue_is_not_sent() {
    let send_queue = send_queue(1_000);
    assert!(send_queue.offer(text(1), 100) && send_queue.offer(text(2), 200));
    let batch = send_queue.take(|| 150).await.unwrap();
    assert_eq!(batch.frames, [Frame::Text(text(2))]);
    send_queue.sent(batch.bytes);
    assert_eq!(send_queue.progress(), (1, false));
    assert_eq!(send_queue.stats.outbound_bytes.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn answers_wait_for_room_and_live_events_do_not() {
    let send_queue = send_queue(2 * COMFORTABLE_BYTES);
    send_queue.send([text(COMFORTABLE_BYTES)]).await;
    assert!(send_queue.offer(text(100), NEVER));
    let waiting = send_queue.send([text(1)]);
    tokio::pin!(waiting);
    let minute = Duration::from_secs(60);
    assert!(timeout(minute, &mut waiting).await.is_err());
    let batch = send_queue.take(|| 0).await.unwrap();
    assert!(
        timeout(minute, &mut waiting).await.is_err(),
        "taken is not sent"
    );
    send_queue.sent(batch.bytes);
    waiting.await;
    assert_eq!(
        send_queue.take(|| 0).await.unwrap().frames,
        [Frame::Text(text(1))]
    );
}

#[tokio::test]
async fn relay_8_a_live_event_that_does_not_fit_cuts_the_reader_and_is_not_lost_in_silence() {
    let send_queue = send_queue(1_000);
    assert!(send_queue.offer(text(900), NEVER));
    assert!(!send_queue.offer(text(200), NEVER));
    assert!(!send_queue.offer(text(1), NEVER), "nothing after the gap");
    send_queue.overflowed().await;
    let last = Frame::Close(1008, "slow".into());
    send_queue.close([last.clone()], true);
    assert_eq!(send_queue.take(|| 0).await.unwrap().frames, [last]);
    assert!(send_queue.take(|| 0).await.is_none());
    send_queue.send([text(1)]).await;
    assert!(
        send_queue.take(|| 0).await.is_none(),
        "a closed queue takes nothing"
    );
}
