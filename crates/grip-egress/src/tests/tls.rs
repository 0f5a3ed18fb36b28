//! Hosts by https. Their certificates are valid for a hundred years from 2026 and were made for
//! these tests alone.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
};

use grip_testkit::assert_matches;
use parking_lot::Mutex;
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use url::Url;

use super::{
    host::{Host, PUBLIC, fine},
    support::{Client, Setup, client},
};
use crate::{Bearer, EgressError, RedirectError, RequestPolicy};

const AUTHORITY: CertificateDer<'static> =
    CertificateDer::from_slice(include_bytes!("tls/authority.der"));
/// For `public.example` and `127.0.0.2`.
const CERTIFICATE: CertificateDer<'static> =
    CertificateDer::from_slice(include_bytes!("tls/host.der"));
const KEY: &[u8] = include_bytes!("tls/host.key.der");

/// Starts a host that answers every connection once, with these bytes.
fn secure_host(answer: String) -> SocketAddr {
    hearing_host(answer).0
}

/// The heads of requests.
type Heads = Arc<Mutex<Vec<String>>>;

/// [`secure_host`], with what it heard.
fn hearing_host(answer: String) -> (SocketAddr, Heads) {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(KEY));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CERTIFICATE], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind((PUBLIC, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Heads::default();
    let heard = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            // A client that turns away is no failure of the host.
            let _ = serve(StreamOwned::new(connection, stream), &answer, &heard);
        }
    });
    (address, heads)
}

fn serve(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    answer: &str,
    heard: &Heads,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    heard.lock().push(head);
    stream.write_all(answer.as_bytes())?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn hello() -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello".to_owned()
}

fn url(name: &str, address: SocketAddr) -> Url {
    format!("https://{name}:{}/", address.port())
        .parse()
        .unwrap()
}

/// A client that knows the authority of these tests.
fn trusting() -> Client {
    let roots = vec![AUTHORITY];
    Setup {
        roots,
        ..Setup::default()
    }
    .build()
}

#[tokio::test]
async fn a_host_with_a_good_certificate_is_reached_by_name_and_by_address() {
    let address = secure_host(hello());
    let client = trusting();
    for name in ["public.example", "127.0.0.2"] {
        assert_eq!(
            client.fetch(url(name, address)).await.unwrap(),
            "hello",
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let address = secure_host(hello());
    let client = client();
    let error = client.fail(url("public.example", address)).await;
    assert_matches!(error, EgressError::Unreachable { .. });
    assert_eq!(client.counts("public.example"), (0, 1, 1));
}

#[tokio::test]
async fn a_certificate_of_another_name_is_refused() {
    let address = secure_host(hello());
    let client = trusting();
    client.names.answer("imposter.example", &[PUBLIC]);
    let error = client.fail(url("imposter.example", address)).await;
    assert_matches!(error, EgressError::Unreachable { .. });
}

#[tokio::test]
async fn a_host_that_does_not_speak_tls_is_no_https_host() {
    let host = Host::on(PUBLIC, |_| fine("plain")).await;
    let error = trusting().fail(url("public.example", host.address)).await;
    assert_matches!(error, EgressError::Unreachable { .. });
}

#[tokio::test]
async fn a_redirect_may_lead_to_https_but_not_back() {
    let secure = secure_host(hello());
    let plain = Host::moving(PUBLIC, url("public.example", secure)).await;
    let client = trusting();
    assert_eq!(client.fetch(plain.url("/")).await.unwrap(), "hello");

    let head = format!("HTTP/1.1 302 Found\r\nLocation: {}\r\n", plain.url("/"));
    let back = secure_host(format!(
        "{head}Content-Length: 0\r\nConnection: close\r\n\r\n"
    ));
    let error = client.fail(url("public.example", back)).await;
    assert_matches!(error, EgressError::Redirect(RedirectError::Downgrade));
    assert_eq!(plain.connections(), 1);
}

fn secret() -> RequestPolicy {
    RequestPolicy {
        bearer: Some(Bearer::new("s3cret").unwrap()),
        ..RequestPolicy::default()
    }
}

#[tokio::test]
async fn a_credential_reaches_a_public_host_by_https() {
    let (address, heads) = hearing_host(hello());
    let client = trusting();
    let place = url("public.example", address);
    client.send_with(&secret(), place).await.unwrap();
    assert!(heads.lock()[0].contains("authorization: Bearer s3cret"));
}

#[tokio::test]
async fn a_credential_never_goes_from_https_to_http() {
    let plain = Host::on(PUBLIC, |_| fine("plain")).await;
    let place = plain.named("public.example", "/");
    let head = format!("HTTP/1.1 301 Moved\r\nLocation: {place}\r\n");
    let (address, heads) = hearing_host(format!(
        "{head}Content-Length: 0\r\nConnection: close\r\n\r\n"
    ));
    let client = trusting();
    let place = url("public.example", address);
    let error = client.send_with(&secret(), place).await.unwrap_err();
    assert_matches!(error, EgressError::Redirect(RedirectError::Downgrade));
    assert!(heads.lock()[0].contains("s3cret"));
    assert_eq!(plain.connections(), 0);
}
