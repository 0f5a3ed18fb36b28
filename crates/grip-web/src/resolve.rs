//! Names and digests, resolved for whoever asks.

mod lookup;
mod order;
mod parameters;

use grip_resolve::{Admin, Resolver};

pub(crate) use self::{
    lookup::{manifest, providers},
    order::{Action, Gate, order},
    parameters::{form, read_key},
};

/// What the edge needs to resolve.
#[derive(Clone)]
pub struct Resolve {
    pub resolver: Resolver,
    /// Carries out what operators order.
    pub admin: Admin,
}
