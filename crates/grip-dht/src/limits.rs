//! The bounds of all that peers send each other.

/// Longest key of a record, in bytes.
pub const KEY_BYTES: usize = 64;

/// Longest value that is stored as a record on other nodes.
pub const RECORD_BYTES: usize = 64 * 1024;

/// Longest value in an answer: a node that provides a thing may send what no record can hold.
pub const VALUE_BYTES: usize = 4 * 1024 * 1024;

/// Most providers, and most closer peers, in one answer; also how many nodes hold a record.
pub const PEERS: usize = 20;

/// Most addresses of one peer.
pub const ADDRESSES: usize = 8;

/// Longest address of a peer, in bytes of its text.
pub const ADDRESS_BYTES: usize = 256;

/// Longest name of a peer, in bytes of its text.
pub const NAME_BYTES: usize = 64;
