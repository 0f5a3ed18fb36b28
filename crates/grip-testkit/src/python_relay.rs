//! A relay of another make: `nostr-relay` of the Python package index, in a directory of its own.

use std::process::Command;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::{RelayClient, installed::installed, port::ReservedPort, process::Process};

/// The version that `cargo xtask test` installs.
pub(crate) const VERSION: &str = "1.14";

/// A running relay without NIP-77, killed when dropped, with its directory.
#[derive(Debug)]
pub struct PythonRelay {
    dir: TempDir,
    port: ReservedPort,
    process: Process,
}

impl PythonRelay {
    /// Starts an empty relay and waits until it answers.
    pub async fn start() -> Result<Self> {
        let dir = TempDir::new()?;
        let mut relay = Self {
            process: Process::new(dir.path().join("relay.log")),
            dir,
            port: ReservedPort::new()?,
        };
        relay.spawn()?;
        let url = relay.url();
        let answers = async || RelayClient::connect(&url).await.is_ok();
        let started = relay.process.until(answers).await;
        started.with_context(|| format!("nostr-relay does not start:\n{}", relay.log()))?;
        Ok(relay)
    }

    #[expect(clippy::disallowed_methods, reason = "tests run the real relay")]
    fn spawn(&mut self) -> Result<()> {
        let config = self.dir.path().join("config.yaml");
        std::fs::write(&config, self.config())?;
        let programs = installed("nostr-relay", VERSION, &["nostr-relay"])?;
        let mut command = Command::new(programs.join("nostr-relay"));
        command
            .current_dir(self.dir.path())
            .arg("--config")
            .arg(&config)
            .args(["serve", "--use-uvicorn"]);
        self.process.redirect(&mut command)?;
        let child = command.spawn();
        self.process.child = Some(child.context("starting nostr-relay")?);
        Ok(())
    }

    fn config(&self) -> String {
        let (port, database) = (self.port.number(), self.dir.path().join("relay.sqlite3"));
        let database = database.display();
        format!(
            "relay_name: python relay\n\
             storage:\n  sqlalchemy.url: sqlite+aiosqlite:///{database}\n  validators:\n    \
             - nostr_relay.validators.is_signed\n\
             gunicorn:\n  bind: 127.0.0.1:{port}\n  workers: 1\n\
             authentication:\n  enabled: false\n\
             subscription_limit: 32\nmax_limit: 6000\n"
        )
    }

    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port.number())
    }

    /// All that it printed.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

impl Drop for PythonRelay {
    fn drop(&mut self) {
        self.process.kill_all();
    }
}
