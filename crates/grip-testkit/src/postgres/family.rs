//! The processes of one server: the first one and those it forked.

use std::{
    fs,
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};

/// How long a killed process may take to be gone.
const PATIENCE: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// All processes of a server. Only the first one makes new ones.
pub(super) struct Family {
    first: Pid,
}

impl Family {
    pub(super) fn of(child: &Child) -> Self {
        Self {
            first: Pid::from_child(child),
        }
    }

    #[cfg(test)]
    pub(super) fn at(first: Pid) -> Self {
        Self { first }
    }

    /// Signals all; the first one first, so that it makes no more once it stands still.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        self.signal_first(signal)?;
        for child in self.children() {
            // One that ended meanwhile needs no signal.
            let _ = kill_process(child, signal);
        }
        Ok(())
    }

    pub(super) fn signal_first(&self, signal: Signal) -> Result<()> {
        kill_process(self.first, signal).context("signalling the server")
    }

    /// Kills all and waits until they are gone.
    pub(super) fn kill(&self, first: &mut Child) {
        // What fails here does so because a process has ended by itself.
        let _ = self.signal_first(Signal::STOP);
        let children = self.children();
        let ends: Vec<OwnedFd> = children
            .iter()
            .filter_map(|child| pidfd_open(*child, PidfdFlags::empty()).ok())
            .collect();
        let _ = first.kill();
        for child in children {
            let _ = kill_process(child, Signal::KILL);
        }
        let _ = first.wait();
        for end in &ends {
            let _ = poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&PATIENCE));
        }
    }

    pub(super) fn children(&self) -> Vec<Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(Pid::from_raw)
            .filter(|pid| stat(*pid).is_some_and(|(_, parent)| parent == self.first))
            .collect()
    }
}

/// The state of a process and its parent.
pub(super) fn stat(pid: Pid) -> Option<(char, Pid)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name before may hold anything, brackets too.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, Pid::from_raw(fields.next()?.parse().ok()?)?))
}

/// Frees the piece of shared memory that a killed server leaves, as a power cut would.
///
/// There is only room for some thousands on a machine.
pub(super) fn remove_shared_memory(data: &Path, pid: u32) {
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
