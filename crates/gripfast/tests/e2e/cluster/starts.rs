use anyhow::{Result, ensure};
use grip_testkit::{Author, LocalProject, Node, PostgresServer, S3Server};

use super::scene::Cluster;
use crate::BINARY;

/// What a cluster cannot be is refused at the start, with a sentence that says what to do.
#[tokio::test]
async fn impossible_combinations_are_refused() -> Result<()> {
    let postgres = ("DATABASE_URL", "postgres://nobody@127.0.0.1:1/nowhere");
    let member = Author::new().npub();
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[], "set database_url to a Postgres server"),
        (
            &[postgres, ("GRIPFAST_GRASP06_ENABLE", "true")],
            "contributor repositories are not replicated",
        ),
        (
            &[
                postgres,
                ("NGIT_PRIVATE_MODE", "true"),
                ("NGIT_PRIVATE_MEMBERS", &member),
            ],
            "nodes that follow ask for no proof",
        ),
        (
            &[postgres, ("NGIT_BIND_ADDRESS", "0.0.0.0:7334")],
            "other nodes of the cluster reach this one at it",
        ),
        (
            &[postgres, ("GRIPFAST_CLUSTER_LEASE", "10ms")],
            "is shorter than a second",
        ),
    ];
    for (env, sentence) in cases {
        let mut node = Node::prepare(BINARY, env)?;
        node.set_env("GRIPFAST_CLUSTER_PACKS", "/nowhere");
        node.spawn()?;
        ensure!(!node.wait().await?.success());
        ensure!(node.log().contains(sentence), "{}", node.log());
    }
    Ok(())
}

/// A data directory with something of its own is not mixed with what the cluster has.
#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_of_a_single_node_is_refused() -> Result<()> {
    let mut cluster = Cluster::start(1).await?;
    let mut single = Node::start(BINARY).await?;
    LocalProject::new("x")?.publish(&single, 60).await?;
    ensure!(single.stop().await?.success());
    let joining = cluster.prepare()?;
    let copied = joining.data_dir();
    std::fs::create_dir_all(&copied)?;
    std::fs::rename(single.data_dir().join("git"), copied.join("git"))?;
    joining.spawn()?;
    ensure!(!joining.wait().await?.success());
    let log = joining.log();
    ensure!(
        log.contains("start a node of a cluster with an empty data directory"),
        "{log}"
    );
    Ok(())
}

/// What a node alone changes in a copy of a cluster would be in no log.
#[tokio::test]
async fn a_copy_of_a_cluster_is_not_served_alone() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[])?;
    std::fs::create_dir_all(node.data_dir())?;
    let position = r#"{"cluster":"gripfast","seq":7}"#;
    std::fs::write(node.data_dir().join("cluster.json"), position)?;
    node.spawn()?;
    ensure!(!node.wait().await?.success());
    ensure!(
        node.log().contains("start it with cluster_packs"),
        "{}",
        node.log()
    );
    Ok(())
}

/// A node does not start on an object store that loses a race of create-only puts, and says why.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_that_overwrites_is_refused() -> Result<()> {
    let server = PostgresServer::start().await?;
    let s3 = S3Server::start().await?;
    let mut node = Node::prepare(BINARY, &[])?;
    node.set_env("DATABASE_URL", &server.url());
    node.set_env("GRIPFAST_CLUSTER_PACKS", &s3.place());
    for (name, value) in s3.env() {
        node.set_env(name, &value);
    }
    node.set_env("AWS_ENDPOINT_URL", &s3.bare_endpoint());
    node.spawn()?;
    ensure!(!node.wait().await?.success());
    let log = node.log();
    ensure!(log.contains("one overwrote the other"), "{log}");
    Ok(())
}
