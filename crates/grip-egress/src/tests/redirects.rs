//! Requests that try to reach what they must not.

use std::net::IpAddr;

use grip_testkit::assert_matches;
use http::{Method, StatusCode};

use super::{
    host::{DEAD, Host, OTHER_PUBLIC, PRIVATE, PUBLIC, answer, fine, moved},
    support::{Client, Setup, client, get, in_full},
};
use crate::{EgressError, FaultKind, Forbidden, RedirectError, Special};

fn is_forbidden(error: &EgressError) -> bool {
    matches!(error, EgressError::Forbidden(_))
}

/// A host inside, which nobody may reach.
async fn inside() -> Host {
    Host::on(PRIVATE, |_| fine("secret")).await
}

#[tokio::test]
async fn a_public_host_is_reached_by_address_and_by_name() {
    let host = Host::on(PUBLIC, |_| fine("hello")).await;
    let client = client();
    assert_eq!(client.fetch(host.url("/")).await.unwrap(), "hello");
    let named = host.named("public.example", "/x?q=1");
    let reply = client.send(get(named.clone())).await.unwrap();
    assert_eq!((reply.status, reply.url), (StatusCode::OK, named));
    let uris: Vec<_> = host
        .seen()
        .iter()
        .map(|seen| seen.uri.to_string())
        .collect();
    assert_eq!(uris, ["/", "/x?q=1"]);
}

