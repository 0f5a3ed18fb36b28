//! Strict parser of `["EVENT", {…}]`: an event that is not exactly as NIP-01 says would be stored in
//! another form than it was signed in.

use std::{borrow::Cow, fmt};

use grip_nostr::{Event, EventId, Kind, PublicKey, Timestamp};
use nostr::prelude::{Signature, Tag};
use serde::{
    Deserializer as _,
    de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// Parses the whole message. `max_tags` stops a flood of tags before it takes memory.
pub(super) fn parse(text: &[u8], max_tags: usize) -> Result<Event, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let event = reader.deserialize_seq(Message { max_tags })?;
    reader.end()?;
    Ok(event)
}

struct Message {
    max_tags: usize,
}

impl<'de> Visitor<'de> for Message {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[\"EVENT\", event]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Event, A::Error> {
        seq.next_element::<IgnoredAny>()?
            .ok_or_else(|| A::Error::invalid_length(0, &self))?;
        let fields = Fields {
            max_tags: self.max_tags,
        };
        let event = seq
            .next_element_seed(fields)?
            .ok_or_else(|| A::Error::custom("the event is missing"))?;
        match seq.next_element::<IgnoredAny>()? {
            None => Ok(event),
            Some(_) => Err(A::Error::custom("an EVENT message holds one event")),
        }
    }
}

struct Fields {
    max_tags: usize,
}

impl<'de> DeserializeSeed<'de> for Fields {
    type Value = Event;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Event, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
        let mut id: Option<[u8; 32]> = None;
        let mut pubkey: Option<[u8; 32]> = None;
        let mut sig: Option<[u8; 64]> = None;
        let mut created_at: Option<u64> = None;
        let mut kind: Option<u16> = None;
        let mut tags: Option<Vec<Tag>> = None;
        let mut content: Option<String> = None;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "id" => once(&mut id, "id", map.next_value_seed(Hex)?)?,
                "pubkey" => once(&mut pubkey, "pubkey", map.next_value_seed(Hex)?)?,
                "sig" => once(&mut sig, "sig", map.next_value_seed(Hex)?)?,
                "created_at" => once(&mut created_at, "created_at", map.next_value()?)?,
                "kind" => once(&mut kind, "kind", map.next_value()?)?,
                "content" => once(&mut content, "content", map.next_value()?)?,
                "tags" => {
                    let seed = TagList { max: self.max_tags };
                    once(&mut tags, "tags", map.next_value_seed(seed)?)?;
                }
                // Not signed, so neither looked at nor kept.
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Event::new(
            EventId::from_byte_array(needed(id, "id")?),
            PublicKey::from_byte_array(needed(pubkey, "pubkey")?),
            Timestamp::from_secs(needed(created_at, "created_at")?),
            Kind::from(needed(kind, "kind")?),
            needed(tags, "tags")?,
            needed(content, "content")?,
            Signature::from_slice(&needed(sig, "sig")?).map_err(A::Error::custom)?,
        ))
    }
}

fn once<T, E: serde::de::Error>(
    field: &mut Option<T>,
    name: &'static str,
    value: T,
) -> Result<(), E> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

fn needed<T, E: serde::de::Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
    field.ok_or_else(|| E::missing_field(name))
}

/// `N` bytes in lower-case hex.
struct Hex<const N: usize>;

impl<'de, const N: usize> DeserializeSeed<'de> for Hex<N> {
    type Value = [u8; N];

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<[u8; N], D::Error> {
        reader.deserialize_str(self)
    }
}

impl<const N: usize> Visitor<'_> for Hex<N> {
    type Value = [u8; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lower-case hex digits", N * 2)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<[u8; N], E> {
        let mut out = [0; N];
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let whole = text.len() == N * 2 && lower;
        if whole && faster_hex::hex_decode(text.as_bytes(), &mut out).is_ok() {
            return Ok(out);
        }
        Err(E::custom(format_args!(
            "expected {} lower-case hex digits",
            N * 2
        )))
    }
}

struct TagList {
    max: usize,
}

impl<'de> DeserializeSeed<'de> for TagList {
    type Value = Vec<Tag>;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Vec<Tag>, D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for TagList {
    type Value = Vec<Tag>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tags")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Tag>, A::Error> {
        let mut tags = Vec::new();
        while let Some(tag) = seq.next_element::<Vec<String>>()? {
            if tags.len() == self.max {
                return Err(A::Error::custom(format_args!(
                    "more than {} tags",
                    self.max
                )));
            }
            tags.push(Tag::parse(tag).map_err(|_| A::Error::custom("a tag is empty"))?);
        }
        Ok(tags)
    }
}

#[cfg(test)]
mod tests;
