//! Builders for the events that people send.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use nostr::prelude::{
    Event, EventBuilder, EventId, FinalizeEvent, Keys, Kind, PublicKey, Tag, Timestamp, ToBech32,
};

/// Somebody with a key, who signs events.
#[derive(Clone, Debug)]
pub struct Author {
    pub keys: Keys,
}

/// Tags as plain text, the way events are written down.
pub type Tags = Vec<Vec<String>>;

/// Makes one tag out of anything that is text.
pub fn tag<S: ToString>(parts: impl IntoIterator<Item = S>) -> Vec<String> {
    parts.into_iter().map(|part| part.to_string()).collect()
}

impl Default for Author {
    fn default() -> Self {
        Self::new()
    }
}

impl Author {
    pub fn new() -> Self {
        Self {
            keys: Keys::generate(),
        }
    }

    pub fn pubkey(&self) -> PublicKey {
        self.keys.public_key()
    }

    pub fn hex(&self) -> String {
        self.pubkey().to_hex()
    }

    pub fn npub(&self) -> String {
        npub(&self.pubkey())
    }

    /// The coordinate of this author's announcement of `identifier`.
    pub fn coordinate(&self, identifier: &str) -> String {
        format!("30617:{}:{identifier}", self.hex())
    }

    pub fn sign(&self, kind: u16, content: &str, tags: Tags) -> Event {
        self.sign_at(kind, content, tags, Timestamp::now())
    }

    pub fn sign_at(&self, kind: u16, content: &str, tags: Tags, at: Timestamp) -> Event {
        let tags = tags
            .into_iter()
            .map(|tag| Tag::parse(tag).expect("a tag has a name"));
        EventBuilder::new(Kind::from(kind), content)
            .tags(tags)
            .custom_created_at(at)
            .finalize(&self.keys)
            .expect("signing with a fresh key works")
    }

    /// An `Authorization` that proves this key for `url` (NIP-98), as GRASP-08 wants it.
    pub fn authorization(&self, url: &str) -> String {
        let proof = self.sign(27_235, "", vec![tag(["u", url]), tag(["method", "GET"])]);
        let json = serde_json::to_vec(&proof).expect("an event can be written");
        format!("Nostr {}", STANDARD.encode(json))
    }

    /// The clone URL of `identifier` at the service `authority` (`host:port`).
    pub fn clone_url(&self, authority: &str, identifier: &str) -> String {
        format!(
            "http://{authority}/{}/{}.git",
            self.npub(),
            percent_encode(identifier)
        )
    }

    /// An announcement that lists the service in `clone` and `relays`.
    pub fn announcement(&self, authority: &str, identifier: &str, more: Tags) -> Event {
        self.announcement_at(authority, identifier, more, Timestamp::now())
    }

    pub fn announcement_at(
        &self,
        authority: &str,
        identifier: &str,
        more: Tags,
        at: Timestamp,
    ) -> Event {
        let mut tags = vec![
            tag(["d", identifier]),
            tag(["name", identifier]),
            tag(["clone", &self.clone_url(authority, identifier)]),
            tag(["relays", &format!("ws://{authority}")]),
        ];
        tags.extend(more);
        self.sign_at(30617, "", tags, at)
    }

    /// A state naming `refs`, with HEAD at `head`.
    pub fn state(&self, identifier: &str, refs: &[(&str, &str)], head: Option<&str>) -> Event {
        self.state_at(identifier, refs, head, Timestamp::now())
    }

    pub fn state_at(
        &self,
        identifier: &str,
        refs: &[(&str, &str)],
        head: Option<&str>,
        at: Timestamp,
    ) -> Event {
        let mut tags = vec![tag(["d", identifier])];
        tags.extend(refs.iter().map(|(name, oid)| tag([*name, *oid])));
        tags.extend(head.map(|head| tag(["HEAD", &format!("ref: {head}")])));
        self.sign_at(30618, "", tags, at)
    }

    /// A pull request to `owner`'s repository with `tip`.
    pub fn pull_request(&self, owner: &Self, identifier: &str, tip: &str, clone: &str) -> Event {
        let tags = vec![
            tag(["a", &owner.coordinate(identifier)]),
            tag(["c", tip]),
            tag(["clone", clone]),
        ];
        self.sign(1618, "please pull", tags)
    }

    /// An update of the pull request `root`.
    pub fn pull_request_update(
        &self,
        owner: &Self,
        identifier: &str,
        root: &Event,
        tip: &str,
    ) -> Event {
        let tags = vec![
            tag(["a", &owner.coordinate(identifier)]),
            tag(["E", &root.id.to_hex()]),
            tag(["P", &root.pubkey.to_hex()]),
            tag(["c", tip]),
        ];
        self.sign(1619, "", tags)
    }

    pub fn issue(&self, owner: &Self, identifier: &str, subject: &str) -> Event {
        let tags = vec![
            tag(["a", &owner.coordinate(identifier)]),
            tag(["p", &owner.hex()]),
            tag(["subject", subject]),
        ];
        self.sign(1621, "it is broken", tags)
    }

    /// A NIP-22 comment on `root`.
    pub fn comment(&self, root: &Event, text: &str) -> Event {
        let (id, author, kind) = (
            root.id.to_hex(),
            root.pubkey.to_hex(),
            root.kind.as_u16().to_string(),
        );
        let tags = vec![
            tag(["E", &id]),
            tag(["K", &kind]),
            tag(["P", &author]),
            tag(["e", &id]),
            tag(["k", &kind]),
            tag(["p", &author]),
        ];
        self.sign(1111, text, tags)
    }

    pub fn delete_events(&self, ids: &[EventId]) -> Event {
        self.sign(
            5,
            "",
            ids.iter().map(|id| tag(["e", &id.to_hex()])).collect(),
        )
    }

    pub fn delete_address(&self, kind: u16, identifier: &str) -> Event {
        self.sign(
            5,
            "",
            vec![tag(["a", &format!("{kind}:{}:{identifier}", self.hex())])],
        )
    }
}

/// The NIP-19 name of a key.
pub fn npub(key: &PublicKey) -> String {
    key.to_bech32().expect("every key has an npub")
}

/// Percent-encodes all but RFC 3986's unreserved characters.
pub fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}
