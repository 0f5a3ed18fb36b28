//! Options of the follower.

use std::time::Duration;

use grip_types::NetworkPrefixes;

use crate::{Backoff, RelayUrl};

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
    /// Which addresses of relays are one network.
    pub networks: NetworkPrefixes,
}

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
            networks: NetworkPrefixes::default(),
        }
    }
}
