//! Credentials reach the origin they were given for and no other.

use grip_testkit::assert_matches;
use http::{HeaderValue, header};

use super::{
    host::{Host, PRIVATE, PUBLIC, answer, fine, moved},
    support::{Setup, client, get, in_full},
};
use crate::{Bearer, EgressError, Forbidden, RequestPolicy};

const SECRET: &str = "gh_s3cret";

fn secret() -> RequestPolicy {
    RequestPolicy {
        bearer: Some(Bearer::new(SECRET).unwrap()),
        ..RequestPolicy::default()
    }
}

/// The credentials that a host was shown, one entry per request.
fn shown(host: &Host) -> Vec<Option<String>> {
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    let seen = host.seen();
    let each = seen.iter();
    each.map(|seen| seen.headers.get(header::AUTHORIZATION).map(text))
        .collect()
}

fn full() -> Option<String> {
    Some(format!("Bearer {SECRET}"))
}

#[tokio::test]
async fn a_credential_goes_to_the_host_it_was_given_for_on_every_hop_there() {
    let host = Host::on(PRIVATE, |seen| match seen.uri.path() {
        "/old" => moved("/new"),
        _ => fine("ok"),
    })
    .await;
    let client = Setup::default().private("127.0.0.1").build();
    client.send_with(&secret(), host.url("/old")).await.unwrap();
    assert_eq!(shown(&host), [full(), full()]);
}

#[tokio::test]
async fn another_host_or_port_is_never_shown_the_credential() {
    let end = Host::on(PUBLIC, |_| fine("ok")).await;
    let port = Host::on(PRIVATE, |_| fine("ok")).await;
    for (target, place) in [
        (&end, end.url("/").to_string()),
        (&end, end.named("other-name.example", "/").to_string()),
        (&port, port.url("/").to_string()),
    ] {
        let start = Host::on(PRIVATE, move |_| moved(&place)).await;
        let client = Setup::default().private("127.0.0.1").build();
        client.names.answer("other-name.example", &[PUBLIC]);
        client.send_with(&secret(), start.url("/")).await.unwrap();
        assert_eq!(shown(&start), [full()]);
        assert_eq!(shown(target).pop(), Some(None));
    }
}

#[tokio::test]
async fn a_credential_that_was_left_behind_does_not_come_back() {
    let back = Host::on(PUBLIC, |seen| {
        moved(seen.uri.query().expect("a place to return to"))
    })
    .await;
    let away = back.url("/").to_string();
    let start = Host::on(PRIVATE, move |seen| match seen.uri.path() {
        "/end" => fine("ok"),
        _ => {
            let host = seen.headers[header::HOST].to_str().unwrap();
            moved(&format!("{away}?http://{host}/end"))
        }
    })
    .await;
    let client = Setup::default().private("127.0.0.1").build();
    let reply = client.send_with(&secret(), start.url("/")).await.unwrap();
    assert_eq!(reply.url, start.url("/end"));
    assert_eq!(shown(&back), [None]);
    assert_eq!(shown(&start), [full(), None]);
}

#[tokio::test]
async fn a_public_host_gets_no_credential_in_plain_text() {
    let host = Host::on(PUBLIC, |_| fine("ok")).await;
    let allowing = || {
        let mut setup = Setup::default()
            .private("public.example")
            .private("127.0.0.2");
        setup.rules.allow_non_global = true;
        setup.build()
    };
    for client in [client(), allowing()] {
        for url in [host.url("/"), host.named("public.example", "/")] {
            let error = client.send_with(&secret(), url).await.unwrap_err();
            assert_matches!(error, EgressError::Forbidden(Forbidden::PlainCredential(_)));
            assert!(!in_full(&error).contains(SECRET));
        }
        let host = client.counts("127.0.0.2");
        assert_eq!(
            (host, client.counts("public.example")),
            ((0, 0, 0), (0, 0, 0))
        );
    }
    assert_eq!(host.connections(), 0);
}

#[tokio::test]
async fn a_name_that_leads_inside_and_outside_gets_no_credential_in_plain_text() {
    let (inside, outside) = Host::pair(|_| fine("in"), |_| fine("out")).await;
    let client = Setup::default().private("both.example").build();
    client.names.answer("both.example", &[PRIVATE, PUBLIC]);
    let url = inside.named("both.example", "/");
    let error = client.send_with(&secret(), url.clone()).await.unwrap_err();
    assert_matches!(error, EgressError::Forbidden(_));
    // A connection that was made without the credential is not used for it either.
    let reply = client
        .send_with(&RequestPolicy::default(), url.clone())
        .await;
    drop(reply.unwrap());
    assert!(client.send_with(&secret(), url).await.is_err());
    assert_eq!(shown(&inside).len() + shown(&outside).len(), 1);
}

#[tokio::test]
async fn a_name_inside_gets_the_credential_in_plain_text() {
    let inside = Host::on(PRIVATE, |_| fine("ok")).await;
    let client = Setup::default().private("private.example").build();
    let url = inside.named("private.example", "/");
    client.send_with(&secret(), url).await.unwrap();
    assert_eq!(shown(&inside), [full()]);
}

#[tokio::test]
async fn a_credential_among_the_headers_is_left_out_and_cannot_replace_the_given_one() {
    let host = Host::on(PRIVATE, |_| fine("ok")).await;
    let client = Setup::default().private("127.0.0.1").build();
    let mut request = get(host.url("/"));
    let other = HeaderValue::from_static("Bearer other");
    request.headers.insert(header::AUTHORIZATION, other);
    let permit = client.permit(&request.url).await;
    let policy = secret();
    let sent = client.egress.send_with(&policy, request.clone(), permit);
    drop(sent.await.unwrap());
    client.read(request).await.unwrap();
    assert_eq!(shown(&host), [full(), None]);
}

#[tokio::test]
async fn nothing_prints_the_credential() {
    let policy = secret();
    assert!(!format!("{policy:?} {policy:#?}").contains(SECRET));
    let refusing = Host::on(PRIVATE, |_| answer(401, &[], "who?")).await;
    let client = Setup::default().private("127.0.0.1").build();
    for url in [refusing.url("/"), "http://127.0.0.1:1/".parse().unwrap()] {
        let error = client.send_with(&policy, url).await.unwrap_err();
        assert!(!in_full(&error).contains(SECRET));
    }
    let policy = RequestPolicy {
        any_status: true,
        ..policy
    };
    let reply = client.send_with(&policy, refusing.url("/")).await.unwrap();
    assert!(!format!("{reply:?}").contains(SECRET));
}
