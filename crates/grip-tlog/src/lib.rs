#![doc = include_str!("../README.md")]

mod frontier;
mod hash;
mod node;
mod note;
mod proof;
mod tile;

pub use frontier::{Frontier, InvalidFrontier};
pub use hash::{Hash, InvalidHash, node_hash, record_hash};
pub use node::{Node, SpanHasher};
pub use note::{InvalidKey, InvalidNote, Signer, TreeHead, Verifier};
pub use proof::{InvalidProof, check_consistency, consistency_spans};
pub use tile::{Contents, HEIGHT, InvalidTile, Tile, WIDTH};
