use std::time::Duration;

use tokio::time::timeout;

use super::*;

fn outbox(limit: usize) -> Outbox {
    Outbox::new(limit, Arc::new(Stats::default()))
}

fn text(length: usize) -> Bytes {
    vec![b'x'; length].into()
}

#[tokio::test]
async fn relay_6_an_event_that_expired_in_the_queue_is_not_sent() {
    let outbox = outbox(1_000);
    assert!(outbox.offer(text(1), 100) && outbox.offer(text(2), 200));
    let batch = outbox.take(|| 150).await.unwrap();
    assert_eq!(batch.frames, [Frame::Text(text(2))]);
    outbox.sent(batch.bytes);
    assert_eq!(outbox.progress(), (1, false));
    assert_eq!(outbox.stats.outbound_bytes.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn answers_wait_for_room_and_live_events_do_not() {
    let outbox = outbox(2 * COMFORTABLE_BYTES);
    outbox.send([text(COMFORTABLE_BYTES)]).await;
    assert!(outbox.offer(text(100), NEVER));
    let waiting = outbox.send([text(1)]);
    tokio::pin!(waiting);
    let minute = Duration::from_secs(60);
    assert!(timeout(minute, &mut waiting).await.is_err());
    let batch = outbox.take(|| 0).await.unwrap();
    assert!(
        timeout(minute, &mut waiting).await.is_err(),
        "taken is not sent"
    );
    outbox.sent(batch.bytes);
    waiting.await;
    assert_eq!(
        outbox.take(|| 0).await.unwrap().frames,
        [Frame::Text(text(1))]
    );
}

#[tokio::test]
async fn relay_8_a_live_event_that_does_not_fit_cuts_the_reader_and_is_not_lost_in_silence() {
    let outbox = outbox(1_000);
    assert!(outbox.offer(text(900), NEVER));
    assert!(!outbox.offer(text(200), NEVER));
    assert!(!outbox.offer(text(1), NEVER), "nothing after the gap");
    outbox.overflowed().await;
    let last = Frame::Close(1008, "slow".into());
    outbox.close([last.clone()], true);
    assert_eq!(outbox.take(|| 0).await.unwrap().frames, [last]);
    assert!(outbox.take(|| 0).await.is_none());
    outbox.send([text(1)]).await;
    assert!(
        outbox.take(|| 0).await.is_none(),
        "a closed queue takes nothing"
    );
}
