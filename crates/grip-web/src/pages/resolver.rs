//! The page on which a name or a digest is resolved.

use askama::Template;
use grip_resolve::{Key, NamedBy, Provider, Ranked, Resolved, Source};
use http::{HeaderValue, StatusCode, header};

use super::{CounterView, Frame, Notice, counters};
use crate::{
    error::{ResolvingError, WebError},
    request_context::{HttpResult, RequestContext},
    resolve,
};

/// Providers listed.
const LISTED: usize = 20;
/// As for other pages, but its form may be sent to this node.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

#[derive(Template)]
#[template(path = "resolver.html")]
struct ResolverPage {
    frame: Frame,
    /// The key of the form, to be sent again.
    key: String,
    is_fresh: bool,
    /// Why nothing was found.
    notice: Option<Notice>,
    found: Option<Found>,
    /// None where peer discovery is disabled.
    network: Option<Network>,
    counters: Vec<CounterView>,
}

struct Found {
    title: String,
    description: String,
    name: String,
    id: String,
    /// The same in the API.
    href: String,
    signed: String,
    state: String,
    how: String,
    providers: Vec<ProviderLine>,
}

struct ProviderLine {
    url: String,
    named_by: String,
    badge: Option<&'static str>,
    score: String,
}

/// The DHT as it looks from here.
struct Network {
    peer: String,
    listening: Vec<String>,
    is_alone: bool,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let resolver = &cx.app.resolve()?.resolver;
    let (frame, form) = (cx.frame(), resolve::form(cx.query())?);
    let (found, error) = match &form.key {
        None => (None, None),
        Some(text) => match find(cx, text, form.ask, &frame).await {
            Ok(found) => (Some(found), None),
            Err(error) => (None, Some(error)),
        },
    };
    let status = resolver.status();
    let peers = status.network.as_ref().map_or(0, |n| n.connected_peers);
    let page = ResolverPage {
        frame,
        key: form.key.unwrap_or_default(),
        is_fresh: form.ask.fresh,
        notice: error.as_ref().map(notice),
        found,
        counters: counters([
            ("peers connected", peers as u64),
            ("repositories published", status.publisher.published as u64),
            ("answers from the cache", status.counters.hits_total),
            ("network lookups", status.counters.walks_total),
        ]),
        network: status.network.map(|network| Network {
            is_alone: network.connected_peers == 0,
            peer: network.peer.to_string(),
            listening: network.listening,
        }),
    };
    let code = error.as_ref().map_or(StatusCode::OK, WebError::status);
    let mut response = super::render(code, &page)?;
    if let Some(error) = &error {
        error.add_headers(&mut response);
    }
    let policy = HeaderValue::from_static(POLICY);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}

async fn find(
    cx: &RequestContext<'_>,
    text: &str,
    ask: grip_resolve::ResolveParams,
    frame: &Frame,
) -> Result<Found, WebError> {
    let key = resolve::read_key(text)?;
    let resolver = &cx.app.resolve()?.resolver;
    let resolved = resolver.resolve(&key, ask).await;
    let resolved = resolved.map_err(ResolvingError::Failed)?;
    // What was just found is in the cache.
    let ranked = resolver
        .providers(&key, LISTED, None, Default::default())
        .await
        .map_err(ResolvingError::Failed)?;
    Ok(found(&key, &resolved, &ranked, frame))
}

fn found(key: &Key, resolved: &Resolved, ranked: &Ranked, frame: &Frame) -> Found {
    let manifest = &resolved.manifest;
    let announcement = manifest.announcement();
    let title = match announcement.name() {
        "" => announcement.identifier.to_string(),
        name => name.to_owned(),
    };
    let in_path = match key {
        Key::Manifest(id) => id.to_string(),
        Key::Name(name) => format!("name:{}/{}", name.npub(), name.identifier.encoded()),
    };
    Found {
        title,
        description: announcement.description().to_owned(),
        name: format!("name:{}", manifest.name()),
        id: resolved.id.to_string(),
        href: format!("{}resolve/{in_path}", frame.root()),
        signed: super::when(manifest.signed_at()),
        state: state(resolved),
        how: how(resolved),
        providers: ranked.providers.iter().map(provider_line).collect(),
    }
}

fn state(resolved: &Resolved) -> String {
    let Some(state) = resolved.manifest.state() else {
        return "none is known yet".to_owned();
    };
    let refs = match state.refs.len() {
        1 => "one branch or tag".to_owned(),
        n => format!("{n} branches and tags"),
    };
    match &state.head {
        Some(head) => format!("{refs}, HEAD at {}", head.short()),
        None => refs,
    }
}

fn how(resolved: &Resolved) -> String {
    let took = format!("{:.1} ms", resolved.took.as_secs_f64() * 1000.0);
    match resolved.source {
        Source::Local => format!("from this node itself, in {took}"),
        Source::Cache => format!("from the cache, in {took}"),
        Source::Stale => format!("from the cache, in {took}; being refreshed"),
        Source::Dht => format!(
            "from the network in {took} (hops: {}, requests: {})",
            resolved.hops, resolved.asked
        ),
    }
}

fn provider_line(provider: &Provider) -> ProviderLine {
    let by = match &provider.named_by {
        NamedBy::Owner => "named by the owner".to_owned(),
        NamedBy::Node(peer) => format!("provided by the node {peer}"),
    };
    ProviderLine {
        url: provider.url.to_string(),
        named_by: match &provider.region {
            Some(region) => format!("{by} · {region}"),
            None => by,
        },
        badge: provider.is_shut.then_some("recently failed"),
        score: format!("{:.2}", provider.score),
    }
}

fn notice(error: &WebError) -> Notice {
    let title = match error.status() {
        StatusCode::BAD_REQUEST => "Not understood.",
        StatusCode::NOT_FOUND => "Not found.",
        StatusCode::TOO_MANY_REQUESTS => "Busy.",
        _ => "That did not work.",
    };
    Notice::new(title, error.caller())
}
