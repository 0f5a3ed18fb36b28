//! Private services (GRASP-08): members with plain git, a stranger, and other services.

mod bunker;
mod sockets;

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, GitOutput, Node, RelayClient, RemoteHost, WorkTree,
    damage::{DAMAGE, Files, Repair},
    events::tag,
    git,
    remote::Behaviour,
    until, until_ok,
};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::BINARY;

const MAIN: &str = "refs/heads/main";

/// Settings under which services on this machine reach each other.
const NEAR: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_BASE_BACKOFF_SECS", "1"),
    ("NGIT_SYNC_MAX_BACKOFF_SECS", "1"),
    ("NGIT_SYNC_IMMEDIATE_DELAY_MS", "1"),
    ("NGIT_LOG_LEVEL", "info,grip_follow=debug,grip_sync=debug"),
    ("GRIPFAST_SYNC_DOMAIN_RATE_LIMIT", "6000"),
    ("GRIPFAST_SYNC_DOMAIN_CONCURRENT", "50"),
];

/// Somebody with a key in a file, and git set up with the credential helper.
struct Person {
    author: Author,
    home: TempDir,
}

impl Person {
    fn new() -> Result<Self> {
        let (author, home) = (Author::new(), TempDir::new()?);
        let file = home.path().join("key");
        fs::write(&file, author.keys.secret_key().to_secret_hex())?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        Ok(Self { author, home })
    }

    /// Runs git as this person would after following `gripfast credential --help`.
    async fn git(&self, directory: &Path, args: &[&str]) -> Result<GitOutput> {
        self.git_with("--key-file", &self.home.path().join("key"), directory, args)
            .await
    }

    /// The same with another way to the key.
    async fn git_with(
        &self,
        option: &str,
        file: &Path,
        directory: &Path,
        args: &[&str],
    ) -> Result<GitOutput> {
        let helper = format!(
            "credential.helper=!'{BINARY}' credential {option} '{}'",
            file.display()
        );
        let set_up = ["-c", &helper, "-c", "credential.useHttpPath=true"];
        git::run(directory, [&set_up, args].concat()).await
    }

    /// Clones into `name` of the home directory.
    async fn clone_into(&self, url: &str, name: &str) -> Result<GitOutput> {
        self.git(self.home.path(), &["clone", "-q", url, name])
            .await
    }

    async fn relay(&self, node: &Node) -> Result<RelayClient> {
        let mut relay = node.connect().await?;
        let answer = relay.log_in(&self.author, &node.relay_url()).await?;
        ensure!(answer.accepted, "{}", answer.message);
        Ok(relay)
    }
}

/// Writes the configuration of a private node with these members.
fn configure(node: &Node, members: &[&Person]) -> Result<()> {
    let npubs = members.iter().map(|it| format!("{:?}", it.author.npub()));
    let npubs = npubs.collect::<Vec<_>>().join(", ");
    let text = format!("private_mode = true\nprivate_members = [{npubs}]\n");
    Ok(fs::write(node.work_dir().join("gripfast.toml"), text)?)
}

async fn private_node(members: &[&Person]) -> Result<Node> {
    let mut node = Node::prepare(BINARY, NEAR)?;
    configure(&node, members)?;
    node.launch().await?;
    Ok(node)
}

/// An announcement of `tides` at all of `nodes`.
fn announcement(owner: &Author, maintainer: &Author, nodes: &[&Node]) -> nostr::prelude::Event {
    let clone = nodes
        .iter()
        .map(|it| owner.clone_url(&it.authority(), "tides"));
    let relays = nodes.iter().map(|node| node.relay_url());
    let tags = vec![
        tag(["d", "tides"]),
        tag(["clone".to_owned()].into_iter().chain(clone)),
        tag(["relays".to_owned()].into_iter().chain(relays)),
        tag(["maintainers", &maintainer.hex()]),
    ];
    owner.sign(30617, "", tags)
}

