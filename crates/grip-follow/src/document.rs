//! Documents in which relays describe themselves (NIP-11), as far as they are read.

use bytes::Bytes;
use grip_egress::Request;
use grip_nostr::PublicKey;
use http::{HeaderMap, HeaderValue, Method, header::ACCEPT};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use url::Url;

use crate::session::RemoteLimits;

const MAX_BYTES: u64 = 256 << 10;

/// The part of NIP-11 that is read.
#[derive(Default)]
pub(crate) struct Document {
    supported_nips: Option<Vec<Value>>,
    supported_grasps: Vec<Value>,
    pubkey: Option<String>,
    limitation: Limitation,
    /// How its node is reached in the DHT, if it takes part.
    pub(crate) dht: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Limitation {
    max_subscriptions: Option<i64>,
    default_limit: Option<i64>,
}

impl Document {
    /// Reads each field by itself: one that is not as it should be takes no other along.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let Value::Object(mut fields) = serde_json::from_slice(text).ok()? else {
            return None;
        };
        Some(Self {
            supported_nips: field(&mut fields, "supported_nips"),
            supported_grasps: field(&mut fields, "supported_grasps"),
            pubkey: field(&mut fields, "pubkey"),
            limitation: field(&mut fields, "limitation"),
            dht: field(&mut fields, "dht"),
        })
    }

    fn has_grasp(&self, name: &str) -> bool {
        let mut grasps = self.supported_grasps.iter();
        grasps.any(|grasp| grasp.as_str() == Some(name))
    }

    pub(crate) fn is_private(&self) -> bool {
        self.has_grasp("GRASP-08")
    }

    /// The key of the service (E-7).
    pub(crate) fn key(&self) -> Option<PublicKey> {
        PublicKey::from_hex(self.pubkey.as_deref()?).ok()
    }

    pub(crate) fn limits(&self) -> RemoteLimits {
        let Limitation {
            max_subscriptions,
            default_limit,
        } = self.limitation;
        let nips = self.supported_nips.as_ref();
        RemoteLimits {
            max_subscriptions: max_subscriptions.and_then(|most| usize::try_from(most).ok()),
            default_limit: default_limit.and_then(|limit| u64::try_from(limit).ok()),
            knows_nip77: nips.map(|nips| nips.iter().any(|nip| nip.as_u64() == Some(77))),
            is_grasp: self.has_grasp("GRASP-01"),
        }
    }
}

fn field<T: DeserializeOwned + Default>(fields: &mut Map<String, Value>, name: &str) -> T {
    let value = fields.remove(name).unwrap_or_default();
    serde_json::from_value(value).unwrap_or_default()
}

/// The request for the document of the relay at `url`, whose scheme may be that of pages.
pub(crate) fn request(url: &Url) -> Request {
    let accept = HeaderValue::from_static("application/nostr+json");
    Request {
        method: Method::GET,
        url: page_url(url),
        headers: HeaderMap::from_iter([(ACCEPT, accept)]),
        body: Bytes::new(),
        max_bytes: MAX_BYTES,
    }
}

/// Where a relay has its document.
pub(crate) fn page_url(url: &Url) -> Url {
    let text = match url.scheme() {
        "ws" | "wss" => url.as_str().replacen("ws", "http", 1),
        _ => url.to_string(),
    };
    Url::parse(&text).expect("a websocket's URL with another scheme")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_not_as_it_should_be_hides_no_other() {
        let text = br#"{"limitation": {"max_subscriptions": "many"}, "supported_nips": "11",
            "supported_grasps": [1, null, "GRASP-08"], "pubkey": 7, "dht": {}}"#;
        let document = Document::parse(text).unwrap();
        assert!(document.is_private() && document.key().is_none());
        assert_eq!(document.limits().max_subscriptions, None);
        assert!(Document::parse(b"[]").is_none() && Document::parse(b"<html>").is_none());
    }
}
