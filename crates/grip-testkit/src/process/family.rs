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

    /// Seconds of CPU that all have used, those that have ended too.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let (first, first_ended) = cpu_seconds(self.first).context("no times")?;
        let mut sum = first + first_ended;
        self.visit(|pid| {
            // One that ended meanwhile counts for its parent next time.
            let (own, of_ended) = cpu_seconds(pid).unwrap_or_default();
            sum += own + of_ended;
        });
        Ok(sum)
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
    let fields = stat_fields(pid)?;
    let state = fields.first()?.chars().next()?;
    Some((state, Pid::from_raw(fields.get(1)?.parse().ok()?)?))
}

/// The unit of times in `/proc`, the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of CPU that a process has used itself, and those of all it started that have ended.
pub(crate) fn cpu_seconds(pid: Pid) -> Option<(f64, f64)> {
    let fields = stat_fields(pid)?;
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let own = ticks(11)? + ticks(12)?;
    let of_ended = ticks(13)? + ticks(14)?;
    Some((own / TICKS_PER_SECOND, of_ended / TICKS_PER_SECOND))
}

/// What `/proc` says of a process after its name.
fn stat_fields(pid: Pid) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name before may hold anything, brackets too.
    let (_, after_name) = stat.rsplit_once(") ")?;
    Some(after_name.split(' ').map(str::to_owned).collect())
}
