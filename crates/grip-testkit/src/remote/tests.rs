use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};

use super::{Behaviour, RemoteHost, Speaks, packs, record::most_within};
use crate::{WorkTree, git, http::request, until_true, wire, within};

async fn fetch(url: &str, oid: &str) -> Result<bool> {
    let tree = WorkTree::init()?;
    let fetched = tree.run(["fetch", "-q", url, oid]).await?;
    Ok(fetched.ok && tree.git(["cat-file", "-e", oid]).is_ok())
}

#[tokio::test]
async fn real_git_clones_from_both_kinds_of_host_and_is_counted() -> Result<()> {
    for (address, speaks) in [("127.0.0.2", Speaks::V2), ("127.0.0.3", Speaks::V0)] {
        let host = RemoteHost::speaking(address, speaks).await?;
        let tree = WorkTree::with_commit()?;
        let url = host.host(&tree, "a/x.git")?;
        let tip = host.oid("a/x.git", "refs/heads/main")?;
        ensure!(url.starts_with(&format!("http://{address}:")), "{url}");
        let clone = WorkTree::clone(&url, &[]).await?;
        ensure!(clone.tip("HEAD")? == tip);
        let seen = host.requests_for("a/x.git");
        ensure!(seen.len() == host.count() && host.in_flight() == 0);
        let last = seen.last().expect("a clone asks for something");
        ensure!(
            last.action == "git-upload-pack" && last.wants.contains(&tip),
            "{last:?}"
        );
        let v2 = seen.iter().any(|s| s.command.as_deref() == Some("ls-refs"));
        ensure!(v2 == (speaks == Speaks::V2), "{seen:?}");
        ensure!(host.max_in_flight() == 1);
    }
    Ok(())
}

#[tokio::test]
async fn an_old_host_serves_what_its_refs_point_to_and_nothing_else() -> Result<()> {
    let tree = WorkTree::with_commit()?;
    let inner = tree.tip("HEAD")?;
    tree.commit("more", "1")?;
    for (speaks, any) in [(Speaks::V2, true), (Speaks::V0, false)] {
        let host = RemoteHost::speaking("127.0.0.2", speaks).await?;
        let url = host.host(&tree, "x.git")?;
        ensure!(fetch(&url, &inner).await? == any, "{speaks:?}");
    }
    Ok(())
}

#[tokio::test]
async fn scripts_run_step_by_step_and_the_last_step_stays() -> Result<()> {
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let url = host.host(&tree, "x.git")?;
    let other = host.host(&tree, "y.git")?;
    let steps = [Behaviour::retry_after(429, 7), Behaviour::status(503)];
    host.script("x.git", steps);
    for status in ["429", "503", "503"] {
        let refused = tree.run(["ls-remote", &url]).await?;
        ensure!(refused.stderr.contains(status), "{}", refused.stderr);
    }
    ensure!(!git::ls_remote(&other).await?.is_empty());
    host.behave(Behaviour::status(404));
    ensure!(git::ls_remote(&other).await.is_err());
    host.behave_at("x.git", Behaviour::Serve);
    ensure!(!git::ls_remote(&url).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_gate_holds_answers_back_until_it_is_opened() -> Result<()> {
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let url = host.host(&tree, "x.git")?;
    let gate = host.hold("x.git");
    let asking = git::ls_remote(&url);
    let opening = async {
        until_true("the request is held", || host.in_flight() == 1).await?;
        gate.open();
        anyhow::Ok(())
    };
    let (refs, opened) = tokio::join!(asking, opening);
    opened?;
    ensure!(!refs?.is_empty());
    Ok(())
}

#[tokio::test]
async fn broken_answers_are_broken_and_foreign_packs_are_sent() -> Result<()> {
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let url = host.host(&tree, "x.git")?;
    let tip = tree.tip("HEAD")?;
    // One request each for the capabilities and the refs; the third is the fetch.
    let at_the_fetch = |last: Behaviour| [Behaviour::Serve, Behaviour::Serve, last];
    ensure!(fetch(&url, &tip).await?);
    for broken in [Behaviour::CloseAfter { bytes: 40 }, Behaviour::Page] {
        host.behave_at("x.git", broken.clone());
        ensure!(!fetch(&url, &tip).await?, "{broken:?}");
    }
    let other = WorkTree::init()?;
    let foreign = other.commit("else", "entirely")?;
    let pack = wire::pack(&other, &foreign, None).await?;
    host.script("x.git", at_the_fetch(Behaviour::Pack(pack.into())));
    ensure!(!fetch(&url, &tip).await?, "the wrong pack has the tip");
    ensure!(
        host.requests()
            .last()
            .is_some_and(|s| s.wants == [tip.clone()])
    );
    let slow = Behaviour::Trickle {
        bytes: 64,
        every: Duration::from_millis(1),
    };
    host.behave_at("x.git", slow);
    ensure!(fetch(&url, &tip).await?);
    let moved = Behaviour::Redirect {
        status: 302,
        to: host.host(&tree, "new.git")?,
    };
    host.behave_at("x.git", moved);
    ensure!(fetch(&url, &tip).await? && !host.requests_for("new.git").is_empty());
    Ok(())
}

#[tokio::test]
async fn an_endless_pack_goes_on_until_the_client_leaves() -> Result<()> {
    let host = RemoteHost::start("127.0.0.2").await?;
    host.behave(Behaviour::Endless);
    let mut client = TcpStream::connect(host.authority()).await?;
    let request = request("POST", "/x.git/git-upload-pack", &[], b"0000");
    client.write_all(&request).await?;
    let mut much = vec![0; 4 << 20];
    within("four MiB", client.read_exact(&mut much)).await??;
    ensure!(host.in_flight() == 1 && much.windows(4).any(|four| four == b"PACK"));
    drop(client);
    until_true("the host notices", || host.in_flight() == 0).await
}

#[tokio::test]
async fn blobs_without_compression_are_read_by_git() -> Result<()> {
    let tree = WorkTree::init()?;
    let mut pack = packs::head(3);
    pack.extend(packs::stored_blob(b"small"));
    pack.extend(packs::stored_blob(&[7; 200_000]));
    std::fs::write(tree.path().join("pack"), pack)?;
    let mut reading = git::command(tree.path(), ["index-pack", "--stdin"]);
    reading.stdin(std::fs::File::open(tree.path().join("pack"))?);
    let said = String::from_utf8(reading.output()?.stderr)?;
    // The third is not there: git got as far as it could.
    ensure!(said.contains("early EOF"), "{said}");
    Ok(())
}

#[test]
fn the_busiest_window_is_found_wherever_it_lies() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let times = [0, 100, 900, 950, 1_000, 1_899, 5_000].map(at);
    assert_eq!(most_within(&times, Duration::from_secs(1)), 4);
    assert_eq!(most_within(&[], Duration::from_secs(1)), 0);
}
