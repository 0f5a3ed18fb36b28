//! Pushes that no client of good will would send.

use anyhow::{Result, ensure};
use grip_testkit::{WorkTree, until, wire};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::hostile::scene::Scene;

const MAIN: &str = "refs/heads/main";

async fn push_of(scene: &Scene, old: &str, new: &str, pack: &[u8]) -> Result<String> {
    let mut body = wire::commands(&[(old, new, MAIN)], wire::CAPABILITIES);
    body.extend(pack);
    scene.push_bytes(&body).await
}

#[tokio::test]
async fn a_corrupt_pack_is_refused_and_leaves_nothing() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let mut pack = wire::pack(&scene.tree, &new, Some(&old)).await?;
    let middle = pack.len() / 2;
    pack[middle] ^= 0xff;
    let answer = push_of(&scene, &old, &new, &pack).await?;
    scene.refused(&answer, &[MAIN], "pack")?;
    scene.must_lack(&new).await?;
    scene.goes_on(&old).await
}

#[tokio::test]
async fn a_pack_that_lacks_a_linked_object_is_refused() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    // Only the commit: its tree and blob are missing.
    let pack = wire::pack_with(&scene.tree, &["--filter=tree:0"], &new, Some(&old)).await?;
    let answer = push_of(&scene, &old, &new, &pack).await?;
    scene.refused(&answer, &[MAIN], "needs object")?;
    scene.must_lack(&new).await?;
    scene.goes_on(&old).await
}

#[tokio::test]
async fn a_thin_pack_whose_base_is_missing_is_refused() -> Result<()> {
    let mut scene = Scene::new().await?;
    let old = scene.tree.tip("HEAD")?;
    // A base commit with a large file the server never gets, and a small change of that file.
    let text: String = (0..5_000).map(|n| format!("line {n}\n")).collect();
    let base = scene.tree.commit("large", &text)?;
    let new = scene
        .tree
        .commit("large", &text.replace("line 77\n", "line seventy-seven\n"))?;
    scene.publish_state(&[(MAIN, &new)]).await?;
    let pack = wire::pack_with(&scene.tree, &["--thin"], &new, Some(&base)).await?;
    let answer = push_of(&scene, &old, &new, &pack).await?;
    scene.refused(&answer, &[MAIN], "")?;
    scene.must_lack(&new).await?;
    scene.goes_on(&old).await
}

#[tokio::test]
async fn a_push_that_changes_nothing_keeps_nothing_of_its_pack() -> Result<()> {
    let mut scene = Scene::new().await?;
    let tip = scene.tree.tip("HEAD")?;
    let foreign = WorkTree::with_commit()?;
    let planted = foreign.commit_noise(1, 1)?;
    let pack = wire::pack(&foreign, &planted, None).await?;
    let before = scene.pack_bytes()?;
    let answer = push_of(&scene, &tip, &tip, &pack).await?;
    ensure!(
        answer.contains("unpack ok") && answer.contains(&format!("ok {MAIN}")),
        "{answer}"
    );
    scene.must_lack(&planted).await?;
    ensure!(scene.pack_bytes()? == before, "bytes were kept");
    scene.goes_on(&tip).await
}

#[tokio::test]
async fn a_pack_with_more_than_its_tips_need_is_cut() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let tree = format!("{old}^{{tree}}");
    let planted = scene.tree.git(["commit-tree", &tree, "-m", "planted"])?;
    let both = format!("{new}\n{planted}");
    let pack = wire::pack(&scene.tree, &both, Some(&old)).await?;
    let answer = push_of(&scene, &old, &new, &pack).await?;
    ensure!(answer.contains("unpack ok"), "{answer}");
    scene.must_lack(&planted).await?;
    scene.goes_on(&new).await
}

#[tokio::test]
async fn a_pack_without_the_tip_is_refused() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let other = WorkTree::with_commit()?;
    let pack = wire::pack(&other, &other.commit("else", "x")?, None).await?;
    let answer = push_of(&scene, &old, &new, &pack).await?;
    scene.refused(&answer, &[MAIN], "")?;
    scene.must_lack(&other.tip("HEAD")?).await?;
    scene.goes_on(&old).await
}

