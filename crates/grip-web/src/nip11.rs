//! The relay's document about itself (NIP-11, G01-23 to G01-25).

use http::{StatusCode, header};
use serde::Serialize;

use crate::{
    Build, Resolve,
    error::WebError,
    request_context::HttpResult,
    respond::{self, WithHeader as _},
    settings::WebSettings,
};

/// The NIPs the relay keeps to.
const NIPS: [u16; 8] = [1, 9, 11, 34, 40, 45, 62, 77];
/// Those of them that are about deletion.
const DELETION_NIPS: [u16; 2] = [9, 62];
/// Those beside them that a private service keeps to.
const PRIVATE_NIPS: [u16; 2] = [42, 98];

/// Addresses in the DHT that are named.
const MAX_DHT_ADDRESSES: usize = 4;

const SOFTWARE: &str = "https://github.com/gripfast/gripfast";

#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    contact: Option<&'a str>,
    icon: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pubkey: Option<String>,
    #[serde(rename = "self", skip_serializing_if = "Option::is_none")]
    own_key: Option<String>,
    software: &'static str,
    version: String,
    supported_nips: Vec<u16>,
    supported_grasps: Vec<String>,
    repo_acceptance_criteria: &'a str,
    /// Absent, not empty, where nothing is curated.
    #[serde(skip_serializing_if = "Option::is_none")]
    curation: Option<&'a str>,
    limitation: Limitation,
    /// How this node is reached in the DHT, for others that look for a first peer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dht: Vec<String>,
}

/// The bounds the relay really keeps.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Limitation {
    max_message_length: usize,
    max_subscriptions: usize,
    max_subid_length: usize,
    max_limit: usize,
    default_limit: usize,
    max_event_tags: usize,
    created_at_upper_limit: u64,
    auth_required: bool,
    payment_required: bool,
    restricted_writes: bool,
}

impl Limitation {
    pub(crate) fn of(limits: &grip_relay::Limits) -> Self {
        Self {
            max_message_length: limits.message_bytes,
            max_subscriptions: limits.subscriptions,
            max_subid_length: limits.subscription_id_chars,
            max_limit: limits.max_limit,
            default_limit: limits.default_limit,
            // States carry a tag per ref and may have more than other kinds.
            max_event_tags: limits.event.tags.max(limits.state.tags),
            created_at_upper_limit: limits.future.as_secs(),
            auth_required: false,
            payment_required: false,
            // Only what belongs to a repository hosted here is taken.
            restricted_writes: true,
        }
    }
}

/// The addresses that others may dial, each with the name of this node behind it.
pub(crate) fn dht_addresses(resolve: Option<&Resolve>) -> Vec<String> {
    let status = resolve.and_then(|resolve| resolve.resolver.network_status());
    let Some(status) = status else {
        return Vec::new();
    };
    let external = status.external.iter().take(MAX_DHT_ADDRESSES);
    external
        .map(|address| format!("{address}/p2p/{}", status.peer))
        .collect()
}

/// Writes the document.
pub(crate) fn document(
    settings: &WebSettings,
    build: &Build,
    limitation: Limitation,
    dht: Vec<String>,
) -> HttpResult {
    let node = &settings.node;
    let limitation = Limitation {
        auth_required: settings.private.is_some(),
        ..limitation
    };
    // Other private services let in the key that is told here (G08-13, E-7).
    let told = match settings.private {
        Some(_) => node.own_key.or(node.owner),
        None => node.owner,
    };
    let document = Document {
        name: &node.name,
        description: &node.description,
        contact: node.contact.as_deref(),
        icon: icon(settings),
        pubkey: told.map(|key| key.to_hex()),
        own_key: node.own_key.map(|key| key.to_hex()),
        software: SOFTWARE,
        version: build.full_version(),
        supported_nips: nips(settings),
        supported_grasps: node
            .grasps
            .iter()
            .map(|n| format!("GRASP-{n:02}"))
            .collect(),
        repo_acceptance_criteria: &node.repo_acceptance_criteria,
        curation: node.curation.as_deref().filter(|text| !text.is_empty()),
        limitation,
        dht,
    };
    let json = serde_json::to_string_pretty(&document)
        .map_err(|e| WebError::internal("the NIP-11 document cannot be written", e))?;
    let response = respond::typed(StatusCode::OK, "application/nostr+json", json);
    // The same path is a page for others.
    Ok(response.with(header::VARY, "accept"))
}

fn nips(settings: &WebSettings) -> Vec<u16> {
    let ignored = settings.node.ignores_deletions;
    let kept = |nip: &u16| !ignored || !DELETION_NIPS.contains(nip);
    let private = settings.private.iter().flat_map(|_| PRIVATE_NIPS);
    let mut nips: Vec<u16> = NIPS.into_iter().filter(kept).chain(private).collect();
    nips.sort_unstable();
    nips
}

fn icon(settings: &WebSettings) -> String {
    let own = || format!("{}/icon.svg", settings.service.http_url());
    settings.node.icon.clone().unwrap_or_else(own)
}
