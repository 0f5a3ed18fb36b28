//! Cards of nodes: which URLs belong to a peer's name.
//!
//! Invariant: a value of [`Card`] was signed with the key that the peer's name is made of.

use std::{fmt, time::Duration};

use bytes::Bytes;
use grip_dht::PeerName;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use url::Url;

use crate::manifest::read_url;

/// Longest card.
pub const MAX_BYTES: usize = 4 << 10;
/// Most URLs on a card.
pub const MAX_URLS: usize = 8;
/// Longest name of a region.
pub const MAX_REGION: usize = 32;
/// How old a card may be.
const MAX_AGE: Duration = Duration::from_secs(48 * 60 * 60);
/// How far in the future a card may have been signed: clocks differ.
const MAX_AHEAD: Duration = Duration::from_secs(10 * 60);

const FORMAT: &str = "gripfast-node";
const VERSION: u64 = 1;
/// What the names of ed25519 keys begin with.
const NAME_PREFIX: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub peer: PeerName,
    /// Where its repositories are, below which comes `<npub>/<identifier>.git`.
    pub urls: Vec<Url>,
    pub region: Option<String>,
    /// When it was signed, in seconds since 1970.
    pub issued: u64,
}

/// The key of this node, which signs its card.
pub struct NodeKey {
    pair: Ed25519KeyPair,
    peer: PeerName,
}

/// Why bytes are no card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCard {
    #[error("a card has at most {MAX_BYTES} bytes")]
    TooLong,
    #[error("these bytes are not the card of a node, or not in its one form")]
    Form,
    #[error("a card has at most {MAX_URLS} plain http or https URLs")]
    Urls,
    #[error("a region has 1 to {MAX_REGION} letters, digits and dashes, in lower case")]
    Region,
    #[error("the card is not signed by the peer that it names")]
    Signature,
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

    /// Signs a card of this node.
    pub fn sign(
        &self,
        urls: Vec<Url>,
        region: Option<String>,
        issued: u64,
    ) -> Result<Bytes, InvalidCard> {
        let card = Card {
            peer: self.peer.clone(),
            urls,
            region,
            issued,
        };
        card.check()?;
        let signature = self.pair.sign(&card.body());
        let bytes = card.encode(signature.as_ref());
        (bytes.len() <= MAX_BYTES)
            .then_some(bytes)
            .ok_or(InvalidCard::TooLong)
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.peer)
    }
}

impl Card {
    /// Reads a card from bytes of a stranger.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidCard> {
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
            return Err(InvalidCard::TooLong);
        }
        let wire: Wire = serde_json::from_slice(bytes).map_err(|_| InvalidCard::Form)?;
        let (format, version, peer, urls, region, issued, signature) = wire;
        if format != FORMAT || version != VERSION {
            return Err(InvalidCard::Form);
        }
        let urls = urls
            .iter()
            .map(|url| read_url(url).ok_or(InvalidCard::Urls));
        let card = Self {
            peer: PeerName::parse(&peer).map_err(|_| InvalidCard::Form)?,
            urls: urls.collect::<Result<_, _>>()?,
            region,
            issued,
        };
        card.check()?;
        let signature = unhex(&signature).ok_or(InvalidCard::Form)?;
        if card.encode(&signature) != bytes {
            return Err(InvalidCard::Form);
        }
        card.verify(&signature)?;
        Ok(card)
    }

    /// Whether `bytes` claim to be a card at all.
    pub(crate) fn is_form_of(bytes: &[u8]) -> bool {
        bytes.starts_with(b"[\"gripfast-node\",")
    }

    /// Whether it still counts.
    pub fn is_current(&self, now: u64) -> bool {
        let oldest = now.saturating_sub(MAX_AGE.as_secs());
        (oldest..=now.saturating_add(MAX_AHEAD.as_secs())).contains(&self.issued)
    }

    fn check(&self) -> Result<(), InvalidCard> {
        if self.urls.is_empty() || self.urls.len() > MAX_URLS {
            return Err(InvalidCard::Urls);
        }
        let is_region = |region: &String| {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            (1..=MAX_REGION).contains(&region.len()) && region.bytes().all(plain)
        };
        match &self.region {
            Some(region) if !is_region(region) => Err(InvalidCard::Region),
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
        serde_json::to_vec(&self.parts()).expect("because a card is plain text")
    }

    fn encode(&self, signature: &[u8]) -> Bytes {
        let (format, version, peer, urls, region, issued) = self.parts();
        let hex: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        let wire = (format, version, peer, urls, region, issued, hex);
        let bytes = serde_json::to_vec(&wire).expect("because a card is plain text");
        bytes.into()
    }

    fn verify(&self, signature: &[u8]) -> Result<(), InvalidCard> {
        let name = self.peer.to_bytes();
        let key = name
            .strip_prefix(&NAME_PREFIX)
            .filter(|key| key.len() == 32);
        let key = UnparsedPublicKey::new(&ED25519, key.ok_or(InvalidCard::Signature)?);
        key.verify(&self.body(), signature)
            .map_err(|_| InvalidCard::Signature)
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_even = text.len().is_multiple_of(2);
    is_even.then(|| digits.map(byte).collect()).flatten()
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
    fn a_card_is_read_as_it_was_signed() {
        let card = Card::decode(&signed()).unwrap();
        assert_eq!(card.peer, *key().peer());
        assert!(card.peer.as_str().starts_with("12D3KooW"));
        assert_eq!(card.region.as_deref(), Some("eu-west"));
        assert!(Card::is_form_of(&signed()));
    }

    #[test]
    fn a_card_signed_by_another_is_refused() {
        let text = String::from_utf8(signed().to_vec()).unwrap();
        let other = NodeKey::from_seed(&[8; 32]);
        let lie = text.replace(key().peer().as_str(), other.peer().as_str());
        assert_ne!(lie, text);
        assert_eq!(Card::decode(lie.as_bytes()), Err(InvalidCard::Signature));
        // A name that is no key at all proves nothing.
        let name = PeerName::from_bytes(&[0x12; 34]).unwrap();
        let lie = text.replace(key().peer().as_str(), name.as_str());
        assert_eq!(Card::decode(lie.as_bytes()), Err(InvalidCard::Signature));
    }

    #[test]
    fn what_a_card_cannot_say_is_not_signed_either() {
        let many = vec![url("https://a.example/"); MAX_URLS + 1];
        assert_eq!(key().sign(many, None, 1), Err(InvalidCard::Urls));
        assert_eq!(key().sign(vec![], None, 1), Err(InvalidCard::Urls));
        let one = || vec![url("https://a.example/")];
        for region in ["", "EU", "a b", &"x".repeat(33)] {
            assert_eq!(
                key().sign(one(), Some(region.into()), 1),
                Err(InvalidCard::Region)
            );
        }
    }

    #[test]
    fn a_card_counts_for_two_days_and_not_long_before_it_was_signed() {
        let card = Card::decode(&signed()).unwrap();
        let now = card.issued;
        assert!(card.is_current(now) && card.is_current(now + 48 * 3_600));
        assert!(!card.is_current(now + 48 * 3_600 + 1) && !card.is_current(now - 601));
        assert!(card.is_current(now - 600));
    }

    proptest! {
        #[test]
        fn any_changed_byte_of_a_card_is_refused(at in any::<prop::sample::Index>(), to in any::<u8>()) {
            let mut bytes = signed().to_vec();
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != to);
            bytes[at] = to;
            prop_assert!(Card::decode(&bytes).is_err());
        }
    }
}
