//! A real S3 server: `s3s-fs` of the crates index, in a directory of its own, behind a gateway.

mod gateway;

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tokio::net::TcpStream;

use self::gateway::Gateway;
pub use self::gateway::S3Fault;
use crate::{installed::installed, port::ReservedPort, process::Process};

/// The version that `cargo xtask test` installs.
const VERSION: &str = "0.14.1";
const BUCKET: &str = "gripfast";
/// The digest of a request without a body, as its signature has it.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A running server with one empty bucket, killed when dropped, with its directory.
///
/// Its create-only puts look whether an object is there and write it later, so that two may succeed.
/// Clients speak with the gateway in front of it, which lets such puts pass one after the other, counts
/// requests, and misbehaves when told to.
#[derive(Debug)]
pub struct S3Server {
    dir: TempDir,
    port: ReservedPort,
    process: Process,
    gateway: Gateway,
}

impl S3Server {
    /// The id of the only key, and its secret.
    pub const KEYS: (&str, &str) = ("tide", "harbour-secret");

    /// Starts a server and waits until it listens.
    pub async fn start() -> Result<Self> {
        let (dir, port) = (TempDir::new()?, ReservedPort::new()?);
        std::fs::create_dir_all(dir.path().join("data").join(BUCKET))?;
        let mut server = Self {
            process: Process::new(dir.path().join("s3.log")),
            gateway: Gateway::start(port.number()).await?,
            dir,
            port,
        };
        server.spawn()?;
        let at = ("127.0.0.1", server.port.number());
        let listens = async || TcpStream::connect(at).await.is_ok();
        let started = server.process.until(listens).await;
        started.with_context(|| format!("s3s-fs does not start:\n{}", server.process.log()))?;
        Ok(server)
    }

    #[expect(clippy::disallowed_methods, reason = "tests run the real server")]
    fn spawn(&mut self) -> Result<()> {
        let programs = installed("s3s-fs", VERSION, &["s3s-fs"])?;
        let (key, secret) = Self::KEYS;
        let mut command = Command::new(programs.join("s3s-fs"));
        command
            .current_dir(self.dir.path())
            .args(["--host", "127.0.0.1"])
            .args(["--port", &self.port.number().to_string()])
            .args(["--access-key", key, "--secret-key", secret, "data"]);
        self.process.redirect(&mut command)?;
        self.process.child = Some(command.spawn().context("starting s3s-fs")?);
        Ok(())
    }

    /// A place in the bucket, as settings name it.
    pub fn place(&self) -> String {
        format!("s3://{BUCKET}/packs")
    }

    /// The directory in which the bucket keeps its objects.
    pub fn directory(&self) -> std::path::PathBuf {
        self.dir.path().join("data").join(BUCKET)
    }

    /// Where clients speak with it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.gateway.address()
    }

    /// The server without its gateway.
    pub fn bare_endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    /// The variables by which programs find it.
    pub fn env(&self) -> [(&'static str, String); 5] {
        let (key, secret) = Self::KEYS;
        [
            ("AWS_ACCESS_KEY_ID", key.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT_URL", self.endpoint()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ]
    }

    /// Downloads all packs with curl, one connection each, without keeping them; says how many bytes they are.
    #[expect(clippy::disallowed_methods, reason = "tests run a real client")]
    pub async fn download(&self) -> Result<u64> {
        let (key, secret) = Self::KEYS;
        let mut command = tokio::process::Command::new("curl");
        command
            .args(["--fail", "--silent", "--show-error", "--parallel"])
            .args(["--aws-sigv4", "aws:amz:us-east-1:s3"])
            .args(["--user", &format!("{key}:{secret}")])
            .args(["--header", &format!("x-amz-content-sha256: {EMPTY_SHA256}")])
            .args(["--write-out", "%{size_download}\n"]);
        for part in std::fs::read_dir(self.directory().join("packs/packs"))? {
            let part = part?;
            for file in std::fs::read_dir(part.path())? {
                let (part, file) = (part.file_name(), file?.file_name());
                let path = format!("packs/packs/{}/{}", part.display(), file.display());
                let url = format!("{}/{BUCKET}/{path}", self.endpoint());
                command.args(["--output", "/dev/null", &url]);
            }
        }
        let output = command.output().await.context("starting curl")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "curl: {complaint}");
        let sizes = String::from_utf8(output.stdout)?;
        let sizes = sizes.lines().map(str::parse::<u64>);
        Ok(sizes.sum::<Result<u64, _>>()?)
    }

    /// From now on requests are treated so; all are passed on without a fault.
    pub fn fault(&self, fault: Option<S3Fault>) {
        self.gateway.fault(fault);
    }

    /// The paths of all requests of a method so far, in order of arrival.
    pub fn requests(&self, method: &str) -> Vec<String> {
        self.gateway.requests(method)
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.process.kill();
    }
}