/// G08-4 … G08-12, G08-6
#[tokio::test]
async fn two_members_work_with_plain_git_and_a_stranger_gets_nothing() -> Result<()> {
    let (ada, bob, eve) = (Person::new()?, Person::new()?, Person::new()?);
    let node = private_node(&[&ada, &bob]).await?;
    let url = ada.author.clone_url(&node.authority(), "tides");
    // Ada announces and pushes.
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let mut relay = ada.relay(&node).await?;
    let announced = announcement(&ada.author, &bob.author, &[&node]);
    ensure!(relay.publish(&announced).await?.is_held());
    let state = ada.author.state("tides", &[(MAIN, &tip)], Some(MAIN));
    relay.publish_ok(&state).await?;
    let pushed = ada.git(tree.path(), &["push", &url, MAIN]).await?;
    ensure!(
        pushed.ok && pushed.stderr.contains("announced to all members now"),
        "{pushed:?}"
    );
    // Bob clones, commits and pushes.
    bob.clone_into(&url, "tides").await?.text()?;
    let clone = bob.home.path().join("tides");
    fs::write(clone.join("ebb"), "and flow")?;
    for args in [&["add", "-A"][..], &["commit", "-q", "-m", "ebb"]] {
        bob.git(&clone, args).await?.text()?;
    }
    let tip = bob.git(&clone, &["rev-parse", "HEAD"]).await?.text()?;
    let mut bobs = bob.relay(&node).await?;
    // By his own word he accepts what ada's announcement offers (G01-74).
    bobs.publish_ok(&announcement(&bob.author, &ada.author, &[]))
        .await?;
    let at = nostr::prelude::Timestamp::now() + 1_u64;
    let state = bob
        .author
        .state_at("tides", &[(MAIN, &tip)], Some(MAIN), at);
    bobs.publish_ok(&state).await?;
    bob.git(&clone, &["push", "-q", &url, MAIN]).await?.text()?;
    // Ada fetches what he pushed.
    ada.git(tree.path(), &["fetch", "-q", &url, MAIN])
        .await?
        .text()?;
    ensure!(tree.tip("FETCH_HEAD")? == tip);
    // A stranger gets nothing, with his key or without one, there or not there.
    for url in [&url, &url.replace("tides", "nothing")] {
        let refused = eve.clone_into(url, "stolen").await?;
        ensure!(!refused.ok, "{refused:?}");
        ensure!(
            refused.stderr.contains("Authentication failed"),
            "{refused:?}"
        );
        ensure!(git::ls_remote(url).await.is_err());
    }
    let refused = eve
        .git(tree.path(), &["push", &url, "HEAD:refs/heads/eve"])
        .await?;
    ensure!(!refused.ok, "{refused:?}");
    let mut stranger = node.connect().await?;
    let answer = stranger.log_in(&eve.author, &node.relay_url()).await?;
    ensure!(!answer.accepted);
    // Bob is struck off while he is connected.
    configure(&node, &[&ada])?;
    node.signal(Signal::HUP)?;
    until_ok("his connection ends", async || {
        Ok(bobs.next().await?.is_none().then_some(()))
    })
    .await?;
    ensure!(!bob.clone_into(&url, "again").await?.ok);
    ada.clone_into(&url, "again").await?.text()?;
    ensure!(relay.serves(&state.id).await?, "what he did stays");
    // The service says who it is (E-6, E-7).
    let names = node.json("/.well-known/nostr.json").await?;
    let accept = [("accept", "application/nostr+json")];
    let about = node.ask("GET", "/", &accept, b"").await?.json()?;
    ensure!(names["names"]["_"].is_string() && names["names"]["_"] == about["pubkey"]);
    // The operator's commands work on the machine.
    ensure!(node.run(&["purgatory", "ls"]).await.is_ok());
    Ok(())
}

