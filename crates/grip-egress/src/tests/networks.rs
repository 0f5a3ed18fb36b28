//! Names that lead to one machine, and names that lead back to ours.

use std::net::IpAddr;

use grip_limits::Reason;
use grip_testkit::assert_matches;

use super::{
    host::{DEAD, Host, PRIVATE, PUBLIC, fine},
    support::{Client, Setup},
};
use crate::{EgressError, Fault, FaultKind, Forbidden, Special};

fn counting() -> Setup {
    let mut setup = Setup::default();
    setup.options.counts_networks = true;
    setup
}

/// Asks one machine once under each of so many names; says how often it was refused for its network.
async fn ask_by_many_names(client: &Client, host: &Host, names: usize) -> usize {
    let mut refused = 0;
    for n in 0..names {
        let name = format!("n{n}.example");
        client.names.answer(&name, &[PUBLIC]);
        match client.fetch(host.named(&name, "/")).await {
            Ok(_) => {}
            Err(EgressError::Throttled(why)) => {
                assert_eq!(why.reason, Reason::Network);
                assert_eq!(client.counts(&name), (0, 0, 0), "no request, no start");
                refused += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    refused
}

#[tokio::test]
async fn a_machine_with_many_names_is_asked_as_one() {
    let host = Host::on(PUBLIC, |_| fine("ok")).await;
    let client = counting().build();
    assert_eq!(ask_by_many_names(&client, &host, 100).await, 40);
    assert_eq!(host.seen().len(), 60);
    // A host that has answered before is not kept out by names made up for its address.
    assert!(client.fetch(host.named("n0.example", "/")).await.is_ok());
}

#[tokio::test]
async fn a_connection_serves_one_request_where_networks_are_counted() {
    let host = Host::on(PUBLIC, |_| fine("ok")).await;
    let client = counting().build();
    for _ in 0..3 {
        let url = host.named("public.example", "/");
        client.fetch(url).await.unwrap();
    }
    assert_eq!((host.connections(), client.names.asked().len()), (3, 3));
}

/// G02-54: no second resolution between the check and the connection.
#[tokio::test]
async fn g02_54_the_address_that_was_counted_is_the_one_that_is_asked() {
    let (inside, outside) = Host::pair(|_| fine("inside"), |_| fine("outside")).await;
    let client = counting().build();
    // The second answer would lead elsewhere, if there were a second lookup.
    client.names.answer("flips.example", &[PUBLIC]);
    client.names.answer("flips.example", &[PRIVATE]);
    let url = outside.named("flips.example", "/");
    assert_eq!(client.fetch(url.clone()).await.unwrap(), "outside");
    assert_matches!(client.fail(url).await, EgressError::Forbidden(_));
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn an_address_of_this_machine_is_refused_whatever_name_led_there() {
    let host = Host::on(PRIVATE, |_| fine("metrics")).await;
    for counts_networks in [false, true] {
        let mut setup = Setup::default();
        setup.options.counts_networks = counts_networks;
        // As if the interface had a public address.
        setup.rules.taken_for_public.push(PRIVATE);
        let client = setup.build();
        for name in ["private.example", "127.0.0.1"] {
            let error = client.fail(host.named(name, "/")).await;
            let (EgressError::Forbidden(Forbidden::Name { special, .. })
            | EgressError::Forbidden(Forbidden::Address { special, .. })) = error
            else {
                panic!("{error:?}");
            };
            assert_eq!(special, Special::ThisMachine);
        }
    }
    assert_eq!(host.connections(), 0);
}

#[tokio::test]
async fn where_we_listen_is_refused_also_where_private_hosts_are_allowed() {
    let host = Host::on(PRIVATE, |_| fine("us")).await;
    let other = Host::on(PRIVATE, |_| fine("another service")).await;
    let everywhere = IpAddr::from([0, 0, 0, 0]);
    for own in [PRIVATE, everywhere] {
        let mut setup = counting();
        setup.rules.allow_non_global = true;
        setup.options.own_address = Some((own, host.address.port()).into());
        let client = setup.build();
        let error = client.fail(host.named("private.example", "/")).await;
        assert_matches!(error, EgressError::Forbidden(Forbidden::Own(_)));
        let url = other.named("private.example", "/");
        assert_eq!(client.fetch(url).await.unwrap(), "another service");
    }
    assert_eq!(host.connections(), 0);
}

#[tokio::test]
async fn a_person_reads_what_went_wrong_and_not_the_words_of_a_library() {
    let silent = Host::writing(String::new()).await;
    let ssh = Host::writing("SSH-2.0-OpenSSH_9.9\r\n".to_owned()).await;
    let plain = Host::on(PUBLIC, |_| fine("no tls")).await;
    let mut tls = plain.url("/");
    tls.set_scheme("https").unwrap();
    for setup in [Setup::default(), counting()] {
        let client = setup.build();
        client.names.answer("dead.example", &[DEAD]);
        let cases = [
            ("http://nowhere.example/".parse().unwrap(), FaultKind::Dns),
            (
                "http://dead.example:9/".parse().unwrap(),
                FaultKind::Refused,
            ),
            (silent.url("/"), FaultKind::Reset),
            (ssh.url("/"), FaultKind::NotHttp),
            (tls.clone(), FaultKind::Tls),
        ];
        for (url, kind) in cases {
            let error = client.fail(url).await;
            let EgressError::Unreachable { source, domain } = &error else {
                panic!("{error:?}");
            };
            assert_eq!(source.kind(), kind, "{}", Fault::detail(source));
            let text = grip_types::ErrorChain(&error).to_string();
            assert_eq!(text, format!("no response from {domain}: {kind}"));
        }
    }
}
