//! Gathers what the page of the resolver shows.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_resolve::{Key, NamedBy, Provider, Ranked, Resolved, Source, Status};
use http::{HeaderValue, Response, StatusCode, header};

use crate::{
    app::{App, Asked},
    body::Body,
    error::{ResolvingError, WebError},
    pages::{
        self, CounterView, Frame,
        resolver::{Found, Network, ProviderLine, ResolverPage, Trouble},
    },
    resolve,
};

/// Places listed.
const LISTED: usize = 20;
/// As for other pages, but its form may be sent to this node.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The page on which a key is tried. Boxed, so that no other request has to find room for it.
pub(crate) fn resolver<'a>(
    app: &'a Arc<App>,
    query: Option<&'a str>,
    asked: &'a Asked,
) -> BoxFuture<'a, Result<Response<Body>, WebError>> {
    Box::pin(async move {
        let resolver = &app.resolve()?.resolver;
        let frame = Frame::new(&asked.settings, app.build());
        let form = resolve::form(query)?;
        let looked = match &form.key {
            Some(text) => Some(look(app, text, form.ask, &frame).await),
            None => None,
        };
        let (found, error) = match looked {
            None => (None, None),
            Some(Ok(found)) => (Some(found), None),
            Some(Err(error)) => (None, Some(error)),
        };
        let status = resolver.status();
        let page = ResolverPage {
            frame,
            key: form.key.unwrap_or_default(),
            is_fresh: form.ask.fresh,
            trouble: error.as_ref().map(trouble),
            found,
            counters: counters(&status),
            network: status.network.map(|network| Network {
                is_alone: network.connected_peers == 0,
                peer: network.peer.to_string(),
                listening: network.listening,
            }),
        };
        let code = error.as_ref().map_or(StatusCode::OK, WebError::status);
        let mut response = pages::draw(code, &page)?;
        if let Some(error) = &error {
            error.add_headers(&mut response);
        }
        let policy = HeaderValue::from_static(POLICY);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        Ok(response)
    })
}

async fn look(
    app: &App,
    text: &str,
    ask: grip_resolve::Ask,
    frame: &Frame,
) -> Result<Found, WebError> {
    let key = resolve::read_key(text)?;
    let resolver = &app.resolve()?.resolver;
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
    let name = manifest.name();
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
        name: format!("name:{name}"),
        id: resolved.id.to_string(),
        href: format!("{}resolve/{in_path}", frame.root()),
        signed: pages::when(manifest.signed_at()),
        state: state(resolved),
        how: how(resolved),
        providers: ranked.providers.iter().map(line).collect(),
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
        Source::Stale => format!("from the cache, in {took}; a new answer is looked for"),
        Source::Dht => format!(
            "from the network in {took} (hops: {}, questions: {})",
            resolved.hops, resolved.asked
        ),
    }
}

fn line(provider: &Provider) -> ProviderLine {
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
        badge: provider.is_shut.then_some("failed of late"),
        score: format!("{:.2}", provider.score),
    }
}

fn trouble(error: &WebError) -> Trouble {
    let title = match error.status() {
        StatusCode::BAD_REQUEST => "Not understood.",
        StatusCode::NOT_FOUND => "Not found.",
        StatusCode::TOO_MANY_REQUESTS => "Busy.",
        _ => "That did not work.",
    };
    Trouble {
        title,
        why: error.caller(),
    }
}

fn counters(status: &Status) -> Vec<CounterView> {
    let counts = &status.counters;
    let counter = |label, value: u64| CounterView {
        label,
        value: pages::grouped(value),
    };
    let network = status.network.as_ref();
    let peers = network.map_or(0, |network| network.connected_peers as u64);
    vec![
        counter("peers connected", peers),
        counter("repositories to be found", status.publisher.told as u64),
        counter("answers from the cache", counts.hits_total),
        counter("network lookups", counts.walks_total),
    ]
}
