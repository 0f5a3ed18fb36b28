#![doc = include_str!("../README.md")]

#[macro_use]
mod text_form;

mod byte_lru;
mod charge;
mod client_network;
mod domain;
mod error_chain;
mod fair_lines;
mod identifier;
mod oid;
mod origin;
mod ref_edit;
mod ref_name;
mod repo_addr;
mod service;
mod shared_use;

/// The one thing of nostr that is known here.
pub use nostr::prelude::PublicKey;

pub use byte_lru::ByteLru;
pub use charge::Charge;
pub use client_network::{ClientNetwork, NetworkPrefixes};
pub use domain::{Domain, InvalidDomain};
pub use error_chain::ErrorChain;
pub use fair_lines::{FairLines, Owner, Place};
pub use identifier::{Identifier, InvalidIdentifier, percent_decode, percent_encode};
pub use oid::{InvalidOid, ObjectFormat, Oid};
pub use origin::{EventSource, Origin};
pub use ref_edit::RefEdit;
pub use ref_name::{InvalidRefName, RefName};
pub use repo_addr::{CONTRIBUTORS, RepoAddr};
pub use service::{InvalidService, Service};
pub use shared_use::{SharedUse, whole_share};
