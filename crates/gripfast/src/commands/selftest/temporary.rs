//! The way of a repository on a node of its own: announced, pushed, killed, restarted, cloned, verified.

use std::{
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};
use nostr::prelude::{
    Event, EventBuilder, FinalizeEvent as _, Keys, Kind, Tag, Timestamp, ToBech32 as _,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    net::TcpSocket,
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use super::report::{Checked, Failure, Report};
use crate::{admin_token, commands::relay_client::RelayClient, failure::sentence};

const IDENTIFIER: &str = "selftest";
/// How long a start, or a run of git, may take.
const PATIENCE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(50);
const REPORT_IT: &str = "run it again with GRIPFAST_LOG_LEVEL=debug; if it stays, please report it";

/// Goes the whole way; what comes after a failure is skipped.
pub(super) async fn run(git: &Path, report: &mut Report) -> anyhow::Result<()> {
    let mut trial = Trial::new(git)?;
    let steps = [
        "start", "announce", "push", "kill", "restart", "clone", "verify",
    ];
    for (at, step) in steps.into_iter().enumerate() {
        if !report.check(step, trial.step(step)).await {
            for skipped in &steps[at + 1..] {
                report.skip(skipped, "a step before it failed");
            }
            break;
        }
    }
    Ok(())
}

struct Trial {
    dir: TempDir,
    git: PathBuf,
    address: SocketAddr,
    /// Keeps the port from everybody else, also while the node is restarted.
    _reserved: TcpSocket,
    keys: Keys,
    state: Option<Event>,
    tip: String,
    node: Option<Child>,
    client: reqwest::Client,
}

impl Trial {
    fn new(git: &Path) -> anyhow::Result<Self> {
        let reserved = reserve_port().context("no port is free")?;
        Ok(Self {
            dir: TempDir::new().context("there is no room for a temporary node")?,
            git: git.to_owned(),
            address: reserved.local_addr()?,
            _reserved: reserved,
            keys: Keys::generate(),
            state: None,
            tip: String::new(),
            node: None,
            client: grip_egress::command_client().timeout(PATIENCE).build()?,
        })
    }

    async fn step(&mut self, name: &str) -> Checked {
        let (done, next_step) = match name {
            "start" => (self.start().await, "the reason above says what is missing"),
            "announce" => (self.announce().await, REPORT_IT),
            "push" => (self.push().await, REPORT_IT),
            "kill" => (self.kill().await, REPORT_IT),
            "restart" => (self.start().await, REPORT_IT),
            "clone" => (self.clone().await, REPORT_IT),
            _ => (self.verify().await, REPORT_IT),
        };
        done.map_err(|error| {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            let last = log.lines().last().unwrap_or_default();
            let text = match last {
                "" => sentence(&error),
                last => format!("{}; the node's last words: {last}", sentence(&error)),
            };
            Failure::new(text, next_step)
        })
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn clone_url(&self) -> String {
        let npub = self
            .keys
            .public_key()
            .to_bech32()
            .expect("a public key has an npub");
        format!("{}/{npub}/{IDENTIFIER}.git", self.url())
    }

    async fn start(&mut self) -> anyhow::Result<String> {
        let binary = std::env::current_exe().context("this program cannot find itself")?;
        let log = std::fs::File::create(self.dir.path().join("log"))?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the node that is tried is this program"
        )]
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .current_dir(self.dir.path())
            .env_clear()
            .envs(
                ["PATH", "GRIPFAST_FAULT", "GRIPFAST_LOG_LEVEL"]
                    .into_iter()
                    .filter_map(|name| Some((name, std::env::var_os(name)?))),
            )
            .env("GRIPFAST_BIND_ADDRESS", self.address.to_string())
            .env("GRIPFAST_DOMAIN", self.url())
            .env("GRIPFAST_DATA_DIR", self.dir.path().join("data"))
            .env("GRIPFAST_GIT_PROGRAM", &self.git)
            // It asks nobody else.
            .env("GRIPFAST_SYNC_ENABLED", "false")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true);
        let mut node = command.spawn().context("the node cannot be started")?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = node.try_wait()? {
                bail!("the node ended ({status})");
            }
            let asked = self
                .client
                .get(format!("{}/readyz", self.url()))
                .send()
                .await;
            if asked.is_ok_and(|response| response.status() == 200) {
                break;
            }
            if Instant::now() > deadline {
                bail!("the node is not ready after {} s", PATIENCE.as_secs());
            }
            sleep(STEP).await;
        }
        self.node = Some(node);
        Ok(format!("a node is ready at {}", self.url()))
    }

    async fn announce(&mut self) -> anyhow::Result<String> {
        self.make_commit().await?;
        let tag = |values: &[&str]| Tag::parse(values.iter().copied()).expect("a tag has a name");
        let (clone, relay) = (self.clone_url(), self.url().replacen("http", "ws", 1));
        let announcement = [
            tag(&["d", IDENTIFIER]),
            tag(&["clone", &clone]),
            tag(&["relays", &relay]),
        ];
        let state = [
            tag(&["d", IDENTIFIER]),
            tag(&["refs/heads/main", &self.tip]),
            tag(&["HEAD", "ref: refs/heads/main"]),
        ];
        let mut client = RelayClient::connect(&self.url()).await?;
        let mut said = String::new();
        for (kind, tags) in [(30617, &announcement), (30618, &state)] {
            let event = EventBuilder::new(Kind::from(kind), "")
                .tags(tags.iter().cloned())
                .custom_created_at(Timestamp::now())
                .finalize(&self.keys)
                .context("an event cannot be signed")?;
            said = client
                .publish(&event)
                .await
                .context("an event was refused")?;
            self.state = Some(event);
        }
        Ok(format!("announcement and state are accepted ({said})"))
    }

    async fn make_commit(&mut self) -> anyhow::Result<()> {
        let tree = self.tree();
        std::fs::create_dir_all(&tree)?;
        self.run_git(&tree, &["init", "--quiet", "--initial-branch=main"])
            .await?;
        std::fs::write(tree.join("README.md"), "Pushed by gripfast selftest.\n")?;
        self.run_git(&tree, &["add", "README.md"]).await?;
        self.run_git(&tree, &["commit", "--quiet", "--message", "Try a node"])
            .await?;
        self.tip = self.run_git(&tree, &["rev-parse", "HEAD"]).await?;
        Ok(())
    }

    async fn push(&mut self) -> anyhow::Result<String> {
        let url = self.clone_url();
        self.run_git(&self.tree(), &["push", "--quiet", &url, "main"])
            .await?;
        Ok(format!("main is pushed at {}", &self.tip[..10]))
    }

    async fn kill(&mut self) -> anyhow::Result<String> {
        let mut node = self.node.take().context("no node runs")?;
        if let Some(status) = node.try_wait()? {
            bail!("the node ended by itself ({status})");
        }
        node.kill().await.context("the node cannot be killed")?;
        Ok("as a power cut would, with SIGKILL".to_owned())
    }

    async fn clone(&mut self) -> anyhow::Result<String> {
        let (url, into) = (self.clone_url(), self.cloned());
        let into = into.to_string_lossy();
        self.run_git(self.dir.path(), &["clone", "--quiet", &url, &into])
            .await?;
        Ok(format!("git clone {url}"))
    }

    async fn verify(&mut self) -> anyhow::Result<String> {
        let cloned = self.run_git(&self.cloned(), &["rev-parse", "HEAD"]).await?;
        if cloned != self.tip {
            bail!("the clone is at {cloned}, pushed was {}", self.tip);
        }
        self.run_git(&self.cloned(), &["fsck", "--full", "--no-progress"])
            .await?;
        let state = self
            .state
            .as_ref()
            .context("no state was sent")?
            .id
            .to_hex();
        let mut client = RelayClient::connect(&self.url()).await?;
        let found = client.query(json!({ "ids": [&state] })).await?;
        if found.is_empty() {
            bail!("the state {state} was acknowledged and is not served");
        }
        self.check_agreement().await?;
        Ok("commit and events survived, relay and git agree".to_owned())
    }

    /// What `gripfast check --full` asks for.
    async fn check_agreement(&self) -> anyhow::Result<()> {
        let token = admin_token::read(&admin_token::path(&self.dir.path().join("data")))?;
        let request = self
            .client
            .post(format!("{}/api/v1/check?full=true", self.url()));
        let response = request.bearer_auth(token).send().await?;
        let page: grip_web::api_types::CheckPage = response.json().await?;
        match page.disagreements.first() {
            None => Ok(()),
            Some(first) => bail!("relay and git do not agree: {}", first.text),
        }
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    fn cloned(&self) -> PathBuf {
        self.dir.path().join("clone")
    }

    async fn run_git(&self, dir: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the client is the git of this machine"
        )]
        let mut command = Command::new(&self.git);
        command
            .args(arguments)
            .current_dir(dir)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", self.dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "selftest")))
            .envs(
                ["AUTHOR", "COMMITTER"]
                    .map(|who| (format!("GIT_{who}_EMAIL"), "selftest@localhost")),
            )
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let what = format!("git {}", arguments[0]);
        let output = match timeout(PATIENCE, command.output()).await {
            Err(_) => bail!("{what} does not end"),
            Ok(Err(error)) if error.kind() == ErrorKind::NotFound => {
                bail!(
                    "there is no {}; install git 2.37 or newer",
                    self.git.display()
                )
            }
            Ok(output) => output?,
        };
        check(&what, output.status, &output.stderr)?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// A port that is given to nobody who asks for any, and that a node can listen on: both set
/// `SO_REUSEADDR`, and this socket never listens.
fn reserve_port() -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Only once it is bound, so that a port that others have reserved is not given out again.
    socket.set_reuseaddr(false)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

fn check(what: &str, status: ExitStatus, stderr: &[u8]) -> anyhow::Result<()> {
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(stderr);
    let said = said.lines().filter(|line| !line.trim().is_empty());
    bail!("{what} failed: {}", said.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_port_of_the_node_is_its_own_before_and_between_its_starts() {
        let reserved = reserve_port().unwrap();
        let address = reserved.local_addr().unwrap();
        let another = TcpSocket::new_v4().unwrap();
        another.set_reuseaddr(false).unwrap();
        let taken = another.bind(address).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        for _ in 0..2 {
            let node = TcpSocket::new_v4().unwrap();
            node.set_reuseaddr(true).unwrap();
            node.bind(address).unwrap();
            drop(node.listen(1).unwrap());
        }
    }
}
