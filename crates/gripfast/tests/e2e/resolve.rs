//! Nodes that find each other's repositories without knowing each other.

mod many;
mod net;
mod remote_helper;
mod sync;
