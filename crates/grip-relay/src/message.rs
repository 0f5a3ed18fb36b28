//! Messages of clients, parsed strictly: for any text there is a message or an answer.

use std::borrow::Cow;

use grip_nostr::{Event, Filter};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{Limits, event, reply};

/// A message other than EVENT, which [`crate::event`] parses.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    Event,
    Request {
        sub: String,
        filters: Vec<Filter>,
    },
    Count {
        sub: String,
        filters: Vec<Filter>,
    },
    Close {
        sub: String,
    },
    Auth {
        id: Option<String>,
        event: Option<Box<Event>>,
    },
    ReconcileOpen {
        sub: String,
        filter: Filter,
        first: Vec<u8>,
    },
    Reconcile {
        sub: String,
        message: Vec<u8>,
    },
    ReconcileClose {
        sub: String,
    },
}

/// Why a message is not understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The frame that says so.
    pub(crate) frame: bytes::Bytes,
    pub(crate) ends: Option<Ended>,
}

/// What a refusal puts an end to: the message would have replaced it, and its sender hears that it
/// is closed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Subscription(String),
    Exchange(String),
}

impl Refusal {
    fn notice(text: &str) -> Self {
        Self {
            frame: reply::notice(text),
            ends: None,
        }
    }
}

/// The type of a message, read without parsing the rest; `None` when it takes the parser to tell.
pub(crate) fn label(text: &[u8]) -> Option<&str> {
    let rest = text.trim_ascii_start().strip_prefix(b"[")?;
    let rest = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let end = rest.iter().take(16).position(|byte| *byte == b'"')?;
    std::str::from_utf8(&rest[..end])
        .ok()
        .filter(|label| !label.contains('\\'))
}

pub(crate) fn parse(text: &[u8], limits: &Limits) -> Result<Message, Refusal> {
    let parts: Vec<Value> = serde_json::from_slice(text).map_err(|error| {
        Refusal::notice(&format!("invalid: a message is a JSON array: {error}"))
    })?;
    let mut parts = parts.into_iter();
    let Some(Value::String(label)) = parts.next() else {
        return Err(Refusal::notice(
            "invalid: a message begins with its type, as in [\"REQ\", …]",
        ));
    };
    let rest: Vec<Value> = parts.collect();
    match label.as_str() {
        "EVENT" => Ok(Message::Event),
        "AUTH" => Ok(Message::Auth {
            id: rest.first().and_then(claimed_id),
            event: rest
                .first()
                .and_then(|event| Event::deserialize(event).ok())
                .map(Box::new),
        }),
        "REQ" => {
            filters(&label, rest, limits).map(|(sub, filters)| Message::Request { sub, filters })
        }
        "COUNT" => {
            filters(&label, rest, limits).map(|(sub, filters)| Message::Count { sub, filters })
        }
        "CLOSE" => lone(&label, rest).map(|sub| Message::Close { sub }),
        "NEG-OPEN" => reconcile_open(rest, limits),
        "NEG-MSG" => reconcile(rest),
        "NEG-CLOSE" => lone(&label, rest).map(|sub| Message::ReconcileClose { sub }),
        other => Err(Refusal::notice(&format!(
            "invalid: message type {:?} is not known here",
            shortened(other)
        ))),
    }
}

fn claimed_id(event: &Value) -> Option<String> {
    let id = event.get("id")?.as_str()?;
    event::is_id(id).then(|| id.to_owned())
}

