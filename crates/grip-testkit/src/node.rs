//! The real binary, in a directory of its own, on a free loopback port.

use std::{
    fs::File,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{relay::RelayClient, wait::until};

/// A running node that is killed when dropped.
#[derive(Debug)]
pub struct Node {
    binary: PathBuf,
    dir: TempDir,
    port: u16,
    env: Vec<(String, String)>,
    child: Option<Child>,
}

impl Node {
    /// Starts `binary` with an empty data directory and waits until it is ready.
    pub async fn start(binary: impl AsRef<Path>) -> Result<Self> {
        Self::start_with(binary, &[]).await
    }

    /// Like [`Node::start`], with further environment variables.
    pub async fn start_with(binary: impl AsRef<Path>, env: &[(&str, &str)]) -> Result<Self> {
        let mut node = Self::prepare(binary, env)?;
        node.launch().await?;
        Ok(node)
    }

    /// A node that is not running yet; its directory may be filled first.
    pub fn prepare(binary: impl AsRef<Path>, env: &[(&str, &str)]) -> Result<Self> {
        Ok(Self {
            binary: binary.as_ref().to_owned(),
            dir: TempDir::new()?,
            port: free_port()?,
            env: env
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            child: None,
        })
    }

    /// Sets a variable for the next launch.
    pub fn set_env(&mut self, key: &str, value: &str) {
        self.env.retain(|(k, _)| k != key);
        self.env.push((key.to_owned(), value.to_owned()));
    }

    /// Unsets a variable for the next launch.
    pub fn remove_env(&mut self, key: &str) {
        self.env.retain(|(k, _)| k != key);
    }

    /// Starts the process and waits until it says that it is ready.
    pub async fn launch(&mut self) -> Result<()> {
        self.spawn()?;
        until("the node is ready", || async {
            let ready = http_get(self.port, "/readyz").await;
            if ready.is_ok_and(|r| r.starts_with("HTTP/1.1 200")) {
                return Some(Ok(()));
            }
            None
        })
        .await
        .and_then(|ready| ready)
        .with_context(|| format!("log:\n{}", self.log()))
    }

    /// Starts the process and does not wait.
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    pub fn spawn(&mut self) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())?;
        let mut command = Command::new(&self.binary);
        command
            .current_dir(self.dir.path())
            .env("NGIT_BIND_ADDRESS", format!("127.0.0.1:{}", self.port))
            .env("NGIT_DOMAIN", self.authority())
            .env("GRIPFAST_DATA_DIR", self.data_dir())
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        self.child = Some(command.spawn().context("starting the node")?);
        Ok(())
    }

    /// Ends the process as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A process that has ended by itself is as dead as we want it.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Kills and starts again on the same port and data.
    pub async fn crash_and_restart(&mut self) -> Result<()> {
        self.kill();
        self.launch().await
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid()?, signal).context("signalling the node")
    }

    /// Waits for the process to end by itself.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let mut child = self.child.take().context("the node is not running")?;
        until("the node has ended", || {
            std::future::ready(child.try_wait().ok().flatten())
        })
        .await
    }

    /// Asks for an orderly end and waits for it.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait().await
    }

    pub fn is_running(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    fn pid(&self) -> Result<Pid> {
        let child = self.child.as_ref().context("the node is not running")?;
        Ok(Pid::from_child(child))
    }

    /// The process id of the running node.
    pub fn id(&self) -> Result<u32> {
        Ok(self.child.as_ref().context("the node is not running")?.id())
    }

    /// The most memory the server process itself ever had resident, in bytes.
    pub fn peak_rss_bytes(&self) -> Result<u64> {
        self.status_field("VmHWM:")
    }

    /// Memory that is the process's own and not mapped files, in bytes.
    pub fn anonymous_rss_bytes(&self) -> Result<u64> {
        self.status_field("RssAnon:")
    }

    fn status_field(&self, name: &str) -> Result<u64> {
        let pid = self.pid()?.as_raw_nonzero();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line
            .and_then(|rest| rest.trim().strip_suffix(" kB"))
            .context("no such field")?;
        Ok(kib.trim().parse::<u64>()? * 1024)
    }

    /// Runs `work` and returns, beside its result, the most memory that the processes the node
    /// started had resident together, in bytes, looked at every few milliseconds.
    pub async fn watching_children<T>(&self, work: impl Future<Output = T>) -> Result<(T, u64)> {
        let node = self.id()?;
        let mut most = 0;
        tokio::pin!(work);
        loop {
            let pause = tokio::time::sleep(std::time::Duration::from_millis(5));
            tokio::select! {
                done = &mut work => return Ok((done, most)),
                () = pause => most = most.max(descendants_rss_bytes(node)),
            }
        }
    }

    /// `127.0.0.1:port`
    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn http_url(&self) -> String {
        format!("http://{}", self.authority())
    }

    pub fn relay_url(&self) -> String {
        format!("ws://{}", self.authority())
    }

    /// The directory the node was started in.
    pub fn work_dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("node.log")
    }

    /// All that the node has printed, over all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub async fn connect(&self) -> Result<RelayClient> {
        RelayClient::connect(&self.relay_url()).await
    }

    /// A plain GET: status line, headers and body as they came.
    pub async fn get(&self, path: &str) -> Result<String> {
        http_get(self.port, path).await
    }

    /// The JSON object that a GET of `path` answers with.
    pub async fn json(&self, path: &str) -> Result<Value> {
        json_object(&self.get(path).await?).with_context(|| path.to_owned())
    }

    /// The same for the operator, whose token the node wrote.
    pub async fn admin_json(&self, path: &str) -> Result<Value> {
        let token = std::fs::read_to_string(self.data_dir().join("admin.token"))?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\n\r\n",
            self.authority(),
            token.trim()
        );
        let response = http_raw(self.port, request.as_bytes()).await?;
        json_object(&String::from_utf8_lossy(&response)).with_context(|| path.to_owned())
    }

    /// The binary as the operator of this node runs it.
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    pub fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.binary);
        command
            .current_dir(self.dir.path())
            .args(arguments)
            .env("NGIT_BIND_ADDRESS", self.authority())
            .env("NGIT_DOMAIN", self.authority())
            .env("GRIPFAST_DATA_DIR", self.data_dir())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// What a command of the operator printed; fails if the command does.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).output().await?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("{arguments:?}: {stdout}{stderr}");
        }
        Ok(stdout)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Resident memory of all processes below `ancestor`; those that end meanwhile count nothing.
