//! Headers that a host receives, and URLs in errors.

use http::{HeaderMap, HeaderValue, header};

use super::{
    host::{Host, OTHER_PUBLIC, PUBLIC, answer, fine, moved},
    support::{SHORT, Setup, client, get, in_full},
};

#[tokio::test]
async fn g02_54_neither_credentials_nor_traces_are_sent_on_any_hop() {
    let end = Host::on(OTHER_PUBLIC, |_| fine("ok")).await;
    let place = end.url("/end").to_string();
    let start = Host::on(PUBLIC, move |seen| match seen.uri.path() {
        "/1" => answer(302, &[("location", "/2"), ("set-cookie", "id=1")], ""),
        _ => moved(&place),
    })
    .await;
    let mut request = get(start.url("/1?token=secret"));
    let names = "
        authorization proxy-authorization cookie referer origin host x-kept accept-encoding
        user-agent expect transfer-encoding content-length upgrade";
    for name in names.split_whitespace() {
        request
            .headers
            .insert(name, HeaderValue::from_static("gzip"));
    }
    assert_eq!(client().read(request).await.unwrap(), "ok");

    let seen = [start.seen(), end.seen()].concat();
    assert_eq!(seen.len(), 3);
    for seen in seen {
        let mut names: Vec<_> = seen.headers.keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        let expected = ["accept", "accept-encoding", "host", "user-agent", "x-kept"];
        assert_eq!(names, expected, "{}", seen.uri);
        assert_eq!(seen.headers[header::ACCEPT_ENCODING], "identity");
        assert!(agent(&seen.headers).starts_with("gripfast/"));
        assert!(
            seen.headers[header::HOST]
                .to_str()
                .unwrap()
                .starts_with("127.0.0.")
        );
    }
    assert!(!end.seen()[0].uri.to_string().contains("secret"));
}

fn agent(headers: &HeaderMap) -> &str {
    headers[header::USER_AGENT].to_str().unwrap()
}

#[tokio::test]
async fn a_user_agent_that_cannot_be_sent_is_a_mistake_of_the_setup() {
    let throttle = grip_limits::Throttle::memory(grip_limits::Options::default());
    let options = crate::Options {
        user_agent: "two\nlines".to_owned(),
        ..crate::Options::default()
    };
    let built = crate::Egress::new(options, throttle);
    assert!(matches!(built, Err(crate::BuildError::UserAgent(_))));
}

#[tokio::test]
async fn no_error_repeats_the_secrets_of_a_url() {
    let path = "/x?token=s3cret";
    let place = "http://u:s3cret@127.0.0.1/?s3cret#s3cret";
    let hosts = [
        Host::hanging_after("").await,
        Host::hanging_after("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").await,
        Host::writing("nonsense\r\n\r\n").await,
        Host::writing("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").await,
        Host::writing("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n").await,
        Host::on(PUBLIC, |_| answer(500, &[], "")).await,
        Host::on(PUBLIC, move |_| moved(place)).await,
        Host::on(PUBLIC, |_| moved("ftp://a.example/?s3cret")).await,
        Host::on(PUBLIC, |_| moved("http://10.0.0.1/?s3cret")).await,
        Host::on(PUBLIC, |_| moved("http://unknown.example/?s3cret")).await,
    ];
    let mut urls: Vec<_> = hosts
        .iter()
        .map(|host| host.named("public.example", path))
        .collect();
    urls.push("http://u:s3cret@public.example/".parse().unwrap());
    urls.push("http://private.example/?s3cret".parse().unwrap());
    urls.push("http://unknown.example/?s3cret".parse().unwrap());
    urls.push("http://127.0.0.2:1/?s3cret".parse().unwrap());
    for url in urls {
        // A client of its own each time, so that no breaker is in the way.
        let mut setup = Setup::default();
        setup.options.idle = SHORT;
        setup.options.connect = 10 * SHORT;
        let text = in_full(&setup.build().fail(url.clone()).await);
        assert!(!text.contains("s3cret"), "{text}");
    }
}
