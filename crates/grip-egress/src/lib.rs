//! Outbound HTTP: requests that reach public hosts only, politely and within limits.
//!
//! Invariants:
//! - No request goes to an address that is not public, unless the operator allows it, and none
//!   to our own service. This is judged for every hop, after names are resolved, and the address
//!   that was judged is the one that is connected to.
//! - No request is made that no permit has paid for, and every permit is given back with what
//!   the host's response says about it.
//! - Neither cookies nor traces of other pages are ever sent; no proxy is used. The one
//!   credential that a caller may give goes to the origin it was given for and nowhere else,
//!   never in plain text to a public host, and is never printed.
//! - No response is read beyond its limits of size and time.
//!
//! TLS uses its own provider and the certificates of the web; nothing must be installed in the
//! process first.

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
mod printable_url;
mod redirect;

#[cfg(test)]
mod tests;

pub use address::Special;
pub use bearer::{Bearer, InvalidBearer};
pub use body::Body;
pub use egress::{Egress, Reply};
pub use error::{BuildError, EgressError, Fault, Phase, Unusable};
pub use guard::Forbidden;
pub use lookup::{Lookup, SystemLookup};
pub use options::{Options, Request, RequestPolicy};
pub use printable_url::Shown;
pub use redirect::RedirectError;
