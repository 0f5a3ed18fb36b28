//! Paths, headers and bodies that are attacks.

use std::io::Write as _;

use anyhow::{Result, ensure};
use grip_testkit::{git, wire};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::hostile::scene::Scene;

#[tokio::test]
async fn paths_that_climb_or_lie_are_not_found() -> Result<()> {
    let mut scene = Scene::new().await?;
    let npub = scene.owner.npub();
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
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = scene.send(request.as_bytes()).await?;
        let status = &answer[9..12];
        ensure!(
            ["400", "403", "404", "414"].contains(&status),
            "{path}: {answer}"
        );
        ensure!(!answer.contains("root:"), "{path}");
        ensure!(
            answer
                .to_lowercase()
                .contains("access-control-allow-origin: *"),
            "{path}"
        );
    }
    let tip = scene.tree.tip("HEAD")?;
    scene.goes_on(&tip).await
}

#[tokio::test]
async fn symlinks_in_the_data_directory_are_not_followed() -> Result<()> {
    let mut scene = Scene::new().await?;
    let outside = tempfile::tempdir()?;
    git::run(outside.path(), ["init", "-q", "--bare"])
        .await?
        .text()?;
    let root = scene.node.data_dir().join("git");
    let link = root.join(scene.owner.npub()).join("linked.git");
    std::os::unix::fs::symlink(outside.path(), link)?;
    let announcement = scene
        .owner
        .announcement(&scene.node.authority(), "linked", vec![]);
    let answer = scene.relay.publish(&announcement).await?;
    ensure!(
        !answer.accepted,
        "a repository must not be made out of a symlink: {answer:?}"
    );
    let url = scene.owner.clone_url(&scene.node.authority(), "linked");
    ensure!(git::ls_remote(&url).await.is_err());
    let tip = scene.tree.tip("HEAD")?;
    scene.goes_on(&tip).await
}

fn gzip(data: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(data)?;
    Ok(encoder.finish()?)
}

#[tokio::test]
async fn gzip_bombs_are_refused_and_honest_gzip_is_read() -> Result<()> {
    let mut scene = Scene::new().await?;
    let tip = scene.tree.tip("HEAD")?;
    let path = format!("{}/git-upload-pack", scene.path());
    let headers = "Content-Encoding: gzip\r\nGit-Protocol: version=2\r\n";
    let mut honest = wire::packet(b"command=ls-refs\n");
    honest.extend(b"00010000");
    let answer = scene
        .send(&wire::post(
            &path,
            wire::FETCH_TYPE,
            headers,
            &gzip(&honest)?,
        ))
        .await?;
    ensure!(
        answer.starts_with("HTTP/1.1 200") && answer.contains(&tip),
        "{answer}"
    );
    // One GiB of zeros in about one MB.
    let mut bomb = Vec::new();
    let mut encoder = flate2::write::GzEncoder::new(&mut bomb, flate2::Compression::best());
    encoder.write_all(&wire::packet(b"command=fetch\n"))?;
    let zeros = vec![b'0'; 1 << 20];
    for _ in 0..1024 {
        encoder.write_all(&zeros)?;
    }
    encoder.finish()?;
    let before = scene.node.peak_rss_bytes()?;
    // The server may close before all of it is sent; then there is no answer to read.
    let _ = scene
        .send(&wire::post(&path, wire::FETCH_TYPE, headers, &bomb))
        .await;
    let after = scene.node.peak_rss_bytes()?;
    ensure!(
        after < before + 96 * 1024 * 1024,
        "the bomb took memory: {before} to {after}"
    );
    let unknown = wire::post(&path, wire::FETCH_TYPE, "Content-Encoding: br\r\n", b"x");
    ensure!(scene.send(&unknown).await?.starts_with("HTTP/1.1 415"));
    scene.goes_on(&tip).await
}

#[tokio::test]
async fn headers_that_never_end_are_cut() -> Result<()> {
    let mut scene = Scene::with(&[("GRIPFAST_HEADER_TIMEOUT", "1s")]).await?;
    let mut stream = TcpStream::connect(("127.0.0.1", scene.node.port())).await?;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        .await?;
    let mut rest = Vec::new();
    let ending = stream.read_to_end(&mut rest);
    // A reset is as good an end as a close.
    let _ = grip_testkit::within("the slow client is cut", ending).await?;
    let tip = scene.tree.tip("HEAD")?;
    scene.goes_on(&tip).await
}

#[tokio::test]
async fn the_four_byte_probe_is_answered_empty() -> Result<()> {
    let scene = Scene::new().await?;
    let answer = scene.push_bytes(b"0000").await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    ensure!(
        answer.contains("application/x-git-receive-pack-result"),
        "{answer}"
    );
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    ensure!(body.is_empty() || body == "0\r\n\r\n", "{body:?}");
    Ok(())
}

#[tokio::test]
async fn many_haves_at_once_do_not_stall_the_fetch() -> Result<()> {
    let mut scene = Scene::new().await?;
    let tip = scene.tree.tip("HEAD")?;
    let path = format!("{}/git-upload-pack", scene.path());
    let mut body =
        wire::packet(format!("want {tip} multi_ack_detailed side-band-64k ofs-delta\n").as_bytes());
    body.extend(b"0000");
    for n in 0..60_000 {
        body.extend(wire::packet(format!("have {n:040x}\n").as_bytes()));
    }
    body.extend(wire::packet(b"done\n"));
    let answer = scene
        .send(&wire::post(&path, wire::FETCH_TYPE, "", &body))
        .await?;
    ensure!(
        answer.starts_with("HTTP/1.1 200"),
        "{}",
        &answer[..200.min(answer.len())]
    );
    ensure!(answer.contains("PACK"), "the pack came");
    scene.goes_on(&tip).await
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
        let answer = scene.push_bytes(body).await?;
        ensure!(!answer.starts_with("HTTP/1.1 5"), "{body:?}: {answer}");
        let path = format!("{}/git-upload-pack", scene.path());
        let answer = scene
            .send(&wire::post(&path, wire::FETCH_TYPE, "", body))
            .await?;
        ensure!(!answer.starts_with("HTTP/1.1 5"), "{body:?}: {answer}");
    }
    let tip = scene.tree.tip("HEAD")?;
    scene.goes_on(&tip).await
}

#[tokio::test]
async fn one_address_cannot_take_every_connection() -> Result<()> {
    let mut scene = Scene::with(&[
        ("GRIPFAST_MAX_CONNECTIONS_PER_IP", "20"),
        // Loopback is where proxies are trusted by default, and those are not counted.
        ("GRIPFAST_TRUSTED_PROXY_CIDRS", "192.0.2.0/24"),
    ])
    .await?;
    let mut taken = Vec::new();
    let mut served = 0;
    for _ in 0..40 {
        let mut stream = TcpStream::connect(("127.0.0.1", scene.node.port())).await?;
        // One that is turned away may be closed before the request is written or answered.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let mut start = [0; 12];
        let answered = grip_testkit::within("an answer", stream.read_exact(&mut start)).await?;
        served += usize::from(answered.is_ok() && start.ends_with(b" 200"));
        taken.push(stream);
    }
    ensure!(
        (10..=20).contains(&served),
        "{served} of 40 connections were served"
    );
    // Health is answered however busy the rest is.
    let health = scene.node.get("/healthz").await?;
    ensure!(health.starts_with("HTTP/1.1 200"), "{health}");
    drop(taken);
    let tip = scene.tree.tip("HEAD")?;
    scene.goes_on(&tip).await
}
