//! The peer that operators move in from: ngit-grasp of the crates index, in a directory of its own.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{Node, http::Connection, installed::installed, process::Process};

/// The version that `cargo xtask test` installs.
const VERSION: &str = "3.0.10";

/// A running ngit-grasp at the address of a node that does not run, killed when dropped.
#[derive(Debug)]
pub struct NgitGrasp {
    dir: TempDir,
    env: Vec<(&'static str, String)>,
    process: Process,
}

impl NgitGrasp {
    /// Starts an empty one where `node` will serve later, and waits until it answers.
    pub async fn start(node: &Node, more: &[(&'static str, &str)]) -> Result<Self> {
        let dir = TempDir::new()?;
        let mut env: Vec<_> = [
            ("NGIT_BIND_ADDRESS", node.authority().as_str()),
            ("NGIT_DOMAIN", &node.authority()),
            // Nobody outside this machine is asked for anything.
            ("NGIT_USER_INDEX_RELAYS", ""),
            ("NGIT_SYNC_PLUS_FALLBACK_RELAYS", ""),
            ("NGIT_RELAY_NAME", "tidepool"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .into();
        env.extend(
            more.iter()
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        let mut server = Self {
            process: Process::new(dir.path().join("server.log")),
            env,
            dir,
        };
        server.spawn()?;
        let port = node.port();
        let answers = async || {
            let asked = async { Connection::open(port).await?.get("/").await };
            asked.await.is_ok_and(|response| response.status == 200)
        };
        let started = server.process.until(answers).await;
        started.with_context(|| server.process.log())?;
        Ok(server)
    }

    #[expect(clippy::disallowed_methods, reason = "tests run the real server")]
    fn spawn(&mut self) -> Result<()> {
        let programs = installed("ngit-grasp", VERSION, &["ngit-grasp"])?;
        let mut command = Command::new(programs.join("ngit-grasp"));
        command
            .current_dir(self.dir.path())
            .env("NGIT_GIT_DATA_PATH", self.git())
            .env("NGIT_RELAY_DATA_PATH", self.relay())
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        self.process.redirect(&mut command)?;
        self.process.child = Some(command.spawn().context("starting ngit-grasp")?);
        Ok(())
    }

    /// What its operator has set, but for the places of its data.
    pub fn env(&self) -> &[(&'static str, String)] {
        &self.env
    }

    pub fn git(&self) -> PathBuf {
        self.dir.path().join("git")
    }

    pub fn relay(&self) -> PathBuf {
        self.dir.path().join("relay")
    }

    /// The file with the key that it made for itself.
    pub fn key(&self) -> PathBuf {
        self.dir.path().join(".relay-owner.nsec")
    }

    /// Asks for an orderly end and waits for it.
    pub async fn stop(&mut self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        self.process.wait().await.map(drop)
    }

    /// All that it printed.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

impl Drop for NgitGrasp {
    fn drop(&mut self) {
        self.process.kill_all();
    }
}
