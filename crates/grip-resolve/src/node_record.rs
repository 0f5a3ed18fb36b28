//! Node records: the URLs at which a peer serves its repositories.
//!
//! Invariant: a value of [`NodeRecord`] was signed with the key of the peer that it names.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use grip_dht::PeerName;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use url::Url;

use crate::manifest::read_url;

/// Longest node record.
pub const MAX_BYTES: usize = 4 << 10;
/// Most URLs on a node record.
pub const MAX_URLS: usize = 8;
/// Longest name of a region.
pub const MAX_REGION: usize = 32;
/// How old a node record may be.
const MAX_AGE: Duration = Duration::from_secs(48 * 60 * 60);
/// How far in the future a node record may have been signed: clocks differ.
const MAX_AHEAD: Duration = Duration::from_secs(10 * 60);

const FORMAT: &str = "gripfast-node";
const VERSION: u64 = 1;
/// First bytes of the name of a peer with an ed25519 key.
const NAME_PREFIX: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// The signed record that a node publishes of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    pub peer: PeerName,
    /// Where its repositories are, below which comes `<npub>/<identifier>.git`.
    pub urls: Vec<Url>,
    pub region: Option<String>,
    /// When it was signed, in seconds since 1970.
    pub issued: u64,
}

/// The key of this node, which signs its node record.
pub struct NodeKey {
    pair: Ed25519KeyPair,
    peer: PeerName,
}

/// Why bytes are no node record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidNodeRecord {
    #[error("a node record has at most {MAX_BYTES} bytes")]
    TooLong,
    #[error("these bytes are not the node record of a node, or not in its one form")]
    Form,
    #[error("a node record has at most {MAX_URLS} plain http or https URLs")]
    Urls,
    #[error("a region has 1 to {MAX_REGION} letters, digits and dashes, in lower case")]
    Region,
    #[error("the node record is not signed by the peer that it names")]
    Signature,
}

/// How old something signed at `issued` counts at `now`. What comes from the future is as old as
/// anything may be: else who lies about the time would always be the newest.
pub(crate) fn age(issued: u64, now: u64) -> Duration {
    now.checked_sub(issued).map_or(MAX_AGE, Duration::from_secs)
}

type Body<'a> = (&'a str, u64, &'a str, &'a [Url], Option<&'a str>, u64);

impl NodeKey {
    /// The key that grows out of these 32 secret bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed)
            .expect("because any 32 bytes are the seed of a key");
        let name = [&NAME_PREFIX, pair.public_key().as_ref()].concat();
        let peer = PeerName::from_bytes(&name).expect("because 38 bytes make a name");
        Self { pair, peer }
    }

    pub fn peer(&self) -> &PeerName {
        &self.peer
    }

    /// Signs a node record of this node.
    pub fn sign(
        &self,
        urls: Vec<Url>,
        region: Option<String>,
        issued: u64,
    ) -> Result<Bytes, InvalidNodeRecord> {
        let record = NodeRecord {
            peer: self.peer.clone(),
            urls,
            region,
            issued,
        };
        record.check()?;
        let signature = self.pair.sign(&record.body());
        let bytes = record.encode(signature.as_ref());
        (bytes.len() <= MAX_BYTES)
            .then_some(bytes)
            .ok_or(InvalidNodeRecord::TooLong)
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.peer)
    }
}

