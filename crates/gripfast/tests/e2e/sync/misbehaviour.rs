//! Hosts that break in the middle: the attempt ends, says why, leaves nothing behind and keeps
//! nobody else waiting; once the host is well, what waits for it is served.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    LocalProject, Project, RemoteHost, RemoteProject, WorkTree, remote::Behaviour, until_true, wire,
};

use crate::sync::scene::Scene;

/// A work tree whose pack is longer than a few packets.
fn bulky() -> Result<(WorkTree, String)> {
    let tree = WorkTree::init()?;
    let tip = tree.commit_noise(1, 1)?;
    Ok((tree, tip))
}

struct Trouble {
    scene: Scene,
    host: RemoteHost,
    sick: Project,
    tip: String,
    state: nostr::prelude::Event,
}

/// Meets `behaviour` and goes on: the outcome must contain `words`.
async fn meets(behaviour: Behaviour, env: &[(&str, &str)], words: &str) -> Result<Trouble> {
    let mut scene = Scene::with(env).await?;
    let host = RemoteHost::start("127.0.0.2").await?;
    let (tree, tip) = bulky()?;
    let sick_url = host.host(&tree, "sick.git")?;
    let well_url = host.alias("sick.git", "well.git")?;
    host.behave_at("sick.git", behaviour);
    let (sick, well) = (Project::new("sick"), Project::new("well"));
    scene.announce(&sick, &[sick_url]).await?;
    let state = scene.hold_state(&sick, &tip).await?;
    until_true("the host is asked", || host.count() == 1).await?;
    scene.announce(&well, &[well_url]).await?;
    let other = scene.hold_state(&well, &tip).await?;
    scene
        .released(&other)
        .await
        .context("the healthy repository")?;

    let tried = scene.has_tried(&state, 1).await?;
    let outcome = tried[0].outcome.to_lowercase();
    ensure!(!tried[0].is_success, "{tried:?}");
    ensure!(outcome.contains(words), "{words:?} is not in {outcome:?}");
    until_true("the slot is free again", || host.in_flight() == 0).await?;
    ensure!(!scene.serves(&state).await?);
    scene.lacks(&sick, &tip).await?;
    scene.is_clean(&sick).await?;
    Ok(Trouble {
        scene,
        host,
        sick,
        tip,
        state,
    })
}

impl Trouble {
    /// The host is well again, and the event is served with one more request.
    async fn passes(mut self) -> Result<Scene> {
        self.host.behave_at("sick.git", Behaviour::Serve);
        self.scene.sync_now(&self.sick).await?;
        self.scene.released(&self.state).await?;
        let asked = self.host.requests_for("sick.git");
        ensure!(asked.len() == 2, "{asked:?}");
        let refs = [("refs/heads/main", &*self.tip)];
        self.scene.has_refs(&self.sick, &refs).await?;
        self.scene.is_clean(&self.sick).await?;
        Ok(self.scene)
    }
}

const UNASKED: &str = "none of the wanted objects";

const IMPATIENT: &[(&str, &str)] = &[
    ("GRIPFAST_SYNC_CONNECT_TIMEOUT", "1s"),
    ("GRIPFAST_SYNC_IDLE_TIMEOUT", "1s"),
];

#[tokio::test]
async fn a_host_that_never_answers_is_given_up() -> Result<()> {
    let silent = Behaviour::HangBeforeHeaders;
    let met = meets(silent, IMPATIENT, "no response in time").await?;
    met.passes().await.map(drop)
}

