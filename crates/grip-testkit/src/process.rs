//! Process of a server that tests start, kill and ask to end, with all that it prints.

pub(crate) mod family;

use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use self::family::Family;
use crate::wait::until;

#[derive(Debug)]
pub(crate) struct Process {
    log: PathBuf,
    pub(crate) child: Option<Child>,
}

impl Process {
    /// One that does not run yet and will print to this file.
    pub(crate) fn new(log: PathBuf) -> Self {
        Self { log, child: None }
    }

    /// Lets `command` read nothing and print to the log.
    pub(crate) fn redirect(&self, command: &mut Command) -> Result<()> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(())
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A process that has ended by itself is as dead as we want it.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Ends it with all that it started, and waits until they are gone: a server that forks leaves its
    /// workers behind when it is killed alone. Returns the id of the first one.
    pub(crate) fn kill_all(&mut self) -> Option<u32> {
        let mut child = self.child.take()?;
        Family::of(&child).kill(&mut child);
        Some(child.id())
    }

    pub(crate) fn running(&self) -> Result<&Child> {
        self.child.as_ref().context("the process is not running")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(self.running()?);
        kill_process(pid, signal).context("signalling the process")
    }

    /// Waits for it to end by itself.
    pub(crate) async fn wait(&mut self) -> Result<ExitStatus> {
        let child = self.child.as_mut().context("the process is not running")?;
        let ended = until("the process has ended", || {
            std::future::ready(child.try_wait().ok().flatten())
        })
        .await?;
        self.child = None;
        Ok(ended)
    }

    /// Waits until the server answers; it must not end meanwhile.
    pub(crate) async fn until(&mut self, answers: impl AsyncFn() -> bool) -> Result<()> {
        let looking = async {
            while !answers().await {
                if !self.is_running() {
                    bail!("the server ended at once");
                }
                tokio::time::sleep(crate::wait::STEP).await;
            }
            Ok(())
        };
        crate::wait::within("the server answers", looking).await?
    }

    /// All that it has printed, over all its lives.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "processes to be killed")]
    async fn what_a_server_started_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut process = Process::new(dir.path().join("log"));
        let mut command = Command::new("sh");
        // A server with a worker that has one of its own.
        command.args(["-c", "sh -c 'sleep 600 & wait' & wait"]);
        process.redirect(&mut command).unwrap();
        process.child = Some(command.spawn().unwrap());
        let family = Family::of(process.running().unwrap());
        let started = until("there are three generations", || {
            let started = family.descendants();
            std::future::ready((started.len() == 2).then_some(started))
        });
        let started = started.await.unwrap();
        process.kill_all();
        let is_gone = |pid: &Pid| matches!(family::stat(*pid), None | Some(('Z', _)));
        assert!(started.iter().all(is_gone), "{started:?}");
        assert!(!process.is_running());
    }
}
