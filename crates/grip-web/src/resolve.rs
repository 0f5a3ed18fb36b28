//! Names and digests, resolved for whoever asks.

use grip_resolve::{Admin, Resolver};

/// What the edge needs to resolve.
#[derive(Clone)]
pub struct Resolve {
    pub resolver: Resolver,
    /// Carries out what operators order.
    pub admin: Admin,
}