#[tokio::test]
async fn objects_with_path_attacks_are_refused() -> Result<()> {
    let mut scene = Scene::new().await?;
    let old = scene.tree.tip("HEAD")?;
    // A tree with an entry called `.git`, which a careless client would check out.
    let blob = scene.tree.tip("HEAD:README.md")?;
    std::fs::write(
        scene.tree.path().join("tree.txt"),
        format!("100644 blob {blob}\t.git\n"),
    )?;
    let mktree = "git mktree < tree.txt";
    let tree = scene
        .tree
        .git(["-c", &format!("alias.evil=!{mktree}"), "evil"])?;
    let new = scene
        .tree
        .git(["commit-tree", &tree, "-p", &old, "-m", "evil"])?;
    scene.publish_state(&[(MAIN, &new)]).await?;
    let pack = wire::pack(&scene.tree, &new, Some(&old)).await?;
    let answer = push_of(&scene, &old, &new, &pack).await?;
    scene.refused(&answer, &[MAIN], "git")?;
    scene.must_lack(&new).await?;
    std::fs::remove_file(scene.tree.path().join("tree.txt"))?;
    scene.goes_on(&old).await
}

#[tokio::test]
async fn duplicated_and_contradicting_commands_are_refused() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let pack = wire::pack(&scene.tree, &new, Some(&old)).await?;
    for commands in [
        vec![
            (old.as_str(), new.as_str(), MAIN),
            (old.as_str(), new.as_str(), MAIN),
        ],
        vec![
            (old.as_str(), new.as_str(), MAIN),
            (old.as_str(), wire::ZERO, MAIN),
        ],
        vec![(wire::ZERO, wire::ZERO, MAIN)],
        vec![(old.as_str(), new.as_str(), "refs/heads/../../etc/passwd")],
        vec![(old.as_str(), new.as_str(), "HEAD")],
        vec![(new.as_str(), old.as_str(), "not-a-ref")],
    ] {
        let mut body = wire::commands(&commands, wire::CAPABILITIES);
        body.extend(&pack);
        let answer = scene.push_bytes(&body).await?;
        scene.refused(&answer, &[], "")?;
    }
    scene.must_lack(&new).await?;
    scene.goes_on(&old).await
}

#[tokio::test]
async fn a_stale_old_value_is_told_to_fetch_first() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let pack = wire::pack(&scene.tree, &new, Some(&old)).await?;
    let answer = push_of(&scene, &"ab".repeat(20), &new, &pack).await?;
    scene.refused(&answer, &[MAIN], "fetch first")?;
    scene.goes_on(&old).await
}

#[tokio::test]
async fn a_hundred_thousand_refs_in_one_push_are_answered() -> Result<()> {
    let mut scene = Scene::new().await?;
    let old = scene.tree.tip("HEAD")?;
    let names: Vec<String> = (0..100_001).map(|n| format!("refs/tags/t{n}")).collect();
    let commands: Vec<_> = names
        .iter()
        .map(|name| (wire::ZERO, old.as_str(), name.as_str()))
        .collect();
    let answer = scene
        .push_bytes(&wire::commands(&commands, wire::CAPABILITIES))
        .await?;
    ensure!(
        answer.starts_with("HTTP/1.1 200"),
        "{}",
        &answer[..200.min(answer.len())]
    );
    ensure!(
        !answer.contains("unpack ok"),
        "more refs than any state names"
    );
    scene.goes_on(&old).await
}

#[tokio::test]
async fn a_push_beyond_the_limit_is_refused_in_band() -> Result<()> {
    let mut scene = Scene::with(&[("GRIPFAST_MAX_PACK_BYTES", "50000")]).await?;
    let old = scene.tree.tip("HEAD")?;
    let mut state = 1_u64;
    let noise: String = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + (state >> 58) as u8)
    })
    .take(300_000)
    .collect();
    let new = scene.tree.commit("large", &noise)?;
    scene.publish_state(&[(MAIN, &new)]).await?;
    let pushed = scene.tree.push(&scene.url(), &["main"]).await?;
    ensure!(
        !pushed.ok && pushed.stderr.contains("50000"),
        "{}",
        pushed.stderr
    );
    scene.must_lack(&new).await?;
    scene.tree.git(["reset", "-q", "--hard", &old])?;
    scene.goes_on(&old).await
}

