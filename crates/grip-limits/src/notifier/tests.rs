use super::*;

fn domain(name: &str) -> Domain {
    Domain::parse(name).unwrap()
}

fn set(names: &[&str]) -> Since {
    Since::Hosts(names.iter().map(|name| domain(name)).collect())
}

#[test]
fn a_listener_learns_exactly_what_was_noticed_since_it_last_looked() {
    let notifier = Notifier::default();
    notifier.notify(&domain("a.example"));
    let (since, seen) = notifier.since(0);
    assert_eq!(since, set(&["a.example"]));
    assert_eq!(notifier.since(seen), (set(&[]), seen));

    notifier.notify(&domain("b.example"));
    notifier.notify(&domain("c.example"));
    notifier.notify(&domain("b.example"));
    assert_eq!(notifier.since(seen).0, set(&["b.example", "c.example"]));
}

#[test]
fn a_listener_that_comes_too_late_learns_that_it_missed_some() {
    let notifier = Notifier::default();
    for _ in 0..Notifier::MEMORY {
        notifier.notify(&domain("a.example"));
    }
    assert_eq!(notifier.since(0).0, set(&["a.example"]));
    notifier.notify(&domain("a.example"));
    let (since, seen) = notifier.since(0);
    assert_eq!(since, Since::Missed);
    assert_eq!(notifier.since(seen).0, set(&[]));
    assert_eq!(notifier.notices.lock().newest.len(), Notifier::MEMORY);
}

#[test]
fn a_notice_of_all_hosts_reaches_every_listener() {
    let notifier = Notifier::default();
    notifier.notify(&domain("a.example"));
    let (_, seen) = notifier.since(0);
    let mut count = notifier.subscribe();
    notifier.notify_all();
    assert!(count.has_changed().unwrap());
    count.borrow_and_update();
    let (since, seen) = notifier.since(seen);
    assert_eq!(since, Since::Missed);
    notifier.notify(&domain("b.example"));
    assert_eq!(notifier.since(seen).0, set(&["b.example"]));
}