#[tokio::test]
async fn no_spelling_of_a_private_address_is_connected_to() {
    let inside = inside().await;
    let client = client();
    let hosts = "
        127.0.0.1 127.1 2130706433 0x7f.1 0177.0.0.1 127.0.0.1. localhost LOCALHOST. 0 0.0.0.0
        [::] [::1] [::ffff:127.0.0.1] [::ffff:7f00:1] [64:ff9b::7f00:1] [2002:7f00:1::]
        private.example PRIVATE.example.";
    for host in hosts.split_whitespace() {
        let error = client.fail(inside.named(host, "/")).await;
        assert!(is_forbidden(&error), "{host}: {error:?}");
    }
    assert_eq!(inside.connections(), 0);
    let unpaid = client.egress.throttle().hosts();
    let is_unpaid = unpaid
        .iter()
        .all(|host| host.in_flight == 0 && host.started == 0);
    assert!(is_unpaid, "no request was made: {unpaid:?}");
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_with_a_sentence() {
    let error = client()
        .fail("http://private.example/".parse().unwrap())
        .await;
    assert_eq!(
        error.to_string(),
        "private.example is not a public host: its name leads to a loopback address"
    );
    assert!(!in_full(&error).contains("127.0.0.1"));
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_judged_again() {
    let (inside, outside) = Host::pair(
        |_| fine("secret"),
        |_| answer(200, &[("connection", "close")], "ok"),
    )
    .await;
    let client = client();
    client.names.answer("rebind.example", &[PUBLIC]);
    client.names.answer("rebind.example", &[PRIVATE]);

    let url = outside.named("rebind.example", "/");
    assert_eq!(client.fetch(url.clone()).await.unwrap(), "ok");
    assert_eq!(
        client.names.asked().len(),
        1,
        "judging and connecting are one lookup"
    );
    let error = client.fail(url).await;
    assert!(is_forbidden(&error), "{error:?}");
    assert_eq!((outside.connections(), inside.connections()), (1, 0));
}

#[tokio::test]
async fn a_name_that_changes_its_mind_between_two_hops_is_judged_again() {
    let inside = inside().await;
    let outside = Host::moving(PUBLIC, inside.named("rebind.example", "/")).await;
    let client = client();
    client.names.answer("rebind.example", &[PUBLIC]);
    client.names.answer("rebind.example", &[PRIVATE]);

    let error = client.fail(outside.named("rebind.example", "/")).await;
    assert!(is_forbidden(&error), "{error:?}");
    assert_eq!((outside.connections(), inside.connections()), (1, 0));
}

#[tokio::test]
async fn g02_53_one_answer_that_is_not_global_refuses_the_target() {
    let (inside, outside) = Host::pair(|_| fine("secret"), |_| fine("ok")).await;
    let client = client();
    let v6_inside: IpAddr = "::1".parse().unwrap();
    for (name, answers) in [
        ("first.example", &[PRIVATE, v6_inside, PUBLIC, PRIVATE][..]),
        ("last.example", &[PUBLIC, PUBLIC, PRIVATE]),
        ("dead.example", &[DEAD, PRIVATE]),
        ("v6.example", &[PUBLIC, v6_inside]),
    ] {
        client.names.answer(name, answers);
        let error = client.fail(outside.named(name, "/")).await;
        assert!(is_forbidden(&error), "{name}: {error:?}");
    }
    client.names.answer("both.example", &[PUBLIC, PUBLIC]);
    let url = outside.named("both.example", "/");
    assert_eq!(client.fetch(url).await.unwrap(), "ok");
    assert_eq!((outside.connections(), inside.connections()), (1, 0));
}

#[tokio::test]
async fn a_name_without_addresses_is_unreachable() {
    let client = client();
    client.names.answer("empty.example", &[]);
    for name in ["empty.example", "unknown.example"] {
        let error = client
            .fail(format!("http://{name}/").parse().unwrap())
            .await;
        let EgressError::Unreachable { source, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(source.kind(), FaultKind::Dns, "{error:?}");
        assert_eq!(client.counts(name), (0, 1, 1));
    }
}

#[tokio::test]
async fn redirects_inside_are_not_followed() {
    let inside = inside().await;
    let client = client();
    let port = inside.address.port();
    for (host, status) in [
        ("127.0.0.1", 301),
        ("127.1", 302),
        ("localhost", 307),
        ("[::ffff:7f00:1]", 308),
        ("2130706433", 302),
        ("private.example", 302),
        ("169.254.169.254", 302),
        ("user@127.0.0.1", 302),
        ("public.example@127.0.0.1", 302),
    ] {
        let place = format!("http://{host}:{port}/");
        let outside = Host::on(PUBLIC, move |_| answer(status, &[("location", &place)], "")).await;
        let error = client.fail(outside.url("/")).await;
        assert!(is_forbidden(&error), "{host}: {error:?}");
    }
    let relative = Host::moving(PUBLIC, format!("//127.0.0.1:{port}/")).await;
    assert!(is_forbidden(&client.fail(relative.url("/")).await));
    assert_eq!(inside.connections(), 0);
    assert_eq!(client.counts("127.0.0.2"), (0, 10, 0));
}

#[tokio::test]
async fn redirects_to_other_schemes_are_not_followed() {
    let client = client();
    let places = "
        file:///etc/passwd ftp://public.example/ git://public.example/x.git ssh://public.example/
        data:text/plain,x javascript:alert(1)";
    for place in places.split_whitespace() {
        let host = Host::moving(PUBLIC, place).await;
        let error = client.fail(host.url("/")).await;
        assert_matches!(
            error,
            EgressError::Forbidden(Forbidden::Scheme(_)),
            "{place}"
        );
    }
}

#[tokio::test]
async fn a_long_chain_that_ends_inside_stops_before_its_end() {
    let inside = inside().await;
    let end = inside.url("/").to_string();
    let host = Host::on(PUBLIC, move |seen| match seen.uri.path() {
        "/1" => moved("/2"),
        "/2" => moved("/3"),
        "/3" => moved("/4"),
        _ => moved(&end),
    })
    .await;
    let error = client().fail(host.url("/1")).await;
    assert!(is_forbidden(&error), "{error:?}");
    assert_eq!((host.seen().len(), inside.connections()), (4, 0));
}

#[tokio::test]
async fn our_own_service_is_not_asked_even_where_everything_is_allowed() {
    let own = inside().await;
    let port = own.address.port();
    let mut setup = Setup::default().own(&format!("127.0.0.1:{port}"));
    setup.rules.allow_non_global = true;
    let client = setup.build();
    let hosts = "
        127.0.0.1 localhost [::1] [::ffff:127.0.0.1] 0x7f.1 localhost.";
    for host in hosts.split_whitespace() {
        let error = client.fail(own.named(host, "/")).await;
        assert_matches!(error, EgressError::Forbidden(Forbidden::Own(_)), "{host}");
        let outside = Host::moving(PUBLIC, own.named(host, "/")).await;
        let error = client.fail(outside.named("public.example", "/")).await;
        assert_matches!(
            error,
            EgressError::Forbidden(Forbidden::Own(_)),
            "redirected to {host}"
        );
    }
    assert_eq!(own.connections(), 0);
    let neighbour = inside().await;
    assert_eq!(client.fetch(neighbour.url("/")).await.unwrap(), "secret");
}

#[tokio::test]
async fn addresses_of_no_host_are_refused_even_where_everything_is_allowed() {
    let inside = inside().await;
    let mut setup = Setup::default();
    setup.rules.allow_non_global = true;
    let client = setup.build();
    client
        .names
        .answer("nobody.example", &["0.0.0.0".parse().unwrap()]);
    client
        .names
        .answer("nobody.example", &["::".parse().unwrap()]);
    client
        .names
        .answer("nobody.example", &["ff02::1".parse().unwrap()]);
    for _ in 0..3 {
        let error = client.fail(inside.named("nobody.example", "/")).await;
        assert!(is_forbidden(&error), "{error:?}");
    }
    assert_eq!(inside.connections(), 0);
    let url = inside.named("private.example", "/");
    assert_eq!(client.fetch(url).await.unwrap(), "secret");
}

#[tokio::test]
async fn endless_redirects_end() {
    let host = Host::moving(PUBLIC, "/again").await;
    let client = client();
    let error = client.fail(host.url("/")).await;
    assert_matches!(error, EgressError::Redirect(RedirectError::TooMany(5)));
    assert_eq!(host.seen().len(), 6);
    assert_eq!(client.counts("127.0.0.2"), (0, 6, 0));
}

#[tokio::test]
async fn a_post_is_made_again_where_it_was_sent_to() {
    let end = Host::on(OTHER_PUBLIC, |seen| {
        fine(&format!("{} {:?}", seen.method, seen.body))
    })
    .await;
    let start = Host::moving(PUBLIC, end.url("/moved.git/git-upload-pack")).await;
    let mut request = get(start.url("/old.git/git-upload-pack"));
    request.method = Method::POST;
    request.body = "wants".into();

    let client = client();
    assert_eq!(
        client.read(request.clone()).await.unwrap(),
        "POST b\"wants\""
    );
    request.url = start.url("/old.git/git-receive-pack");
    let error = client.read(request).await.unwrap_err();
    assert_matches!(error, EgressError::Redirect(RedirectError::OtherService));
    assert_eq!((start.seen().len(), end.seen().len()), (2, 1));
}

#[tokio::test]
async fn redirects_without_a_readable_place_are_errors() {
    let client = client();
    for (status, headers, expected) in [
        (302, vec![], RedirectError::NoLocation),
        (
            302,
            vec![("location", "http://[::1/")],
            RedirectError::NoLocation,
        ),
        (
            303,
            vec![("location", "/x")],
            RedirectError::OtherRequest(StatusCode::SEE_OTHER),
        ),
    ] {
        let host = Host::on(PUBLIC, move |_| answer(status, &headers, "")).await;
        match client.fail(host.url("/")).await {
            EgressError::Redirect(error) => assert_eq!(error, expected),
            error => panic!("{error:?}"),
        }
    }
    assert_eq!(client.counts("127.0.0.2"), (0, 3, 0));
}

#[tokio::test]
async fn a_connection_is_used_again_without_another_lookup() {
    let host = Host::on(PUBLIC, |_| fine("ok")).await;
    let client = client();
    for _ in 0..3 {
        client
            .fetch(host.named("public.example", "/"))
            .await
            .unwrap();
    }
    assert_eq!((host.connections(), client.names.asked().len()), (1, 1));
}

#[tokio::test]
async fn a_url_is_judged_before_any_name_is_looked_up() {
    let client: Client = Setup::default().own("own.example").build();
    for url in [
        "http://own.example/",
        "http://u@public.example/",
        "http://10.0.0.1/",
    ] {
        assert!(
            is_forbidden(&client.fail(url.parse().unwrap()).await),
            "{url}"
        );
    }
    assert!(client.names.asked().is_empty());
    let url = "http://10.0.0.1/".parse().unwrap();
    let Err(Forbidden::Address { special, .. }) = client.egress.check(&url) else {
        panic!("it is refused");
    };
    assert_eq!(special, Special::Private);
}
