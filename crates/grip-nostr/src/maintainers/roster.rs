//! The people whom one announcement names: by role tags where there are any (G01-69 … G01-71).

use std::collections::BTreeSet;

use nostr::prelude::PublicKey;

use crate::{Announcement, tags};

pub(super) struct Roster {
    /// Other keys with an active entry.
    pub(super) listed: BTreeSet<PublicKey>,
    /// Whom active `M` entries point at, the author perhaps among them.
    pub(super) leads: BTreeSet<PublicKey>,
    /// The author has not left.
    pub(super) is_author_active: bool,
}

impl Roster {
    pub(super) fn read(announcement: &Announcement) -> Self {
        let author = announcement.owner();
        let tags = announcement.event.tags.iter().map(|tag| tag.as_slice());
        // Even an empty or malformed one makes the list of the old form void.
        let roles: Vec<&[String]> = tags
            .filter(|tag| matches!(tag.first().map(String::as_str), Some("M" | "m" | "o")))
            .collect();
        if roles.is_empty() {
            return Self::of_list(announcement, author);
        }
        let mut roster = Self {
            listed: BTreeSet::new(),
            leads: BTreeSet::new(),
            is_author_active: false,
        };
        let mut names_author = false;
        for tag in roles {
            let [role, key, boundaries @ ..] = tag else {
                continue;
            };
            let Some(key) = key_of(key) else {
                continue;
            };
            let is_active = role != "o" && is_active(boundaries);
            names_author |= key == author;
            roster.is_author_active |= key == author && is_active;
            if is_active && role == "M" {
                roster.leads.insert(key);
            }
            if is_active && key != author {
                roster.listed.insert(key);
            }
        }
        roster.is_author_active |= !names_author;
        roster
    }

    fn of_list(announcement: &Announcement, author: PublicKey) -> Self {
        let mut tags = announcement.event.tags.iter().map(|tag| tag.as_slice());
        let list = tags.find(|tag| tag.first().is_some_and(|name| name == "maintainers"));
        let keys = list.into_iter().flatten().skip(1);
        let mut listed: BTreeSet<PublicKey> = keys.filter_map(|key| key_of(key)).collect();
        listed.remove(&author);
        Self {
            listed,
            leads: BTreeSet::new(),
            is_author_active: true,
        }
    }

    pub(super) fn lists_any(&self, keys: &BTreeSet<PublicKey>) -> bool {
        self.listed.iter().any(|key| keys.contains(key))
    }
}

fn key_of(text: &str) -> Option<PublicKey> {
    PublicKey::from_slice(&tags::hex32(text)?).ok()
}

/// Active with no boundaries or an odd number of them, all of them numbers. `defer` may stand at an
/// end position alone, and an entry with it is never active; so is one with any other word.
pub(super) fn is_active(boundaries: &[String]) -> bool {
    let is_number = |text: &String| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    boundaries.iter().all(is_number) && (boundaries.is_empty() || boundaries.len() % 2 == 1)
}
