//! Every kind of damage at once: the node starts, serves what is sound, names what is not, and gets
//! from another host what that has.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    LocalProject, Node, RemoteHost,
    damage::{DAMAGE, Files, Repair},
    git,
    remote::Gate,
    until_ok,
};

use crate::{BINARY, agreement::FETCHING};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_every_kind_of_damage_starts_serves_names_and_heals() -> Result<()> {
    let mut node = Node::start_with(BINARY, FETCHING).await?;
    let host = RemoteHost::start("127.0.11.1").await?;
    let sound = LocalProject::new("sound")?;
    sound.publish(&node, 5).await?;
    let mut harmed = Vec::new();
    let kinds = DAMAGE.iter().filter(|kind| kind.shows_at_start);
    for (number, kind) in kinds.enumerate() {
        let name = format!("harmed-{number}");
        let project = LocalProject::new(&name)?;
        let url = host.host(&project.tree, &name)?;
        let mut relay = node.connect().await?;
        let announcement = project.announcement_at(&[&node], &[url], 10);
        relay.publish_ok(&announcement).await?;
        relay.publish_ok(&project.state(10)).await?;
        project.push(&node).await?;
        harmed.push((kind, project));
    }
    // It may have been looked at as a replica.
    ensure!(host.fetches().is_empty(), "everything was pushed");
    // Until it is looked at: what the host has heals within seconds otherwise.
    let gates: Vec<_> = harmed
        .iter()
        .map(|(_, project)| host.hold(&project.identifier))
        .collect();
    node.stop().await?;
    for (kind, project) in &harmed {
        let npub = project.owner.npub();
        kind.harm(&Files::new(&node.data_dir(), &npub, &project.identifier))?;
    }
    node.launch().await?;

    let ready = node.json("/readyz").await?;
    ensure!(ready["ready"] == true, "{ready}");
    let named = ready["degraded"]["repositories"].as_str();
    let named = named.with_context(|| ready.to_string())?.to_owned();
    let log = node.log();
    for (kind, project) in &harmed {
        let what = kind.name;
        let is_named = log.lines().any(|line| {
            line.contains("repository is damaged") && line.contains(&project.identifier)
        });
        let served = git::ls_remote(&project.url(&node)).await;
        if !matches!(kind.repair, Repair::ByFetch | Repair::ByHand) {
            let refs = served.with_context(|| what)?;
            let main = ("refs/heads/main".to_owned(), project.tip.clone());
            ensure!(refs.contains(&main), "{what}: {refs:?}");
        } else {
            ensure!(served.is_err(), "{what}: it is not served");
            ensure!(is_named, "{what}: the log names it");
            let page = node.get(&format!("/{}", project.path())).await?;
            page.must_be(503, &["is damaged"]);
        }
    }
    ensure!(named.contains("harmed-"), "{named}");
    serves(&node, &sound).await.context("the sound one")?;

    gates.iter().for_each(Gate::open);
    for (kind, project) in &harmed {
        let what = kind.name;
        if kind.repair == Repair::ByFetch {
            let healed = until_ok("it is healed", async || {
                serves(&node, project).await?;
                Ok(Some(()))
            });
            healed.await.with_context(|| what)?;
        }
    }
    // What nobody but a person can mend stays named, and nothing else is.
    let checked = node.command(&["check", "--json"]).output().await?;
    let checked: serde_json::Value = serde_json::from_slice(&checked.stdout)?;
    let found = checked["disagreements"].as_array().context("a list")?;
    let found: BTreeSet<&str> = found
        .iter()
        .filter_map(|it| it["repository"].as_str()?.rsplit('/').next())
        .map(|name| name.trim_end_matches(".git"))
        .collect();
    let left = harmed
        .iter()
        .filter(|(kind, _)| kind.repair == Repair::ByHand);
    let left: BTreeSet<&str> = left
        .map(|(_, project)| project.identifier.as_str())
        .collect();
    ensure!(found == left, "{checked:#}");
    Ok(())
}

/// What only reading everything can find is found when somebody fetches it: told in the log, shown as
/// degraded with the repository's name, and served again once another host has brought it.
#[tokio::test(flavor = "multi_thread")]
async fn damage_that_a_start_does_not_see_is_noticed_when_a_fetch_fails() -> Result<()> {
    let often = [FETCHING, &[("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "1s")]].concat();
    let mut node = Node::start_with(BINARY, &often).await?;
    let host = RemoteHost::start("127.0.11.2").await?;
    let (sound, harmed) = (LocalProject::new("sound")?, LocalProject::new("harmed")?);
    sound.publish(&node, 5).await?;
    let url = host.host(&harmed.tree, "harmed")?;
    let mut relay = node.connect().await?;
    let announcement = harmed.announcement_at(&[&node], &[url], 10);
    relay.publish_ok(&announcement).await?;
    relay.publish_ok(&harmed.state(10)).await?;
    harmed.push(&node).await?;
    let gate = host.hold("harmed");
    node.stop().await?;
    let files = Files::new(&node.data_dir(), &harmed.owner.npub(), "harmed");
    let is_meant = |it: &&grip_testkit::damage::Damage| it.name == "bit flipped in a pack";
    let kind = DAMAGE.iter().find(is_meant).context("a kind of damage")?;
    kind.harm(&files)?;
    node.launch().await?;
    let ready = node.json("/readyz").await?;
    ensure!(ready["degraded"]["repositories"].is_null(), "{ready}");
    ensure!(serves(&node, &harmed).await.is_err());
    until_ok("it is named", async || {
        let ready = node.json("/readyz").await?;
        let named = ready["degraded"]["repositories"].as_str();
        let is_named = named.is_some_and(|named| named.contains("harmed"));
        Ok(is_named.then_some(()))
    })
    .await?;
    let log = node.log();
    let is_told = |line: &str| line.contains("ERROR") && line.contains("repository is damaged");
    ensure!(log.lines().any(is_told), "{log}");
    serves(&node, &sound).await?;
    gate.open();
    until_ok("it is healed", async || {
        serves(&node, &harmed).await?;
        Ok(Some(()))
    })
    .await?;
    node.run(&["check", "--full"]).await.map(drop)
}

/// A clone has the whole history.
async fn serves(node: &Node, project: &LocalProject) -> Result<()> {
    let clone = grip_testkit::WorkTree::clone(&project.url(node), &[]).await?;
    ensure!(clone.tip("HEAD")? == project.tip);
    Ok(())
}