fn descendants_rss_bytes(ancestor: u32) -> u64 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let status = |entry: std::fs::DirEntry| {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Some((field("Pid:")?, field("PPid:")?, field("VmRSS:")?))
    };
    let all: Vec<(u64, u64, u64)> = processes.filter_map(status).collect();
    let mut family = vec![u64::from(ancestor)];
    let mut kib = 0;
    while let Some(parent) = family.pop() {
        for (pid, _, rss) in all.iter().filter(|(_, ppid, _)| *ppid == parent) {
            family.push(*pid);
            kib += rss;
        }
    }
    kib * 1024
}

/// The JSON object in a response of status 200, whose body may have come in chunks.
fn json_object(response: &str) -> Result<Value> {
    let (head, body) = response.split_once("\r\n\r\n").context("no body")?;
    if !head.starts_with("HTTP/1.1 200") {
        bail!("{response}");
    }
    let (first, last) = body.find('{').zip(body.rfind('}')).context("no object")?;
    Ok(serde_json::from_str(&body[first..=last])?)
}

/// A port nobody listens on at the moment.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Sends one HTTP/1.1 GET and returns the whole answer as text.
pub async fn http_get(port: u16, path: &str) -> Result<String> {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    let answer = http_raw(port, request.as_bytes()).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Sends `request` as it is and reads until the server closes.
pub async fn http_raw(port: u16, request: &[u8]) -> Result<Vec<u8>> {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(request).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let answer = tokio::time::timeout(crate::DEADLINE, exchange)
        .await
        .context("no HTTP answer")??;
    if answer.is_empty() {
        bail!("the server closed without an answer");
    }
    Ok(answer)
}
