//! The refs of one repository, as one value.

mod advertise;
mod edit;
mod moves;
mod packed;
mod snapshot;

pub use advertise::RefListing;
pub use edit::RefUpdateError;
pub use moves::{MoveRecord, RefChange, RefMove};
pub use snapshot::{Ref, RefSnapshot};

pub(crate) use advertise::AGENT;
pub(crate) use edit::{apply, resolve};
pub(crate) use moves::{hidden_name, hidden_tip, record};
pub(crate) use packed::{parse, write};
