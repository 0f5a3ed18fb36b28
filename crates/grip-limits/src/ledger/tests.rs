use super::*;

fn domain(name: &str) -> Domain {
    Domain::parse(name).unwrap()
}

fn set(names: &[&str]) -> Since {
    Since::Rang(names.iter().map(|name| domain(name)).collect())
}

#[test]
fn a_listener_hears_exactly_what_rang_since_it_last_listened() {
    let bell = Bell::default();
    bell.ring(&domain("a.example"));
    let (since, seen) = bell.since(0);
    assert_eq!(since, set(&["a.example"]));
    assert_eq!(bell.since(seen), (set(&[]), seen));

    bell.ring(&domain("b.example"));
    bell.ring(&domain("c.example"));
    bell.ring(&domain("b.example"));
    assert_eq!(bell.since(seen).0, set(&["b.example", "c.example"]));
}

#[test]
fn a_listener_that_comes_too_late_learns_that_it_missed_some() {
    let bell = Bell::default();
    for _ in 0..Bell::MEMORY {
        bell.ring(&domain("a.example"));
    }
    assert_eq!(bell.since(0).0, set(&["a.example"]));
    bell.ring(&domain("a.example"));
    let (since, seen) = bell.since(0);
    assert_eq!(since, Since::Missed);
    assert_eq!(bell.since(seen).0, set(&[]));
    assert_eq!(bell.rung.lock().newest.len(), Bell::MEMORY);
}

#[test]
fn ringing_for_all_reaches_every_listener() {
    let bell = Bell::default();
    bell.ring(&domain("a.example"));
    let (_, seen) = bell.since(0);
    let mut count = bell.subscribe();
    bell.ring_all();
    assert!(count.has_changed().unwrap());
    count.borrow_and_update();
    let (since, seen) = bell.since(seen);
    assert_eq!(since, Since::Missed);
    bell.ring(&domain("b.example"));
    assert_eq!(bell.since(seen).0, set(&["b.example"]));
}
