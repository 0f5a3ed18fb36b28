//! Log lines about keys that the legacy maintainer rule would have trusted (G01-78).

use std::{collections::HashMap, time::Duration};

use grip_nostr::PublicKey;
use grip_types::Identifier;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{admission::Denial, grasp::Core, summary::npub};

/// How often one author is spoken of for one identifier.
const EVERY: Duration = Duration::from_secs(600);
/// Pairs that are remembered; while all of them are fresh, nothing more is said.
const MAX_REMEMBERED: usize = 1_000;

/// Who was spoken of, and when.
#[derive(Default)]
pub(crate) struct NotedDenials {
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    last: HashMap<(Identifier, PublicKey), Instant>,
    /// Lines that were not written since the last one.
    suppressed: u64,
}

impl NotedDenials {
    /// Says whether a line may be written, and how many were not before it.
    fn may_note(&self, identifier: &Identifier, author: &PublicKey, now: Instant) -> Option<u64> {
        let mut noted = self.noted.lock();
        let is_fresh = |at: &Instant| now.duration_since(*at) < EVERY;
        let key = (identifier.clone(), *author);
        let is_known = noted.last.get(&key).is_some_and(is_fresh);
        if !is_known && noted.last.len() >= MAX_REMEMBERED {
            noted.last.retain(|_, at| is_fresh(at));
        }
        if is_known || noted.last.len() >= MAX_REMEMBERED {
            noted.suppressed += 1;
            return None;
        }
        noted.last.insert(key, now);
        Some(std::mem::take(&mut noted.suppressed))
    }
}

impl Core {
    /// Tells the operator that what `author` signed does not count, and would by the legacy rule.
    pub(crate) fn note_denials(&self, what: &str, author: &PublicKey, denials: &[Denial]) {
        let Some(Denial { repository, why }) = denials.first() else {
            return;
        };
        let identifier = &repository.identifier;
        let may_note = self.denials.may_note(identifier, author, Instant::now());
        if let Some(suppressed) = may_note {
            tracing::info!(
                owner = %npub(&repository.owner), %identifier, author = %npub(author), why, suppressed,
                "{what}, which only the legacy maintainer rule would have allowed"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use nostr::prelude::Keys;

    use super::*;

    #[test]
    fn g01_78_one_author_of_one_identifier_is_spoken_of_once_in_a_while() {
        let noted = NotedDenials::default();
        let (x, y) = ("x", "y");
        let [x, y] = [x, y].map(|name| Identifier::parse(name).unwrap());
        let (a, start) = (Keys::generate().public_key(), Instant::now());
        assert_eq!(noted.may_note(&x, &a, start), Some(0));
        assert_eq!(noted.may_note(&x, &a, start), None);
        assert_eq!(noted.may_note(&y, &a, start), Some(1));
        assert_eq!(noted.may_note(&x, &a, start + EVERY), Some(0));
    }

    #[test]
    fn strangers_with_many_names_fill_neither_memory_nor_log() {
        let noted = NotedDenials::default();
        let (a, start) = (Keys::generate().public_key(), Instant::now());
        let name = |n: usize| Identifier::parse(&format!("x{n}")).unwrap();
        let lines = (0..2 * MAX_REMEMBERED).filter_map(|n| noted.may_note(&name(n), &a, start));
        assert_eq!(lines.count(), MAX_REMEMBERED);
        let later = noted.may_note(&name(0), &a, start + EVERY);
        assert_eq!(later, Some(MAX_REMEMBERED as u64));
        assert_eq!(noted.noted.lock().last.len(), 1);
    }
}
