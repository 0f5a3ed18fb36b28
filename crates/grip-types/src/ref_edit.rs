//! The change of one ref.

use crate::{Oid, RefName};

/// What a ref is to become: a command of a push, and a step of a ref transaction.
///
/// From nothing to nothing is a deletion too: libgit2 sends it for a ref that it does not see,
/// which is what is left of a branch once a state without it has come ahead of the push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEdit {
    pub name: RefName,
    /// Where the ref is before, as far as the author of the edit knows; `None`: not there.
    pub old: Option<Oid>,
    /// `None` deletes; deleting what is not there is no error.
    pub new: Option<Oid>,
}