/// G08-13, G08-15, G08-16: they find each other by an announcement alone.
#[tokio::test]
async fn two_private_services_follow_each_other() -> Result<()> {
    let ada = Person::new()?;
    let (a, b) = (private_node(&[&ada]).await?, private_node(&[&ada]).await?);
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let announced = announcement(&ada.author, &ada.author, &[&a, &b]);
    let state = ada.author.state("tides", &[(MAIN, &tip)], Some(MAIN));
    for node in [&a, &b] {
        ada.relay(node).await?.publish_ok(&announced).await?;
    }
    ada.relay(&a).await?.publish_ok(&state).await?;
    let [at_a, at_b] = [&a, &b].map(|node| ada.author.clone_url(&node.authority(), "tides"));
    ada.git(tree.path(), &["push", &at_a, MAIN]).await?.text()?;
    let mut relay = ada.relay(&b).await?;
    until_ok("the other serves it too", async || {
        Ok(relay.serves(&state.id).await?.then_some(()))
    })
    .await
    .with_context(|| format!("a:\n{}\nb:\n{}", a.log(), b.log()))?;
    let refs = ada
        .git(tree.path(), &["ls-remote", &at_b, MAIN])
        .await?
        .text()?;
    ensure!(refs.starts_with(&tip), "{refs}");
    Ok(())
}

