//! From a name or a digest to a manifest that proves itself, and to who has it.

mod key;
pub mod manifest;

pub use key::{InvalidKey, Key, node_record};
pub use manifest::{InvalidManifest, Manifest, ManifestId};
