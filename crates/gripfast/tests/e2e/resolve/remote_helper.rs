//! `git clone grip://<npub>/<identifier>` with stock git and hosts that fail it.

use std::{
    env,
    net::TcpListener,
    os::unix::fs::symlink,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    LocalProject, Node, WorkTree, git,
    remote::{Behaviour, RemoteHost},
    wire, within,
};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

use crate::{
    BINARY,
    resolve::net::{self, Repo},
};

/// Two nodes, of which the one that resolves is left. The other one, which served a repository that
/// names `urls` as well, is dead.
async fn served(tree: WorkTree, urls: &[String]) -> Result<(Vec<Node>, Repo)> {
    let repo = Repo(LocalProject::with_tree("x", tree)?);
    let mut nodes = net::start(2).await?;
    let mut relay = nodes[0].connect().await?;
    relay
        .publish_ok(&repo.0.announcement_at(&[&nodes[0]], urls, 20))
        .await?;
    relay.publish(&repo.0.state(20)).await?;
    repo.0.push(&nodes[0]).await?;
    let id = repo.id(&nodes[0]).await?;
    repo.is_found(&nodes[1], &id).await?;
    nodes[0].kill();
    Ok((nodes, repo))
}

/// The command that clones by name into `clone` below a directory.
fn clone_command(
    directory: &TempDir,
    node: &Node,
    repo: &Repo,
    setting: &str,
) -> Result<tokio::process::Command> {
    symlink(BINARY, directory.path().join("git-remote-grip"))?;
    let path = env::var("PATH").context("no PATH")?;
    let path = format!("{}:{path}", directory.path().display());
    let node = format!("grip.node={}", node.http_url());
    let url = format!("grip://{}/x", repo.0.project.owner.npub());
    let clone = git::command(
        directory.path(),
        ["-c", &node, "-c", setting, "clone", "-q", &url, "clone"],
    );
    let mut clone = tokio::process::Command::from(clone);
    clone.env("PATH", path);
    Ok(clone)
}

/// Clones by name into `clone` below a new directory, and returns what the person was told.
async fn clone(node: &Node, repo: &Repo, setting: &str) -> Result<(TempDir, String)> {
    let directory = TempDir::new()?;
    let cloned = clone_command(&directory, node, repo, setting)?
        .output()
        .await?;
    let told = String::from_utf8_lossy(&cloned.stderr).into_owned();
    ensure!(cloned.status.success(), "{told}");
    Ok((directory, told))
}

/// The clone has the signed state, and all that belongs to it.
async fn is_complete(directory: &TempDir, repo: &Repo) -> Result<()> {
    let clone = directory.path().join("clone");
    let head = git::run(&clone, ["rev-parse", "HEAD"]).await?.text()?;
    ensure!(head.trim() == repo.0.tip, "{head}");
    git::run(&clone, ["fsck", "--full", "--strict"])
        .await?
        .text()?;
    Ok(())
}

#[tokio::test]
async fn a_clone_by_name_goes_on_until_a_provider_has_what_was_signed() -> Result<()> {
    let tree = WorkTree::with_commit()?;
    // They are tried in the order of their addresses: a node that is dead, then these.
    let stale = RemoteHost::start("127.0.0.2").await?;
    let mut urls = vec![stale.host(&tree, "x.git")?];
    let mut hosts = vec![stale];
    tree.commit_noise(4, 1)?;
    // A well-formed pack of somebody else's history, whatever was asked for.
    let other = WorkTree::init()?;
    let foreign = other.commit("else", "entirely")?;
    let lie = wire::pack(&other, &foreign, None).await?;
    for (address, behaviour) in [
        ("127.0.0.3", Behaviour::CloseAfter { bytes: 1 << 20 }),
        ("127.0.0.4", Behaviour::Page),
        ("127.0.0.5", Behaviour::Pack(lie.into())),
        ("127.0.0.6", Behaviour::Serve),
    ] {
        let host = RemoteHost::start(address).await?;
        urls.push(host.host(&tree, "x.git")?);
        host.behave(behaviour);
        hosts.push(host);
    }
    let (nodes, repo) = served(tree, &urls).await?;

    let (directory, told) = clone(&nodes[1], &repo, "gc.auto=0").await?;
    is_complete(&directory, &repo).await?;
    // Each of them was asked, in this order, and the last had it.
    for host in &hosts {
        ensure!(
            !host.requests().is_empty(),
            "{} was not asked: {told}",
            host.authority()
        );
    }
    ensure!(told.contains("127.0.0.6"), "{told}");
    // No ref leads to what the liar sent.
    let clone = directory.path().join("clone");
    let refs = git::run(&clone, ["for-each-ref", "--format=%(objectname)"])
        .await?
        .text()?;
    ensure!(!refs.contains(&foreign), "{refs}");
    Ok(())
}

