//! One file per command; each only wires. The rest is what they share.

pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod compact;
pub(crate) mod config;
pub(crate) mod explain;
pub(crate) mod healthcheck;
pub(crate) mod holding;
pub(crate) mod index;
pub(crate) mod ingest;
pub(crate) mod purgatory;
pub(crate) mod queue;
pub(crate) mod resolve;
pub(crate) mod sync;
pub(crate) mod table;
pub(crate) mod version;
pub(crate) mod when;
