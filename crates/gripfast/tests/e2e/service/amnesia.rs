//! A node that leaves nothing behind, watched from outside.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, WorkTree, git, until};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::BINARY;

/// System calls that make, change or remove something by its name.
const CALLS: &str = "open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,\
                     renameat2,link,linkat,symlink,symlinkat,truncate,unlink,unlinkat,rmdir";

struct Scene {
    node: Node,
    home: TempDir,
    temporary: TempDir,
}

impl Scene {
    /// A node in an empty directory, with a home and a directory for temporary files of its own.
    fn new(binary: &Path) -> Result<Self> {
        let (home, temporary) = (TempDir::new()?, TempDir::new()?);
        let mut node = Node::prepare(binary, &[("GRIPFAST_AMNESIA", "true")])?;
        for (key, dir) in [("HOME", &home), ("TMPDIR", &temporary)] {
            node.set_env(key, dir.path().to_str().context("a path is text")?);
        }
        Ok(Self {
            node,
            home,
            temporary,
        })
    }

    /// The one directory that the run may use.
    fn directory(&self) -> Result<PathBuf> {
        let found = names(self.temporary.path())?;
        ensure!(found.len() == 1, "{found:?}");
        Ok(self.temporary.path().join(&found[0]))
    }

    /// Publishes, pushes, clones and asks: all that a node writes something for.
    async fn use_it(&self) -> Result<()> {
        let node = &self.node;
        let local = LocalProject::new("x")?;
        local.publish(node, 1).await?;
        let url = local.url(node);
        let listed = git::ls_remote(&url).await?;
        ensure!(listed.iter().any(|(_, oid)| *oid == local.tip));
        let copy = WorkTree::init()?;
        ensure!(copy.run(["fetch", "-q", &url, "main"]).await?.ok);
        let held = local
            .project
            .state(&[("refs/heads/later", &"ab".repeat(20))]);
        let mut relay = node.connect().await?;
        relay.publish(&held).await?;
        let sub = relay.subscribe(&[json!({"kinds": [30617]})]).await?;
        ensure!(!relay.stored(&sub).await?.is_empty());
        for path in ["/", "/metrics", "/index", "/api/v1/queue", "/api/v1/tasks"] {
            node.get(path).await?.must_be(200, &[]);
        }
        Ok(())
    }

    /// Nothing is left but the file that the test itself has the log in.
    fn is_clean(&self) -> Result<()> {
        ensure!(
            names(self.temporary.path())?.is_empty(),
            "{}",
            self.node.log()
        );
        ensure!(names(self.home.path())?.is_empty());
        let here = names(self.node.work_dir())?;
        ensure!(here == ["node.log"], "{here:?}");
        Ok(())
    }
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    Ok(entries.iter().map(name).collect())
}

#[tokio::test]
async fn all_lies_in_one_private_directory_that_is_gone_after_either_signal() -> Result<()> {
    for signal in [Signal::TERM, Signal::INT] {
        let mut scene = Scene::new(Path::new(BINARY))?;
        scene.node.launch().await?;
        scene.use_it().await?;
        let dir = scene.directory()?;
        let mode = fs::metadata(&dir)?.permissions().mode() & 0o777;
        ensure!(mode == 0o700, "{mode:o}");
        let inside = names(&dir)?;
        for name in ["git", "relay", "gripfast.sqlite", "admin.token"] {
            ensure!(
                inside.iter().any(|found| found == name),
                "{name}: {inside:?}"
            );
        }
        ensure!(names(scene.home.path())?.is_empty());
        ensure!(names(scene.node.work_dir())? == ["node.log"]);
        scene.node.signal(signal)?;
        let status = scene.node.wait().await?;
        ensure!(status.success(), "{status}\n{}", scene.node.log());
        scene.is_clean()?;
    }
    Ok(())
}

#[tokio::test]
async fn the_next_run_removes_what_a_killed_one_left_and_says_so() -> Result<()> {
    let mut scene = Scene::new(Path::new(BINARY))?;
    scene.node.launch().await?;
    let left = scene.directory()?;
    scene.node.kill();
    ensure!(left.exists(), "a killed process removes nothing");
    scene.node.launch().await?;
    ensure!(!left.exists());
    let log = scene.node.log();
    let said = log.lines().any(|line| {
        line.contains("killed run") && line.contains(left.to_str().unwrap_or_default())
    });
    ensure!(said, "{log}");
    ensure!(scene.node.stop().await?.success());
    scene.is_clean()
}