#[tokio::test]
async fn a_clone_by_name_leaves_providers_that_hang() -> Result<()> {
    let tree = WorkTree::with_commit()?;
    tree.commit_noise(4, 1)?;
    // Takes connections and says nothing, not even in a TLS handshake.
    let silent = TcpListener::bind("127.0.0.2:0")?;
    let at = silent.local_addr()?;
    let mut urls = vec![format!("http://{at}/x.git")];
    let mut hosts = Vec::new();
    for (address, behaviour) in [
        ("127.0.0.3", Behaviour::HangAfter { bytes: 1 << 20 }),
        ("127.0.0.4", Behaviour::Serve),
    ] {
        let host = RemoteHost::start(address).await?;
        urls.push(host.host(&tree, "x.git")?);
        host.behave(behaviour);
        hosts.push(host);
    }
    let (nodes, repo) = served(tree, &urls).await?;

    let https = format!("url.https://{at}/.insteadOf=http://{at}/");
    let began = Instant::now();
    let (directory, told) = clone(&nodes[1], &repo, &https).await?;
    let took = began.elapsed();
    is_complete(&directory, &repo).await?;
    for url in &urls[..2] {
        let left = format!("{url} did not give");
        ensure!(told.contains(&left), "{url} was not asked: {told}");
    }
    ensure!(!hosts[0].fetches().is_empty(), "{told}");
    // Twenty seconds each; libcurl alone waits five minutes for the first.
    ensure!(took < Duration::from_secs(120), "{took:?}: {told}");
    Ok(())
}

/// A Ctrl-C, which the terminal sends to the group of the clone alone, leaves no git behind.
#[tokio::test]
async fn a_clone_by_name_that_is_stopped_asks_nobody_any_more() -> Result<()> {
    const PERSON: &str = "a-person";
    let silent = tokio::net::TcpListener::bind("127.0.0.2:0").await?;
    let urls = [format!("http://{}/x.git", silent.local_addr()?)];
    let (nodes, repo) = served(WorkTree::with_commit()?, &urls).await?;
    let directory = TempDir::new()?;
    let setting = format!("http.userAgent={PERSON}");
    let mut cloning = clone_command(&directory, &nodes[1], &repo, &setting)?
        .process_group(0)
        .spawn()?;
    // Nodes may ask this host as well.
    let mut asked = within("the host is asked by the clone", async {
        loop {
            let (mut connection, _) = silent.accept().await?;
            let mut request = [0; 4096];
            let length = connection.read(&mut request).await?;
            if String::from_utf8_lossy(&request[..length]).contains(PERSON) {
                return anyhow::Ok(connection);
            }
        }
    })
    .await??;
    let group = cloning.id().and_then(|id| Pid::from_raw(id as i32));
    kill_process_group(group.context("a clone at work")?, Signal::INT)?;
    let ended = within("the clone ends", cloning.wait()).await??;
    ensure!(!ended.success());
    let rest = within("nobody asks any more", asked.read(&mut [0; 1])).await?;
    ensure!(matches!(rest, Ok(0) | Err(_)), "{rest:?}");
    Ok(())
}
