//! How hosts have fared, as the resolver asks for it.

use grip_limits::{Lane, Throttle};
use grip_resolve::{Health, HostHealth};
use grip_types::Domain;

/// What the polite layer remembers of those it asked.
pub(super) struct HostsAsked(pub(super) Throttle);

impl Health for HostsAsked {
    fn of(&self, host: &Domain) -> HostHealth {
        let failures = self.0.failures(host);
        HostHealth {
            // A host that is only busy with us is not ill.
            is_shut: failures > 0 && self.0.is_throttled(host, Lane::Git),
            successes: 0,
            failures,
        }
    }
}
