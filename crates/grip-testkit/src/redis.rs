//! A real `redis-server`, in a directory of its own, on a free loopback port.

use std::process::{Command, ExitStatus};

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{port::ReservedPort, process::Process};

/// A running server that keeps nothing on disk and is killed when dropped, with its directory.
#[derive(Debug)]
pub struct RedisServer {
    dir: TempDir,
    port: ReservedPort,
    password: Option<String>,
    process: Process,
}

impl RedisServer {
    /// Starts an empty server and waits until it answers.
    pub async fn start() -> Result<Self> {
        Self::start_as(None).await
    }

    /// Like [`RedisServer::start`], for those who know the password.
    pub async fn start_with_password(password: &str) -> Result<Self> {
        Self::start_as(Some(password.to_owned())).await
    }

    async fn start_as(password: Option<String>) -> Result<Self> {
        let dir = TempDir::new()?;
        let mut server = Self {
            process: Process::new(dir.path().join("redis.log")),
            dir,
            port: ReservedPort::new()?,
            password,
        };
        let started = server.launch().await;
        started.with_context(|| format!("redis-server does not start:\n{}", server.log()))?;
        Ok(server)
    }

    /// Starts the process, on the port it had before, and waits until it answers.
    ///
    /// It knows nothing of its former life.
    pub async fn launch(&mut self) -> Result<()> {
        self.spawn()?;
        let port = self.port();
        self.process.until(async || answers(port).await).await
    }

    #[expect(clippy::disallowed_methods, reason = "tests run the real server")]
    fn spawn(&mut self) -> Result<()> {
        let mut command = Command::new("redis-server");
        command
            .current_dir(self.dir.path())
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &self.port().to_string()]);
        self.process.redirect(&mut command)?;
        if let Some(password) = &self.password {
            command.args(["--requirepass", password]);
        }
        let child = command.spawn();
        self.process.child = Some(child.context("starting redis-server: is it installed?")?);
        Ok(())
    }

    /// Ends the process as a power cut would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills and starts again, empty, on the same port.
    pub async fn restart(&mut self) -> Result<()> {
        self.kill();
        self.launch().await
    }

    /// Asks for an orderly end and waits for it.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        self.process.signal(Signal::TERM)?;
        self.process.wait().await
    }

    /// Lets the process stand still: its connections stay open and nothing is answered.
    pub fn freeze(&self) -> Result<()> {
        self.process.signal(Signal::STOP)
    }

    /// Lets a frozen process go on.
    pub fn thaw(&self) -> Result<()> {
        self.process.signal(Signal::CONT)
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The URL to connect with, the password in it.
    pub fn url(&self) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}/", self.port()),
            None => format!("redis://127.0.0.1:{}/", self.port()),
        }
    }

    /// All that the server has printed, over all its lives.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Says whether something on the port speaks the protocol; a demand for a password is an answer.
async fn answers(port: u16) -> bool {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    matches!(exchange.await.as_ref(), Ok(b"+PONG" | b"-NOAU"))
}
