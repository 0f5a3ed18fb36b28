//! The refs of one repository, as one value.

mod advertise;
mod edit;
mod packed;
mod snapshot;

pub use edit::RefUpdateError;
pub use snapshot::{Ref, RefSnapshot};

pub(crate) use advertise::AGENT;
pub(crate) use edit::apply;
pub(crate) use packed::{parse, write};
