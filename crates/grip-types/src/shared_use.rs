//! The share of one network in a budget that many senders share.
//!
//! It is a part of what is *still free*, with what the network has already: one network alone gets a fifth of
//! the whole, each further one a fifth of what those before it left, and so the next always finds room.

/// One network has at most this part of what is free.
const PER_NETWORK: u64 = 4;

/// What is used of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedUse {
    /// By everybody.
    pub all: u64,
    /// By one network.
    pub of_network: u64,
}

impl SharedUse {
    /// The most that the network may have of a budget of `limit`, what it has included.
    pub fn share(self, limit: u64) -> u64 {
        limit.saturating_sub(self.all) / PER_NETWORK
    }

    /// What it may still take.
    pub fn room(self, limit: u64) -> u64 {
        self.share(limit).saturating_sub(self.of_network)
    }
}

/// The most that one network may ever have of a budget of `limit`.
pub fn whole_share(limit: u64) -> u64 {
    SharedUse::default().share(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_a_quarter_of_what_is_free_however_often_it_asks() {
        let mut used = SharedUse::default();
        assert_eq!(used.room(1_000), 250);
        while used.room(1_000) > 0 {
            used.all += 1;
            used.of_network += 1;
        }
        assert_eq!(used.of_network, 200);
    }

    #[test]
    fn networks_that_take_all_they_get_leave_some_to_the_next() {
        let mut all = 0;
        for _ in 0..10 {
            let mut used = SharedUse { all, of_network: 0 };
            assert!(used.room(1_000) > 10, "{all} are used");
            while used.room(1_000) > 0 {
                used.all += 1;
                used.of_network += 1;
            }
            all = used.all;
        }
    }
}
