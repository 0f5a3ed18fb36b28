//! Git smart HTTP, with stock git in every protocol version.

use anyhow::Result;
use grip_testkit::{Author, WorkTree};

use crate::support::Node;

struct Hosted {
    node: Node,
    owner: Author,
    tree: WorkTree,
    url: String,
}

impl Hosted {
    async fn new() -> Result<Self> {
        let node = Node::start().await?;
        let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
        tree.commit("b.txt", "second")?;
        tree.commit("c/d.txt", "third")?;
        let url = node.host(&owner, "x", &tree).await?;
        Ok(Self {
            node,
            owner,
            tree,
            url,
        })
    }

    fn path(&self, rest: &str) -> String {
        format!("/{}/x.git{rest}", self.owner.npub())
    }
}

#[tokio::test]
async fn an_empty_held_repository_can_be_cloned_and_an_unknown_one_cannot() -> Result<()> {
    let node = Node::start().await?;
    let owner = Author::new();
    let url = node.announce(&owner, "x").await?;
    let clone = WorkTree::clone(&url, &[]).await?;
    assert!(clone.git(["rev-list", "--all"])?.is_empty());
    let unknown = url.replace("/x.git", "/y.git");
    let refused = WorkTree::init()?.run(["fetch", &unknown]).await?;
    assert!(
        !refused.ok && refused.stderr.contains("remote: No such repository"),
        "{refused:?}"
    );
    Ok(())
}

