//! Health of git hosts, from the throttle of the sync.

use grip_limits::{Lane, Throttle};
use grip_resolve::{Health, HostHealth};
use grip_types::Domain;

/// Hosts that this node sent requests to.
pub(super) struct HostsAsked(pub(super) Throttle);

impl Health for HostsAsked {
    fn of(&self, host: &Domain) -> HostHealth {
        let failures = self.0.failures(host);
        HostHealth {
            // A host that is only throttled may be healthy.
            is_open: failures > 0 && self.0.is_throttled(host, Lane::Git),
            successes: 0,
            failures,
        }
    }
}
