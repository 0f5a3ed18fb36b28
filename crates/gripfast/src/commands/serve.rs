//! `gripfast serve`, and `gripfast` alone.

use crate::config::{self, Flags, Process};

/// Runs the node until it is told to stop.
pub(crate) fn run(flags: Flags) -> anyhow::Result<()> {
    let loaded = config::load(&flags, &Process)?;
    crate::node::run(flags, loaded)
}
