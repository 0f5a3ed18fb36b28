//! Go's rules for modules: paths, versions, go.mod, zips.
//!
//! What golang.org/x/mod and cmd/go decide, as functions of what they are given. Nothing here
//! reads a file, a clock or the network; the zip writer writes into what it is handed.
//!
//! Invariant: every input is an attack until it is parsed, and what is parsed stays valid. No
//! input makes these functions panic, and none makes them take more than linear time.

mod escape;
pub mod go_mod;
mod module_version;
mod path;
pub mod pseudo;
mod shown;
pub mod tag;
mod unicode;
mod version;
pub mod zip;

pub use module_version::{
    Candidates, Found, Module, NotAModule, candidates, implied_go_mod, module_version,
};
pub use path::{Flaw, InvalidPath, ModulePath};
pub use shown::Shown;
pub use version::{InvalidVersion, Version};
