//! Hosts that are slow, endless or broken.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, pending};
use grip_testkit::assert_matches;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    host::{Host, PUBLIC, answer, fine},
    support::{Client, SHORT, Setup, client, get, reason},
};
use crate::{EgressError, Lookup, Phase, Unusable};

const HOST: &str = "127.0.0.2";

/// A client that is not patient with silent hosts.
fn impatient() -> Client {
    let mut setup = Setup::default();
    setup.options.idle = SHORT;
    setup.build()
}

struct Silence;

impl Lookup for Silence {
    fn lookup<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(pending())
    }
}

#[tokio::test]
async fn a_connection_that_is_not_made_is_given_up() {
    let mut setup = Setup::default();
    setup.options.connect = SHORT;
    setup.options.lookup = Arc::new(Silence);
    let client = setup.build();
    let error = client.fail("http://public.example/".parse().unwrap()).await;
    assert_matches!(error, EgressError::TimedOut(Phase::Connect));
    assert_eq!(client.counts("public.example"), (0, 1, 1));
}

#[tokio::test]
async fn a_host_that_hangs_before_its_headers_is_given_up() {
    for start in [
        "",
        "HTTP/1.1 20",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n",
    ] {
        let host = Host::hanging_after(start).await;
        let mut setup = Setup::default();
        setup.options.idle = SHORT;
        // Connecting counts as well, and a machine under load takes its time.
        setup.options.connect = Duration::from_millis(500);
        let client = setup.build();
        let error = client.fail(host.url("/")).await;
        assert_matches!(error, EgressError::TimedOut(Phase::Headers));
        assert_eq!(client.counts(HOST), (0, 1, 1));
    }
}

#[tokio::test]
async fn a_host_that_hangs_after_its_headers_is_given_up() {
    let host = Host::hanging_after("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab").await;
    let client = impatient();
    let mut reply = client.send(get(host.url("/"))).await.unwrap();
    assert_eq!(
        client.counts(HOST),
        (1, 1, 0),
        "the permit is held while bytes may come"
    );
    let mut text = String::new();
    let error = reply.body.read_to_string(&mut text).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_matches!(reason(error), EgressError::TimedOut(Phase::Body));
    assert_eq!(client.counts(HOST), (0, 1, 1));
    assert!(
        reply.body.read_to_string(&mut text).await.is_err(),
        "it stays failed"
    );
}

#[tokio::test]
async fn an_answer_that_never_ends_is_cut_at_its_deadline() {
    let host = Host::scripted(|mut stream| async move {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).await.unwrap();
        // Ends when the client gives up.
        while stream.write_all(b"1\r\nx\r\n").await.is_ok() {}
    })
    .await;
    let mut setup = Setup::default();
    setup.options.total = Duration::from_millis(500);
    let client = setup.build();
    let mut request = get(host.url("/"));
    request.max_bytes = u64::MAX;
    let error = client.read(request).await.unwrap_err();
    assert_matches!(error, EgressError::TimedOut(Phase::Total));
    assert_eq!(client.counts(HOST), (0, 1, 1));
}