#[tokio::test]
async fn answers_have_exact_types_and_are_not_cached() -> Result<()> {
    let hosted = Hosted::new().await?;
    for service in ["git-upload-pack", "git-receive-pack"] {
        let path = hosted.path(&format!("/info/refs?x=y&service={service}&z"));
        let reply = hosted.node.get(&path).await?;
        assert_eq!(reply.status, 200);
        let expected = format!("application/x-{service}-advertisement");
        assert_eq!(reply.header("content-type"), expected);
        assert_eq!(
            reply.header("cache-control"),
            "no-cache, max-age=0, must-revalidate"
        );
        assert_eq!(reply.header("pragma"), "no-cache");
        reply.must_allow_any_origin();
        let head = hosted.node.ask("HEAD", &path, &[], b"").await?;
        assert_eq!(head.header("content-length"), reply.body.len().to_string());
        assert!(head.status == 200 && head.body.is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn wrong_requests_get_the_status_that_names_the_fault() -> Result<()> {
    let hosted = Hosted::new().await?;
    let upload = ("content-type", "application/x-git-upload-pack-request");
    let receive = ("content-type", "application/x-git-receive-pack-request");
    let gone = hosted.path("/git-upload-pack").replace("/x.git", "/y.git");
    let cases = [
        ("GET", hosted.path("/info/refs"), vec![], 403),
        (
            "GET",
            hosted.path("/info/refs?service=git-upload-archive"),
            vec![],
            403,
        ),
        ("GET", hosted.path("/HEAD"), vec![], 403),
        ("GET", hosted.path("/objects/info/packs"), vec![], 403),
        ("GET", hosted.path("/git-upload-pack"), vec![], 405),
        ("PUT", hosted.path("/git-receive-pack"), vec![], 405),
        ("POST", hosted.path("/git-upload-pack"), vec![], 415),
        ("POST", hosted.path("/git-upload-pack"), vec![receive], 415),
        ("POST", hosted.path("/git-receive-pack"), vec![upload], 415),
        (
            "POST",
            hosted.path("/git-upload-pack"),
            vec![upload, ("content-encoding", "br")],
            415,
        ),
        ("POST", gone, vec![upload], 404),
        ("GET", hosted.path("/config"), vec![], 404),
    ];
    for (method, path, headers, status) in cases {
        let reply = hosted.node.ask(method, &path, &headers, b"").await?;
        assert_eq!(reply.status, status, "{method} {path}");
        reply.must_allow_any_origin();
        assert!(reply.header("content-type").starts_with("text/plain"));
    }
    Ok(())
}

#[tokio::test]
async fn the_probe_before_a_large_push_gets_an_empty_answer() -> Result<()> {
    let hosted = Hosted::new().await?;
    let headers = [("content-type", "application/x-git-receive-pack-request")];
    let path = hosted.path("/git-receive-pack");
    let reply = hosted.node.ask("POST", &path, &headers, b"0000").await?;
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert_eq!(
        reply.header("content-type"),
        "application/x-git-receive-pack-result"
    );
    Ok(())
}

#[tokio::test]
async fn a_push_in_chunks_is_streamed_and_a_refused_one_tells_why() -> Result<()> {
    let hosted = Hosted::new().await?;
    let blob: String = (0..200_000_u64)
        .map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let tip = hosted.tree.commit("big.txt", &blob)?;
    let refused = hosted.tree.push(&hosted.url, &["main"]).await?;
    assert!(
        !refused.ok && refused.stderr.contains("remote rejected"),
        "{refused:?}"
    );
    let later = nostr::prelude::Timestamp::now() + 5_u64;
    let refs = [("refs/heads/main", tip.as_str())];
    let state = hosted.owner.state_at("x", &refs, Some(refs[0].0), later);
    hosted.node.relay().await?.publish_ok(&state).await?;
    hosted.tree.push(&hosted.url, &["main"]).await?.text()?;
    let clone = WorkTree::clone(&hosted.url, &[]).await?;
    assert_eq!(clone.tip("HEAD")?, tip);
    let metrics = hosted.node.get("/metrics").await?.text();
    for (result, count) in [("allowed", 2), ("denied", 1)] {
        let line = format!("ngit_git_push_authorization_total{{result=\"{result}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
    Ok(())
}

#[tokio::test]
async fn a_compressed_request_is_read_and_a_bomb_is_refused_in_words() -> Result<()> {
    let hosted = Hosted::new().await?;
    let headers = [
        ("content-type", "application/x-git-upload-pack-request"),
        ("content-encoding", "gzip"),
        ("git-protocol", "version=2"),
    ];
    let path = hosted.path("/git-upload-pack");
    let ls_refs = gzip(b"0014command=ls-refs\n0000");
    let listing = hosted.node.ask("POST", &path, &headers, &ls_refs).await?;
    assert!(
        listing.text().contains("refs/heads/main"),
        "{}",
        listing.text()
    );
    let mut bomb = b"0014command=ls-refs\n0001".to_vec();
    for _ in 0..3_000_000 {
        bomb.extend_from_slice(b"0009peel\n");
    }
    let reply = hosted
        .node
        .ask("POST", &path, &headers, &gzip(&bomb))
        .await?;
    reply.must_be(200, &["ERR "]);
    Ok(())
}

#[tokio::test]
async fn a_client_that_waits_for_permission_to_send_its_body_gets_it() -> Result<()> {
    let hosted = Hosted::new().await?;
    let mut connection = hosted.node.open().await?;
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\
         connection: close\r\ncontent-type: application/x-git-receive-pack-request\r\n\r\n",
        hosted.path("/git-receive-pack")
    );
    connection.send(head.as_bytes()).await?;
    connection.response().await?.must_be(100, &[]);
    connection.send(b"0000").await?;
    connection.response().await?.must_be(200, &[]);
    Ok(())
}

#[tokio::test]
async fn a_fetch_whose_client_goes_away_leaves_its_slot() -> Result<()> {
    let hosted = Hosted::new().await?;
    let mut connection = hosted.node.open().await?;
    let tip = hosted.tree.tip("HEAD")?;
    // As much as is read before it counts.
    let wants = format!("0032want {tip}\n").repeat(700);
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\
         content-type: application/x-git-upload-pack-request\r\n\r\n{wants}",
        hosted.path("/git-upload-pack")
    );
    connection.send(head.as_bytes()).await?;
    let in_flight = |count| format!("requests_in_flight{{route=\"fetch\"}} {count}\n");
    hosted.node.metrics_with(&[&in_flight(1)]).await?;
    drop(connection);
    hosted.node.metrics_with(&[&in_flight(0)]).await
}

#[tokio::test]
async fn a_fetch_that_git_ends_with_an_error_counts_as_failed() -> Result<()> {
    let hosted = Hosted::new().await?;
    let operations = |status, count| {
        let labels = format!("operation=\"fetch\",status=\"{status}\"");
        format!("ngit_git_operations_total{{{labels}}} {count}\n")
    };
    let headers = [("content-type", "application/x-git-upload-pack-request")];
    let path = hosted.path("/git-upload-pack");
    let want = |oid: &str| format!("0032want {oid}\n00000009done\n").into_bytes();
    let tip = hosted.tree.tip("HEAD")?;
    let missing = want(&"1".repeat(40));
    let answer = hosted.node.ask("POST", &path, &headers, &missing).await?;
    answer.must_be(200, &["ERR "]);
    hosted.node.metrics_with(&[&operations("error", 1)]).await?;
    let answer = hosted.node.ask("POST", &path, &headers, &want(&tip)).await;
    answer?.must_be(200, &["PACK"]);
    let counted = [&*operations("success", 1), &operations("error", 1)];
    hosted.node.metrics_with(&counted).await?;

    hosted.node.remove_packs("x")?;
    let answer = hosted.node.ask("POST", &path, &headers, &want(&tip)).await;
    anyhow::ensure!(!answer?.text().contains("PACK"));
    let counted = [&*operations("success", 1), &operations("error", 2)];
    hosted.node.metrics_with(&counted).await
}

fn gzip(data: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}
