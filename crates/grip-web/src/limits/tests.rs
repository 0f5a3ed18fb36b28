use super::*;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, last])
}

fn client(last: u8, exempt: bool) -> Client {
    let ip = ip(last);
    Client { ip, exempt }
}

#[test]
fn commits_are_logged_for_a_network_until_its_share_of_the_hour_is_spent() {
    let bounds = WebLimits::default();
    let limits = Limits::new(&bounds);
    for _ in 0..256 {
        assert!(limits.spend_logged_commit(client(1, false), &bounds));
    }
    assert!(!limits.spend_logged_commit(client(1, false), &bounds));
    assert!(limits.spend_logged_commit(client(2, false), &bounds));
    assert!(limits.spend_logged_commit(client(1, true), &bounds));
}

#[test]
fn a_class_is_full_at_its_bound_and_free_again_on_drop() {
    let bounds = WebLimits {
        page: 1,
        ..Default::default()
    };
    let limits = Limits::new(&bounds);
    let request = |class| limits.request(class, client(1, false), None, &bounds);
    let first = request(Class::Page);
    assert!(first.is_some());
    assert!(request(Class::Page).is_none());
    assert!(request(Class::Push).is_some());
    drop(first);
    assert!(request(Class::Page).is_some());
}

/// One permit for pages with differences, and eight places to wait for it.
fn one_diff() -> WebLimits {
    WebLimits {
        diff: 1,
        api: 1,
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_of_code_waits_a_moment_for_a_permit_and_nothing_else_does() {
    let bounds = one_diff();
    let limits = Limits::new(&bounds);
    let ask = |class, last| limits.request_soon(class, client(last, false), None, &bounds);
    let first = ask(Class::Diff, 1).await;
    let mut second = std::pin::pin!(ask(Class::Diff, 2));
    assert!(futures_util::poll!(second.as_mut()).is_pending());
    drop(first);
    let second = second.await;
    assert!(second.is_some());

    let began = Instant::now();
    assert!(ask(Class::Diff, 1).await.is_none());
    assert_eq!(began.elapsed(), PATIENCE);
    let _api = ask(Class::Api, 1).await;
    assert!(ask(Class::Api, 1).await.is_none());
    assert_eq!(began.elapsed(), PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn one_address_takes_a_quarter_of_a_line_and_leaves_with_those_who_go() {
    let bounds = one_diff();
    let limits = Limits::new(&bounds);
    let _taken = limits.request(Class::Diff, client(9, false), None, &bounds);
    let wait =
        |last| Box::pin(limits.request_soon(Class::Diff, client(last, false), None, &bounds));
    let mut waiting = vec![wait(1), wait(1), wait(2)];
    for one in &mut waiting {
        assert!(futures_util::poll!(one).is_pending());
    }
    let began = Instant::now();
    assert!(wait(1).await.is_none());
    assert_eq!(
        began.elapsed(),
        Duration::ZERO,
        "its part of the line is full"
    );
    drop(waiting);
    assert!(futures_util::poll!(wait(1)).is_pending());
    let line = &limits.lines[Class::Diff as usize];
    assert_eq!(line.waiting.total.0.load(Ordering::Acquire), 0);
}

#[test]
fn one_address_takes_a_quarter_of_the_permits_of_any_class_at_most() {
    let bounds = WebLimits::default();
    for &class in Class::ALL {
        let limits = Limits::new(&bounds);
        let all = std::iter::from_fn(|| limits.request(class, client(1, false), None, &bounds));
        let all: Vec<_> = all.collect();
        let expected = match class {
            Class::Websocket => bounds.websocket,
            _ => class.bound(&bounds) / 4,
        };
        assert_eq!(all.len(), expected, "{class:?}");
    }
}

#[test]
fn what_one_address_may_have_leaves_the_rest_to_others_and_comes_back() {
    let bounds = WebLimits {
        push: 8,
        ..Default::default()
    };
    let limits = Limits::new(&bounds);
    let request = |n, exempt| limits.request(Class::Push, client(n, exempt), None, &bounds);
    let mine = [request(1, false), request(1, false)];
    assert!(mine.iter().all(Option::is_some));
    assert!(request(1, false).is_none());
    let in_flight = limits.in_flight(Class::Push);
    assert_eq!(in_flight, 2, "a refusal takes nothing");
    assert!(request(2, false).is_some() && request(1, true).is_some());
    drop(mine);
    assert!(request(1, false).is_some());
    assert!(limits.shares.0.lock().is_empty());
}

#[test]
fn the_fuller_it_is_the_less_one_network_gets() {
    let bounds = WebLimits::default();
    let limits = Limits::new(&bounds);
    let take = |last| limits.request(Class::Push, client(last, false), None, &bounds);
    let all = |last| std::iter::from_fn(move || take(last)).collect::<Vec<_>>();
    let held: Vec<Vec<_>> = (1..=50).map(all).collect();
    let counts: Vec<usize> = held.iter().map(Vec::len).collect();
    assert_eq!(counts[..3], [16, 16, 10]);
    assert!(counts.is_sorted_by(|one, next| one >= next), "{counts:?}");
    // With a quarter for each there would be four.
    let served = counts.iter().filter(|count| **count > 0).count();
    assert!(served >= 10, "{counts:?}");
}

#[test]
fn one_repository_takes_half_of_the_permits_at_most() {
    let bounds = WebLimits {
        fetch: 8,
        ..Default::default()
    };
    let limits = Limits::new(&bounds);
    let owner = nostr::prelude::PublicKey::from_byte_array([7; 32]);
    let repo = |name| RepoAddr::new(owner, grip_types::Identifier::parse(name).unwrap());
    let take = |name| {
        let repo = repo(name);
        limits.request(Class::Fetch, client(1, true), Some(&repo), &bounds)
    };
    let busy: Vec<_> = std::iter::from_fn(|| take("busy")).collect();
    assert_eq!(busy.len(), 4);
    assert!(take("other").is_some());
    drop(busy);
    assert!(limits.repositories.0.lock().is_empty());
}

#[test]
fn two_networks_do_not_close_a_repository_to_a_third() {
    let bounds = WebLimits::default();
    let limits = Limits::new(&bounds);
    let owner = nostr::prelude::PublicKey::from_byte_array([7; 32]);
    let repo = RepoAddr::new(owner, grip_types::Identifier::parse("victim").unwrap());
    let take = |last| limits.request(Class::Push, client(last, false), Some(&repo), &bounds);
    let all = |last| std::iter::from_fn(|| take(last)).collect::<Vec<_>>();
    let held = [all(1), all(2)];
    assert_eq!(held.each_ref().map(Vec::len), [8, 8]);
    assert!(take(3).is_some());
    let elsewhere = RepoAddr::new(owner, grip_types::Identifier::parse("other").unwrap());
    let other = limits.request(Class::Push, client(1, false), Some(&elsewhere), &bounds);
    assert!(other.is_some(), "its own share of all is not used up");
    drop((held, other));
    assert!(limits.repository_shares.0.lock().is_empty());
}

#[test]
fn one_address_cannot_take_all_connections() {
    let bounds = WebLimits {
        connections: 3,
        connections_per_ip: 2,
        ..Default::default()
    };
    let limits = Limits::new(&bounds);
    let connect = |n| limits.connection(Some(ip(n)), &bounds);
    let (a, b) = (connect(1).ok(), connect(1).ok());
    assert!(a.is_some() && b.is_some());
    assert_eq!(connect(1).err(), Some(Full::PerIp));
    let c = connect(2).ok();
    assert!(c.is_some());
    assert_eq!(connect(3).err(), Some(Full::Connections));
    drop((a, b, c));
    assert_eq!((limits.open_connections(), limits.addresses()), (0, 0));
}

#[test]
fn a_proxy_is_bounded_in_total_only_and_its_clients_each() {
    let bounds = WebLimits {
        connections_per_ip: 1,
        ..Default::default()
    };
    let limits = Limits::new(&bounds);
    let all: Vec<_> = (0..5).map(|_| limits.connection(None, &bounds)).collect();
    assert!(all.iter().all(Result::is_ok));
    let first = limits.connection_behind_proxy(ip(1), &bounds);
    assert!(first.is_ok());
    assert!(limits.connection_behind_proxy(ip(1), &bounds).is_err());
    assert!(limits.connection_behind_proxy(ip(2), &bounds).is_ok());
}

#[test]
fn one_address_takes_a_quarter_of_the_reserve_and_leaves_the_rest_to_others() {
    let bounds = WebLimits::default();
    let limits = Limits::new(&bounds);
    let take = |last: u8| limits.reserve(Some(ip(last)), &bounds);
    let mine: Vec<_> = (0..RESERVE / 4).map(|_| take(1)).collect();
    assert!(mine.iter().all(Option::is_some));
    assert!(take(1).is_none());
    let others: Vec<_> = (0..RESERVE * 3 / 4)
        .map(|_| limits.reserve(None, &bounds))
        .collect();
    assert!(others.iter().all(Option::is_some), "a refusal takes none");
    assert!(take(2).is_none(), "all are taken");
    assert_eq!(limits.closed_unread(), 2);
    drop((mine, others));
    assert!(take(1).is_some() && limits.reserve.per_ip.0.lock().is_empty());
}

#[test]
fn requests_beyond_the_burst_are_refused_but_not_those_of_others() {
    let bounds = WebLimits {
        requests_per_second: 1,
        request_burst: 2,
        ..Default::default()
    };
    let limits = Limits::new(&bounds);
    let spend = |n| limits.spend(client(n, false), &bounds);
    assert_eq!(
        [spend(1), spend(1), spend(1), spend(2)],
        [true, true, false, true]
    );
    assert!((0..10).all(|_| limits.spend(client(1, true), &bounds)));
    let generous = WebLimits::default();
    limits.spend(client(1, false), &generous);
    let is_left = limits.spend(client(1, false), &generous);
    assert!(is_left, "a reload counts");
}
