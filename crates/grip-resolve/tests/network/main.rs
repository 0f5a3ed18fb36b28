//! Resolvers that meet over the real network, on loopback.

mod found;
mod hostile;
mod members;
