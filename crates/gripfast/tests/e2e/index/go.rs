//! The real `go` command against a node.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, ProxyServer};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{BINARY, index::scene::Module};

/// A main module, with caches of its own.
pub struct Go {
    dir: TempDir,
    proxy: String,
    /// The value of GOSUMDB.
    sumdb: Option<String>,
    /// The only certificate that it trusts.
    certificate: Option<PathBuf>,
}

impl Go {
    /// One that checks nothing.
    pub fn new(node: &Node) -> Result<Self> {
        let dir = TempDir::new()?;
        for name in ["main", "home"] {
            std::fs::create_dir(dir.path().join(name))?;
        }
        let go = Self {
            dir,
            proxy: go_proxy(node),
            sumdb: None,
            certificate: None,
        };
        go.write("go.mod", "module example.com/main\n\ngo 1.19\n")?;
        Ok(go)
    }

    /// One that checks what it gets against a checksum database.
    pub fn checking(node: &Node, sumdb: &str) -> Result<Self> {
        Ok(Self::new(node)?.checked_by(sumdb))
    }

    /// The same with another checksum database.
    pub fn checked_by(mut self, sumdb: &str) -> Self {
        self.sumdb = Some(sumdb.to_owned());
        self
    }

    /// The same that trusts the certificate of `server`.
    pub fn trusting(mut self, server: &ProxyServer) -> Self {
        self.certificate = Some(server.certificate());
        self
    }

    /// The same with modules from the node.
    pub fn by_proxy(mut self, node: &Node) -> Self {
        self.proxy = go_proxy(node);
        self
    }

    /// The same with modules from a directory.
    pub fn by(mut self, directory: &Path) -> Self {
        self.proxy = format!("file://{}", directory.display());
        self
    }

    /// Whether it has kept tiles of a checksum database.
    pub fn has_checked(&self, name: &str) -> Result<bool> {
        let tiles = self
            .dir
            .path()
            .join("modules/cache/download/sumdb")
            .join(name);
        Ok(tiles.join("tile").is_dir())
    }

    /// The signed head of a checksum database that it has kept.
    pub fn kept_head(&self, name: &str) -> Result<String> {
        let kept = self.dir.path().join("path/pkg/sumdb").join(name);
        Ok(std::fs::read_to_string(kept.join("latest"))?)
    }

    /// The sums of the main module.
    pub fn sums(&self) -> Result<String> {
        Ok(std::fs::read_to_string(
            self.dir.path().join("main/go.sum"),
        )?)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(std::fs::write(
            self.dir.path().join("main").join(name),
            text,
        )?)
    }

    pub async fn run(&self, arguments: &[impl AsRef<str>]) -> Result<String> {
        let (unchecked, sumdb) = match &self.sumdb {
            Some(sumdb) => ("", sumdb.as_str()),
            None => ("*", "off"),
        };
        let mut command = self.command("go");
        let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
        command
            .args(&arguments)
            .env("GOPROXY", &self.proxy)
            .env("GONOSUMDB", unchecked)
            .env("GOSUMDB", sumdb);
        printed(&mut command, &format!("go {arguments:?}")).await
    }

    /// Runs lines that a developer types, which set what they need; the first that fails ends them.
    pub async fn shell(&self, lines: &str) -> Result<String> {
        let mut command = self.command("sh");
        command.args(["-e", "-c", lines]);
        printed(&mut command, lines).await
    }

    /// A program with nothing in its environment but the places of this go.
    #[expect(clippy::disallowed_methods, reason = "the real go is the client here")]
    fn command(&self, program: &str) -> Command {
        let below = |name: &str| self.dir.path().join(name);
        let mut command = Command::new(program);
        command
            .current_dir(below("main"))
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", below("home"))
            .env("GOPATH", below("path"))
            .env("GOMODCACHE", below("modules"))
            .env("GOCACHE", below("cache"))
            .env("GOFLAGS", "-mod=mod -modcacherw")
            .envs(self.certificate.iter().map(|it| ("SSL_CERT_FILE", it)))
            .kill_on_drop(true);
        command
    }
}

/// The value of GOPROXY.
fn go_proxy(node: &Node) -> String {
    format!("{}/go", node.http_url())
}

async fn printed(command: &mut Command, typed: &str) -> Result<String> {
    let output = command.output().await.context("go must be installed")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{typed}: {said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn go_fetches_and_runs_a_module_that_was_pushed_a_moment_before() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let mut module = Module::announce(&node, "hello").await?;
    let tagged = module.change("Ahoy from v1.0.0")?;
    module.release(&node, "v1.0.0", tagged).await?;

    let go = Go::new(&node)?;
    let path = module.path();
    go.write(
        "main.go",
        &format!(
            "package main\n\nimport hello {path:?}\n\nfunc main() {{ print(hello.Greeting) }}\n"
        ),
    )?;
    go.run(&["get", &format!("{path}@latest")]).await?;
    go.run(&["vet", "./..."]).await?;
    let listed = go.run(&["list", "-m", "-versions", &path]).await?;
    ensure!(listed.trim() == format!("{path} v1.0.0"), "{listed}");

    // The next version, asked for as soon as its push has returned.
    let tagged = module.change("Ahoy from v1.1.0")?;
    module.release(&node, "v1.1.0", tagged).await?;
    go.run(&["get", &format!("{path}@v1.1.0")]).await?;
    let modules = go.run(&["list", "-m", "all"]).await?;
    ensure!(modules.contains(&format!("{path} v1.1.0")), "{modules}");
    Ok(())
}

#[tokio::test]
async fn a_strangers_claim_to_a_famous_path_is_neither_listed_nor_served() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let mut stranger = Module::announce(&node, "mine").await?;
    let famous = "github.com/famous/library";
    let go_mod = format!("module {famous}\n\ngo 1.19\n");
    let tagged = stranger.local.tree.commit("go.mod", &go_mod)?;
    stranger.tags.insert("v9.9.9".into(), tagged);
    stranger.publish(&node).await?;
    // One that is listed says that the index has come so far.
    let mut honest = Module::announce(&node, "theirs").await?;
    let tip = honest.local.tree.tip("main")?;
    honest.release(&node, "v1.0.0", tip).await?;

    let feed = node.get("/index").await?.text();
    ensure!(!feed.contains("famous"), "{feed}");
    let go = Go::new(&node)?;
    let refused = go.run(&["get", &format!("{famous}@v9.9.9")]).await;
    ensure!(refused.is_err(), "{refused:?}");
    let listed = node.get(&format!("/go/{famous}/@v/list")).await?;
    listed.must_be(404, &[]);
    Ok(())
}
