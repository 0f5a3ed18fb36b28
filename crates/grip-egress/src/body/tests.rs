use std::convert::Infallible;

use futures_util::{Stream, StreamExt as _, stream};
use grip_limits::{HostStatus, Lane, Throttle, Why};
use grip_testkit::assert_matches;
use tokio::{io::AsyncReadExt as _, time::sleep};

use super::*;

const IDLE: Duration = Duration::from_secs(30);
const TOTAL: Duration = Duration::from_secs(15 * 60);

fn throttle() -> Throttle {
    Throttle::memory(grip_limits::Options::default())
}

fn domain() -> Domain {
    Domain::parse("a.example").unwrap()
}

/// A body of `chunks` with a permit of `throttle`.
async fn body(
    throttle: &Throttle,
    chunks: impl Stream<Item = &'static str> + Send + Sync + 'static,
) -> Body {
    let permit = throttle.acquire(&domain(), Lane::Git).await.unwrap();
    let bill = Bill {
        permit,
        _networks: None,
        verdict: Verdict::Success,
        advice: None,
    };
    let limits = Limits {
        max_bytes: 1000,
        idle: IDLE,
        deadline: Instant::now() + TOTAL,
    };
    let chunks = chunks.map(Ok::<_, Infallible>);
    Body::new(
        reqwest::Body::wrap_stream(chunks),
        domain(),
        limits,
        Some(bill),
    )
}

fn status(throttle: &Throttle) -> HostStatus {
    throttle.hosts().remove(0)
}

/// One byte every `pause`, for ever.
fn trickle(pause: Duration) -> impl Stream<Item = &'static str> + Send + Sync + 'static {
    stream::unfold((), move |()| async move {
        sleep(pause).await;
        Some(("x", ()))
    })
}

async fn read_all(body: &mut Body) -> Result<usize, EgressError> {
    let mut bytes = Vec::new();
    match body.read_to_end(&mut bytes).await {
        Ok(count) => Ok(count),
        Err(error) => Err(*error.into_inner().unwrap().downcast().unwrap()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_trickle_just_faster_than_the_limit_of_silence_ends_at_the_deadline() {
    let throttle = throttle();
    let mut body = body(&throttle, trickle(IDLE - Duration::from_secs(1))).await;
    let began = Instant::now();
    let error = read_all(&mut body).await.unwrap_err();
    assert_matches!(error, EgressError::TimedOut(Phase::Total));
    assert_eq!(began.elapsed().as_secs(), TOTAL.as_secs());
    assert_eq!(
        (
            status(&throttle).in_flight,
            status(&throttle).failures_total
        ),
        (0, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn silence_ends_the_body_at_its_limit() {
    let throttle = throttle();
    let chunks = stream::iter(["ab"]).chain(trickle(IDLE + Duration::from_secs(1)));
    let mut body = body(&throttle, chunks).await;
    let began = Instant::now();
    let error = read_all(&mut body).await.unwrap_err();
    assert_matches!(error, EgressError::TimedOut(Phase::Body));
    assert_eq!(began.elapsed().as_secs(), IDLE.as_secs());
}

#[tokio::test(start_paused = true)]
async fn empty_pieces_do_not_keep_a_body_alive() {
    let throttle = throttle();
    let chunks = trickle(Duration::from_secs(1)).map(|_| "");
    let mut body = body(&throttle, chunks).await;
    let error = read_all(&mut body).await.unwrap_err();
    assert_matches!(error, EgressError::TimedOut(Phase::Body));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_not_a_silent_host() {
    let throttle = throttle();
    let mut body = body(&throttle, stream::iter(["ab", "cd", "ef"])).await;
    let mut bytes = [0; 2];
    for expected in [b"ab", b"cd", b"ef"] {
        sleep(2 * IDLE).await;
        body.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, expected);
    }
    assert_eq!(read_all(&mut body).await.unwrap(), 0);
    assert_eq!(
        (
            status(&throttle).in_flight,
            status(&throttle).failures_total
        ),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_after_the_deadline_gets_nothing() {
    let throttle = throttle();
    let mut body = body(&throttle, stream::iter(["ab"])).await;
    sleep(TOTAL).await;
    let error = read_all(&mut body).await.unwrap_err();
    assert_matches!(error, EgressError::TimedOut(Phase::Total));
}

#[tokio::test]
async fn a_body_is_read_in_pieces_of_any_size() {
    let throttle = throttle();
    let mut body = body(&throttle, stream::iter(["hello ", "", "world"])).await;
    let mut text = Vec::new();
    let mut piece = [0; 4];
    loop {
        match body.read(&mut piece).await.unwrap() {
            0 => break,
            count => text.extend_from_slice(&piece[..count]),
        }
    }
    assert_eq!(text, b"hello world");
    assert_eq!(status(&throttle).in_flight, 0);
}

#[tokio::test]
async fn what_is_dropped_early_is_given_up() {
    let throttle = throttle();
    let body = body(&throttle, stream::iter(["ab"])).await;
    assert_eq!(status(&throttle).in_flight, 1);
    drop(body);
    let status = status(&throttle);
    assert_eq!(
        (status.in_flight, status.started, status.failures_total),
        (0, 1, 0)
    );
}

#[tokio::test]
async fn advice_is_heard_though_the_body_is_dropped() {
    let throttle = throttle();
    let mut body = body(&throttle, stream::iter(["ab"])).await;
    let advice = Advice::new(Duration::from_secs(60), Why::RateLimit);
    body.bill.as_mut().unwrap().advice = Some(advice);
    drop(body);
    assert!(status(&throttle).closed.is_some());
}
