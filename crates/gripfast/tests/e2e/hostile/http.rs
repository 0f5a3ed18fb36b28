//! Paths, headers and bodies that are attacks.

use std::io::Write as _;

use anyhow::{Result, ensure};
use grip_testkit::{Project, git, http::Connection, wire};

use crate::hostile::scene::Scene;

#[tokio::test]
async fn paths_that_climb_or_lie_are_not_found() -> Result<()> {
    let mut scene = Scene::new().await?;
    let npub = scene.project.owner.npub();
    let long = format!("npub1{}", "q".repeat(5_000));
    let info = "info/refs?service=git-upload-pack";
    for path in [
        format!("/{npub}/../../etc/passwd"),
        format!("/{npub}/%2e%2e/{info}"),
        format!("/{npub}/%2E%2e.git/{info}"),
        format!("/{npub}/..%2f..%2Ftarget.git/{info}"),
        format!("/{npub}/%00.git/{info}"),
        format!("/{npub}/target%00.git/{info}"),
        format!("/{npub}/%ff%fe.git/{info}"),
        format!("/{long}/target.git/{info}"),
        format!("/{}/target.git/{info}", npub.to_uppercase()),
        format!("/{npub}/.objects/{info}"),
        format!("/.objects/target.git/{info}"),
        format!("/.quarantine/x.git/{info}"),
        format!("/{npub}/target.git/objects/info/packs"),
        format!("/{npub}/target.git/HEAD"),
        format!("/{npub}/target.git/config"),
        format!("//{npub}//..//target.git/{info}"),
    ] {
        let response = scene.node.get(&path).await?;
        let is_refused = matches!(response.status, 400 | 403 | 404 | 414);
        ensure!(is_refused, "{path}: {response:?}");
        ensure!(!response.contains("root:"), "{path}");
        let origin = response.header("access-control-allow-origin");
        ensure!(origin == "*", "{path}");
    }
    scene.goes_on().await
}

#[tokio::test]
async fn symlinks_in_the_data_directory_are_not_followed() -> Result<()> {
    let mut scene = Scene::new().await?;
    let outside = tempfile::tempdir()?;
    git::run(outside.path(), ["init", "-q", "--bare"])
        .await?
        .text()?;
    let linked = Project {
        owner: scene.project.owner.clone(),
        identifier: "linked".into(),
    };
    std::os::unix::fs::symlink(outside.path(), linked.directory(&scene.node))?;
    let announcement = linked.announcement(&[&scene.node], &[]);
    let answer = scene.relay.publish(&announcement).await?;
    ensure!(
        !answer.accepted,
        "a repository must not be made out of a symlink: {answer:?}"
    );
    let listed = git::ls_remote(&linked.url(&scene.node)).await;
    ensure!(listed.is_err(), "{listed:?}");
    scene.goes_on().await
}

const FETCH: &str = "git-upload-pack";

/// A packet and many times the same after it, compressed.
fn gzip(packet: &[u8], rest: &[u8], times: usize) -> Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&wire::packet(packet))?;
    for _ in 0..times {
        encoder.write_all(rest)?;
    }
    Ok(encoder.finish()?)
}

#[tokio::test]
async fn gzip_bombs_are_refused_and_honest_gzip_is_read() -> Result<()> {
    let mut scene = Scene::new().await?;
    let headers = [("content-encoding", "gzip"), ("git-protocol", "version=2")];
    let honest = gzip(b"command=ls-refs\n", b"00010000", 1)?;
    let response = scene.post(FETCH, &headers, &honest).await?;
    response.must_be(200, &[&scene.project.tip]);
    // 256 MiB of zeros in about 256 kB: far more than it may take.
    let bomb = gzip(b"command=fetch\n", &[b'0'; 1 << 20], 256)?;
    let before = scene.node.peak_rss_bytes()?;
    // The server may close before all of it is sent; then there is no answer to read.
    let _ = scene.post(FETCH, &headers, &bomb).await;
    let after = scene.node.peak_rss_bytes()?;
    ensure!(
        after < before + 96 * 1024 * 1024,
        "the bomb took memory: {before} to {after}"
    );
    let unknown = scene.post(FETCH, &[("content-encoding", "br")], b"x");
    unknown.await?.must_be(415, &[]);
    scene.goes_on().await
}

#[tokio::test]
async fn headers_that_never_end_are_cut() -> Result<()> {
    let mut scene = Scene::with(&[("GRIPFAST_HEADER_TIMEOUT", "1s")]).await?;
    let mut connection = Connection::open(scene.node.port()).await?;
    let start = b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ";
    connection.send(start).await?;
    connection.closed().await?;
    scene.goes_on().await
}

#[tokio::test]
async fn many_haves_at_once_do_not_stall_the_fetch() -> Result<()> {
    let mut scene = Scene::new().await?;
    let tip = scene.project.tip.clone();
    let mut body =
        wire::packet(format!("want {tip} multi_ack_detailed side-band-64k ofs-delta\n").as_bytes());
    body.extend(b"0000");
    for n in 0..60_000 {
        body.extend(wire::packet(format!("have {n:040x}\n").as_bytes()));
    }
    body.extend(wire::packet(b"done\n"));
    let response = scene.post(FETCH, &[], &body).await?;
    ensure!(response.status == 200 && response.contains("PACK"));
    scene.goes_on().await
}

#[tokio::test]
async fn garbage_where_packets_are_due_is_refused() -> Result<()> {
    let mut scene = Scene::new().await?;
    for body in [
        &b"zzzz"[..],
        b"0003",
        b"fff",
        b"0005",
        b"\xff\xff\xff\xff",
        b"",
    ] {
        for service in [FETCH, "git-receive-pack"] {
            let response = scene.post(service, &[], body).await?;
            ensure!(response.status < 500, "{body:?}: {response:?}");
        }
    }
    scene.goes_on().await
}
