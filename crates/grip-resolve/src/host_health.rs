//! Health of hosts that serve git, as far as this node knows it.

use grip_types::Domain;

/// Health of other hosts.
pub trait Health: Send + Sync + 'static {
    fn of(&self, host: &Domain) -> HostHealth;
}

/// Health of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostHealth {
    /// Its breaker is open.
    pub is_open: bool,
    pub successes: u32,
    pub failures: u32,
}

/// Health of hosts where none is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHealth;

impl Health for NoHealth {
    fn of(&self, _: &Domain) -> HostHealth {
        HostHealth::default()
    }
}
