//! `gripfast explain`.

mod render;

use anyhow::{Context as _, bail};
use grip_grasp::{Explanation, Status};
use grip_web::api_types::Explained;
use nostr::prelude::{EventId, FromBech32 as _};

use crate::{
    cli::NodeRequest,
    commands::{
        client::Node,
        table::{self, plain},
        when::Now,
    },
};

/// Prints why the subject is served, held or refused; fails if nothing is known of it.
pub(crate) fn run(request: &NodeRequest, subject: &str) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    let (body, explained) = ask(&node, subject)?;
    if request.json {
        anstream::println!("{}", body.trim_end());
    } else {
        table::print(&render::page(&explained, Now::new()));
    }
    if explained.explanation.status == Status::Unknown {
        bail!("nothing is known of {}", plain(subject));
    }
    Ok(())
}

/// What the node says of an event or a repository, as it came and as data.
fn ask(node: &Node<'_>, subject: &str) -> anyhow::Result<(String, Explained)> {
    let mut path = vec!["api", "v1", "explain"];
    path.extend(subject.split('/'));
    let response = node.get(&path)?;
    // That nothing is known is an explanation too.
    if response.status != 404 {
        node.check(&response)?;
    }
    let explained = serde_json::from_str(&response.body)
        .with_context(|| format!("{} gave something else than an explanation", node.name()))?;
    Ok((response.body, explained))
}

/// The event that is named: whole, or by the first digits that lists and logs print, of which the node knows the
/// rest.
pub(crate) fn event(node: &Node<'_>, text: &str) -> anyhow::Result<Explanation> {
    if whole_id(text).is_none() && (text.len() >= 64 || !is_hex(text)) {
        bail!(
            "`{text}` is no event id: 64 hex digits, or as many of them as tell it from others, or note1…"
        );
    }
    let (_, explained) = ask(node, text)?;
    Ok(explained.explanation)
}

/// Its id, in hex; that of one that is named whole need not be known to the node.
pub(crate) fn event_id(node: &Node<'_>, text: &str) -> anyhow::Result<String> {
    if let Some(id) = whole_id(text) {
        return Ok(id);
    }
    let Explanation { event, summary, .. } = event(node, text)?;
    Ok(event.with_context(|| format!("`{text}`: {summary}"))?.id)
}

fn whole_id(text: &str) -> Option<String> {
    let id = EventId::from_hex(text).or_else(|_| EventId::from_bech32(text));
    Some(id.ok()?.to_hex())
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_named_whole_in_hex_or_as_a_note() {
        let hex = "a".repeat(64);
        assert_eq!(whole_id(&hex), Some(hex.clone()));
        for other in ["2c2c8db5", "tides", "note1x", &format!("{hex}a")] {
            assert_eq!(whole_id(other), None, "{other}");
        }
    }
}
