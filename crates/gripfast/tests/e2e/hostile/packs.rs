//! Pushes that no client of good will would send.

use std::time::Duration;

use anyhow::{Result, ensure};
use grip_testkit::{WorkTree, http::Connection, until_true, wire};

use crate::hostile::scene::{MAIN, Scene};

#[tokio::test]
async fn a_corrupt_pack_is_refused_and_leaves_nothing() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let mut pack = wire::pack(&scene.project.tree, &new, Some(&old)).await?;
    let middle = pack.len() / 2;
    pack[middle] ^= 0xff;
    scene.refuses(&old, &new, &pack, "pack").await
}

#[tokio::test]
async fn a_pack_that_lacks_a_linked_object_is_refused() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    // Only the commit: its tree and blob are missing.
    let pack = wire::pack_with(&scene.project.tree, &["--filter=tree:0"], &new, Some(&old)).await?;
    scene.refuses(&old, &new, &pack, "needs object").await
}

#[tokio::test]
async fn a_thin_pack_whose_base_is_missing_is_refused() -> Result<()> {
    let mut scene = Scene::new().await?;
    let old = scene.project.tip.clone();
    // A base commit with a large file the server never gets, and a small change of that file.
    let text: String = (0..5_000).map(|n| format!("line {n}\n")).collect();
    let base = scene.project.tree.commit("large", &text)?;
    let new = scene
        .project
        .tree
        .commit("large", &text.replace("line 77\n", "line seventy-seven\n"))?;
    scene.publish_state(&new).await?;
    let pack = wire::pack_with(&scene.project.tree, &["--thin"], &new, Some(&base)).await?;
    scene.refuses(&old, &new, &pack, "").await
}

#[tokio::test]
async fn a_push_that_changes_nothing_keeps_nothing_of_its_pack() -> Result<()> {
    let mut scene = Scene::new().await?;
    let tip = scene.project.tip.clone();
    let foreign = WorkTree::with_commit()?;
    let planted = foreign.commit_noise(1, 1)?;
    let pack = wire::pack(&foreign, &planted, None).await?;
    let before = scene.pack_bytes()?;
    let response = scene
        .node
        .send(&scene.push_request(&tip, &tip, &pack))
        .await?;
    response.must_be(200, &["unpack ok", &format!("ok {MAIN}")]);
    scene.must_lack(&planted).await?;
    ensure!(scene.pack_bytes()? == before, "bytes were kept");
    scene.goes_on().await
}

#[tokio::test]
async fn a_pack_with_more_than_its_tips_need_is_cut() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let tree = format!("{old}^{{tree}}");
    let local = &scene.project.tree;
    let planted = local.git(["commit-tree", &tree, "-m", "planted"])?;
    let both = format!("{new}\n{planted}");
    let pack = wire::pack(local, &both, Some(&old)).await?;
    let response = scene
        .node
        .send(&scene.push_request(&old, &new, &pack))
        .await?;
    response.must_be(200, &["unpack ok"]);
    scene.must_lack(&planted).await?;
    scene.project.tip = new;
    scene.goes_on().await
}

#[tokio::test]
async fn a_pack_without_the_tip_is_refused() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let other = WorkTree::with_commit()?;
    let pack = wire::pack(&other, &other.commit("else", "x")?, None).await?;
    scene.refuses(&old, &new, &pack, "").await?;
    scene.must_lack(&other.tip("HEAD")?).await
}

#[tokio::test]
async fn objects_with_path_attacks_are_refused() -> Result<()> {
    let mut scene = Scene::new().await?;
    let old = scene.project.tip.clone();
    // A tree with an entry called `.git`, which a careless client would check out.
    let blob = scene.project.tree.tip("HEAD:README.md")?;
    std::fs::write(
        scene.project.tree.path().join("tree.txt"),
        format!("100644 blob {blob}\t.git\n"),
    )?;
    let mktree = "git mktree < tree.txt";
    let tree = scene
        .project
        .tree
        .git(["-c", &format!("alias.evil=!{mktree}"), "evil"])?;
    let new = scene
        .project
        .tree
        .git(["commit-tree", &tree, "-p", &old, "-m", "evil"])?;
    scene.publish_state(&new).await?;
    let pack = wire::pack(&scene.project.tree, &new, Some(&old)).await?;
    std::fs::remove_file(scene.project.tree.path().join("tree.txt"))?;
    scene.refuses(&old, &new, &pack, "git").await
}

