//! Resolving of names and digests, and the orders about it.

mod lookup;
mod order;
mod parameters;

use grip_resolve::{Admin, Resolver};

pub(crate) use self::{
    lookup::{manifest, providers},
    order::order,
    parameters::{form, read_key},
};

/// The resolver with its operator interface.
#[derive(Clone)]
pub struct Resolve {
    pub resolver: Resolver,
    /// Carries out the orders of operators.
    pub admin: Admin,
}
