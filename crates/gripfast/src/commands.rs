//! One file per command; each only wires. The rest is what they share.

pub(crate) mod archive;
pub(crate) mod backup;
pub(crate) mod cause;
pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod compact;
pub(crate) mod config;
pub(crate) mod credential;
pub(crate) mod explain;
pub(crate) mod healthcheck;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod ingest;
pub(crate) mod man;
pub(crate) mod progress;
pub(crate) mod purgatory;
pub(crate) mod queue;
pub(crate) mod remote_helper;
pub(crate) mod resolve;
pub(crate) mod restore;
pub(crate) mod selftest;
pub(crate) mod status;
pub(crate) mod sync;
pub(crate) mod table;
pub(crate) mod version;
pub(crate) mod when;
