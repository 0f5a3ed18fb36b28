//! `gripfast serve`, and `gripfast` alone.

use crate::config::{self, Flags, ProcessEnvironment};

/// Runs the node until it is told to stop.
pub(crate) fn run(flags: Flags) -> anyhow::Result<()> {
    let loaded = config::load(&flags, &ProcessEnvironment)?;
    crate::node::run(flags, loaded)
}
