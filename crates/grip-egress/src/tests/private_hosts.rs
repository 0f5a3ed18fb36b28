//! Hosts inside that the operator named himself.

use grip_testkit::assert_matches;

use super::{
    host::{Host, PRIVATE, PUBLIC, fine, moved},
    support::Setup,
};
use crate::{EgressError, Forbidden};

#[tokio::test]
async fn g02_55_a_named_host_is_reached_inside_and_no_other_is() {
    let inside = Host::on(PRIVATE, |_| fine("api")).await;
    let client = Setup::default().private("ghe.corp").build();
    for name in ["ghe.corp", "other.corp", "x.ghe.corp"] {
        client.names.answer(name, &[PRIVATE]);
    }
    let named = inside.named("ghe.corp", "/");
    assert_eq!(client.fetch(named).await.unwrap(), "api");
    let hosts = "
        other.corp x.ghe.corp 127.0.0.1 localhost [::1]";
    for host in hosts.split_whitespace() {
        let error = client.fail(inside.named(host, "/")).await;
        assert_matches!(error, EgressError::Forbidden(_), "{host}");
    }
    assert_eq!(inside.connections(), 1);
}

#[tokio::test]
async fn a_host_can_be_named_by_its_address_or_as_this_machine() {
    let inside = Host::on(PRIVATE, |_| fine("api")).await;
    for host in ["127.0.0.1", "localhost"] {
        let client = Setup::default().private(host).build();
        client.names.answer("localhost", &[PRIVATE]);
        let url = inside.named(host, "/");
        assert_eq!(client.fetch(url).await.unwrap(), "api", "{host}");
    }
}

#[tokio::test]
async fn no_other_host_leads_to_a_named_one() {
    let inside = Host::on(PRIVATE, |_| fine("api")).await;
    let outside = Host::moving(PUBLIC, inside.named("ghe.corp", "/")).await;
    let client = Setup::default().private("ghe.corp").build();
    client.names.answer("ghe.corp", &[PRIVATE]);
    let error = client.fail(outside.url("/")).await;
    assert_matches!(error, EgressError::Forbidden(Forbidden::Private(_)));
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn a_named_host_may_send_on_within_itself_but_not_to_its_neighbours() {
    let neighbour = Host::on(PRIVATE, |_| fine("secret")).await;
    let place = neighbour.named("private.example", "/").to_string();
    let inside = Host::on(PRIVATE, move |seen| match seen.uri.path() {
        "/old" => moved("/new"),
        "/new" => fine("api"),
        _ => moved(&place),
    })
    .await;
    let client = Setup::default().private("ghe.corp").build();
    client.names.answer("ghe.corp", &[PRIVATE]);
    let old = inside.named("ghe.corp", "/old");
    assert_eq!(client.fetch(old).await.unwrap(), "api");
    let error = client.fail(inside.named("ghe.corp", "/away")).await;
    assert_matches!(error, EgressError::Forbidden(_));
    assert_eq!(neighbour.connections(), 0);
}

#[tokio::test]
async fn our_own_service_is_not_asked_even_if_it_is_named() {
    let own = Host::on(PRIVATE, |_| fine("own")).await;
    let client = Setup::default()
        .private("127.0.0.1")
        .own(&own.address.to_string())
        .build();
    let error = client.fail(own.url("/")).await;
    assert_matches!(error, EgressError::Forbidden(Forbidden::Own(_)));
}
