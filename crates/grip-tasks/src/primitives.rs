//! Locks and channels: the real ones, or with the feature `loom` those of a checker that tries every
//! order in which threads can run. The code above them is the shipped code in both cases.

#[cfg(not(feature = "loom"))]
mod real {
    pub(crate) use std::sync::Arc;

    pub(crate) use parking_lot::Mutex;
    pub(crate) use tokio::sync::{mpsc, oneshot, watch};
}

#[cfg(feature = "loom")]
mod modelled;

#[cfg(feature = "loom")]
pub(crate) use self::modelled::*;
#[cfg(not(feature = "loom"))]
pub(crate) use self::real::*;
