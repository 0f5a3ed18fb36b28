//! Nodes that heal each other.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, Balancer, LocalProject, Node, clock_off_by, events::tag, git, http::must_contain,
    until_ok,
};
use nostr::prelude::Timestamp;
use rustix::process::Signal;
use tokio::net::TcpListener;

use super::scene::{
    NEAR, all_served, announce, events_of, node, node_with, publish, push, relays, same_refs,
    served, traffic, until_relay,
};
use crate::BINARY;

#[tokio::test]
async fn g02_1_a_push_to_one_node_is_served_by_the_other_within_seconds() -> Result<()> {
    let (a, b) = (node().await?, node().await?);
    let mut project = LocalProject::new("tides")?;
    let announcement = announce(&project, &[&a, &b]).await?;
    // Held on both, and followed from then on for its state.
    let url = a.relay_url();
    until_relay(&b, "b follows a", |relay| {
        relay["relay"] == url.as_str() && relay["health"] == "healthy"
    })
    .await?;
    let state = push(&project, &a, 50).await?;
    let began = Instant::now();
    all_served(&b, &[&announcement, &state]).await?;
    println!(
        "the first push to a was served by b after {:?}",
        began.elapsed()
    );
    same_refs(&project, &a, &b).await?;
    // The log says whose state changed refs, and where their data is from.
    let log = b.log();
    let changed = log.lines().find(|line| line.contains("refs changed"));
    let of = project.owner.npub();
    must_contain(
        changed.context("no ref was changed")?,
        &[
            &format!("from=http://{}/", a.authority()),
            &format!("by=state {} of {of}", state.id),
            &format!("refs/heads/main none → {}", &project.tip[..10]),
        ],
    );
    // An issue and its answers follow, live.
    let reporter = Author::new();
    let issue = reporter.issue(&project.owner, "tides", "ebb");
    publish(&a, &issue).await?;
    served(&b, &issue).await?;
    let comment = reporter.comment(&issue, "still");
    publish(&b, &comment).await?;
    served(&a, &comment).await?;
    // And the next push, now that everything is subscribed to.
    project.tip = project.tree.commit("more", "1")?;
    let state = project.state(0);
    publish(&a, &state).await?;
    project.push(&a).await?;
    let began = Instant::now();
    served(&b, &state).await?;
    println!(
        "the next push to a was served by b after {:?}",
        began.elapsed()
    );
    same_refs(&project, &a, &b).await
}

