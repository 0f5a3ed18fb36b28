//! The real `go` command against a node.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::Node;
use tempfile::TempDir;

use crate::{BINARY, index::scene::Module};

/// A main module, with caches of its own.
pub struct Go {
    dir: TempDir,
    proxy: String,
    /// The value of GOSUMDB.
    sumdb: Option<String>,
}

impl Go {
    /// One that checks nothing.
    pub fn new(node: &Node) -> Result<Self> {
        let dir = TempDir::new()?;
        std::fs::create_dir(dir.path().join("main"))?;
        let go = Self {
            dir,
            proxy: format!("{}/go", node.http_url()),
            sumdb: None,
        };
        go.write("go.mod", "module example.com/main\n\ngo 1.19\n")?;
        Ok(go)
    }

    /// One that checks what it gets against a checksum database.
    pub fn checking(node: &Node, sumdb: &str) -> Result<Self> {
        let sumdb = Some(sumdb.to_owned());
        Ok(Self {
            sumdb,
            ..Self::new(node)?
        })
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

    #[expect(clippy::disallowed_methods, reason = "the real go is the client here")]
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let (unchecked, sumdb) = match &self.sumdb {
            Some(sumdb) => ("", sumdb.as_str()),
            None => ("*", "off"),
        };
        let below = |name: &str| self.dir.path().join(name);
        let output = tokio::process::Command::new("go")
            .current_dir(below("main"))
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").context("PATH")?)
            .env("HOME", below("home"))
            .env("GOPATH", below("path"))
            .env("GOMODCACHE", below("modules"))
            .env("GOCACHE", below("cache"))
            .env("GOFLAGS", "-mod=mod -modcacherw")
            .env("GOPROXY", &self.proxy)
            .env("GONOSUMDB", unchecked)
            .env("GOSUMDB", sumdb)
            .kill_on_drop(true)
            .output()
            .await
            .context("go must be installed")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "go {arguments:?}: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
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
