//! Addresses that third parties name, and peers that are slow.

use grip_dht::Peer;

use super::*;

const GOOD: &str = "/ip4/1.1.1.1/tcp/1";

fn at(n: u64, addresses: &[&str]) -> Peer {
    Peer {
        addresses: addresses.iter().map(ToString::to_string).collect(),
        ..peer(n)
    }
}

fn closer(peers: Vec<Peer>) -> Result<Response, RequestError> {
    Ok(Response {
        closer: peers,
        ..Response::default()
    })
}

/// A network in which peer 9 has `manifest` and is found at [`GOOD`] alone. Peer 1 names it at other
/// addresses, and peer 2, which takes longer, where it is; `honest` says whether it does.
fn misled(manifest: &Manifest, honest: bool) -> Arc<Script> {
    let bytes = manifest.bytes().clone();
    Script::new(vec![peer(1), peer(2)], move |asked, _: &RecordKey| {
        if asked.id == peer(1).id {
            let wrong: Vec<String> = (2..10).map(|n| format!("/ip4/2.2.2.2/tcp/{n}")).collect();
            let wrong: Vec<&str> = wrong.iter().map(String::as_str).collect();
            closer(vec![at(9, &wrong)])
        } else if asked.id == peer(2).id {
            closer(if honest { vec![at(9, &[GOOD])] } else { vec![] })
        } else if asked.addresses.iter().any(|address| address == GOOD) {
            Ok(Response {
                value: Some(bytes.clone()),
                ..Response::default()
            })
        } else {
            Err(RequestError::NoRoute)
        }
    })
}

async fn look(network: &Network, key: &Key) -> Result<Found, ResolveError> {
    let options = Options::default();
    let deadline = Instant::now() + options.deadline;
    network.lookup(key, None, &options, deadline).await
}

#[tokio::test(start_paused = true)]
async fn addresses_of_all_who_name_a_peer_are_merged() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let key = Key::Manifest(manifest.id());
    let network = network(misled(&manifest, true));
    assert_eq!(look(&network, &key).await.unwrap().manifest, manifest);
}

#[tokio::test(start_paused = true)]
async fn a_peer_is_not_blamed_for_addresses_that_another_named() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let key = Key::Manifest(manifest.id());
    let lying = network(misled(&manifest, false));
    for _ in 0..9 {
        let found = look(&lying, &key).await;
        assert!(matches!(found, Err(ResolveError::BreakerOpen { .. })));
    }
    assert!(lying.breakers.states().is_empty());
    // The route alone is left alone, and the peer is asked as soon as somebody names another.
    let told = Network {
        breakers: Arc::into_inner(lying).unwrap().breakers,
        ..network_with(misled(&manifest, true), Options::default().breaker)
    };
    assert_eq!(look(&told, &key).await.unwrap().manifest, manifest);
}

#[tokio::test(start_paused = true)]
async fn an_address_at_which_nobody_speaks_is_not_the_fault_of_the_peer() {
    for is_connected in [false, true] {
        let script = Script::new(vec![at(1, &[GOOD])], |_, _: &RecordKey| closer(vec![]));
        let script = Arc::new(Script {
            latency: ms(10_000),
            is_connected: is_connected.into(),
            ..Arc::into_inner(script).unwrap()
        });
        let network = network(script.clone());
        let key = Key::Manifest(crate::ManifestId::of(b"x"));
        for _ in 0..4 {
            assert!(look(&network, &key).await.is_err());
        }
        assert_eq!(!network.breakers.states().is_empty(), is_connected);
        // The route is left alone in either case, so that it costs no request.
        assert!(network.breakers.is_open(&at(1, &[GOOD])));
        assert!(
            is_connected
                != network
                    .breakers
                    .acquire(&at(1, &["/ip4/1.1.1.2/tcp/1"]))
                    .is_ok()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_peer_that_answers_is_not_blamed_for_being_overtaken() {
    let scene = Scene::new(40);
    let key = scene.by_id();
    let peers = scene.peers(&key).await;
    for peer in &peers[..3] {
        scene.memory.latency_of(peer, ms(250));
    }
    peers[..6].iter().for_each(|peer| scene.put(peer, &key));
    for _ in 0..9 {
        scene.finds(&key).await;
        tokio::time::advance(ms(2_000)).await;
    }
    assert!(scene.counters().hedges_total > 9, "they were overtaken");
    assert!(scene.network.breakers.states().is_empty());
    assert_eq!(scene.memory.asked(&peers[0]), 9);
}
