//! One file per command; each only wires.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod explain;
pub(crate) mod healthcheck;
pub(crate) mod serve;
pub(crate) mod version;
