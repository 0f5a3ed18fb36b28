use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::*;

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn keep(found: &[&str]) -> Result<Vec<IpAddr>, Special> {
    let host = Domain::parse("a.example").unwrap();
    sift(&Rules::new(false, Vec::new()), &host, addresses(found))
}

#[test]
fn g02_53_one_answer_that_is_not_global_refuses_the_name_wherever_it_stands() {
    let public = vec!["1.1.1.1"; 1_000];
    for (inside, special) in [
        ("10.0.0.1", Special::Private),
        ("::1", Special::Loopback),
        ("64:ff9b::7f00:1", Special::Loopback),
        ("169.254.169.254", Special::Metadata),
    ] {
        for place in [0, 1, MAX_ADDRESSES, public.len()] {
            let mut found = public.clone();
            found.insert(place, inside);
            assert_eq!(keep(&found), Err(special), "{inside} at {place}");
        }
    }
    let found = ["1.1.1.1", "2606:4700::1111"];
    assert_eq!(keep(&found), Ok(addresses(&found)));
}

#[test]
fn a_name_without_a_public_address_is_refused_with_what_it_leads_to() {
    assert_eq!(keep(&["10.0.0.1"]), Err(Special::Private));
    assert_eq!(keep(&["::ffff:127.0.0.1"]), Err(Special::Loopback));
    assert_eq!(keep(&[]), Ok(Vec::new()));
}

#[test]
fn only_the_first_addresses_of_a_name_are_tried() {
    let many = vec!["1.1.1.1"; 1000];
    assert_eq!(keep(&many).unwrap().len(), MAX_ADDRESSES);
}

#[tokio::test]
async fn the_operating_system_knows_this_machine() {
    let found = SystemLookup::default().lookup("localhost").await.unwrap();
    assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty());
}

#[test]
fn names_below_one_domain_are_one_zone() {
    for (name, zone) in [
        ("a.b.example.com", "example.com"),
        ("example.com.", "example.com"),
        ("localhost", "localhost"),
        ("", ""),
    ] {
        assert_eq!(last_labels(name, 2), zone);
    }
    assert_eq!(last_labels("n1.honest.co.uk", 3), "honest.co.uk");
}

#[tokio::test]
async fn names_whose_servers_never_answer_take_a_few_places_alone() {
    static HANGING: AtomicUsize = AtomicUsize::new(0);
    static IS_OPEN: Mutex<bool> = Mutex::new(false);
    static OPENED: Condvar = Condvar::new();
    let system = SystemLookup::asking(|host| {
        if host.ends_with("hanging.co.example") {
            HANGING.fetch_add(1, Ordering::SeqCst);
            let closed = IS_OPEN.lock().unwrap();
            drop(OPENED.wait_while(closed, |is_open| !*is_open));
        }
        Ok(addresses(&["1.1.1.1"]))
    });
    let mut waiting = FuturesUnordered::new();
    for n in 0..1_000 {
        let system = system.clone();
        waiting.push(async move { system.lookup(&format!("n{n}.hanging.co.example")).await });
    }
    // All have asked, and nobody waits any longer.
    let given_up = tokio::time::timeout(Duration::from_millis(50), waiting.next()).await;
    assert!(given_up.is_err());
    drop(waiting);
    assert!(system.lookup("honest.co.example").await.is_ok());
    assert!(system.lookup("other.example").await.is_ok());
    let is_full = || HANGING.load(Ordering::SeqCst) == 4;
    let waited = grip_testkit::until_true("all places are taken", is_full).await;
    waited.unwrap();
    assert_eq!(system.places.available_permits(), MAX_LOOKUPS - 4);
    *IS_OPEN.lock().unwrap() = true;
    OPENED.notify_all();
    assert!(system.lookup("n1.hanging.co.example").await.is_ok());
    // Zones that nobody asks for are forgotten.
    let is_forgotten = || system.zones.lock().len() <= 4;
    assert!(is_forgotten());
}
