//! The HTTP client underneath: no proxy, no redirects, no credentials of its own, no compression,
//! no retry.

use std::{sync::Arc, time::Duration};

use http::{
    HeaderMap, HeaderValue,
    header::{self, HeaderName},
};
use reqwest::redirect;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer};
use url::Url;

use crate::{
    bearer::Bearer,
    error::BuildError,
    lookup::Resolver,
    options::{Options, Request},
};

/// Idle connections kept for the next request to a host.
const MAX_IDLE_CONNECTIONS: usize = 2;
/// How long they are kept.
const KEEP_CONNECTION: Duration = Duration::from_secs(30);
/// Headers of one answer, all names and values together.
pub(crate) const MAX_HEADER_BYTES: usize = 64 * 1024;

/// What a client is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Requests,
    /// Requests that must stay away from public addresses.
    Inside,
    /// Connections that become websockets, which HTTP/2 does not.
    WebSockets,
}

/// Builds a client, shared by all requests of one purpose.
///
/// A connection that waits for its next request goes to an address that was judged when it was
/// made.
pub(crate) fn build(
    options: &Options,
    resolver: Resolver,
    purpose: Purpose,
    roots: &[CertificateDer<'static>],
) -> Result<reqwest::Client, BuildError> {
    let agent = HeaderValue::from_str(&options.user_agent).map_err(BuildError::UserAgent)?;
    let max_idle = if options.counts_networks {
        0
    } else {
        MAX_IDLE_CONNECTIONS
    };
    let mut builder = reqwest::Client::builder();
    if purpose == Purpose::WebSockets {
        builder = builder.http1_only();
    }
    builder
        .user_agent(agent)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        // A repeated request would be one that no permit paid for.
        .retry(reqwest::retry::never())
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .dns_resolver(resolver)
        .connect_timeout(options.connect)
        .pool_max_idle_per_host(max_idle)
        .pool_idle_timeout(KEEP_CONNECTION)
        .http2_max_header_list_size(MAX_HEADER_BYTES as u32)
        .tls_backend_preconfigured(tls(roots, purpose)?)
        .build()
        .map_err(|error| BuildError::Client(error.without_url()))
}

/// A client of commands that ask a node, without the rules for addresses of strangers. It trusts the
/// certificates of the machine, as operators may have added their own, and those of the web, as a
/// container may have none, without which no client can be built, not even for plain HTTP.
pub fn command_client() -> reqwest::ClientBuilder {
    let web = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
    let web = web.filter_map(|root| reqwest::Certificate::from_der(root).ok());
    reqwest::Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .tls_certs_merge(web)
}

/// TLS by `ring`, with the certificates of the web and those of `roots`; neither the process
/// nor the machine is asked for its own.
fn tls(roots: &[CertificateDer<'static>], purpose: Purpose) -> Result<ClientConfig, BuildError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    store.add_parsable_certificates(roots.iter().cloned());
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(BuildError::Tls)?
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = match purpose {
        Purpose::WebSockets => vec![b"http/1.1".to_vec()],
        Purpose::Requests | Purpose::Inside => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(config)
}

/// What no caller may set as a header: credentials, traces of other pages, and what the connection needs.
const NEVER_SENT: &[HeaderName] = &[
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
    header::REFERER,
    header::ORIGIN,
    header::FORWARDED,
    header::HOST,
    header::USER_AGENT,
    header::ACCEPT_ENCODING,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::EXPECT,
    header::TE,
    header::TRAILER,
];

/// `request` as it is sent to `url`, which `bearer` is meant for.
pub(crate) fn prepare(request: &Request, url: &Url, bearer: Option<&Bearer>) -> reqwest::Request {
    let mut prepared = reqwest::Request::new(request.method.clone(), url.clone());
    *prepared.headers_mut() = clean(&request.headers);
    if let Some(bearer) = bearer {
        let headers = prepared.headers_mut();
        headers.insert(header::AUTHORIZATION, bearer.header());
    }
    if !request.body.is_empty() {
        *prepared.body_mut() = Some(request.body.clone().into());
    }
    prepared
}

fn clean(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in NEVER_SENT {
        headers.remove(name);
    }
    headers.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );
    headers
}
