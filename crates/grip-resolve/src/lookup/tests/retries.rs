//! Retries.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use grip_limits::Verdict;

use super::*;

/// Few peers, all with this fault, and how often each was asked.
async fn asked(field: &Field, fault: Fault) -> (Result<Found, ResolveError>, Vec<u64>) {
    let names = field.memory.names()[1..].to_vec();
    for name in &names {
        field.memory.fault(name, fault.clone());
    }
    let walked = field.lookup(&field.by_id()).await;
    let asked = names.iter().map(|name| field.memory.asked(name)).collect();
    (walked, asked)
}

#[tokio::test(start_paused = true)]
async fn transient_errors_are_retried_three_times_after_a_pause() {
    for error in [RequestError::Transient, RequestError::NoRoute] {
        let mut field = Field::new(3);
        field.options.max_requests = 100;
        let began = Instant::now();
        let (walked, asked) = asked(&field, Fault::Error(error)).await;
        assert_eq!(asked, [4, 4]);
        assert!(matches!(walked, Err(ResolveError::BreakerOpen { .. })));
        assert_eq!(field.counters().retries_total, 6);
        let took = began.elapsed();
        assert!((ms(80 + 150)..=ms(80 + 300)).contains(&took), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_errors_are_not_retried() {
    for error in [
        RequestError::Malformed,
        RequestError::TooLarge,
        RequestError::Unsupported,
    ] {
        let field = Field::new(3);
        let (walked, asked) = asked(&field, Fault::Error(error)).await;
        assert_eq!(asked, [1, 1]);
        assert!(matches!(walked, Err(ResolveError::BreakerOpen { .. })));
    }
    let field = Field::new(3);
    let (walked, asked) = asked(&field, Fault::Busy).await;
    assert_eq!(asked, [1, 1]);
    assert!(matches!(walked, Err(ResolveError::Busy { .. })));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_retried_once_the_breaker_is_open() {
    let group = TaskGroup::new("test");
    let field = Field::new(3);
    let breaker = crate::BreakerOptions {
        min_requests: 2,
        ..Options::default().breaker
    };
    let shared = Network {
        own: field.network.own.clone(),
        dht: Arc::clone(&field.network.dht),
        breakers: Breakers::new(breaker, MAX_PEERS),
        budget: HedgeBudget::default(),
        counters: Arc::default(),
        group,
    };
    let field = Field {
        network: Arc::new(shared),
        ..field
    };
    let (_, first) = asked(&field, Fault::Error(RequestError::Transient)).await;
    assert_eq!(first, [2, 2]);
    // From now on nobody is asked at all.
    let (walked, second) = asked(&field, Fault::Error(RequestError::Transient)).await;
    assert_eq!(second, first);
    let Err(ResolveError::BreakerOpen { retry_after }) = walked else {
        panic!("{walked:?}");
    };
    assert!(retry_after > ms(14_000) && retry_after <= ms(15_000));
    // After the cooldown a probe finds them well again.
    tokio::time::advance(ms(15_000)).await;
    for name in &field.memory.names()[1..] {
        field.memory.fault(name, None);
        field.put(name, &field.by_id());
    }
    assert!(field.lookup(&field.by_id()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn one_who_has_nothing_proves_nothing_while_another_cannot_be_asked() {
    for (fault, code) in [
        (Fault::Busy, "busy"),
        (Fault::Close, "breaker_open"),
        (Fault::Error(RequestError::NoRoute), "breaker_open"),
        (Fault::Error(RequestError::Malformed), "breaker_open"),
    ] {
        let field = Field::new(4);
        let failing = field.memory.names()[1].clone();
        field.memory.fault(&failing, fault.clone());
        for key in [field.by_id(), field.by_name()] {
            let walked = field.lookup(&key).await.unwrap_err();
            assert_eq!(walked.code(), code, "{fault:?}");
            assert!(walked.retry_after().is_some());
        }
        field.memory.fault(&failing, None);
        tokio::time::advance(ms(15_000)).await;
        let walked = field.lookup(&field.by_id()).await;
        assert_eq!(walked, Err(ResolveError::Unknown), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_left_alone_may_have_what_the_others_have_not() {
    let field = Field::new(4);
    let open = &field.memory.names()[1];
    for _ in 0..4 {
        let permit = field.network.breakers.acquire(open, ms(1));
        let permit = permit.map_err(|_| "open").unwrap();
        permit.settle(Some(Verdict::Failure));
    }
    let walked = field.lookup(&field.by_id()).await;
    let Err(ResolveError::BreakerOpen { retry_after }) = walked else {
        panic!("{walked:?}");
    };
    assert!(retry_after > ms(14_000) && retry_after <= ms(15_000));
    assert_eq!(field.memory.asked(open), 0);
}

#[tokio::test(start_paused = true)]
async fn who_answers_when_asked_again_has_answered() {
    let tries = AtomicU64::new(0);
    let script = Script::new(vec![peer(1), peer(2)], move |asked, _: &RecordKey| {
        match asked.id == peer(1).id && tries.fetch_add(1, Relaxed) == 0 {
            true => Err(RequestError::Transient),
            false => Ok(Response::default()),
        }
    });
    let (network, options) = (network(script.clone()), Options::default());
    let key = Key::Manifest(crate::ManifestId::of(b"x"));
    let deadline = Instant::now() + options.deadline;
    let walked = network.lookup(&key, None, &options, deadline).await;
    assert_eq!(walked, Err(ResolveError::Unknown));
    assert_eq!(script.asked.load(Relaxed), 3);
}
