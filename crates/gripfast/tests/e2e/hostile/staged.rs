//! Uploads of strangers under names that no event has.

use anyhow::{Result, ensure};
use grip_testkit::{Author, WorkTree, git};
use nostr::prelude::Event;

use crate::hostile::scene::{NO_PROXY, Scene};

const PER_ADDRESS: (&str, &str) = ("GRIPFAST_STAGED_MAX_BYTES_PER_ADDRESS", "3 MiB");

/// A stranger's history of `mebibytes`, the event that would name it, and the ref it goes under.
struct Upload {
    tree: WorkTree,
    tip: String,
    event: Event,
}

impl Upload {
    fn new(scene: &Scene, mebibytes: u64) -> Result<Self> {
        let tree = WorkTree::with_commit()?;
        let author = Author::new();
        tree.commit_noise(mebibytes, 1)?;
        // Two of one second are two commits all the same.
        let tip = tree.commit("author", &author.npub())?;
        let (project, url) = (&scene.project, scene.url());
        let event = author.pull_request(&project.owner, &project.identifier, &tip, &url);
        Ok(Self { tree, tip, event })
    }

    fn name(&self) -> String {
        format!("refs/nostr/{}", self.event.id.to_hex())
    }

    async fn push(&self, scene: &Scene) -> Result<git::GitOutput> {
        let refspec = format!("HEAD:{}", self.name());
        self.tree.push(&scene.url(), &[&refspec]).await
    }
}

async fn can_fetch(url: &str, oid: &str) -> Result<bool> {
    let fresh = WorkTree::init()?;
    Ok(fresh.run(["fetch", "-q", url, oid]).await?.ok)
}

async fn lists(url: &str, name: &str) -> Result<bool> {
    let refs = git::ls_remote(url).await?;
    Ok(refs.iter().any(|(listed, _)| listed == name))
}

#[tokio::test]
async fn an_upload_without_an_event_stays_in_its_repository_and_its_budget() -> Result<()> {
    let mut scene = Scene::with(&[NO_PROXY, PER_ADDRESS]).await?;
    let second = Author::new();
    let authority = scene.node.authority();
    let announcement = second.announcement(&authority, &scene.project.identifier, vec![]);
    scene.relay.publish_ok(&announcement).await?;
    let sibling = second.clone_url(&authority, &scene.project.identifier);

    let before = scene.pack_bytes()?;
    let upload = Upload::new(&scene, 2)?;
    let pushed = upload.push(&scene).await?;
    ensure!(pushed.ok, "{}", pushed.stderr);
    ensure!(lists(&scene.url(), &upload.name()).await?);
    ensure!(can_fetch(&scene.url(), &upload.tip).await?);
    ensure!(!lists(&sibling, &upload.name()).await?);
    ensure!(
        !can_fetch(&sibling, &upload.tip).await?,
        "a sibling serves what nobody signed"
    );

    // The share of the address is used up, for whatever repository.
    let more = Upload::new(&scene, 2)?;
    let refused = more.push(&scene).await?;
    ensure!(
        !refused.ok && refused.stderr.contains("uploads from your address"),
        "{}",
        refused.stderr
    );
    scene.must_lack(&more.tip).await?;

    scene.node.crash_and_restart().await?;
    scene.relay = scene.node.connect().await?;
    ensure!(
        can_fetch(&scene.url(), &upload.tip).await?,
        "a crash lost it"
    );
    ensure!(!more.push(&scene).await?.ok, "a crash emptied the budget");

    // The event makes it part of the repository, and room for the next.
    scene.relay.publish_ok(&upload.event).await?;
    ensure!(can_fetch(&scene.url(), &upload.tip).await?);
    let pushed = more.push(&scene).await?;
    ensure!(pushed.ok, "{}", pushed.stderr);

    // An event with another tip removes an upload with all its bytes.
    let with_both = scene.pack_bytes()?;
    ensure!(with_both > before + (4 << 20), "{with_both}");
    let last = Upload::new(&scene, 1)?;
    let wrong = scene.project.tree.commit("wrong", "tip")?;
    let refspec = format!("{wrong}:{}", last.name());
    let pushed = scene.project.tree.push(&scene.url(), &[&refspec]).await?;
    ensure!(pushed.ok, "{}", pushed.stderr);
    scene.relay.publish_ok(&last.event).await?;
    ensure!(!lists(&scene.url(), &last.name()).await?);
    scene.must_lack(&wrong).await?;
    ensure!(scene.pack_bytes()? == with_both, "bytes were left");
    scene.goes_on().await
}

#[tokio::test]
async fn a_crash_leaves_a_staged_upload_or_nothing() -> Result<()> {
    for (point, is_there) in [
        ("git.stage.recorded", false),
        ("git.stage.done", false),
        ("git.refs.written:2", true),
    ] {
        let mut scene = Scene::with(&[NO_PROXY, ("GRIPFAST_FAULT", point)]).await?;
        let before = scene.pack_bytes()?;
        let upload = Upload::new(&scene, 1)?;
        let pushed = upload.push(&scene).await?;
        ensure!(!pushed.ok, "{point} was not reached");
        scene.node.remove_env("GRIPFAST_FAULT");
        scene.node.crash_and_restart().await?;
        scene.relay = scene.node.connect().await?;
        ensure!(
            lists(&scene.url(), &upload.name()).await? == is_there,
            "{point}"
        );
        ensure!(
            can_fetch(&scene.url(), &upload.tip).await? == is_there,
            "{point}"
        );
        ensure!((scene.pack_bytes()? > before) == is_there, "{point}");
        // Either way the person who pushed can go on.
        let pushed = upload.push(&scene).await?;
        ensure!(pushed.ok, "{point}: {}", pushed.stderr);
        scene.relay.publish_ok(&upload.event).await?;
        scene.goes_on().await?;
    }
    Ok(())
}