impl NodeRecord {
    /// Reads a node record from bytes of a stranger.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidNodeRecord> {
        type Wire = (
            String,
            u64,
            String,
            Vec<String>,
            Option<String>,
            u64,
            String,
        );
        if bytes.len() > MAX_BYTES {
            return Err(InvalidNodeRecord::TooLong);
        }
        let wire: Wire = serde_json::from_slice(bytes).map_err(|_| InvalidNodeRecord::Form)?;
        let (format, version, peer, urls, region, issued, signature) = wire;
        if format != FORMAT || version != VERSION {
            return Err(InvalidNodeRecord::Form);
        }
        let urls = urls
            .iter()
            .map(|url| read_url(url).ok_or(InvalidNodeRecord::Urls));
        let record = Self {
            peer: PeerName::parse(&peer).map_err(|_| InvalidNodeRecord::Form)?,
            urls: urls.collect::<Result<_, _>>()?,
            region,
            issued,
        };
        record.check()?;
        let hex = signature;
        let mut signature = vec![0; hex.len() / 2];
        faster_hex::hex_decode(hex.as_bytes(), &mut signature)
            .map_err(|_| InvalidNodeRecord::Form)?;
        if record.encode(&signature) != bytes {
            return Err(InvalidNodeRecord::Form);
        }
        record.verify(&signature)?;
        Ok(record)
    }

    /// Whether `bytes` claim to be a node record at all.
    pub(crate) fn is_form_of(bytes: &[u8]) -> bool {
        bytes.starts_with(b"[\"gripfast-node\",")
    }

    /// Whether it still counts.
    pub fn is_current(&self, now: u64) -> bool {
        let oldest = now.saturating_sub(MAX_AGE.as_secs());
        (oldest..=now.saturating_add(MAX_AHEAD.as_secs())).contains(&self.issued)
    }

    fn check(&self) -> Result<(), InvalidNodeRecord> {
        if self.urls.is_empty() || self.urls.len() > MAX_URLS {
            return Err(InvalidNodeRecord::Urls);
        }
        let is_region = |region: &String| {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            (1..=MAX_REGION).contains(&region.len()) && region.bytes().all(plain)
        };
        match &self.region {
            Some(region) if !is_region(region) => Err(InvalidNodeRecord::Region),
            _ => Ok(()),
        }
    }

    fn parts(&self) -> Body<'_> {
        let region = self.region.as_deref();
        let peer = self.peer.as_str();
        (FORMAT, VERSION, peer, &self.urls, region, self.issued)
    }

    /// What is signed.
    fn body(&self) -> Vec<u8> {
        serde_json::to_vec(&self.parts()).expect("because a node_record is plain text")
    }

    fn encode(&self, signature: &[u8]) -> Bytes {
        let (format, version, peer, urls, region, issued) = self.parts();
        let hex = faster_hex::hex_string(signature);
        let wire = (format, version, peer, urls, region, issued, hex);
        let bytes = serde_json::to_vec(&wire).expect("because a node_record is plain text");
        bytes.into()
    }

    fn verify(&self, signature: &[u8]) -> Result<(), InvalidNodeRecord> {
        let name = self.peer.to_bytes();
        let key = name
            .strip_prefix(&NAME_PREFIX)
            .filter(|key| key.len() == 32);
        let key = UnparsedPublicKey::new(&ED25519, key.ok_or(InvalidNodeRecord::Signature)?);
        key.verify(&self.body(), signature)
            .map_err(|_| InvalidNodeRecord::Signature)
    }
}

/// Seconds since 1970.
pub(crate) fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> NodeKey {
        NodeKey::from_seed(&[7; 32])
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn signed() -> Bytes {
        let urls = vec![url("https://git.example/"), url("http://127.0.0.1:7334/")];
        key()
            .sign(urls, Some("eu-west".into()), 1_700_000_000)
            .unwrap()
    }

    #[test]
    fn a_node_record_is_read_as_it_was_signed() {
        let record = NodeRecord::decode(&signed()).unwrap();
        assert_eq!(record.peer, *key().peer());
        assert!(record.peer.as_str().starts_with("12D3KooW"));
        assert_eq!(record.region.as_deref(), Some("eu-west"));
        assert!(NodeRecord::is_form_of(&signed()));
    }

    #[test]
    fn a_node_record_signed_by_another_is_refused() {
        let text = String::from_utf8(signed().to_vec()).unwrap();
        let other = NodeKey::from_seed(&[8; 32]);
        let lie = text.replace(key().peer().as_str(), other.peer().as_str());
        assert_ne!(lie, text);
        assert_eq!(
            NodeRecord::decode(lie.as_bytes()),
            Err(InvalidNodeRecord::Signature)
        );
        // A name that is no key at all proves nothing.
        let name = PeerName::from_bytes(&[0x12; 34]).unwrap();
        let lie = text.replace(key().peer().as_str(), name.as_str());
        assert_eq!(
            NodeRecord::decode(lie.as_bytes()),
            Err(InvalidNodeRecord::Signature)
        );
    }

    #[test]
    fn what_a_node_record_cannot_say_is_not_signed_either() {
        let many = vec![url("https://a.example/"); MAX_URLS + 1];
        assert_eq!(key().sign(many, None, 1), Err(InvalidNodeRecord::Urls));
        assert_eq!(key().sign(vec![], None, 1), Err(InvalidNodeRecord::Urls));
        let one = || vec![url("https://a.example/")];
        for region in ["", "EU", "a b", &"x".repeat(33)] {
            assert_eq!(
                key().sign(one(), Some(region.into()), 1),
                Err(InvalidNodeRecord::Region)
            );
        }
    }

    #[test]
    fn a_node_record_counts_for_two_days_and_not_long_before_it_was_signed() {
        let record = NodeRecord::decode(&signed()).unwrap();
        let now = record.issued;
        assert!(record.is_current(now) && record.is_current(now + 48 * 3_600));
        assert!(!record.is_current(now + 48 * 3_600 + 1) && !record.is_current(now - 601));
        assert!(record.is_current(now - 600));
    }

    #[test]
    fn what_comes_from_the_future_counts_as_old() {
        assert_eq!(age(10, 15), Duration::from_secs(5));
        assert_eq!(age(15, 15), Duration::ZERO);
        assert_eq!(age(16, 15), MAX_AGE);
    }

    proptest! {
        #[test]
        fn any_changed_byte_of_a_node_record_is_refused(at in any::<prop::sample::Index>(), to in any::<u8>()) {
            let mut bytes = signed().to_vec();
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != to);
            bytes[at] = to;
            prop_assert!(NodeRecord::decode(&bytes).is_err());
        }
    }
}
