#![doc = include_str!("../README.md")]

mod display_text;
mod escape;
pub mod go_mod;
mod module_version;
mod path;
mod pattern;
pub mod pseudo;
pub mod sum;
pub mod tag;
mod unicode;
mod version;
pub mod zip;

pub use display_text::Shown;
pub use module_version::{
    Candidates, Found, Module, NotAModule, candidates, implied_go_mod, module_version,
};
pub use path::{Flaw, InvalidPath, ModulePath};
pub use pattern::{InvalidPattern, PathPattern};
pub use version::{InvalidVersion, Version};
