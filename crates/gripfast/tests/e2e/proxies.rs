//! The shipped configurations of reverse proxies, in front of a node.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    LocalProject, NGINX_PATIENCE, Node, ProxyServer, RelayClient, WorkTree, git, http::Connection,
    until_ok, wire,
};
use rustix::process::Signal;
use serde_json::json;

use crate::BINARY;

pub const NGINX: &str = include_str!("../../../../packaging/nginx.conf");
const CADDY: &str = include_str!("../../../../packaging/Caddyfile");

/// The proxy alone is trusted, so that other addresses of this machine are clients.
const SETTINGS: &[(&str, &str)] = &[
    ("GRIPFAST_TRUSTED_PROXY_CIDRS", "127.0.0.1/32"),
    ("GRIPFAST_HTTP_REQUESTS_PER_SECOND", "5"),
];
/// Above what proxies take by default, and what they buffer.
const PACK_MIB: u64 = 50;
/// Longer than a proxy waits that was not told to.
const SILENCE: Duration = NGINX_PATIENCE.saturating_add(Duration::from_secs(1));

#[tokio::test]
async fn a_node_behind_nginx_is_a_whole_node() -> Result<()> {
    let node = Node::start_with(BINARY, SETTINGS).await?;
    let proxy = ProxyServer::nginx(NGINX, &node).await?;
    a_whole_node(&node, &proxy).await.context(proxy.log())?;

    let tls = proxy.tls_port().context("nginx speaks TLS")?;
    let project = LocalProject::new("encrypted")?;
    project.publish(&node, 0).await?;
    let url = format!("https://127.0.0.1:{tls}{}", project.path());
    let asked = [
        "-c",
        "http.sslVerify=false",
        "ls-remote",
        &url,
        "refs/heads/main",
    ];
    let listed = git::run(project.tree.path(), asked).await?.text()?;
    ensure!(listed.starts_with(&project.tip), "{listed}");
    Ok(())
}

#[tokio::test]
async fn a_node_behind_caddy_is_a_whole_node() -> Result<()> {
    let node = Node::start_with(BINARY, SETTINGS).await?;
    let proxy = ProxyServer::caddy(CADDY, &node).await?;
    a_whole_node(&node, &proxy).await.context(proxy.log())
}

async fn a_whole_node(node: &Node, proxy: &ProxyServer) -> Result<()> {
    // The relay: an announcement and a state, while a subscription stays open.
    let mut listener = RelayClient::connect(&format!("ws://127.0.0.1:{}/", proxy.port())).await?;
    let sub = listener.subscribe(&[json!({"kinds": [30618]})]).await?;
    listener.stored(&sub).await?;
    let tree = WorkTree::init()?;
    tree.commit_noise(PACK_MIB, 10)?;
    let project = LocalProject::with_tree("behind-a-proxy", tree)?;
    let mut relay = RelayClient::connect(&format!("ws://127.0.0.1:{}/", proxy.port())).await?;
    relay
        .publish_ok(&project.announcement(&[node], &[]))
        .await?;
    let state = project.state(0);
    relay.publish_ok(&state).await?;

    // A large push, the event that follows it, and a clone of it.
    let url = format!("http://127.0.0.1:{}{}", proxy.port(), project.path());
    project.tree.push_ok(&url, &["main"]).await?;
    let served = listener.live(&sub).await?;
    ensure!(served.id == state.id, "the state is told to who listens");
    let copy = WorkTree::clone(&url, &[]).await?;
    ensure!(copy.tip("HEAD")? == project.tip);
    a_fetch_outlasts_silence(node, proxy, &project).await?;
    // Connections of the relay have been silent as long.
    let issues = listener.subscribe(&[json!({"kinds": [1621]})]).await?;
    listener.stored(&issues).await?;
    let issue = project
        .owner
        .issue(&project.owner, &project.identifier, "hm");
    relay.publish_ok(&issue).await?;
    ensure!(listener.live(&issues).await?.id == issue.id);

    // Figures are for the operator.
    let mut client = Connection::open_from(Ipv4Addr::new(127, 0, 0, 3), proxy.port()).await?;
    ensure!(client.get("/metrics").await?.status == 404);

    // The node counts clients by their own addresses, not by the proxy's.
    let flood = Ipv4Addr::new(127, 0, 0, 2);
    until_ok("one client has used up its rate", || async {
        let mut client = Connection::open_from(flood, proxy.port()).await?;
        let status = client.get("/api/v1/sync").await?.status;
        Ok((status == 429).then_some(()))
    })
    .await?;
    let mut other = Connection::open_from(Ipv4Addr::new(127, 0, 0, 4), proxy.port()).await?;
    ensure!(other.get("/api/v1/sync").await?.status == 200);
    Ok(())
}

/// A fetch in whose middle nothing comes for a while, as when the disk of the node is slow.
async fn a_fetch_outlasts_silence(
    node: &Node,
    proxy: &ProxyServer,
    project: &LocalProject,
) -> Result<()> {
    let mut connection = Connection::open(proxy.port()).await?;
    let request = wire::fetch_request(&project.path(), &project.tip, []);
    connection.send(&request).await?;
    connection.begun().await?;
    node.signal(Signal::STOP)?;
    let silence = async {
        // Not a wait for something to happen: the silence is the experiment.
        tokio::time::sleep(SILENCE).await;
        node.signal(Signal::CONT)
    };
    let (fetched, woken) = tokio::join!(connection.response(), silence);
    woken?;
    let fetched = fetched.context("a long fetch is not cut")?;
    ensure!(fetched.status == 200, "{}", fetched.status);
    ensure!(fetched.body.len() as u64 > PACK_MIB << 20);
    // The flush that ends it.
    ensure!(fetched.body.ends_with(b"0000"));
    Ok(())
}
