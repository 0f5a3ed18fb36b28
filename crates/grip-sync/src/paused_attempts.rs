//! Attempts that gave way to others and go on later.

use std::collections::{BTreeSet, HashMap};

use grip_types::{ByteLru, Identifier, Oid};
use url::Url;

use crate::weights::of_url;

/// Bytes of all of them. One that is forgotten begins again.
const MAX_BYTES: usize = 40 << 20;

/// What each URL was asked for.
pub(crate) type Requested = HashMap<Url, BTreeSet<Oid>>;

/// What was asked so far in attempts that go on.
pub(crate) struct PausedAttempts(ByteLru<Identifier, Requested>);

impl Default for PausedAttempts {
    fn default() -> Self {
        Self(ByteLru::new(MAX_BYTES, |identifier, requested| {
            identifier.as_str().len() + weigh(requested)
        }))
    }
}

impl PausedAttempts {
    pub(crate) fn put(&mut self, identifier: &Identifier, asked: Requested) {
        self.0.put(identifier.clone(), asked);
    }

    pub(crate) fn take(&mut self, identifier: &Identifier) -> Option<Requested> {
        self.0.pop(identifier)
    }
}

fn weigh(asked: &Requested) -> usize {
    let of_one = |(url, oids): (&Url, &BTreeSet<Oid>)| {
        of_url(url) + size_of::<(Url, BTreeSet<Oid>)>() + oids.len() * 2 * size_of::<Oid>()
    };
    asked.iter().map(of_one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{identifier, oids, url};

    #[test]
    fn carried_attempts_are_bounded_by_what_is_in_them() {
        let mut paused = PausedAttempts::default();
        let big = oids(&(0..20_000).collect::<Vec<_>>());
        for n in 0..60 {
            let asked = Requested::from([(url("https://a.example/x"), big.clone())]);
            paused.put(&identifier("again"), asked.clone());
            paused.put(&identifier(&format!("x{n}")), asked);
        }
        assert!(paused.take(&identifier("x0")).is_none());
        assert!(paused.take(&identifier("x59")).is_some());
        assert!(paused.take(&identifier("again")).is_some());
    }
}
