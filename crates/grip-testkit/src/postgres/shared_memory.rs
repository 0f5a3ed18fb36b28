//! Shared memory of a server that was killed.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// Frees the piece of shared memory that a killed server leaves, as a power cut would.
///
/// There is only room for some thousands on a machine.
pub(super) fn remove(data: &Path, pid: u32) {
    let lock = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let mut lines = lock.lines();
    if lines.next().and_then(|line| line.trim().parse().ok()) != Some(pid) {
        return;
    }
    let id = lines.nth(5).and_then(|keys| keys.split_whitespace().nth(1));
    let Some(id) = id.filter(|id| id.parse::<u32>().is_ok()) else {
        return;
    };
    #[expect(clippy::disallowed_methods, reason = "tests run the real server")]
    let mut command = Command::new("ipcrm");
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    // Left behind at worst: the server that is started on this data next removes it.
    let _ = quiet.args(["-m", id]).status();
}
