use std::time::Duration;

use grip_types::Domain;
use tokio::time::advance;

use super::*;
use crate::{Lane, Permit, Reason, Refused, Throttle, Verdict};

const MACHINE: &str = "203.0.113.7";

fn domain(name: &str) -> Domain {
    Domain::parse(name).unwrap()
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn at(throttle: &Throttle, name: &str, address: &str) -> Result<Permit<Networks>, Refused> {
    throttle.acquire_networks(&domain(name), addresses(&[address]))
}

/// One whole request of a name to a machine; false if it was refused.
fn ask(throttle: &Throttle, name: &str, address: &str) -> bool {
    at(throttle, name, address).is_ok()
}

/// Has a host answer a request well.
async fn prove(throttle: &Throttle, name: &str) {
    let permit = throttle.acquire(&domain(name), Lane::Git).await.unwrap();
    permit.finish(Verdict::Success, None);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_names_of_one_machine_share_one_window() {
    let throttle = Throttle::memory(Options::default());
    let asked = (0..1_000).filter(|n| ask(&throttle, &format!("n{n}.example"), MACHINE));
    assert_eq!(asked.count(), 60);
    // Another machine is another matter.
    assert!(ask(&throttle, "n1.example", "203.0.113.8"));
    let refused = at(&throttle, "n1.example", MACHINE).unwrap_err();
    assert_eq!(refused.reason, Reason::Network);
    advance(refused.retry_at - Instant::now()).await;
    assert!(ask(&throttle, "n1.example", MACHINE));
}

#[tokio::test(start_paused = true)]
async fn names_made_up_for_a_machine_leave_half_to_the_hosts_that_answer_there() {
    let throttle = Throttle::memory(Options::default());
    for n in 0..1_000 {
        ask(&throttle, &format!("n{n}.example"), MACHINE);
    }
    prove(&throttle, "honest.example").await;
    let asked = (0..1_000).filter(|_| ask(&throttle, "honest.example", MACHINE));
    assert_eq!(asked.count(), 60);
    assert!(!ask(&throttle, "other.example", MACHINE));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_the_operator_named_is_never_refused_for_its_neighbours() {
    let throttle = Throttle::memory(Options {
        configured: [domain("github.example")].into(),
        ..Options::default()
    });
    for n in 0..1_000 {
        ask(&throttle, &format!("n{n}.example"), MACHINE);
    }
    assert!((0..1_000).all(|_| ask(&throttle, "github.example", MACHINE)));
    // What it was asked counts all the same.
    prove(&throttle, "honest.example").await;
    assert!(!ask(&throttle, "honest.example", MACHINE));
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_to_one_machine_are_bounded_over_all_names() {
    let throttle = Throttle::memory(Options::default());
    let held: Vec<_> = (0..100)
        .filter_map(|n| at(&throttle, &format!("n{n}.example"), MACHINE).ok())
        .collect();
    assert_eq!(held.len(), 10);
    drop(held);
    assert!(ask(&throttle, "n0.example", MACHINE));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_not_made_does_not_count() {
    let throttle = Throttle::memory(Options::default());
    for _ in 0..1_000 {
        let permit = at(&throttle, "a.example", MACHINE).unwrap();
        permit.settle(NetworkOutcome::Unused);
    }
    assert!(ask(&throttle, "a.example", MACHINE));
}

#[tokio::test(start_paused = true)]
async fn a_network_is_never_asked_less_than_a_single_host_may_be() {
    let limits = Limits {
        in_flight: 50,
        per_window: 500,
        ..Limits::default()
    };
    let throttle = Throttle::memory(Options {
        limits,
        ..Options::default()
    });
    assert!((0..500).all(|_| ask(&throttle, "a.example", MACHINE)));
    assert!(!ask(&throttle, "a.example", MACHINE));
}

#[tokio::test(start_paused = true)]
async fn logs_of_networks_that_are_over_take_no_memory() {
    let mut networks = Networks::new(&Options::default());
    let request = |last: u32| NetworkRequest {
        addresses: vec![std::net::Ipv4Addr::from(0x0100_0000 + last).into()],
        trust: Trust::Unproven,
    };
    for n in 0..50_000 {
        if let Ok(grant) = networks.take(&request(n), Instant::now()) {
            networks.settle(&grant, NetworkOutcome::Done, Instant::now());
        }
    }
    advance(Duration::from_secs(61)).await;
    networks.take(&request(0), Instant::now()).unwrap();
    let held = networks.accounts.iter().map(|it| it.starts.capacity());
    assert!(held.sum::<usize>() <= 4);
}
