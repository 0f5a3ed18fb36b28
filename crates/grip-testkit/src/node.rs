//! The real binary, in a directory of its own, on a free loopback port.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    http::{Connection, Response},
    port::ReservedPort,
    process::{
        Process,
        family::{self, Family},
    },
    relay::RelayClient,
    wait::{until, until_true},
};

/// A running node that is killed when dropped.
#[derive(Debug)]
pub struct Node {
    binary: PathBuf,
    dir: TempDir,
    port: ReservedPort,
    /// For further servers inside it.
    further_ports: Vec<ReservedPort>,
    env: Vec<(String, String)>,
    process: Process,
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
        let dir = TempDir::new()?;
        Ok(Self {
            binary: measured_binary().unwrap_or_else(|| binary.as_ref().to_owned()),
            process: Process::new(dir.path().join("node.log")),
            dir,
            port: ReservedPort::new()?,
            further_ports: Vec::new(),
            env: env
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        })
    }

    /// A further port of this machine, which is the node's for as long as it has its directory.
    pub fn reserve_port(&mut self) -> Result<u16> {
        let port = ReservedPort::new()?;
        let number = port.number();
        self.further_ports.push(port);
        Ok(number)
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
            let ready = self.get("/readyz").await.ok()?;
            (ready.status == 200).then_some(())
        })
        .await
        .with_context(|| format!("log:\n{}", self.log()))
    }

    /// Starts the process and does not wait.
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    pub fn spawn(&mut self) -> Result<()> {
        let mut command = Command::new(&self.binary);
        command
            .current_dir(self.dir.path())
            .env("NGIT_BIND_ADDRESS", format!("127.0.0.1:{}", self.port()))
            .env("NGIT_DOMAIN", self.authority())
            .env("GRIPFAST_DATA_DIR", self.data_dir())
            .env("XDG_STATE_HOME", self.state_home())
            .envs(self.env.iter().map(|(k, v)| (k, v)));
        self.process.redirect(&mut command)?;
        self.process.child = Some(command.spawn().context("starting the node")?);
        Ok(())
    }

    /// Ends the process as a power cut would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills and starts again on the same port and data.
    pub async fn crash_and_restart(&mut self) -> Result<()> {
        self.kill();
        self.launch().await
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Waits for the process to end by itself.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        self.process.wait().await
    }

    /// Asks for an orderly end and waits for it.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait().await
    }

    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Waits for the end that a fault point causes.
    pub async fn died(&mut self) -> Result<()> {
        let died = until_true("the node dies at the fault point", || !self.is_running()).await;
        died.with_context(|| format!("the step was never reached; log:\n{}", self.log()))
    }

    /// The process id of the running node.
    pub fn id(&self) -> Result<u32> {
        Ok(self.process.running()?.id())
    }

    /// The most memory the server process itself ever had resident, in bytes.
    pub fn peak_rss_bytes(&self) -> Result<u64> {
        self.status_field("VmHWM:")
    }

    /// Memory that is the process's own and not mapped files, in bytes.
    pub fn anonymous_rss_bytes(&self) -> Result<u64> {
        self.status_field("RssAnon:")
    }

    /// The share of a core that the node uses over some time in which nothing is asked of it.
    pub async fn core_used(&self, over: Duration) -> Result<f64> {
        let (used, began) = (self.own_cpu_seconds()?, Instant::now());
        tokio::time::sleep(over).await;
        let seconds = self.own_cpu_seconds()? - used;
        Ok(seconds / began.elapsed().as_secs_f64())
    }

    /// Seconds of CPU that the server has used, and all the processes that it started.
    pub fn cpu_seconds(&self) -> Result<f64> {
        Family::of(self.process.running()?).cpu_seconds()
    }

    fn own_cpu_seconds(&self) -> Result<f64> {
        let times = family::cpu_seconds(Pid::from_child(self.process.running()?));
        let (own, _) = times.context("no times")?;
        Ok(own)
    }

    fn status_field(&self, name: &str) -> Result<u64> {
        let pid = self.id()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line
            .and_then(|rest| rest.trim().strip_suffix(" kB"))
            .context("no such field")?;
        Ok(kib.trim().parse::<u64>()? * 1024)
    }

    /// Resident memory of all processes that the node has started, in bytes.
    pub fn children_rss_bytes(&self) -> Result<u64> {
        Ok(descendants_rss_bytes(self.id()?))
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
        format!("127.0.0.1:{}", self.port())
    }

    pub fn port(&self) -> u16 {
        self.port.number()
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

    /// Where programs keep what a user need not see, so that nodes of other tests are not found.
    fn state_home(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// All that the node has printed, over all its lives.
    pub fn log(&self) -> String {
        self.process.log()
    }

    pub async fn connect(&self) -> Result<RelayClient> {
        RelayClient::connect(&self.relay_url()).await
    }

    pub async fn get(&self, path: &str) -> Result<Response> {
        self.ask("GET", path, &[], b"").await
    }

    /// Sends one request on a connection of its own.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response> {
        let headers = [headers, &[("connection", "close")]].concat();
        let mut connection = Connection::open(self.port()).await?;
        connection.ask(method, path, &headers, body).await
    }

    /// Sends bytes as they are on a connection of their own.
    pub async fn send(&self, request: &[u8]) -> Result<Response> {
        let mut connection = Connection::open(self.port()).await?;
        connection.send(request).await?;
        connection.response().await
    }

    /// The JSON that a GET of `path` answers with.
    pub async fn json(&self, path: &str) -> Result<Value> {
        self.json_as(path, &[]).await
    }

    /// The same for the operator, whose token the node wrote.
    pub async fn admin_json(&self, path: &str) -> Result<Value> {
        let bearer = format!("Bearer {}", self.admin_token()?);
        self.json_as(path, &[("authorization", &bearer)]).await
    }

    /// The response to the operator's GET of `path`.
    pub async fn admin_get(&self, path: &str) -> Result<Response> {
        let bearer = format!("Bearer {}", self.admin_token()?);
        self.ask("GET", path, &[("authorization", &bearer)], b"")
            .await
    }

    async fn json_as(&self, path: &str, headers: &[(&str, &str)]) -> Result<Value> {
        let response = self.ask("GET", path, headers, b"").await?;
        ensure!(response.status == 200, "{path}: {}", response.text());
        response.json()
    }

    pub fn admin_token(&self) -> Result<String> {
        let token = std::fs::read_to_string(self.data_dir().join("admin.token"))?;
        Ok(token.trim().to_owned())
    }

    /// What the node says about an event, or about `npub/identifier`.
    pub async fn explain(&self, subject: &str) -> Result<Value> {
        // What the node does not know is explained too, with status 404.
        self.get(&format!("/api/v1/explain/{subject}"))
            .await?
            .json()
    }

    /// The binary as the operator of this node runs it.
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    pub fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.binary);
        command.args(arguments);
        self.as_operator(command)
    }

    /// The same with all that the node is started with.
    pub fn command_in_its_place(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = self.command(arguments);
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        command
    }

    /// The same on a terminal of its own, with all that it prints as output. Arguments are words of a
    /// shell.
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    pub fn command_on_terminal(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("script");
        let line = format!("'{}' {}", self.binary.display(), arguments.join(" "));
        command
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .env("TERM", "xterm");
        self.as_operator(command)
    }

    /// Lines that the operator types into a shell, where `gripfast` is this binary; the first one that
    /// fails ends them.
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    pub fn shell(&self, lines: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("sh");
        let script = format!(
            "gripfast() {{ '{}' \"$@\"; }}\n\
             set -e\n{lines}",
            self.binary.display()
        );
        command.args(["-c", &script]);
        self.as_operator(command)
    }

    fn as_operator(&self, mut command: tokio::process::Command) -> tokio::process::Command {
        command
            .current_dir(self.dir.path())
            .env("NGIT_BIND_ADDRESS", self.authority())
            .env("NGIT_DOMAIN", self.authority())
            .env("GRIPFAST_DATA_DIR", self.data_dir())
            .env("XDG_STATE_HOME", self.state_home())
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

/// The binary that campaigns measure instead of the unoptimised one of the tests.
fn measured_binary() -> Option<PathBuf> {
    std::env::var_os("GRIPFAST_MEASURED_BINARY").map(PathBuf::from)
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What the processes that `ancestor` started, and those they started, have resident.
fn descendants_rss_bytes(ancestor: u32) -> u64 {
    let kib: u64 = descendants(ancestor).iter().map(|(_, rss)| rss).sum();
    kib * 1024
}

/// The processes that `ancestor` started, and those they started, with their memory in KiB.
fn descendants(ancestor: u32) -> Vec<(u64, u64)> {
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
    let mut found = Vec::new();
    while let Some(parent) = family.pop() {
        for (pid, _, rss) in all.iter().filter(|(_, ppid, _)| *ppid == parent) {
            family.push(*pid);
            found.push((*pid, *rss));
        }
    }
    found
}
