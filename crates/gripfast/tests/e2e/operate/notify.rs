//! The node under its unit: what it tells the service manager, and when.

use std::{
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::Node;
use rustix::process::Signal;

use crate::BINARY;

/// How long the manager waits for a report before it gives the node up.
const WATCHDOG: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

/// A service manager that listens.
struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    /// Starts `node` as systemd does with `Type=notify` and `WatchdogSec=`.
    fn start(node: &mut Node) -> Result<Self> {
        let path = node.work_dir().join("notify");
        let socket = UnixDatagram::bind(&path)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        node.set_env("NOTIFY_SOCKET", &path.to_string_lossy());
        node.set_env("WATCHDOG_USEC", &WATCHDOG.as_micros().to_string());
        node.spawn()?;
        Ok(Self { socket })
    }

    fn next(&self) -> Result<String> {
        let mut text = [0; 4096];
        let length = self.socket.recv(&mut text).context("nothing was told")?;
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    /// The next that says this, with all before it.
    fn until(&self, part: &str) -> Result<Vec<String>> {
        let (mut told, began) = (Vec::new(), Instant::now());
        while began.elapsed() < PATIENCE {
            told.push(self.next()?);
            if told.last().is_some_and(|last| last.contains(part)) {
                return Ok(told);
            }
        }
        anyhow::bail!("{part} was not told: {told:?}")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_unit_waits_for_readiness_and_watches() -> Result<()> {
    let unit = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/gripfast.service"
    );
    let unit = std::fs::read_to_string(unit)?;
    for line in ["Type=notify", "NotifyAccess=main", "WatchdogSec=60"] {
        ensure!(unit.lines().any(|it| it == line), "{line}");
    }
    let mut node = Node::prepare(BINARY, &[])?;
    let manager = Manager::start(&mut node)?;
    let first = manager.next()?;
    let ready = format!("READY=1\nSTATUS=serving {}", node.http_url());
    ensure!(first == ready, "nothing comes before it is ready: {first}");
    ensure!(node.get("/readyz").await?.status == 200, "it is ready");

    // Twice within its time, so that one late report is no reason to end it.
    for _ in 0..4 {
        let began = Instant::now();
        ensure!(manager.next()? == "WATCHDOG=1");
        ensure!(began.elapsed() < WATCHDOG / 2, "{:?}", began.elapsed());
    }
    node.signal(Signal::HUP)?;
    manager.until("STATUS=reloading the configuration")?;
    manager.until("WATCHDOG=1")?;
    node.signal(Signal::TERM)?;
    manager.until("STOPPING=1")?;
    ensure!(node.wait().await?.success(), "{}", node.log());
    Ok(())
}

/// A node whose writer is stuck serves nobody: it is silent, so that the manager ends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_writer_hangs_does_not_report() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[])?;
    // As long as the file is there, the writer goes on.
    let file = node.work_dir().join("writer");
    std::fs::write(&file, "")?;
    node.set_env(
        "GRIPFAST_FAULT",
        &format!("relay.writer@{}", file.display()),
    );
    let manager = Manager::start(&mut node)?;
    manager.until("READY=1")?;
    manager.until("WATCHDOG=1")?;
    std::fs::remove_file(&file)?;
    manager.socket.set_read_timeout(Some(WATCHDOG))?;
    // One may have been on its way.
    let mut told = 0;
    while manager.next().is_ok() {
        told += 1;
        ensure!(told < 10, "it goes on to report");
    }
    ensure!(
        node.get("/healthz").await?.status == 200,
        "all else goes on"
    );
    std::fs::write(&file, "")?;
    manager.socket.set_read_timeout(Some(PATIENCE))?;
    manager.until("WATCHDOG=1")?;
    Ok(())
}

/// A node that cannot start never says that it is ready.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_is_no_readiness() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[])?;
    node.set_env("NGIT_DATABASE_BACKEND", "nostrdb-of-tomorrow");
    let manager = Manager::start(&mut node)?;
    let status = node.wait().await?;
    ensure!(status.code() == Some(64), "{status}\n{}", node.log());
    manager.socket.set_nonblocking(true)?;
    ensure!(manager.next().is_err(), "nothing was told");
    Ok(())
}
