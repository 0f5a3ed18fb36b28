//! Proofs of a key: to a relay (NIP-42) and in a request over HTTP (NIP-98).

use nostr::prelude::{Event, Keys, Kind, PublicKey, SignEvent as _, Tag, Timestamp, UnsignedEvent};
use url::Url;

/// The event that proves a key to the relay that sent `challenge`.
pub fn relay_proof(keys: &Keys, relay: &str, challenge: &str) -> Option<Event> {
    let tags = [["relay", relay], ["challenge", challenge]];
    let proof = unsigned(keys.public_key(), 22_242, tags, Timestamp::now());
    keys.sign_event(proof).ok()
}

/// The event that proves a key to the git server of a repository, as GRASP-08 wants it: made for
/// the root of the repository and for GET, whatever the request.
pub fn repository_proof(keys: &Keys, root: &str, at: Timestamp) -> Option<Event> {
    let proof = unsigned_repository_proof(keys.public_key(), root, at);
    keys.sign_event(proof).ok()
}

/// The same before it is signed, for a key that somebody else keeps.
pub fn unsigned_repository_proof(key: PublicKey, root: &str, at: Timestamp) -> UnsignedEvent {
    unsigned(key, 27_235, [["u", root], ["method", "GET"]], at)
}

fn unsigned(key: PublicKey, kind: u16, tags: [[&str; 2]; 2], at: Timestamp) -> UnsignedEvent {
    let tags = tags.into_iter().filter_map(|tag| Tag::parse(tag).ok());
    UnsignedEvent::new(key, at, Kind::from(kind), tags, "")
}

/// The root of the repository that a URL is about: up to and including the last `.git` that ends
/// a segment of its path, or all of the path.
pub fn repository_root(url: &Url) -> String {
    let path = url.path().trim_end_matches('/');
    let ends = path
        .match_indices(".git")
        .map(|(at, found)| at + found.len());
    let is_end = |end: &usize| path[*end..].is_empty() || path[*end..].starts_with('/');
    let root = match ends.filter(is_end).last() {
        Some(end) => path[..end].to_owned(),
        None => format!("{path}.git"),
    };
    format!("{}{root}", url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_ends_with_the_last_git() {
        for (url, root) in [
            ("https://a.example/n/x.git", "https://a.example/n/x.git"),
            (
                "https://a.example:443/n/x.git/",
                "https://a.example/n/x.git",
            ),
            (
                "http://a.example:80/n/x.git/info/refs?service=git-upload-pack",
                "http://a.example/n/x.git",
            ),
            (
                "http://a.example:7334/g/n/a.git.git/git-upload-pack",
                "http://a.example:7334/g/n/a.git.git",
            ),
            (
                "https://a.example/n/my%20x",
                "https://a.example/n/my%20x.git",
            ),
        ] {
            assert_eq!(repository_root(&Url::parse(url).unwrap()), root);
        }
    }

    #[test]
    fn proofs_are_signed_for_what_they_name() {
        let keys = Keys::generate();
        let event = repository_proof(&keys, "https://a.example/x.git", Timestamp::now()).unwrap();
        assert!(event.verify().is_ok() && event.pubkey == keys.public_key());
        assert_eq!(event.kind.as_u16(), 27_235);
        let event = relay_proof(&keys, "wss://a.example", "word").unwrap();
        assert_eq!(crate::first_value(&event, "challenge"), Some("word"));
    }
}
