//! Process of a server that tests start, kill and ask to end, with all that it prints.

use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

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
