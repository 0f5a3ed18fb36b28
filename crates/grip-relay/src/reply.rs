//! Messages to clients, as bytes.

use bytes::Bytes;

/// Appends `text` as a JSON string.
fn quote(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string can be written into memory");
}

fn frame(label: &str, parts: &[&str]) -> Bytes {
    let length: usize = parts.iter().map(|part| part.len() + 3).sum();
    let mut out = Vec::with_capacity(label.len() + length + 8);
    out.push(b'[');
    quote(&mut out, label);
    for part in parts {
        out.push(b',');
        quote(&mut out, part);
    }
    out.push(b']');
    out.into()
}

pub(crate) fn notice(text: &str) -> Bytes {
    frame("NOTICE", &[text])
}

pub(crate) fn closed(sub: &str, text: &str) -> Bytes {
    frame("CLOSED", &[sub, text])
}

pub(crate) fn auth(challenge: &str) -> Bytes {
    frame("AUTH", &[challenge])
}

pub(crate) fn eose(sub: &str) -> Bytes {
    frame("EOSE", &[sub])
}

pub(crate) fn neg_err(sub: &str, text: &str) -> Bytes {
    frame("NEG-ERR", &[sub, text])
}

pub(crate) fn neg_msg(sub: &str, message: &[u8]) -> Bytes {
    frame("NEG-MSG", &[sub, &faster_hex::hex_string(message)])
}

pub(crate) fn ok(id: &str, accepted: bool, text: &str) -> Bytes {
    let mut out = Vec::with_capacity(id.len() + text.len() + 24);
    out.extend_from_slice(b"[\"OK\",");
    quote(&mut out, id);
    out.extend_from_slice(if accepted { b",true," } else { b",false," });
    quote(&mut out, text);
    out.push(b']');
    out.into()
}

pub(crate) fn count(sub: &str, count: u64) -> Bytes {
    let mut out = b"[\"COUNT\",".to_vec();
    quote(&mut out, sub);
    out.extend_from_slice(format!(",{{\"count\":{count}}}]").as_bytes());
    out.into()
}

/// What stands before the event in `["EVENT",<sub>,<event>]`: made once per subscription.
pub(crate) fn event_head(sub: &str) -> Bytes {
    let mut out = b"[\"EVENT\",".to_vec();
    quote(&mut out, sub);
    out.push(b',');
    out.into()
}

/// Appends one EVENT message, copying the event's JSON as it is.
pub(crate) fn push_event(out: &mut Vec<u8>, head: &[u8], json: &[u8]) {
    out.extend_from_slice(head);
    out.extend_from_slice(json);
    out.push(b']');
}

pub(crate) fn event(head: &[u8], json: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(head.len() + json.len() + 1);
    push_event(&mut out, head, json);
    out.into()
}
