//! For whom data was looked for last.

use std::{collections::VecDeque, sync::Arc};

use grip_types::Identifier;
use parking_lot::Mutex;

/// Most identifiers kept; the one that was looked for longest ago goes first.
const KEPT: usize = 200;

/// The identifiers of the last attempts. Cheap to clone; clones are the same list.
#[derive(Clone, Default)]
pub(super) struct Lately {
    identifiers: Arc<Mutex<VecDeque<Identifier>>>,
}

impl Lately {
    pub(super) fn note(&self, identifier: &Identifier) {
        let mut all = self.identifiers.lock();
        match all.iter().position(|known| known == identifier) {
            Some(at) => drop(all.remove(at)),
            None if all.len() >= KEPT => drop(all.pop_front()),
            None => {}
        }
        all.push_back(identifier.clone());
    }

    /// Those looked for last come first.
    pub(super) fn list(&self) -> Vec<Identifier> {
        self.identifiers.lock().iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifier(n: usize) -> Identifier {
        Identifier::parse(&n.to_string()).unwrap()
    }

    #[test]
    fn the_last_identifiers_are_kept_once_each_and_newest_first() {
        let lately = Lately::default();
        for n in [1, 2, 3, 1] {
            lately.note(&identifier(n));
        }
        assert_eq!(lately.list(), [1, 3, 2].map(identifier));
        for n in 0..1000 {
            lately.note(&identifier(n));
        }
        let kept = lately.list();
        assert_eq!((kept.len(), &kept[0]), (KEPT, &identifier(999)));
    }
}
