//! Limits of one event, before a policy is asked: tags, references, size and time (relay.md §1, §6).

use grip_nostr::{Event, Timestamp, expiration, kinds, references};
use nostr::prelude::Kind;

use super::parse::parse;
use crate::{Answer, EVENT_FRAME_BYTES, EventLimits, Limits, message};

/// What became of one EVENT message.
#[derive(Debug)]
pub(crate) enum Checked {
    /// Well-formed, authentic and timely.
    Event(Event),
    Refused {
        id: String,
        answer: Answer,
        /// The event, if its id is true to its content.
        event: Option<Box<Event>>,
    },
    /// Not even an id to answer to.
    Unreadable(String),
}

/// Reads and checks one EVENT message. Costs a signature check: not for the runtime's threads.
pub(crate) fn check(text: &[u8], limits: &Limits, now: Timestamp) -> Checked {
    if text.len() > limits.message_bytes {
        let most = limits.message_bytes;
        return unreadable(text, format!("invalid: a message has at most {most} bytes"));
    }
    let event = match parse(text, limits.state.tags.max(limits.event.tags)) {
        Ok(event) => event,
        Err(error) => return unreadable(text, format!("invalid: {error}")),
    };
    if let Err(answer) = check_size(&event, text.len(), limits) {
        return refused(event, answer, false);
    }
    if !event.verify_id() {
        return refused(
            event,
            "invalid: the id is not the hash of the event".into(),
            false,
        );
    }
    if !event.verify_signature() {
        return refused(
            event,
            "invalid: the signature does not fit the event".into(),
            true,
        );
    }
    match check_rules(&event, limits, now) {
        Ok(()) => Checked::Event(event),
        Err(answer) => refused(event, answer, true),
    }
}

/// The answer to a message that is not worth a check, with the id it claims.
pub(crate) fn unreadable(text: &[u8], message: String) -> Checked {
    match message::id_of_unreadable(text) {
        Some(id) => Checked::Refused {
            id,
            answer: Answer::refused(message),
            event: None,
        },
        None => Checked::Unreadable(message),
    }
}

fn refused(event: Event, message: String, authentic_id: bool) -> Checked {
    Checked::Refused {
        id: event.id.to_hex(),
        answer: Answer::refused(message),
        event: authentic_id.then(|| Box::new(event)),
    }
}

fn check_size(event: &Event, message_bytes: usize, limits: &Limits) -> Result<(), String> {
    let most = match event.kind {
        kind if kind == kinds::STATE => limits.state,
        kind if kind == kinds::DELETION => EventLimits {
            tags: limits.event.tags + limits.deletion_targets,
            ..limits.event
        },
        _ => limits.event,
    };
    if message_bytes > most.bytes + EVENT_FRAME_BYTES {
        let (kind, bytes) = (event.kind.as_u16(), most.bytes);
        return Err(format!(
            "invalid: an event of kind {kind} has at most {bytes} bytes here"
        ));
    }
    if event.tags.len() > most.tags {
        let (kind, tags) = (event.kind.as_u16(), most.tags);
        return Err(format!(
            "invalid: an event of kind {kind} has at most {tags} tags here"
        ));
    }
    Ok(())
}

fn check_rules(event: &Event, limits: &Limits, now: Timestamp) -> Result<(), String> {
    if event.kind == kinds::AUTH {
        return Err("invalid: kind 22242 is for AUTH messages and is never stored".into());
    }
    if event.created_at.as_secs() > now.as_secs() + limits.future.as_secs() {
        let ahead = limits.future.as_secs();
        return Err(format!(
            "invalid: created_at is more than {ahead} s in the future"
        ));
    }
    if expiration(event).is_some_and(|at| at <= now) {
        return Err("invalid: this event has expired".into());
    }
    let is_deletion = event.kind == kinds::DELETION;
    let most = if is_deletion {
        limits.deletion_targets
    } else {
        limits.references
    };
    if event.tags.len() > most && references(event).count() > most {
        return Err(if is_deletion {
            format!("invalid: too many deletion targets; {most} at most")
        } else {
            format!("invalid: an event refers to at most {most} events and addresses here")
        });
    }
    if reposts_protected(event) {
        return Err("blocked: the reposted event is protected (NIP-70)".into());
    }
    Ok(())
}

/// Says whether a repost carries a protected event in its content.
fn reposts_protected(event: &Event) -> bool {
    if ![Kind::Custom(6), Kind::Custom(16)].contains(&Kind::Custom(event.kind.as_u16())) {
        return false;
    }
    #[derive(serde::Deserialize)]
    struct Inner {
        tags: Vec<Vec<String>>,
    }
    serde_json::from_str::<Inner>(&event.content).is_ok_and(|inner| {
        inner
            .tags
            .iter()
            .any(|tag| tag.first().is_some_and(|name| name == "-"))
    })
}

#[cfg(test)]
mod tests;
