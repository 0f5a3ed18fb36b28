//! Ids, ref names, identifiers and origins: parsed once, valid from then on.
//!
//! Invariant: a value of a type of this crate is valid. Nothing here reads a clock, a file or
//! the network, and nothing here knows nostr.

mod domain;
mod error_chain;
mod identifier;
mod oid;
mod origin;
mod ref_name;
mod service;

pub use domain::{Domain, InvalidDomain};
pub use error_chain::ErrorChain;
pub use identifier::{Identifier, InvalidIdentifier, percent_decode};
pub use oid::{InvalidOid, ObjectFormat, Oid};
pub use origin::Origin;
pub use ref_name::{InvalidRefName, RefName};
pub use service::{InvalidService, Service};