#[tokio::test]
async fn the_deadline_holds_before_the_headers_too() {
    let host = Host::hanging_after("").await;
    let mut setup = Setup::default();
    setup.options.total = SHORT;
    let error = setup.build().fail(host.url("/")).await;
    assert_matches!(error, EgressError::TimedOut(Phase::Total));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_too_large_or_no_http_is_a_failure_of_the_host() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let ok = "HTTP/1.1 200 OK\r\n";
    let broken_off = [
        format!("{ok}Content-Length: 9\r\n\r\nab"),
        format!("{chunked}5\r\nab"),
        format!("{chunked}2\r\nab\r\n"),
        format!("{chunked}zz\r\nab\r\n"),
    ];
    let large_headers = [
        format!("{ok}X-A: {}\r\n\r\n", "x".repeat(70_000)),
        format!("{ok}{}\r\n", "X-A: b\r\n".repeat(200)),
    ];
    let no_http = [
        String::new(),
        "\r\n\r\n".to_owned(),
        "hello\r\n\r\n".to_owned(),
        "HTTP/9.9 200 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 abc OK\r\n\r\n".to_owned(),
        "HTTP/1.1 2000 OK\r\n\r\n".to_owned(),
        format!("{ok}no colon\r\n\r\n"),
        format!("{ok}Content-Length: -1\r\n\r\n"),
        format!("{ok}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        format!("{ok}X: \0\r\n\r\n"),
        "SSH-2.0-OpenSSH_9.9\r\n".to_owned(),
        "\x15\x03\x01\x00\x02\x02\x50".to_owned(),
    ];
    let fail = async |bytes: String| {
        let host = Host::writing(bytes.clone()).await;
        let client = client();
        let error = client.fail(host.url("/")).await;
        assert_eq!(client.counts(HOST), (0, 1, 1), "{bytes:?}");
        error
    };
    for bytes in broken_off {
        assert_matches!(fail(bytes).await, EgressError::BrokenOff { .. });
    }
    for bytes in large_headers {
        use EgressError::{Unreachable, Unusable as Bad};
        let error = fail(bytes).await;
        assert_matches!(error, Bad(Unusable::Headers) | Unreachable { .. });
    }
    for bytes in no_http {
        let said = bytes.clone();
        assert_matches!(
            fail(bytes).await,
            EgressError::Unreachable { .. },
            "{said:?}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_is_whole() {
    let host = Host::writing("HTTP/1.0 200 OK\r\n\r\nall of it").await;
    let client = client();
    assert_eq!(client.fetch(host.url("/")).await.unwrap(), "all of it");
    assert_eq!(client.counts(HOST), (0, 1, 0));
}

#[tokio::test]
async fn an_endless_answer_is_cut_at_its_limit() {
    let host = Host::scripted(|mut stream| async move {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let piece = [&b"1000\r\n"[..], &[b'x'; 0x1000], b"\r\n"].concat();
        while stream.write_all(&piece).await.is_ok() {}
    })
    .await;
    let client = client();
    let mut request = get(host.url("/"));
    request.max_bytes = 100_000;
    let mut reply = client.send(request).await.unwrap();
    let mut bytes = Vec::new();
    let error = reply.body.read_to_end(&mut bytes).await.unwrap_err();
    assert!(bytes.len() <= 100_000);
    assert_matches!(reason(error), EgressError::TooBig { limit: 100_000 });
    assert_eq!(
        client.counts(HOST),
        (0, 1, 0),
        "a large host is not an ill one"
    );
}

#[tokio::test]
async fn an_answer_that_announces_too_much_is_not_read_at_all() {
    let host = Host::hanging_after("HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n").await;
    let client = client();
    let error = client.send(get(host.url("/"))).await.unwrap_err();
    assert_matches!(error, EgressError::TooBig { .. });
    assert_eq!(client.counts(HOST), (0, 1, 0));
}

#[tokio::test]
async fn an_answer_of_exactly_the_limit_is_whole() {
    let host = Host::on(PUBLIC, |_| fine("12345")).await;
    let client = client();
    let mut request = get(host.url("/"));
    request.max_bytes = 5;
    assert_eq!(client.read(request.clone()).await.unwrap(), "12345");
    request.max_bytes = 4;
    assert!(client.read(request).await.is_err());
}

#[tokio::test]
async fn a_compressed_answer_that_was_not_asked_for_is_refused() {
    for encoding in ["gzip", "br", "deflate", "zstd", "identity, gzip"] {
        let host = Host::on(PUBLIC, move |_| {
            answer(200, &[("content-encoding", encoding)], "\x1f")
        })
        .await;
        let client = client();
        let error = client.fail(host.url("/")).await;
        assert_matches!(
            error,
            EgressError::Unusable(Unusable::Encoded),
            "{encoding}"
        );
        assert_eq!(client.counts(HOST), (0, 1, 0));
    }
    let host = Host::on(PUBLIC, |_| {
        answer(200, &[("content-encoding", "identity")], "ok")
    })
    .await;
    assert_eq!(client().fetch(host.url("/")).await.unwrap(), "ok");
}

#[tokio::test]
async fn headers_of_any_size_are_not_read_to_their_end() {
    let host = Host::scripted(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX-Endless: ").await;
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    })
    .await;
    let client = client();
    let error = client.fail(host.url("/")).await;
    assert_matches!(error, EgressError::Unreachable { .. });
    assert_eq!(client.counts(HOST), (0, 1, 1));
}

#[tokio::test]
async fn a_refusal_that_never_ends_is_heard_all_the_same() {
    let host = Host::scripted(|mut stream| async move {
        let head =
            b"HTTP/1.1 404 No\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).await.unwrap();
        while stream.write_all(b"4\r\nno! \r\n").await.is_ok() {}
    })
    .await;
    let client = client();
    let EgressError::Status {
        status, message, ..
    } = client.fail(host.url("/")).await
    else {
        panic!("it is a refusal");
    };
    assert_eq!((status.as_u16(), message.len()), (404, 300));
    assert_eq!(client.counts(HOST), (0, 1, 0));
}

#[tokio::test]
async fn a_refusal_that_hangs_is_heard_all_the_same() {
    let host = Host::hanging_after("HTTP/1.1 404 No\r\nContent-Length: 99\r\n\r\nnot here").await;
    let EgressError::Status {
        status, message, ..
    } = impatient().fail(host.url("/")).await
    else {
        panic!("it is a refusal");
    };
    assert_eq!((status.as_u16(), message.as_str()), (404, "not here"));
}
