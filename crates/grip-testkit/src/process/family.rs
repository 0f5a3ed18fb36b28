//! The processes of one server: the first one, those it started, and those they started.

use std::{fs, os::fd::OwnedFd, process::Child};

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

/// All processes of a server.
pub(crate) struct Family {
    first: Pid,
}

impl Family {
    pub(crate) fn of(child: &Child) -> Self {
        Self {
            first: Pid::from_child(child),
        }
    }

    #[cfg(test)]
    pub(crate) fn at(first: Pid) -> Self {
        Self { first }
    }

    /// Signals all; parents before their children, so that one that stands still makes no more.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        self.signal_first(signal)?;
        self.signal_descendants(signal);
        Ok(())
    }

    pub(crate) fn signal_first(&self, signal: Signal) -> Result<()> {
        kill_process(self.first, signal).context("signalling the server")
    }

    /// Kills all and waits until they are gone.
    pub(crate) fn kill(&self, first: &mut Child) {
        // What fails here does so because a process has ended by itself.
        let _ = self.signal_first(Signal::STOP);
        let descendants = self.signal_descendants(Signal::STOP);
        let ends: Vec<OwnedFd> = descendants
            .iter()
            .filter_map(|pid| pidfd_open(*pid, PidfdFlags::empty()).ok())
            .collect();
        let _ = first.kill();
        for pid in descendants {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = first.wait();
        for end in &ends {
            let _ = poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&PATIENCE));
        }
    }

    /// Signals all but the first; returns them.
    fn signal_descendants(&self, signal: Signal) -> Vec<Pid> {
        self.visit(|pid| {
            // One that ended meanwhile needs no signal.
            let _ = kill_process(pid, signal);
        })
    }

    #[cfg(test)]
    pub(crate) fn descendants(&self) -> Vec<Pid> {
        self.visit(|_| {})
    }

    /// All but the first; each is visited before those that it started are looked for.
    fn visit(&self, mut each: impl FnMut(Pid)) -> Vec<Pid> {
        let (mut parents, mut all) = (vec![self.first], Vec::new());
        while !parents.is_empty() {
            parents = children(&parents);
            parents.iter().copied().for_each(&mut each);
            all.extend(&parents);
        }
        all
    }
}

/// The processes that those of one generation started.
fn children(parents: &[Pid]) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw)
        .filter(|pid| stat(*pid).is_some_and(|(_, parent)| parents.contains(&parent)))
        .collect()
}

/// The state of a process and its parent.
pub(crate) fn stat(pid: Pid) -> Option<(char, Pid)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name before may hold anything, brackets too.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, Pid::from_raw(fields.next()?.parse().ok()?)?))
}
