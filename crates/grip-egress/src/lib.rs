#![doc = include_str!("../README.md")]

mod address;
mod bearer;
mod body;
mod client;
mod egress;
mod error;
mod error_text;
mod guard;
mod lookup;
mod options;
mod preflight;
mod printable_url;
mod redirect;

#[cfg(test)]
mod tests;

pub use address::Special;
pub use bearer::{Bearer, InvalidBearer};
pub use body::Body;
pub use client::command_client;
pub use egress::{Egress, Reply, Socket, WebSocket};
pub use error::{BuildError, EgressError, Fault, FaultKind, Phase, Unusable};
pub use guard::Forbidden;
pub use lookup::{Lookup, SystemLookup};
pub use options::{Options, Request, RequestPolicy};
pub use preflight::{DocumentResponse, Preflight};
pub use printable_url::Shown;
pub use redirect::RedirectError;