#[tokio::test]
async fn duplicated_and_contradicting_commands_are_refused() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let pack = wire::pack(&scene.project.tree, &new, Some(&old)).await?;
    let (old, new) = (old.as_str(), new.as_str());
    for commands in [
        &[(old, new, MAIN), (old, new, MAIN)][..],
        &[(old, new, MAIN), (old, wire::ZERO, MAIN)],
        &[(wire::ZERO, wire::ZERO, MAIN)],
        &[(old, new, "refs/heads/../../etc/passwd")],
        &[(old, new, "HEAD")],
        &[(new, old, "not-a-ref")],
    ] {
        let commands = wire::commands(commands, wire::CAPABILITIES);
        let response = scene.push_bytes(&[&commands, &pack[..]].concat()).await?;
        scene.refused(&response, &[], "")?;
    }
    scene.must_lack(new).await?;
    scene.goes_on().await
}

#[tokio::test]
async fn a_stale_old_value_is_told_to_fetch_first() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let pack = wire::pack(&scene.project.tree, &new, Some(&old)).await?;
    scene
        .refuses(&"ab".repeat(20), &new, &pack, "fetch first")
        .await
}

#[tokio::test]
async fn a_hundred_thousand_refs_in_one_push_are_answered() -> Result<()> {
    let mut scene = Scene::new().await?;
    let old = scene.project.tip.clone();
    let names: Vec<String> = (0..100_001).map(|n| format!("refs/tags/t{n}")).collect();
    let commands: Vec<_> = names
        .iter()
        .map(|name| (wire::ZERO, old.as_str(), name.as_str()))
        .collect();
    let commands = wire::commands(&commands, wire::CAPABILITIES);
    let response = scene.push_bytes(&commands).await?;
    ensure!(response.status == 200, "{}", response.status);
    let is_taken = response.contains("unpack ok");
    ensure!(!is_taken, "more refs than any state names");
    scene.goes_on().await
}

#[tokio::test]
async fn a_push_beyond_the_limit_is_refused_in_band() -> Result<()> {
    let mut scene = Scene::with(&[("GRIPFAST_MAX_PACK_BYTES", "50000")]).await?;
    let new = scene.project.tree.commit_noise(1, 1)?;
    scene.publish_state(&new).await?;
    let pushed = scene.project.tree.push(&scene.url(), &["main"]).await?;
    let is_refused = !pushed.ok && pushed.stderr.contains("50000");
    ensure!(is_refused, "{}", pushed.stderr);
    scene.must_lack(&new).await?;
    scene.goes_on().await
}

#[tokio::test]
async fn a_ten_gigabyte_declaration_costs_nothing() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let before = scene.node.peak_rss_bytes()?;
    let head = format!(
        "POST {}/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: {}\r\n\
         Content-Length: 10737418240\r\n\r\n",
        scene.project.path(),
        wire::PUSH_TYPE
    );
    let mut connection = Connection::open(scene.node.port()).await?;
    let commands = wire::commands(&[(&old, &new, MAIN)], wire::CAPABILITIES);
    let start = [head.as_bytes(), &commands, b"PACK\0\0\0\x02\0\0\0\x01"].concat();
    connection.send(&start).await?;
    // Either it is refused at once by its declared size, or it waits for bytes that never come.
    let patience = Duration::from_secs(3);
    if let Ok(Ok(response)) = tokio::time::timeout(patience, connection.response()).await {
        scene.refused(&response, &[MAIN], "")?;
    }
    drop(connection);
    let after = scene.node.peak_rss_bytes()?;
    ensure!(
        after < before + 64 * 1024 * 1024,
        "memory was taken for a promise: {after}"
    );
    scene.must_lack(&new).await?;
    scene.goes_on().await
}

