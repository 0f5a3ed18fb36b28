//! Nodes that find each other's repositories without knowing each other.

mod many;
mod net;
mod sync;
