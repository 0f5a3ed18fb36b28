//! Git processes that strangers make the node start.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use anyhow::{Result, ensure};
use grip_testkit::{http::Connection, until, until_ok, wire};

use crate::hostile::scene::Scene;

/// A node whose git sends no packs while a file is there.
struct Sleepy {
    scene: Scene,
    flag: PathBuf,
    _dir: tempfile::TempDir,
}

impl Sleepy {
    async fn new(env: &[(&str, &str)]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let (program, flag) = (dir.path().join("git"), dir.path().join("sleep"));
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *upload-pack*) [ -e {} ] && exec sleep 600 ;; esac\nexec git \"$@\"\n",
            flag.display()
        );
        fs::write(&program, script)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let program = program.to_string_lossy().into_owned();
        let env = [env, &[("GRIPFAST_GIT_PROGRAM", program.as_str())]].concat();
        let scene = Scene::with(&env).await?;
        fs::write(&flag, "")?;
        Ok(Self {
            scene,
            flag,
            _dir: dir,
        })
    }

    /// A fetch that is never answered, of a client behind the proxy.
    async fn fetch(&self, client: &str) -> Result<Connection> {
        let want = format!("want {}\n", self.scene.project.tip);
        let mut body = wire::packet(b"command=fetch\n");
        body.extend_from_slice(b"0001");
        body.extend(wire::packet(want.as_bytes()));
        body.extend(wire::packet(b"done\n"));
        body.extend_from_slice(b"0000");
        let head = format!(
            "POST {}/git-upload-pack HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {client}\r\n\
             Git-Protocol: version=2\r\nContent-Type: application/x-git-upload-pack-request\r\n\
             Content-Length: {}\r\n\r\n",
            self.scene.project.path(),
            body.len()
        );
        let mut connection = Connection::open(self.scene.node.port()).await?;
        connection.send(&[head.as_bytes(), &body].concat()).await?;
        Ok(connection)
    }
}

/// The processes that sleep and have `parent`.
fn sleepers(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let mut fields = stat.split_whitespace();
        fields.nth(1) == Some("(sleep)") && fields.nth(1) == Some(parent.to_string().as_str())
    };
    ids.filter(is_one).collect()
}

#[tokio::test]
async fn git_dies_with_the_node_that_started_it() -> Result<()> {
    let mut sleepy = Sleepy::new(&[]).await?;
    let node = sleepy.scene.node.id()?;
    let _connection = sleepy.fetch("203.0.113.1").await?;
    let child = until("git runs", || async { sleepers(node).pop() }).await?;
    sleepy.scene.node.kill();
    let path = format!("/proc/{child}/stat");
    let has_ended = || async {
        let stat = fs::read_to_string(&path).unwrap_or_default();
        (!stat.contains("(sleep)") || stat.contains(") Z ")).then_some(())
    };
    until("git has ended", has_ended).await
}

#[tokio::test]
async fn one_network_does_not_take_all_the_memory_of_git() -> Result<()> {
    let mut sleepy = Sleepy::new(&[("GRIPFAST_GIT_MEMORY_BYTES", "256 MiB")]).await?;
    let node = sleepy.scene.node.id()?;
    let mut flood = Vec::new();
    for _ in 0..6 {
        flood.push(sleepy.fetch("203.0.113.1").await?);
    }
    let waiting = until_ok("the others wait for memory", async || {
        let metrics = sleepy.scene.node.get("/metrics").await?;
        Ok(metrics.contains("git_processes_waiting 5").then_some(()))
    });
    waiting.await?;
    ensure!(sleepers(node).len() == 1, "a quarter is for one");
    fs::remove_file(&sleepy.flag)?;
    sleepy.scene.goes_on().await
}
