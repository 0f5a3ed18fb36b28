//! Messages of relays, read without building more than is used, and ours to them.

use std::{borrow::Cow, fmt};

use grip_nostr::Filter;
use serde::{
    Deserialize, Deserializer as _,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::{Value, json, value::RawValue};

/// Longest challenge that is answered.
const MAX_CHALLENGE_BYTES: usize = 256;

/// What a relay says.
#[derive(Debug)]
pub(crate) enum RelayMessage<'a> {
    Event {
        subscription: Cow<'a, str>,
        event: &'a str,
        created_at: u64,
    },
    Eose(Cow<'a, str>),
    Closed {
        subscription: Cow<'a, str>,
        text: Cow<'a, str>,
    },
    Notice(Cow<'a, str>),
    /// A challenge (NIP-42).
    Auth(Cow<'a, str>),
    Reconcile {
        subscription: Cow<'a, str>,
        message: Vec<u8>,
    },
    ReconcileError {
        subscription: Cow<'a, str>,
        text: Cow<'a, str>,
    },
}

/// The one field of an event that paging needs before the event is checked.
#[derive(Deserialize)]
struct Head {
    created_at: u64,
}

impl<'a> RelayMessage<'a> {
    /// Reads a text frame; none where it is nothing that we use.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let [name, first, second] = reader.deserialize_seq(Parts).ok()?;
        reader.end().ok()?;
        let text = |part: Option<&'a RawValue>| -> Option<Cow<'a, str>> {
            #[derive(Deserialize)]
            struct Text<'t>(#[serde(borrow)] Cow<'t, str>);
            Some(serde_json::from_str::<Text<'a>>(part?.get()).ok()?.0)
        };
        let name = text(name)?;
        Some(match name.as_ref() {
            "EVENT" => {
                let event = second?.get();
                Self::Event {
                    subscription: text(first)?,
                    created_at: serde_json::from_str::<Head>(event).ok()?.created_at,
                    event,
                }
            }
            "EOSE" => Self::Eose(text(first)?),
            "CLOSED" => Self::Closed {
                subscription: text(first)?,
                text: text(second).unwrap_or_default(),
            },
            "NOTICE" => Self::Notice(text(first)?),
            "AUTH" => Self::Auth(text(first).filter(|it| it.len() <= MAX_CHALLENGE_BYTES)?),
            "NEG-MSG" => {
                let hex = text(second)?;
                let mut message = vec![0; hex.len() / 2];
                faster_hex::hex_decode(hex.as_bytes(), &mut message).ok()?;
                Self::Reconcile {
                    subscription: text(first)?,
                    message,
                }
            }
            "NEG-ERR" => Self::ReconcileError {
                subscription: text(first)?,
                text: text(second).unwrap_or_default(),
            },
            _ => return None,
        })
    }
}

/// The first three elements of a list; the rest is skipped without being kept.
struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = [Option<&'de RawValue>; 3];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message of a relay")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut parts = [None; 3];
        for part in &mut parts {
            *part = seq.next_element()?;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(parts)
    }
}

pub(crate) fn req<'a>(subscription: &str, filters: impl IntoIterator<Item = &'a Filter>) -> String {
    let mut message = vec![json!("REQ"), json!(subscription)];
    message.extend(filters.into_iter().map(Value::from));
    Value::Array(message).to_string()
}

pub(crate) fn close(subscription: &str) -> String {
    json!(["CLOSE", subscription]).to_string()
}

pub(crate) fn neg_open(subscription: &str, filter: &Filter, message: &[u8]) -> String {
    let hex = faster_hex::hex_string(message);
    json!(["NEG-OPEN", subscription, Value::from(filter), hex]).to_string()
}

pub(crate) fn neg_msg(subscription: &str, message: &[u8]) -> String {
    json!(["NEG-MSG", subscription, faster_hex::hex_string(message)]).to_string()
}

pub(crate) fn neg_close(subscription: &str) -> String {
    json!(["NEG-CLOSE", subscription]).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_everything_else_is_nothing() {
        let event = RelayMessage::read(r#"["EVENT","s1",{"created_at":7,"x":[1]}]"#);
        assert!(matches!(
            event,
            Some(RelayMessage::Event { subscription, event, created_at: 7 })
                if subscription == "s1" && event == r#"{"created_at":7,"x":[1]}"#
        ));
        assert!(matches!(
            RelayMessage::read(r#"["CLOSED","s\u0031","blocked: no",1,2]"#),
            Some(RelayMessage::Closed { subscription, text })
                if subscription == "s1" && text == "blocked: no"
        ));
        assert!(matches!(
            RelayMessage::read(r#"["NEG-MSG","n","61ff"]"#),
            Some(RelayMessage::Reconcile { message, .. }) if message == [0x61, 0xff]
        ));
        for text in [
            "",
            "[]",
            "{}",
            "[1]",
            "null",
            r#"["EVENT","s"]"#,
            r#"["EVENT","s",{}]"#,
            r#"["EVENT","s",{"created_at":-1}]"#,
            r#"["NEG-MSG","n","6x"]"#,
            r#"["EOSE",["s"]]"#,
            r#"["AUTH",1]"#,
            &format!(r#"["AUTH","{}"]"#, "x".repeat(257)),
            r#"["EOSE","s"] trailing"#,
        ] {
            assert!(RelayMessage::read(text).is_none(), "{text}");
        }
    }
}
