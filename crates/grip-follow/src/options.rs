//! Options of the follower.

use std::time::Duration;

use grip_types::NetworkPrefixes;

use crate::{Backoff, PlusOptions, RelayUrl};

/// How relays are followed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Relays to learn announcements from, whether a repository names them or not.
    pub bootstrap: Vec<RelayUrl>,
    /// Read history by NIP-77 where a relay knows it.
    pub uses_nip77: bool,
    /// Follow relays whose names are not public too.
    pub allow_non_global: bool,
    pub backoff: Backoff,
    /// How long a refused event is not fetched again: 7 days.
    pub refused_lifetime: Duration,
    /// How long a refused announcement or state is kept whole, to be judged again: 120 s.
    pub refused_kept_whole: Duration,
    /// Relays at once, the most named first: 256.
    pub max_relays: usize,
    /// Answers to one issue, patch or pull request whose own answers are followed: 500 (G02-12).
    pub max_descendants: usize,
    /// How often targets are looked over though nothing is known to have changed: 60 s.
    pub look_every: Duration,
    /// The relays of participants (GRASP-03); none where that is off.
    pub plus: Option<PlusOptions>,
    /// Which addresses of relays are one network.
    pub networks: NetworkPrefixes,
    /// Longest message of a relay; a longer one ends its connection. No shorter than what others
    /// serve: an event of 5 MiB in its frame.
    pub max_message_bytes: usize,
}

/// The longest message that relays of every make are known to send: ngit-grasp can be told to take
/// events of 5 MiB.
const MAX_MESSAGE_BYTES: usize = (5 << 20) + (1 << 10);

impl Default for Options {
    fn default() -> Self {
        Self {
            bootstrap: Vec::new(),
            uses_nip77: true,
            allow_non_global: false,
            backoff: Backoff::default(),
            refused_lifetime: Duration::from_secs(7 * 86_400),
            refused_kept_whole: Duration::from_secs(120),
            max_relays: 256,
            max_descendants: 500,
            look_every: Duration::from_secs(60),
            plus: None,
            networks: NetworkPrefixes::default(),
            max_message_bytes: MAX_MESSAGE_BYTES,
        }
    }
}

impl Options {
    /// Says whether the operator named a relay: it may be inside of his network.
    pub(crate) fn is_configured(&self, relay: &RelayUrl) -> bool {
        let plus = self.plus.iter();
        let mut plus = plus.flat_map(|plus| plus.index_relays.iter().chain(&plus.fallback_relays));
        self.bootstrap.contains(relay) || plus.any(|configured| configured == relay)
    }

    /// Says whether lists of relays are looked up at a relay.
    pub(crate) fn is_index(&self, relay: &RelayUrl) -> bool {
        let plus = self.plus.as_ref();
        plus.is_some_and(|plus| plus.index_relays.contains(relay) || self.bootstrap.contains(relay))
    }
}