#[tokio::test]
async fn g02_49_a_node_that_knows_nothing_learns_everything_from_its_bootstrap_relay() -> Result<()>
{
    let a = node().await?;
    let b = node_with(&[("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &a.relay_url())]).await?;
    let project = LocalProject::new("tides")?;
    let announcement = project.announcement_at(&[&a, &b], &[], 60);
    publish(&a, &announcement).await?;
    let state = push(&project, &a, 50).await?;
    let issue = Author::new().issue(&project.owner, "tides", "ebb");
    publish(&a, &issue).await?;
    let comment = Author::new().comment(&issue, "still");
    publish(&a, &comment).await?;
    all_served(&b, &[&announcement, &state, &issue, &comment]).await?;
    same_refs(&project, &a, &b).await
}

#[tokio::test]
async fn three_nodes_one_killed_one_cut_off_and_one_with_a_wrong_clock_end_with_the_same_events_and_refs()
-> Result<()> {
    let wrong = clock_off_by(7_200)?;
    let wrong: Vec<(&str, &str)> = wrong.iter().map(|(k, v)| (&**k, &**v)).collect();
    let (a, b, mut c) = (node_with(&wrong).await?, node().await?, node().await?);
    let project = LocalProject::new("tides")?;
    announce(&project, &[&a, &b, &c]).await?;
    let began = Instant::now();
    c.kill();
    let state = push(&project, &a, 50).await?;
    served(&b, &state).await?;
    b.signal(Signal::STOP)?;
    let (reporter, other) = (Author::new(), Author::new());
    let issue = reporter.issue(&project.owner, "tides", "ebb");
    publish(&a, &issue).await?;
    c.launch().await?;
    let comment = reporter.comment(&issue, "still");
    served(&c, &issue).await?;
    publish(&c, &comment).await?;
    b.signal(Signal::CONT)?;
    let second = other.issue(&project.owner, "tides", "flood");
    publish(&b, &second).await?;
    let nodes = [&a, &b, &c];
    for node in nodes {
        all_served(node, &[&state, &issue, &comment, &second]).await?;
        same_refs(&project, &a, node).await?;
    }
    until_ok("all serve the same", async || {
        let (of_a, of_b, of_c) = (
            events_of(&a).await?,
            events_of(&b).await?,
            events_of(&c).await?,
        );
        Ok((of_a == of_b && of_b == of_c).then_some(()))
    })
    .await?;
    println!("three nodes agreed after {:?}", began.elapsed());
    for node in nodes {
        let relays = relays(node).await?;
        let own = node.relay_url();
        ensure!(
            relays.iter().all(|relay| relay["relay"] != own.as_str()),
            "{relays:?}"
        );
        println!("with other relays: {}", traffic(node).await?);
    }
    Ok(())
}

/// A node that others know by the address of a cable in front of it.
struct Cabled {
    node: Node,
    /// What others know; it never runs.
    front: Node,
    cable: Balancer,
}

async fn cabled(env: &[(&str, &str)]) -> Result<Cabled> {
    let front = Node::prepare(BINARY, &[])?;
    let listener = TcpListener::bind(front.authority()).await?;
    let domain = front.authority();
    let mut node = Node::prepare(
        BINARY,
        &[NEAR, env, &[("NGIT_DOMAIN", domain.as_str())]].concat(),
    )?;
    node.launch().await?;
    let cable = Balancer::serve(listener, vec![node.authority().parse()?])?;
    Ok(Cabled { node, front, cable })
}

/// Each maintainer announces the repository on a node and on the next one. While one node is down the other two
/// are cut off from each other; the clock of one is wrong.
#[tokio::test]
async fn g02_1_three_nodes_in_a_ring_one_killed_and_one_cut_off_end_with_the_same_events_and_refs()
-> Result<()> {
    let wrong = clock_off_by(7_200)?;
    let wrong: Vec<(&str, &str)> = wrong.iter().map(|(k, v)| (&**k, &**v)).collect();
    let mut ring = [
        cabled(&wrong).await?,
        cabled(&[]).await?,
        cabled(&[]).await?,
    ];
    let project = LocalProject::new("tides")?;
    let others = [Author::new(), Author::new()];
    let owners = [&project.owner, &others[0], &others[1]];
    let keys = owners.map(Author::hex);
    let fronts = ring.each_ref().map(|it| it.front.authority());
    let place = |owner: usize, at: usize| owners[owner].clone_url(&fronts[at], "tides");
    for (at, owner) in owners.iter().enumerate() {
        let next = (at + 1) % 3;
        let relays = [at, next].map(|it| ring[it].front.relay_url());
        let listed = keys.iter().filter(|key| **key != keys[at]).cloned();
        let tags = vec![
            tag(["d", "tides"]),
            tag(["clone".to_owned(), place(at, at), place(at, next)]),
            tag(["relays".to_owned()].into_iter().chain(relays)),
            tag(["maintainers".to_owned()].into_iter().chain(listed)),
        ];
        let announcement = owner.sign_at(30617, "", tags, Timestamp::now() - 60);
        for it in [at, next] {
            publish(&ring[it].node, &announcement).await?;
        }
    }
    let began = Instant::now();
    ring[2].node.kill();
    for it in &ring[..2] {
        it.cable.block();
    }
    let state = push(&project, &ring[0].node, 50).await?;
    let about = |author: &Author, content: &str| {
        let coordinates = keys
            .iter()
            .map(|key| tag(["a", &format!("30617:{key}:tides")]));
        author.sign(1621, content, coordinates.collect())
    };
    let reporter = Author::new();
    let issue = about(&reporter, "ebb");
    publish(&ring[0].node, &issue).await?;
    let comment = reporter.comment(&issue, "still");
    publish(&ring[0].node, &comment).await?;
    let mut cut_off = ring[1].node.connect().await?;
    ensure!(!cut_off.serves(&issue.id).await?, "the cable was not cut");
    for it in &ring[..2] {
        it.cable.unblock();
    }
    ring[2].node.launch().await?;
    for it in &ring {
        all_served(&it.node, &[&state, &issue, &comment]).await?;
    }
    let second = about(&Author::new(), "flood");
    publish(&ring[1].node, &second).await?;
    until_ok("all serve the same", async || {
        let mut of_each = Vec::new();
        for it in &ring {
            of_each.push(events_of(&it.node).await?);
        }
        let is_one = of_each.iter().all(|events| *events == of_each[0]);
        Ok((is_one && of_each[0].contains(&second.id.to_hex())).then_some(()))
    })
    .await?;
    println!("the ring agreed after {:?}", began.elapsed());
    let expected = git::branches_and_tags(&place(0, 0)).await?;
    ensure!(!expected.is_empty(), "no refs");
    for (at, it) in ring.iter().enumerate() {
        for owner in [at, (at + 2) % 3] {
            let refs = git::branches_and_tags(&place(owner, at)).await?;
            ensure!(
                refs == expected,
                "{owner} at {at}: {refs:?} is not {expected:?}"
            );
        }
        println!("with other relays: {}", traffic(&it.node).await?);
    }
    Ok(())
}

#[tokio::test]
async fn g02_50_nodes_agree_without_nip77_too() -> Result<()> {
    let env = [("NGIT_SYNC_DISABLE_NEGENTROPY", "true")];
    let (a, b) = (node().await?, node_with(&env).await?);
    let project = LocalProject::new("tides")?;
    let state = push_to_one(&project, &a, &b).await?;
    served(&b, &state).await?;
    same_refs(&project, &a, &b).await
}

/// A newer announcement replaces the set of relays (G02-10), and a connection ends with its last repository.
#[tokio::test]
async fn g02_10_44_a_relay_that_no_repository_needs_is_left() -> Result<()> {
    let (a, b) = (node().await?, node().await?);
    let project = LocalProject::new("tides")?;
    announce(&project, &[&a, &b]).await?;
    until_relay(&a, "a follows b", |relay| relay["health"] == "healthy").await?;
    publish(&a, &project.announcement_at(&[&a], &[], 0)).await?;
    until_ok("a has left b", async || {
        Ok(relays(&a).await?.is_empty().then_some(()))
    })
    .await
}

/// G01-127
#[tokio::test]
async fn a_request_to_vanish_that_one_node_got_acts_on_the_other_too() -> Result<()> {
    let (a, b) = (node().await?, node().await?);
    let project = LocalProject::new("tides")?;
    let announcement = announce(&project, &[&a, &b]).await?;
    let state = push(&project, &a, 50).await?;
    all_served(&b, &[&announcement, &state]).await?;
    let request = vec![tag(["relay", "ALL_RELAYS"])];
    publish(&a, &project.owner.sign(62, "", request)).await?;
    let mut relay = b.connect().await?;
    until_ok("b has let the owner vanish", async || {
        let is_there = relay.serves(&announcement.id).await? || relay.serves(&state.id).await?;
        Ok((!is_there).then_some(()))
    })
    .await
}

#[tokio::test]
async fn g02_1_deletions_that_one_node_got_act_on_the_other_too() -> Result<()> {
    let (a, b) = (node().await?, node().await?);
    let project = LocalProject::new("tides")?;
    announce(&project, &[&a, &b]).await?;
    let state = push(&project, &a, 50).await?;
    let reporter = Author::new();
    let issue = reporter.issue(&project.owner, "tides", "ebb");
    publish(&a, &issue).await?;
    all_served(&b, &[&state, &issue]).await?;
    let of_issue = vec![tag(["e", &issue.id.to_hex()]), tag(["k", "1621"])];
    let of_issue = reporter.sign(5, "", of_issue);
    let address = format!("30618:{}:tides", project.owner.hex());
    let of_state = vec![tag(["a", address.as_str()]), tag(["k", "30618"])];
    let of_state = project.owner.sign(5, "", of_state);
    for request in [&of_issue, &of_state] {
        publish(&a, request).await?;
        served(&b, request).await?;
    }
    let mut relay = b.connect().await?;
    for event in [&issue, &state] {
        ensure!(
            !relay.serves(&event.id).await?,
            "kind {} is served",
            event.kind
        );
    }
    Ok(())
}

/// The tip is fetched at the share of its contributor, who named the place.
#[tokio::test]
async fn g02_3_a_tip_that_only_a_contributor_repository_of_another_server_has_is_fetched()
-> Result<()> {
    let (a, b) = (
        node_with(&[("NGIT_GRASP06_ENABLE", "true")]).await?,
        node().await?,
    );
    let project = LocalProject::new("tides")?;
    // One of the two has the repository; the other is a relay of it, and hosts the contributor.
    let tags = vec![
        tag(["d", "tides"]),
        tag(["clone".to_owned(), project.url(&b)]),
        tag(["relays".to_owned(), b.relay_url(), a.relay_url()]),
    ];
    publish(&b, &project.owner.sign(30617, "", tags)).await?;
    push(&project, &b, 5).await?;
    let contributor = Author::new();
    let place = format!(
        "http://{}/prs/{}/tides.git",
        a.authority(),
        contributor.npub()
    );
    let tip = project.tree.commit("fix", "1")?;
    let request = contributor.pull_request(&project.owner, "tides", &tip, &place);
    let name = format!("refs/nostr/{}", request.id.to_hex());
    let refspec = format!("{tip}:{name}");
    project.tree.push_ok(&place, &[&refspec]).await?;
    publish(&a, &request).await?;
    served(&b, &request).await?;
    let refs = git::ls_remote(&project.url(&b)).await?;
    ensure!(refs.contains(&(name, tip)), "{refs:?}");
    Ok(())
}

/// Has everything on `a` before `b` hears of it.
async fn push_to_one(project: &LocalProject, a: &Node, b: &Node) -> Result<nostr::prelude::Event> {
    let announcement = project.announcement_at(&[a, b], &[], 60);
    publish(a, &announcement).await?;
    let state = push(project, a, 50).await?;
    publish(b, &announcement).await?;
    Ok(state)
}