fn filters(
    label: &str,
    rest: Vec<Value>,
    limits: &Limits,
) -> Result<(String, Vec<Filter>), Refusal> {
    let mut rest = rest.into_iter();
    let sub = sub_of(label, rest.next())?;
    let closed = |text: &str| Refusal {
        frame: reply::closed(&sub, text),
        ends: (label == "REQ").then(|| Ended::Subscription(sub.clone())),
    };
    check_length(&sub, limits).map_err(|text| match sub.len() {
        ..=1024 => closed(&text),
        _ => Refusal::notice(&text),
    })?;
    if rest.len() == 0 {
        return Err(closed(
            "invalid: a filter is missing; {} asks for everything",
        ));
    }
    if rest.len() > limits.filters {
        let most = limits.filters;
        return Err(closed(&format!("invalid: more than {most} filters")));
    }
    let parsed: Result<Vec<_>, _> = rest.map(|value| Filter::parse(&value)).collect();
    match parsed {
        Ok(filters) => Ok((sub, filters)),
        Err(error) => Err(closed(&error.to_string())),
    }
}

fn check_length(sub: &str, limits: &Limits) -> Result<(), String> {
    let most = limits.subscription_id_chars;
    if sub.is_empty() || sub.chars().nth(most).is_some() {
        return Err(format!(
            "invalid: a subscription id has 1 to {most} characters"
        ));
    }
    Ok(())
}

fn lone(label: &str, rest: Vec<Value>) -> Result<String, Refusal> {
    sub_of(label, rest.into_iter().next())
}

fn sub_of(label: &str, value: Option<Value>) -> Result<String, Refusal> {
    match value {
        Some(Value::String(sub)) => Ok(sub),
        _ => Err(Refusal::notice(&format!(
            "invalid: {label} needs a subscription id, a string"
        ))),
    }
}

fn reconcile_open(rest: Vec<Value>, limits: &Limits) -> Result<Message, Refusal> {
    let mut rest = rest.into_iter();
    let sub = sub_of("NEG-OPEN", rest.next())?;
    check_length(&sub, limits).map_err(|text| Refusal::notice(&text))?;
    let failed = |text: &str| Refusal {
        frame: reply::neg_err(&sub, text),
        ends: Some(Ended::Exchange(sub.clone())),
    };
    let filter = rest.next().unwrap_or_default();
    let filter = Filter::parse(&filter).map_err(|error| failed(&error.to_string()))?;
    let first = hex_of(rest.next()).ok_or_else(|| failed(NOT_HEX))?;
    Ok(Message::ReconcileOpen { sub, filter, first })
}

fn reconcile(rest: Vec<Value>) -> Result<Message, Refusal> {
    let mut rest = rest.into_iter();
    let sub = sub_of("NEG-MSG", rest.next())?;
    // What is no hex becomes the empty message, which is malformed too: the exchange that gets it
    // is closed either way.
    let message = hex_of(rest.next()).unwrap_or_default();
    Ok(Message::Reconcile { sub, message })
}

const NOT_HEX: &str = "invalid: the message of the exchange is not hex";

fn hex_of(value: Option<Value>) -> Option<Vec<u8>> {
    let Some(Value::String(text)) = value else {
        return None;
    };
    let mut bytes = vec![0; text.len() / 2];
    faster_hex::hex_decode(text.as_bytes(), &mut bytes).ok()?;
    Some(bytes)
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The id an EVENT claims, for an answer to one that cannot be read otherwise. Lenient: the
/// faults that make the event unreadable must not hide its id.
pub(crate) fn id_of_unreadable(text: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Claimed<'a> {
        #[serde(borrow)]
        id: Cow<'a, str>,
    }
    struct Envelope;
    impl<'de> serde::de::Visitor<'de> for Envelope {
        type Value = Option<String>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an EVENT message")
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut seq: A,
        ) -> Result<Self::Value, A::Error> {
            seq.next_element::<serde::de::IgnoredAny>()?;
            let claimed = seq.next_element::<Claimed<'de>>()?;
            while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
            Ok(claimed.map(|claimed| claimed.id.into_owned()))
        }
    }
    let mut reader = serde_json::Deserializer::from_slice(text);
    let id = serde::Deserializer::deserialize_seq(&mut reader, Envelope).ok()??;
    reader.end().ok()?;
    event::is_id(&id).then_some(id)
}

#[cfg(test)]
mod tests;
