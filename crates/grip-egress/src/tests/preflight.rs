//! Documents that are read before a host is asked.

use std::collections::HashMap;

use grip_limits::Reason;
use grip_testkit::assert_matches;
use grip_types::Domain;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use url::Url;

use super::{
    host::{Host, OTHER_PUBLIC, PUBLIC, Seen, answer, fine, moved},
    support::{Client, Setup, client, get},
};
use crate::{DocumentResponse, EgressError, Forbidden, Preflight, Request, RequestPolicy};

const HOST: &str = "127.0.0.2";
const OTHER: &str = "127.0.0.3";

/// Hosts whose document at `/about` says "keep out" are not asked.
#[derive(Default)]
struct About(Mutex<HashMap<Url, Option<String>>>);

fn about(url: &Url) -> Url {
    url.join("/about").unwrap()
}

impl Preflight for About {
    fn document(&self, url: &Url) -> Option<Request> {
        let document = about(url);
        let is_known = self.0.lock().contains_key(&document);
        (!is_known).then(|| Request {
            max_bytes: 100,
            ..get(document)
        })
    }

    fn note(&self, document: &Url, response: Option<&DocumentResponse>) {
        let text = response.and_then(|response| response.text.clone());
        let text = text.map(|text| String::from_utf8(text).unwrap());
        self.0.lock().insert(document.clone(), text);
    }

    fn check(&self, url: &Url) -> Result<(), Forbidden> {
        match self.0.lock().get(&about(url)) {
            Some(Some(text)) if text == "keep out" => {
                Err(Forbidden::PrivateService(Domain::of(url).unwrap()))
            }
            _ => Ok(()),
        }
    }
}

impl About {
    async fn fetch(&self, client: &Client, url: Url) -> Result<String, EgressError> {
        let permit = client.permit(&url).await;
        let policy = RequestPolicy::default();
        let sending = client
            .egress
            .send_after(Some(self), &policy, get(url), permit);
        let mut text = String::new();
        sending.await?.body.read_to_string(&mut text).await.unwrap();
        Ok(text)
    }
}

fn paths(host: &Host) -> Vec<String> {
    let seen = host.seen();
    seen.iter().map(|seen| seen.uri.path().to_owned()).collect()
}

/// A rule by which `/about` says `text`.
fn saying(text: &'static str) -> impl Fn(&Seen) -> super::host::Answer {
    move |seen| match seen.uri.path() {
        "/about" => fine(text),
        _ => fine("ok"),
    }
}

#[tokio::test]
async fn the_document_is_read_once_and_both_requests_are_paid_for() {
    let host = Host::on(PUBLIC, saying("come in")).await;
    let (client, preflight) = (client(), About::default());
    for starts in [2, 3] {
        let text = preflight.fetch(&client, host.url("/x")).await;
        assert_eq!(text.unwrap(), "ok");
        assert_eq!(client.counts(HOST), (0, starts, 0));
    }
    assert_eq!(paths(&host), ["/about", "/x", "/x"]);
}

#[tokio::test]
async fn a_host_whose_document_forbids_it_is_asked_for_nothing_else() {
    let host = Host::on(PUBLIC, saying("keep out")).await;
    let (client, preflight) = (client(), About::default());
    for _ in 0..2 {
        let error = preflight.fetch(&client, host.url("/x")).await.unwrap_err();
        assert_matches!(error, EgressError::Forbidden(Forbidden::PrivateService(_)));
    }
    assert_eq!(paths(&host), ["/about"]);
    assert_eq!(client.counts(HOST), (0, 1, 0), "what was not sent is free");
}

#[tokio::test]
async fn a_redirect_leads_nowhere_that_a_document_forbids() {
    let end = Host::on(OTHER_PUBLIC, saying("keep out")).await;
    let to = end.url("/x").to_string();
    let start = Host::on(PUBLIC, move |seen| match seen.uri.path() {
        "/about" => fine("come in"),
        _ => moved(&to),
    })
    .await;
    let (client, preflight) = (client(), About::default());
    let error = preflight.fetch(&client, start.url("/x")).await.unwrap_err();
    assert_matches!(error, EgressError::Forbidden(Forbidden::PrivateService(_)));
    assert_eq!(paths(&end), ["/about"]);
    assert_eq!(
        (client.counts(HOST), client.counts(OTHER)),
        ((0, 2, 0), (0, 1, 0))
    );
}

#[tokio::test]
async fn a_host_without_a_document_is_asked_all_the_same() {
    for status in [404, 500, 302] {
        let host = Host::on(PUBLIC, move |seen| match seen.uri.path() {
            "/about" => answer(status, &[("location", "/elsewhere")], "none"),
            _ => fine("ok"),
        })
        .await;
        let (client, preflight) = (client(), About::default());
        let text = preflight.fetch(&client, host.url("/x")).await;
        assert_eq!(text.unwrap(), "ok");
        assert_eq!(paths(&host), ["/about", "/x"], "{status}");
        assert_eq!(preflight.0.lock()[&host.url("/about")], None);
    }
    let long = Box::leak("keep out".repeat(20).into_boxed_str());
    let host = Host::on(PUBLIC, saying(long)).await;
    let (client, preflight) = (client(), About::default());
    let text = preflight.fetch(&client, host.url("/x")).await;
    assert_eq!(text.unwrap(), "ok");
}

#[tokio::test]
async fn a_document_that_does_not_come_in_time_costs_a_start_and_says_nothing_of_the_host() {
    let host = Host::hanging_after("").await;
    let (client, preflight) = (client(), About::default());
    let permit = client.permit(&host.url("/x")).await;
    let policy = RequestPolicy::default();
    let request = get(host.url("/x"));
    tokio::time::pause();
    let sending = client
        .egress
        .send_after(Some(&preflight), &policy, request, permit);
    assert_matches!(sending.await.unwrap_err(), EgressError::TimedOut(_));
    assert_eq!(preflight.0.lock()[&host.url("/about")], None);
    let (in_flight, _, failures) = client.counts(HOST);
    assert_eq!((in_flight, failures), (0, 1), "only the request failed");
}

#[tokio::test]
async fn a_host_that_wants_to_be_left_alone_is_asked_for_nothing_else() {
    let wait = [("retry-after", "60")];
    let busy = Host::on(PUBLIC, move |_| answer(429, &wait, "later")).await;
    let (client, preflight) = (client(), About::default());
    let error = preflight.fetch(&client, busy.url("/x")).await.unwrap_err();
    assert_matches!(error, EgressError::Status { .. });
    assert_eq!(paths(&busy), ["/about"]);
    assert!(preflight.0.lock().is_empty(), "nothing was learnt");

    let none_left = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "90")];
    let spent = Host::on(OTHER_PUBLIC, move |_| answer(200, &none_left, "come in")).await;
    let error = preflight.fetch(&client, spent.url("/x")).await.unwrap_err();
    assert_matches!(error, EgressError::Throttled(refused) if refused.reason == Reason::Advised);
    assert_eq!(paths(&spent), ["/about"]);
}

#[tokio::test]
async fn a_window_that_ends_with_the_document_puts_the_request_off() {
    let host = Host::on(PUBLIC, saying("come in")).await;
    let mut setup = Setup::default();
    setup.throttle.limits.per_window = 1;
    let (client, preflight) = (setup.build(), About::default());
    let error = preflight.fetch(&client, host.url("/x")).await.unwrap_err();
    assert_matches!(error, EgressError::Throttled(refused) if refused.reason == Reason::Window);
    assert_eq!((paths(&host).len(), client.counts(HOST)), (1, (0, 1, 0)));
}
