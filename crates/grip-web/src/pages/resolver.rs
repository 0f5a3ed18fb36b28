//! The page on which a name or a digest is resolved.

use askama::Template;
use grip_resolve::{
    Key, Manifest, NamedBy, NetworkStatus, Provider, Reachability, Resolved, Source, Status,
};
use http::StatusCode;

use super::{CounterView, Frame, Notice, counters};
use crate::{
    error::{ResolvingError, WebError},
    request_context::{HttpResult, RequestContext},
    resolve,
};

/// Providers listed.
const LISTED: usize = 20;

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
    /// What the operator can do where nobody can dial the node.
    remedy: Option<&'static str>,
    status: Status,
    counters: Vec<CounterView>,
}

struct Found {
    /// The same in the API.
    href: String,
    resolved: Resolved,
    providers: Vec<Provider>,
}

impl Found {
    fn manifest(&self) -> &Manifest {
        &self.resolved.manifest
    }

    fn signed(&self) -> String {
        super::when(self.manifest().signed_at())
    }

    fn title(&self) -> String {
        let announcement = self.manifest().announcement();
        match announcement.name() {
            "" => announcement.identifier.to_string(),
            name => name.to_owned(),
        }
    }

    fn state(&self) -> String {
        let Some(state) = self.manifest().state() else {
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

    fn how(&self) -> String {
        let Resolved { hops, asked, .. } = self.resolved;
        let took = format!("{:.1} ms", self.resolved.took.as_secs_f64() * 1000.0);
        match self.resolved.source {
            Source::Local => format!("from this node itself, in {took}"),
            Source::Cache => format!("from the cache, in {took}"),
            Source::Stale => format!("from the cache, in {took}; being refreshed"),
            Source::Dht => format!("from the network in {took} (hops: {hops}, requests: {asked})"),
        }
    }

    /// The region and the node of a provider that a node named.
    fn by_node(&self, provider: &Provider) -> String {
        let region = provider.region.iter().map(|region| format!(" · {region}"));
        let node = match &provider.named_by {
            NamedBy::Owner => None,
            NamedBy::Node(peer) => Some(format!(" · {peer}")),
        };
        region.chain(node).collect()
    }
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let resolver = &cx.app.resolve()?.resolver;
    let form = resolve::form(cx.query())?;
    let frame = cx.frame().about(
        "Resolver",
        "From a name or a digest to the signed manifest of a repository",
    );
    let (found, error) = match &form.key {
        None => (None, None),
        Some(text) => match find(cx, text, form.ask, &frame).await {
            Ok(found) => (Some(found), None),
            Err(error) => {
                cx.count_refusal(&error);
                (None, Some(error))
            }
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
        remedy: status.network.as_ref().and_then(remedy),
        counters: counters([
            ("peers connected", peers as u64),
            ("repositories published", status.publisher.published as u64),
            ("answers from the cache", status.counters.hits_total),
            ("network lookups", status.counters.walks_total),
        ]),
        status,
    };
    let code = error.as_ref().map_or(StatusCode::OK, WebError::status);
    let mut response = super::render(code, &page)?;
    if let Some(error) = &error {
        error.add_headers(&mut response);
    }
    Ok(response)
}

fn remedy(network: &NetworkStatus) -> Option<&'static str> {
    match network.reachability {
        Reachability::Unknown | Reachability::Dialled => None,
        Reachability::NoAddress => Some(
            "Other nodes cannot dial this one: no public address of it is known. The operator names \
             one in dht_external.",
        ),
        Reachability::NotDialled => Some(
            "No other node has dialled this one. The operator lets TCP connections to the port of \
             dht_listen in, and names the public address in dht_external.",
        ),
    }
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
    let in_path = match key {
        Key::Manifest(id) => id.to_string(),
        Key::Name(name) => format!("name:{}/{}", name.npub(), name.identifier.encoded()),
    };
    Ok(Found {
        href: format!("{}resolve/{in_path}", frame.root()),
        resolved,
        providers: ranked.providers,
    })
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
