//! Nodes that find each other's repositories without knowing each other.

mod bootstrap;
mod drain;
mod liars;
mod many;
mod net;
mod overload;
mod pins;
mod remote_helper;
mod sync;
