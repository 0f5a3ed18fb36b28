//! Names and digests, resolved for whoever asks.

mod lookup;
mod parameters;

use grip_resolve::{Admin, Resolver};

pub(crate) use self::lookup::{manifest, providers};

/// What the edge needs to resolve.
#[derive(Clone)]
pub struct Resolve {
    pub resolver: Resolver,
    /// Carries out what operators order.
    pub admin: Admin,
}