/// G08-18
#[tokio::test]
async fn a_public_service_never_dials_a_private_one() -> Result<()> {
    let ada = Person::new()?;
    let private = private_node(&[&ada]).await?;
    let bootstrap = private.relay_url();
    let mut env = NEAR.to_vec();
    env.push(("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &bootstrap));
    let public = Node::start_with(BINARY, &env).await?;
    let status = until("it has looked", || async {
        let status = public.json("/api/v1/sync").await.ok()?;
        let relay = status["relays"].as_array()?.first()?.clone();
        relay["last_error"].is_string().then_some(relay)
    })
    .await?;
    let why = status["last_error"].as_str().unwrap_or_default();
    ensure!(why.contains("GRASP-08"), "{status}");
    ensure!(requests(&private, "root", "1xx").await? == 0);
    let found = json!({"kinds": [30617]});
    ensure!(public.connect().await?.query(&[found]).await?.is_empty());
    // A member's connection is counted where the other's would have been.
    ada.relay(&private).await?;
    until_ok("it is counted", async || {
        Ok((requests(&private, "root", "1xx").await? == 1).then_some(()))
    })
    .await
}

/// G08-18: nor for git, which an announcement names beside the relay; over a restart too.
#[tokio::test]
async fn a_public_service_asks_no_private_one_for_git() -> Result<()> {
    let ada = Person::new()?;
    let private = private_node(&[&ada]).await?;
    let mut public = Node::start_with(BINARY, NEAR).await?;
    let tip = WorkTree::with_commit()?.tip("HEAD")?;
    let mut relay = public.connect().await?;
    let announced = announcement(&ada.author, &ada.author, &[&public, &private]);
    relay.publish_ok(&announced).await?;
    let state = ada.author.state("tides", &[(MAIN, &tip)], Some(MAIN));
    relay.publish_ok(&state).await?;
    until("it has looked at the relay", || async {
        let status = public.json("/api/v1/sync").await.ok()?;
        let relay = status["relays"].as_array()?.first()?.clone();
        let why = relay["last_error"].as_str()?;
        why.contains("GRASP-08").then_some(())
    })
    .await?;
    let url = ada.author.clone_url(&private.authority(), "tides");
    for _ in 0..2 {
        until("the relay is remembered", || async {
            let status = public.json("/api/v1/sync").await.ok()?;
            (!status["relays"].as_array()?.is_empty()).then_some(())
        })
        .await?;
        public.run(&["sync", "now", "tides"]).await?;
        until("it has looked for the data", || async {
            let status = public.json("/api/v1/sync").await.ok()?;
            let mut tried = status["tried"].as_array()?.iter();
            tried.any(|it| it["url"] == url.as_str()).then_some(())
        })
        .await?;
        ensure!(git_requests(&private).await? == 0, "{}", public.log());
        public.crash_and_restart().await?;
    }
    // Others are counted.
    ensure!(git::ls_remote(&url).await.is_err());
    until_ok("it is counted", async || {
        Ok((git_requests(&private).await? > 0).then_some(()))
    })
    .await
}

/// G08-18: who a host is, is read before it is asked for git, also where no relay of it is named, where
/// the path is not that of the service, and where a redirect leads to it.
#[tokio::test]
async fn a_public_service_finds_out_who_a_host_is_before_it_asks_it_for_git() -> Result<()> {
    let ada = Person::new()?;
    let private = private_node(&[&ada]).await?;
    let redirecting = RemoteHost::start("127.0.0.2").await?;
    let env = [NEAR, &[("NGIT_SYNC_DEFAULT_DELAY_SECS", "0")]].concat();
    let public = Node::start_with(BINARY, &env).await?;
    let to = ada.author.clone_url(&private.authority(), "tides");
    redirecting.behave(Behaviour::Redirect {
        status: 307,
        to: to.clone(),
    });
    let below = to.replacen("/npub1", "/elsewhere/npub1", 1);
    let spelled = to.replacen("/npub1", "/%6Epub1", 1);
    let tip = WorkTree::with_commit()?.tip("HEAD")?;
    let mut relay = public.connect().await?;
    for (n, url) in [&redirecting.clone_url("x.git"), &to, &below, &spelled]
        .into_iter()
        .enumerate()
    {
        let identifier = format!("tides{n}");
        let own = ada.author.clone_url(&public.authority(), &identifier);
        let tags = vec![
            tag(["d", &identifier]),
            tag(["clone", &own, url]),
            tag(["relays", &public.relay_url()]),
        ];
        relay.publish_ok(&ada.author.sign(30617, "", tags)).await?;
        let state = ada.author.state(&identifier, &[(MAIN, &tip)], Some(MAIN));
        relay.publish_ok(&state).await?;
        let outcome = until("it has looked for the data", || async {
            let status = public.json("/api/v1/sync").await.ok()?;
            let mut tried = status["tried"].as_array()?.iter();
            let tried = tried.find(|it| it["url"] == url.as_str())?;
            tried["outcome"].as_str().map(str::to_owned)
        })
        .await?;
        ensure!(outcome.contains("GRASP-08"), "{url}: {outcome}");
        ensure!(git_requests(&private).await? == 0, "{}", public.log());
    }
    ensure!(redirecting.count() > 0);
    ensure!(git::ls_remote(&to).await.is_err());
    until_ok("others are counted", async || {
        Ok((git_requests(&private).await? > 0).then_some(()))
    })
    .await
}

/// Requests of git that a private service has refused.
async fn git_requests(node: &Node) -> Result<u64> {
    let refs = requests(node, "info-refs", "4xx").await?;
    Ok(refs + requests(node, "upload-pack", "4xx").await?)
}

/// G08-3: readiness is public, and names a damaged repository to the operator alone.
#[tokio::test]
async fn a_stranger_is_not_told_which_repository_is_damaged() -> Result<()> {
    let ada = Person::new()?;
    let mut node = private_node(&[&ada]).await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let announced = announcement(&ada.author, &ada.author, &[&node]);
    let state = ada.author.state("tides", &[(MAIN, &tip)], Some(MAIN));
    let mut relay = ada.relay(&node).await?;
    relay.publish_ok(&announced).await?;
    relay.publish_ok(&state).await?;
    let url = ada.author.clone_url(&node.authority(), "tides");
    ada.git(tree.path(), &["push", &url, MAIN]).await?.text()?;
    node.stop().await?;
    let mut kinds = DAMAGE.iter().filter(|kind| kind.shows_at_start);
    let damage = kinds.find(|kind| kind.repair == Repair::ByFetch);
    let files = Files::new(&node.data_dir(), &ada.author.npub(), "tides");
    damage.context("there is one")?.harm(&files)?;
    node.launch().await?;
    let told = node.admin_get("/readyz").await?;
    told.must_be(200, &["damaged", &ada.author.npub(), "tides"]);
    let told = node.get("/readyz").await?;
    told.must_be(200, &["ready"]);
    for name in ["damaged", "npub1", "tides"] {
        ensure!(!told.contains(name), "{told:?}");
    }
    Ok(())
}

/// Requests for a route that were answered with a class of status, as the node counts them.
async fn requests(node: &Node, route: &str, status: &str) -> Result<u64> {
    let metrics = node.admin_get("/metrics").await?.text();
    let labels = format!("{{route=\"{route}\",status=\"{status}\"}} ");
    let mut counts = metrics.lines().filter_map(|line| {
        let (name, count) = line.split_once(&labels)?;
        name.ends_with("requests_total").then_some(count)
    });
    Ok(counts.next().unwrap_or("0").parse()?)
}