#[tokio::test]
async fn a_client_that_closes_in_the_middle_leaves_nothing() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (old, new) = scene.pending_commit().await?;
    let pack = wire::pack(&scene.project.tree, &new, Some(&old)).await?;
    let request = scene.push_request(&old, &new, &pack);
    for missing in [1, pack.len() / 2, pack.len() + 20] {
        let mut connection = Connection::open(scene.node.port()).await?;
        connection.send(&request[..request.len() - missing]).await?;
    }
    until_true("quarantine is empty", || scene.quarantined().is_empty()).await?;
    scene.must_lack(&new).await?;
    scene.goes_on().await
}

#[tokio::test]
async fn a_slow_body_is_cut_and_others_are_served() -> Result<()> {
    let mut scene = Scene::with(&[("GRIPFAST_STALL_TIMEOUT", "1s")]).await?;
    let (old, new) = scene.pending_commit().await?;
    let pack = wire::pack(&scene.project.tree, &new, Some(&old)).await?;
    let request = scene.push_request(&old, &new, &pack);
    let mut connection = Connection::open(scene.node.port()).await?;
    connection.send(&request[..request.len() - 10]).await?;
    // The server gives up by itself: the connection ends with an answer or a close.
    connection.closed().await?;
    scene.must_lack(&new).await?;
    scene.goes_on().await
}

#[tokio::test]
async fn clients_without_sideband_read_the_refusal_too() -> Result<()> {
    let mut scene = Scene::new().await?;
    let old = scene.project.tip.clone();
    let new = scene.project.tree.commit("rogue", "x")?;
    let pack = wire::pack(&scene.project.tree, &new, Some(&old)).await?;
    let body = |capabilities| {
        let commands = wire::commands(&[(&old, &new, MAIN)], capabilities);
        [&commands, &pack[..]].concat()
    };
    let plain = scene.push_bytes(&body("report-status delete-refs")).await?;
    scene.refused(&plain, &[MAIN], "state")?;
    plain.must_be(200, &["unpack rejected"]);
    ensure!(!plain.contains("\x02"), "plain packets: {plain:?}");
    let mute = scene.push_bytes(&body("")).await?;
    ensure!(mute.contains("ERR "), "{mute:?}");
    scene.must_lack(&new).await?;
    scene.goes_on().await
}

#[tokio::test]
async fn a_full_disk_refuses_clearly_and_writes_nothing() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (_, new) = scene.pending_commit().await?;
    let before = scene.pack_bytes()?;
    scene
        .node
        .set_env("GRIPFAST_MIN_FREE_BYTES", "9000000000000000");
    scene.node.crash_and_restart().await?;
    scene.relay = scene.node.connect().await?;
    let pushed = scene.project.tree.push(&scene.url(), &["main"]).await?;
    ensure!(
        !pushed.ok && pushed.stderr.contains("disk of this server is full"),
        "{}",
        pushed.stderr
    );
    scene.must_lack(&new).await?;
    ensure!(scene.pack_bytes()? == before);
    let (owner, identifier) = (&scene.project.owner, &scene.project.identifier);
    let issue = owner.issue(owner, identifier, "no room");
    let answer = scene.relay.publish(&issue).await?;
    ensure!(
        !answer.accepted && answer.message.starts_with("error: the disk"),
        "{answer:?}"
    );
    scene.node.remove_env("GRIPFAST_MIN_FREE_BYTES");
    scene.node.crash_and_restart().await?;
    scene.relay = scene.node.connect().await?;
    let pushed = scene.project.tree.push(&scene.url(), &["main"]).await?;
    ensure!(pushed.ok, "{}", pushed.stderr);
    scene.project.tip = new;
    scene.goes_on().await
}