#[tokio::test]
async fn g02_60_a_host_that_hangs_after_its_headers_or_in_the_middle_of_a_pack_is_given_up()
-> Result<()> {
    for bytes in [0, 100_000] {
        let silent = Behaviour::HangAfter { bytes };
        let met = meets(silent, IMPATIENT, "stopped in the middle of its response").await?;
        met.passes().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_host_that_trickles_is_given_up_when_the_whole_takes_too_long() -> Result<()> {
    let slow = Behaviour::Trickle {
        bytes: 16,
        every: Duration::from_millis(50),
    };
    let env = [("GRIPFAST_SYNC_TOTAL_TIMEOUT", "3s")];
    let met = meets(slow, &env, "did not come in time").await?;
    met.passes().await.map(drop)
}

#[tokio::test]
async fn a_pack_that_breaks_off_is_thrown_away() -> Result<()> {
    for bytes in [0, 3, 20, 100_000] {
        let cut = Behaviour::CloseAfter { bytes };
        let met = meets(cut, &[], "broke off").await;
        met.with_context(|| format!("after {bytes} bytes"))?
            .passes()
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn g02_60_a_pack_without_end_is_cut_at_the_cap() -> Result<()> {
    let env = [("GRIPFAST_SYNC_MAX_PACK_BYTES", "4 MiB")];
    let met = meets(Behaviour::Endless, &env, "larger than the 4194304 bytes");
    let scene = met.await?.passes().await?;
    let peak = scene.node.peak_rss_bytes()?;
    ensure!(peak < 160 << 20, "{peak} bytes");
    Ok(())
}

#[tokio::test]
async fn a_web_page_in_place_of_a_pack_is_named_as_that() -> Result<()> {
    let met = meets(Behaviour::Page, &[], "not of the git protocol").await?;
    // A host that answers so to the protocol of today may be an old one: it is asked in the old
    // way once before it is believed.
    met.host.behave_at("sick.git", Behaviour::Serve);
    met.scene.sync_now(&met.sick).await?;
    let mut scene = met.scene;
    scene.released(&met.state).await
}

#[tokio::test]
async fn a_pack_of_something_else_is_thrown_away() -> Result<()> {
    let other = WorkTree::init()?;
    let foreign = other.commit("else", "entirely")?;
    let pack = wire::pack(&other, &foreign, None).await?;
    let met = meets(Behaviour::Pack(pack.into()), &[], UNASKED).await?;
    let sick = Project {
        owner: met.sick.owner.clone(),
        identifier: met.sick.identifier.clone(),
    };
    let scene = met.passes().await?;
    scene.lacks(&sick, &foreign).await
}

#[tokio::test]
async fn g02_60_what_comes_beside_the_wanted_is_not_kept() -> Result<()> {
    let (mut scene, project) = Scene::with_remote(&[]).await?;
    let (tree, tip) = (&project.tree, &project.tip);
    tree.git(["checkout", "-q", "--orphan", "smuggled"])?;
    let smuggled = tree.commit("cargo", "that nobody asked for")?;
    let both = [
        "commit-tree",
        "HEAD^{tree}",
        "-m",
        "x",
        "-p",
        tip,
        "-p",
        &smuggled,
    ];
    let both = tree.git(both)?;
    let pack = wire::pack(tree, &both, None).await?;
    project.host.behave(Behaviour::Pack(pack.into()));
    let state = scene.hold_remote(&project).await?;
    scene.released(&state).await?;
    scene.lacks(&project, &smuggled).await?;
    scene.lacks(&project, &both).await?;
    scene.is_clean(&project).await
}

#[tokio::test]
async fn a_pack_that_lacks_what_its_commit_needs_is_thrown_away() -> Result<()> {
    let tree = WorkTree::with_commit()?;
    let first = tree.tip("HEAD")?;
    let tip = tree.commit("more", "1")?;
    // The commit without its parent.
    let pack = wire::pack(&tree, &tip, Some(&first)).await?;
    let local = LocalProject::with_tree("x", tree)?;
    let project = RemoteProject::start("127.0.0.2", "x.git", local).await?;
    let host = &project.host;
    host.behave(Behaviour::Pack(pack.into()));
    let mut scene = Scene::new().await?;
    let state = scene.hold_remote(&project).await?;
    let tried = scene.has_tried(&state, 1).await?;
    let is_nothing = tried[0].oids_fetched == 0 && !tried[0].is_success;
    ensure!(is_nothing, "{tried:?}");
    scene.lacks(&project, &tip).await?;
    host.behave(Behaviour::Serve);
    scene.sync_now(&project).await?;
    scene.released(&state).await?;
    scene.is_clean(&project).await
}

#[tokio::test]
async fn a_pack_that_unpacks_to_a_flood_takes_no_memory_and_leaves_nothing() -> Result<()> {
    let bomb = WorkTree::init()?;
    // 200 MiB of zeros in 200 kB.
    let zeros = std::fs::File::create(bomb.path().join("zeros"))?;
    zeros.set_len(200 << 20)?;
    bomb.git(["-c", "core.bigFileThreshold=1g", "add", "zeros"])?;
    bomb.git(["commit", "-q", "-m", "flood"])?;
    let flood = bomb.tip("HEAD")?;
    let pack = wire::pack(&bomb, &flood, None).await?;
    ensure!(pack.len() < 2 << 20, "{} bytes are no bomb", pack.len());
    let met = meets(Behaviour::Pack(pack.into()), &[], UNASKED).await?;
    let scene = met.passes().await?;
    let peak = scene.node.peak_rss_bytes()?;
    ensure!(peak < 160 << 20, "{peak} bytes");
    Ok(())
}
