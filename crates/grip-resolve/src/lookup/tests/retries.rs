//! Retries.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use grip_limits::Verdict;

use super::*;

/// Few peers, all with this fault, and how often each was asked.
async fn asked(scene: &Scene, fault: Fault) -> (Result<Found, ResolveError>, Vec<u64>) {
    let names = scene.memory.names()[1..].to_vec();
    for name in &names {
        scene.memory.fault(name, fault.clone());
    }
    let found = scene.lookup(&scene.by_id()).await;
    let asked = names.iter().map(|name| scene.memory.asked(name)).collect();
    (found, asked)
}

#[tokio::test(start_paused = true)]
async fn transient_errors_are_retried_three_times_after_a_pause() {
    for error in [RequestError::Transient, RequestError::NoRoute] {
        let mut scene = Scene::new(3);
        scene.options.max_requests = 100;
        let began = Instant::now();
        let (found, asked) = asked(&scene, Fault::Error(error)).await;
        assert_eq!(asked, [4, 4]);
        assert!(matches!(found, Err(ResolveError::BreakerOpen { .. })));
        assert_eq!(scene.counters().retries_total, 6);
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
        let scene = Scene::new(3);
        let (found, asked) = asked(&scene, Fault::Error(error)).await;
        assert_eq!(asked, [1, 1]);
        assert!(matches!(found, Err(ResolveError::BreakerOpen { .. })));
    }
    let scene = Scene::new(3);
    let (found, asked) = asked(&scene, Fault::Busy).await;
    assert_eq!(asked, [1, 1]);
    assert!(matches!(found, Err(ResolveError::PeersBusy { .. })));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_retried_once_the_breaker_is_open() {
    let scene = Scene::new(3);
    let breaker = crate::BreakerOptions {
        min_requests: 2,
        ..Options::default().breaker
    };
    let shared = network_with(Arc::clone(&scene.network.dht), breaker);
    let scene = Scene {
        network: Arc::new(shared),
        ..scene
    };
    let (_, first) = asked(&scene, Fault::Error(RequestError::Transient)).await;
    assert_eq!(first, [2, 2]);
    // From now on nobody is asked at all.
    let (found, second) = asked(&scene, Fault::Error(RequestError::Transient)).await;
    assert_eq!(second, first);
    assert_eq!(scene.counters().peer_breaker_open_total, 2);
    let Err(ResolveError::BreakerOpen { retry_after }) = found else {
        panic!("{found:?}");
    };
    assert!(retry_after > ms(14_000) && retry_after <= ms(15_000));
    // After the cooldown a probe finds them well again.
    tokio::time::advance(ms(15_000)).await;
    for name in &scene.memory.names()[1..] {
        scene.memory.fault(name, None);
        scene.put(name, &scene.by_id());
    }
    assert!(scene.lookup(&scene.by_id()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn one_empty_response_proves_nothing_while_another_peer_cannot_be_asked() {
    for (fault, code) in [
        (Fault::Busy, "peers_busy"),
        (Fault::Close, "breaker_open"),
        (Fault::Error(RequestError::NoRoute), "breaker_open"),
        (Fault::Error(RequestError::Malformed), "breaker_open"),
    ] {
        let scene = Scene::new(4);
        let failing = scene.memory.names()[1].clone();
        scene.memory.fault(&failing, fault.clone());
        for key in [scene.by_id(), scene.by_name()] {
            let found = scene.lookup(&key).await.unwrap_err();
            assert_eq!(found.code(), code, "{fault:?}");
            assert!(found.retry_after().is_some());
        }
        scene.memory.fault(&failing, None);
        tokio::time::advance(ms(15_000)).await;
        let found = scene.lookup(&scene.by_id()).await;
        assert_eq!(found, Err(ResolveError::Unknown), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_behind_an_open_breaker_may_have_what_the_others_have_not() {
    let scene = Scene::new(4);
    let open = &scene.memory.names()[1];
    for _ in 0..4 {
        let peer = grip_dht::Peer {
            id: open.clone(),
            addresses: vec![],
        };
        let permit = scene.network.breakers.acquire(&peer);
        let permit = permit.map_err(|_| "open").unwrap();
        permit.answered(Verdict::Failure);
    }
    let found = scene.lookup(&scene.by_id()).await;
    let Err(ResolveError::BreakerOpen { retry_after }) = found else {
        panic!("{found:?}");
    };
    assert!(retry_after > ms(14_000) && retry_after <= ms(15_000));
    assert_eq!(scene.memory.asked(open), 0);
}

#[tokio::test(start_paused = true)]
async fn a_response_to_a_retry_counts() {
    let tries = AtomicU64::new(0);
    let script = Script::new(vec![peer(1), peer(2)], move |asked, _: &RecordKey| {
        if asked.id == peer(1).id && tries.fetch_add(1, Relaxed) == 0 {
            return Err(RequestError::Transient);
        }
        Ok(Response::default())
    });
    let (network, options) = (network(script.clone()), Options::default());
    let key = Key::Manifest(crate::ManifestId::of(b"x"));
    let deadline = Instant::now() + options.deadline;
    let found = network.lookup(&key, None, &options, deadline).await;
    assert_eq!(found, Err(ResolveError::Unknown));
    assert_eq!(script.asked.load(Relaxed), 3);
}
