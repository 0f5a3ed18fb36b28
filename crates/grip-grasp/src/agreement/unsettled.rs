//! Identifiers about which relay and git may not agree yet.

use std::{collections::BTreeSet, ops::Bound};

use grip_types::Identifier;
use parking_lot::Mutex;

/// Identifiers that could not be settled, for the next sweep. Nothing of it is on disk: the start
/// settles every identifier. Bounded by the identifiers that something is hosted or held for.
#[derive(Default)]
pub(crate) struct Unsettled {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    identifiers: BTreeSet<Identifier>,
    /// The last one that was tried.
    after: Option<Identifier>,
}

impl Unsettled {
    pub(crate) fn add(&self, identifier: &Identifier) {
        self.waiting.lock().identifiers.insert(identifier.clone());
    }

    pub(crate) fn remove(&self, identifier: &Identifier) {
        self.waiting.lock().identifiers.remove(identifier);
    }

    pub(crate) fn contains(&self, identifier: &Identifier) -> bool {
        self.waiting.lock().identifiers.contains(identifier)
    }

    /// The next `count`, from the beginning again at the end: those that only a person can repair hold
    /// nobody up.
    pub(crate) fn next(&self, count: usize) -> Vec<Identifier> {
        let mut waiting = self.waiting.lock();
        let after = waiting.after.take();
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = waiting.identifiers.range((after, Bound::Unbounded));
        let all = rest.chain(&waiting.identifiers);
        let next: Vec<Identifier> = all
            .take(count.min(waiting.identifiers.len()))
            .cloned()
            .collect();
        waiting.after = next.last().cloned();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_settled_holds_up_no_other() {
        let unsettled = Unsettled::default();
        let name = |n: usize| Identifier::parse(&format!("n{n}")).unwrap();
        assert!(unsettled.next(3).is_empty());
        (0..5).for_each(|n| unsettled.add(&name(n)));
        assert_eq!(unsettled.next(3), [0, 1, 2].map(name));
        assert_eq!(unsettled.next(3), [3, 4, 0].map(name));
        unsettled.remove(&name(1));
        assert_eq!(unsettled.next(3), [2, 3, 4].map(name));
        assert_eq!(unsettled.next(9), [0, 2, 3, 4].map(name));
    }
}