#[tokio::test]
async fn a_ten_gigabyte_declaration_costs_nothing() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let before = scene.node.peak_rss_bytes()?;
    let head = format!(
        "POST {}/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: {}\r\n\
         Content-Length: 10737418240\r\n\r\n",
        scene.path(),
        wire::PUSH_TYPE
    );
    let mut stream = TcpStream::connect(("127.0.0.1", scene.node.port())).await?;
    stream.write_all(head.as_bytes()).await?;
    stream
        .write_all(&wire::commands(&[(&old, &new, MAIN)], wire::CAPABILITIES))
        .await?;
    stream.write_all(b"PACK\0\0\0\x02\0\0\0\x01").await?;
    let answer = grip_testkit::within("an answer", read_some(&mut stream)).await??;
    // Either it is refused at once by its declared size, or it waits for bytes that never come.
    if !answer.is_empty() {
        scene.refused(&answer, &[MAIN], "")?;
    }
    drop(stream);
    let after = scene.node.peak_rss_bytes()?;
    ensure!(
        after < before + 64 * 1024 * 1024,
        "memory was taken for a promise: {after}"
    );
    scene.must_lack(&new).await?;
    scene.goes_on(&old).await
}

async fn read_some(stream: &mut TcpStream) -> Result<String> {
    use tokio::io::AsyncReadExt as _;
    let mut answer = vec![0; 64 * 1024];
    let reading = stream.read(&mut answer);
    let patience = std::time::Duration::from_secs(3);
    let count = tokio::time::timeout(patience, reading)
        .await
        .unwrap_or(Ok(0))?;
    Ok(String::from_utf8_lossy(&answer[..count]).into_owned())
}

#[tokio::test]
async fn a_client_that_closes_in_the_middle_leaves_nothing() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let mut body = wire::commands(&[(&old, &new, MAIN)], wire::CAPABILITIES);
    body.extend(wire::pack(&scene.tree, &new, Some(&old)).await?);
    let path = format!("{}/git-receive-pack", scene.path());
    let request = wire::post(&path, wire::PUSH_TYPE, "", &body);
    for cut in [
        request.len() - 1,
        request.len() - body.len() / 2,
        request.len() - body.len() + 30,
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", scene.node.port())).await?;
        stream.write_all(&request[..cut]).await?;
        drop(stream);
    }
    until("quarantine is empty", || {
        std::future::ready(scene.quarantined().is_empty().then_some(()))
    })
    .await?;
    scene.must_lack(&new).await?;
    scene.goes_on(&old).await
}

#[tokio::test]
async fn a_slow_body_is_cut_and_others_are_served() -> Result<()> {
    let mut scene = Scene::with(&[("GRIPFAST_STALL_TIMEOUT", "1s")]).await?;
    let (old, new) = scene.pending_commit().await?;
    let mut body = wire::commands(&[(&old, &new, MAIN)], wire::CAPABILITIES);
    body.extend(wire::pack(&scene.tree, &new, Some(&old)).await?);
    let path = format!("{}/git-receive-pack", scene.path());
    let request = wire::post(&path, wire::PUSH_TYPE, "", &body);
    let mut stream = TcpStream::connect(("127.0.0.1", scene.node.port())).await?;
    stream.write_all(&request[..request.len() - 10]).await?;
    // The server gives up by itself: the connection ends with an answer or a close.
    let mut rest = Vec::new();
    let ending = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest);
    // A reset is as good an end as a close.
    let _ = grip_testkit::within("the stalled push is cut", ending).await?;
    scene.must_lack(&new).await?;
    scene.goes_on(&old).await
}

#[tokio::test]
async fn clients_without_sideband_read_the_refusal_too() -> Result<()> {
    let mut scene = Scene::new().await?;
    let old = scene.tree.tip("HEAD")?;
    let new = scene.tree.commit("rogue", "x")?;
    let pack = wire::pack(&scene.tree, &new, Some(&old)).await?;
    let mut plain = wire::commands(&[(&old, &new, MAIN)], "report-status delete-refs");
    plain.extend(&pack);
    let answer = scene.push_bytes(&plain).await?;
    scene.refused(&answer, &[MAIN], "state")?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    ensure!(
        body.contains("unpack rejected") && !body.contains('\x02'),
        "plain packets: {body}"
    );
    let mut mute = wire::commands(&[(&old, &new, MAIN)], "");
    mute.extend(&pack);
    let answer = scene.push_bytes(&mute).await?;
    ensure!(answer.contains("ERR "), "{answer}");
    scene.must_lack(&new).await?;
    scene.tree.git(["reset", "-q", "--hard", &old])?;
    scene.goes_on(&old).await
}
