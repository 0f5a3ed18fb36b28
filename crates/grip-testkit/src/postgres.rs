//! A real Postgres, in a directory of its own, on a free loopback port.
//!
//! Invariants:
//! - Nothing of a server outlives this process, however it ends: not a process, not shared memory.
//! - No server shares a file with another, nor with one that the system runs.

use std::{os::unix::process::CommandExt as _, path::PathBuf, process::ExitStatus};

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    port::ReservedPort,
    process::{Process, family::Family},
};

mod account;
mod launcher;
mod programs;
mod shared_memory;
mod template;
#[cfg(test)]
mod tests;

use account::Account;
use programs::Programs;

/// Who everybody on the loopback interface is, without a password.
const USER: &str = "gripfast";

/// A running server that is killed when dropped, with its directory.
#[derive(Debug)]
pub struct PostgresServer {
    dir: TempDir,
    account: Account,
    programs: Programs,
    durable: bool,
    port: ReservedPort,
    process: Process,
}

impl PostgresServer {
    /// Starts an empty server and waits until it answers.
    ///
    /// It is fast because it promises little: [`PostgresServer::kill`] may cost it the commits of
    /// the last moments, though never half of one.
    pub async fn start() -> Result<Self> {
        Self::start_as(false).await
    }

    /// Like [`PostgresServer::start`], but a commit that was answered survives everything.
    pub async fn durable() -> Result<Self> {
        Self::start_as(true).await
    }

    async fn start_as(durable: bool) -> Result<Self> {
        let made = tokio::task::spawn_blocking(move || Self::unpacked(durable));
        let mut server = made.await.context("unpacking an empty cluster")??;
        let started = server.launch().await;
        started.with_context(|| format!("postgres does not start:\n{}", server.log()))?;
        Ok(server)
    }

    /// The files of an empty server that does not run yet. Blocking.
    fn unpacked(durable: bool) -> Result<Self> {
        let (programs, account) = (Programs::find()?, Account::pick()?);
        let dir = account.temp_dir()?;
        let template = template::find_or_make(&template::cache_dir(), &programs, &account)?;
        let server = Self {
            process: Process::new(dir.path().join("postgres.log")),
            dir,
            account,
            programs,
            durable,
            port: ReservedPort::new()?,
        };
        template::unpack(&template, &server.data(), &server.account)?;
        Ok(server)
    }

    /// Starts the process on the data and the port it had before and waits until it answers.
    pub async fn launch(&mut self) -> Result<()> {
        if self.process.child.is_some() {
            bail!("the server is running already");
        }
        self.spawn()?;
        let port = self.port();
        self.process.until(async || answers(port).await).await
    }

    fn spawn(&mut self) -> Result<()> {
        let mut command = self.account.mortal(&self.programs.postgres());
        command.arg("-D").arg(self.data());
        for setting in self.settings() {
            command.arg("-c").arg(setting);
        }
        command
            .current_dir(self.dir.path())
            .env("LC_ALL", "C")
            // Not the terminal's: an interrupt is for the tests.
            .process_group(0);
        self.process.redirect(&mut command)?;
        self.process.child = Some(launcher::spawn(command).context("starting postgres")?);
        Ok(())
    }

    fn settings(&self) -> Vec<String> {
        let promise = if self.durable { "on" } else { "off" };
        let mut settings: Vec<String> = ["fsync", "full_page_writes", "synchronous_commit"]
            .map(|name| format!("{name}={promise}"))
            .into();
        settings.push(format!("port={}", self.port()));
        settings.extend(
            [
                "listen_addresses=127.0.0.1",
                "unix_socket_directories=",
                "max_connections=200",
                "shared_buffers=32MB",
                "max_wal_size=256MB",
                // In the data directory, so that it goes with it.
                "dynamic_shared_memory_type=mmap",
            ]
            .map(str::to_owned),
        );
        settings
    }

    /// Ends all its processes as a power cut would.
    pub fn kill(&mut self) {
        if let Some(id) = self.process.kill_all() {
            shared_memory::remove(&self.data(), id);
        }
    }

    /// Kills and starts again, on the same data and the same port.
    pub async fn restart(&mut self) -> Result<()> {
        self.kill();
        self.launch().await
    }

    /// Asks for an orderly end, which also ends all connections, and waits for it.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        self.family()?.signal(Signal::CONT)?;
        self.family()?.signal_first(Signal::INT)?;
        self.process.wait().await
    }

    /// Lets all its processes stand still: connections stay open and nothing is answered.
    pub fn freeze(&self) -> Result<()> {
        self.family()?.signal(Signal::STOP)
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) -> Result<()> {
        self.family()?.signal(Signal::CONT)
    }

    /// Seconds of CPU that all its processes have used.
    pub fn cpu_seconds(&self) -> Result<f64> {
        self.family()?.cpu_seconds()
    }

    fn family(&self) -> Result<Family> {
        Ok(Family::of(self.process.running()?))
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The URL to connect with, as somebody who may do everything.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port())
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// All that the server has printed, over all its lives.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Says whether the server on the port lets us in; it refuses while it recovers.
async fn answers(port: u16) -> bool {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(&hello()).await?;
        let first = stream.read_u8().await?;
        // A polite end, so that nothing is logged.
        stream.write_all(b"X\0\0\0\x04").await?;
        std::io::Result::Ok(first)
    };
    matches!(exchange.await, Ok(b'R'))
}

/// The first message of a connection: its length, version 3.0 of the protocol, who and where.
fn hello() -> Vec<u8> {
    let body = format!("\0\x03\0\0user\0{USER}\0database\0postgres\0\0");
    let length = u32::try_from(body.len() + 4).expect("the message is short");
    [&length.to_be_bytes(), body.as_bytes()].concat()
}
