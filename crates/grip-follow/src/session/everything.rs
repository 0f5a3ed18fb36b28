//! All that a relay has, compared at once: a request of a few bytes, where a list of everything that
//! is wanted would be many thousand times as long.
//!
//! That pays where almost all that a relay has is wanted here, or is known not to be. What it has
//! beside that is remembered as *foreign*, what it lacks of it as *lacking*; both are bounded, and a
//! relay with more is asked by values again. Nothing is believed that is not believed of a history
//! that was read by values: an id that is found missing is fetched, checked and admitted.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::Item;

/// Foreign and lacking events that are remembered of a relay with little.
const FEW: usize = 1_000;
/// The same, of a relay with very much.
const MANY: usize = 20_000;
/// Plans with fewer bytes of values are asked for by these.
pub(super) const MIN_PLAN_BYTES: usize = 16 << 10;
/// How long a relay is asked by values after it turned out to have too much else, or refused.
pub(super) const UNSUITABLE: u64 = 7 * 86_400;
/// The same after a comparison that came to no end.
pub(super) const FAILED: u64 = 86_400;

/// How all that a relay has differs from what is here of what is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Everything {
    /// With the time of each: it is here or it is not, but it is not wanted of this relay.
    foreign: HashMap<[u8; 32], u64>,
    /// Wanted and here, and the relay does not have it.
    lacking: HashSet<[u8; 32]>,
    /// A comparison has come to its end, so that live events are subscribed to without values.
    pub(super) is_established: bool,
}

impl Everything {
    /// What the relay should have, if nothing has changed: `ours` is what is here of what is wanted.
    pub(super) fn expected(&mut self, mut ours: Vec<Item>) -> Vec<Item> {
        let here: HashSet<[u8; 32]> = ours.iter().map(|(_, id)| *id).collect();
        self.lacking.retain(|id| here.contains(id));
        self.foreign.retain(|id, _| !here.contains(id));
        ours.retain(|(_, id)| !self.lacking.contains(id));
        ours.extend(self.foreign.iter().map(|(id, at)| (*at, *id)));
        ours.sort_unstable();
        ours
    }

    /// Takes the result of a comparison; what is left has to be fetched.
    pub(super) fn compared(
        &mut self,
        needed: Vec<[u8; 32]>,
        lacking: Vec<[u8; 32]>,
    ) -> Vec<[u8; 32]> {
        for id in lacking {
            if self.foreign.remove(&id).is_none() {
                self.lacking.insert(id);
            }
        }
        let is_new = |id: &[u8; 32]| !self.lacking.remove(id);
        needed.into_iter().filter(is_new).collect()
    }

    pub(super) fn add_foreign(&mut self, id: [u8; 32], created_at: u64) {
        self.foreign.insert(id, created_at);
    }

    /// Has everything that is not here be fetched and judged again.
    pub(super) fn forget_foreign(&mut self) {
        self.foreign.clear();
    }

    pub(super) fn lacks(&self) -> Vec<[u8; 32]> {
        self.lacking.iter().copied().collect()
    }

    /// Says whether the relay has too much else, or lacks too much, for `wanted` wanted events.
    pub(super) fn is_too_different(&self, more: usize, wanted: usize) -> bool {
        let most = (wanted / 2).clamp(FEW, MANY);
        self.foreign.len() + self.lacking.len() + more > most
    }
}

/// Saved apart from the rest of the progress, for it is much longer and changes seldom.
#[derive(Default, Serialize, Deserialize)]
struct Saved {
    foreign: Vec<(u64, String)>,
    lacking: Vec<String>,
}

impl Everything {
    pub(crate) fn to_text(&self) -> String {
        let hex = |id: &[u8; 32]| faster_hex::hex_string(id);
        let saved = Saved {
            foreign: self.foreign.iter().map(|(id, at)| (*at, hex(id))).collect(),
            lacking: self.lacking.iter().map(hex).collect(),
        };
        serde_json::to_string(&saved).expect("numbers and texts are JSON")
    }

    /// Reads what [`Everything::to_text`] wrote; none of anything else.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let saved: Saved = serde_json::from_str(text).ok()?;
        let id = |hex: &String| {
            let mut id = [0; 32];
            faster_hex::hex_decode(hex.as_bytes(), &mut id).ok()?;
            Some(id)
        };
        let foreign = saved.foreign.iter().map(|(at, hex)| Some((id(hex)?, *at)));
        Some(Self {
            foreign: foreign.collect::<Option<_>>()?,
            lacking: saved.lacking.iter().map(id).collect::<Option<_>>()?,
            is_established: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [u8; 32] = [1; 32];
    const B: [u8; 32] = [2; 32];
    const C: [u8; 32] = [3; 32];

    #[test]
    fn what_a_relay_has_is_known_after_one_comparison_and_follows_its_changes() {
        let mut everything = Everything::default();
        assert_eq!(everything.expected(vec![(1, A), (2, B)]), [(1, A), (2, B)]);
        // The relay has A and C, which is not wanted.
        assert_eq!(everything.compared(vec![C], vec![B]), [C]);
        everything.add_foreign(C, 3);
        assert_eq!(everything.expected(vec![(1, A), (2, B)]), [(1, A), (3, C)]);
        assert_eq!(everything.lacks(), [B]);
        let text = everything.to_text();
        let again = Everything::from_text(&text).unwrap();
        assert!(again.is_established && again.lacking == everything.lacking);
        assert_eq!(again.foreign, everything.foreign);
        // It gets B, which is here, and loses C.
        assert!(everything.compared(vec![B], vec![C]).is_empty());
        assert_eq!(everything.expected(vec![(1, A), (2, B)]), [(1, A), (2, B)]);
    }

    #[test]
    fn what_is_remembered_is_bounded_by_what_is_wanted() {
        let mut everything = Everything::default();
        assert!(!everything.is_too_different(FEW, 0) && everything.is_too_different(FEW + 1, 0));
        assert!(!everything.is_too_different(5_000, 10_000));
        assert!(everything.is_too_different(MANY + 1, usize::MAX));
        everything.add_foreign(A, 1);
        assert!(everything.is_too_different(FEW, 0));
        assert!(Everything::from_text("[]").is_none());
    }
}
