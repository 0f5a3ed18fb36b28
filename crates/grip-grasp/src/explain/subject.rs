//! The subject of an explanation, in any of its usual notations.

use grip_nostr::{EventId, RepoAddr};
use grip_types::{CONTRIBUTORS, Identifier};
use nostr::prelude::{FromBech32, Nip19Event};

/// Fewest digits that name an event: what is printed has eight.
const FEWEST_DIGITS: usize = 4;

pub(super) enum Subject {
    Event(EventId),
    /// The first digits of an id, in lower case.
    Beginning(String),
    Repository(RepoAddr),
}

/// Reads an event id or a repository; none if it is neither.
pub(super) fn parse(subject: &str) -> Option<Subject> {
    let subject = subject.trim().trim_end_matches('/');
    let bare = subject.strip_prefix("nostr:").unwrap_or(subject);
    if let Ok(id) = EventId::from_hex(bare) {
        return Some(Subject::Event(id));
    }
    if let Ok(id) = EventId::from_bech32(bare) {
        return Some(Subject::Event(id));
    }
    if let Ok(event) = Nip19Event::from_bech32(bare) {
        return Some(Subject::Event(event.event_id));
    }
    let is_hex = bare.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hex && (FEWEST_DIGITS..64).contains(&bare.len()) {
        return Some(Subject::Beginning(bare.to_ascii_lowercase()));
    }
    let (before, name) = subject.rsplit_once('/')?;
    let mut segments = before.rsplit('/');
    let owner = RepoAddr::parse_npub(segments.next().unwrap_or(before))?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    let identifier = Identifier::from_encoded(name).ok()?;
    Some(Subject::Repository(
        if segments.next() == Some(CONTRIBUTORS) {
            RepoAddr::contributor(owner, identifier)
        } else {
            RepoAddr::new(owner, identifier)
        },
    ))
}

#[cfg(test)]
mod tests {
    use nostr::prelude::{Keys, ToBech32};

    use super::*;

    #[test]
    fn events_and_repositories_are_named_in_every_usual_way() {
        let id = EventId::from_hex(&"ab".repeat(32)).unwrap();
        for text in [id.to_hex(), id.to_bech32().unwrap()] {
            assert!(matches!(parse(&text), Some(Subject::Event(found)) if found == id));
            assert!(matches!(
                parse(&format!("nostr:{text}")),
                Some(Subject::Event(_))
            ));
        }
        let npub = Keys::generate().public_key().to_bech32().unwrap();
        for text in [
            format!("{npub}/a%20b"),
            format!("https://grasp.example.com/{npub}/a%20b.git"),
            format!("nostr://{npub}/a%20b/"),
        ] {
            let Some(Subject::Repository(addr)) = parse(&text) else {
                panic!("{text}")
            };
            assert_eq!(addr.identifier.as_str(), "a b");
        }
        for text in [
            format!("prs/{npub}/x"),
            format!("https://grasp.example.com/prs/{npub}/x.git"),
        ] {
            let found = parse(&text);
            assert!(matches!(found, Some(Subject::Repository(addr)) if addr.is_contributor()));
        }
        assert!(matches!(parse("AB12cd"), Some(Subject::Beginning(short)) if short == "ab12cd"));
        assert!(parse("hello").is_none() && parse("a/b").is_none() && parse("abc").is_none());
    }
}