#[tokio::test]
async fn what_would_keep_something_elsewhere_does_not_start() -> Result<()> {
    for (key, value) in [
        ("GRIPFAST_DATABASE_URL", "postgres://u:p@127.0.0.1/x"),
        ("GRIPFAST_REDIS_URL", "redis://127.0.0.1/"),
    ] {
        let mut scene = Scene::new(Path::new(BINARY))?;
        scene.node.set_env(key, value);
        scene.node.spawn()?;
        let status = scene.node.wait().await?;
        ensure!(!status.success());
        ensure!(scene.node.log().contains("amnesia"), "{}", scene.node.log());
        scene.is_clean()?;
    }
    Ok(())
}

/// A script that starts the node under the eyes of strace, which stays behind it, so that the
/// node keeps its process id and gets its signals itself.
fn watched(dir: &Path) -> Result<(PathBuf, PathBuf)> {
    let (script, calls) = (dir.join("watched.sh"), dir.join("calls"));
    let text = format!(
        "#!/bin/sh\nexec strace -D -f -qq -y -s 4096 -e trace={CALLS} -o '{}' '{BINARY}' \"$@\"\n",
        calls.display()
    );
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok((script, calls))
}

/// The paths that a traced call may have changed: all it names, unless it only reads.
fn changed(line: &str) -> Vec<PathBuf> {
    let Some((call, rest)) = line.split_once('(') else {
        return Vec::new();
    };
    let call = call.split_whitespace().last().unwrap_or_default();
    let failed = rest
        .rsplit_once(" = ")
        .is_some_and(|(_, end)| end.starts_with('-'));
    let writes = [
        "O_WRONLY",
        "O_RDWR",
        "O_CREAT",
        "O_TRUNC",
        "O_TMPFILE",
        "O_APPEND",
    ];
    let only_reads = call.starts_with("open") && !writes.iter().any(|flag| rest.contains(flag));
    if failed || only_reads {
        return Vec::new();
    }
    // Each name follows the directory it is looked up in, if one is given: `3</dir>, "name"`.
    let mut paths = Vec::new();
    let pieces: Vec<&str> = rest.split('"').collect();
    for pair in pieces.chunks(2).filter(|pair| pair.len() == 2) {
        let base = pair[0]
            .rsplit_once('<')
            .and_then(|(_, end)| end.split_once('>'));
        let base = base.map_or("", |(dir, _)| dir);
        paths.push(Path::new(base).join(pair[1]));
    }
    paths
}

#[tokio::test]
async fn no_system_call_of_the_node_or_of_git_changes_anything_outside() -> Result<()> {
    let aside = TempDir::new()?;
    let (script, calls) = watched(aside.path())?;
    let mut scene = Scene::new(&script)?;
    scene.node.launch().await.context("strace is needed")?;
    scene.use_it().await?;
    let dir = scene.directory()?;
    ensure!(scene.node.stop().await?.success(), "{}", scene.node.log());
    scene.is_clean()?;
    // What watches ends a moment after what it watched.
    let traced = until("the whole trace is written", || async {
        let text = fs::read_to_string(&calls).ok()?;
        let removed = format!("\"{}\"", dir.display());
        let name = format!("\"{}\"", dir.file_name()?.to_string_lossy());
        let is_end = |line: &str| {
            (line.contains("rmdir(") || line.contains("AT_REMOVEDIR"))
                && (line.contains(&removed) || line.contains(&name))
        };
        text.lines().any(is_end).then_some(text)
    })
    .await?;
    let paths: BTreeSet<PathBuf> = traced.lines().flat_map(changed).collect();
    let inside = paths.iter().filter(|path| path.starts_with(&dir)).count();
    ensure!(
        inside > 50,
        "the trace shows what the node writes: {inside}"
    );
    let allowed = |path: &&PathBuf| {
        path.starts_with(&dir) || path.starts_with("/dev") || path.starts_with("/proc")
    };
    let outside: Vec<_> = paths.iter().filter(|path| !allowed(path)).collect();
    ensure!(outside.is_empty(), "changed outside: {outside:#?}");
    println!("{inside} paths were changed, all inside");
    Ok(())
}
