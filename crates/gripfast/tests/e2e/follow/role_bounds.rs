//! Bounds of roles: long chains of leads, long lists, and crowds under one name (G01-82).

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Node, events::tag, http::must_contain};
use nostr::prelude::Event;
use serde_json::{Value, json};

use super::scene::node;

/// Keys of one set, and leads that are followed.
const MAX_KEYS: usize = 64;
/// More than both.
const MANY: usize = MAX_KEYS + 6;
/// People who use one name: more than announcements of one name are shown at a time.
const CROWD: usize = 220;

/// Publishes announcements in one go; each must be taken.
async fn announce_all(node: &Node, events: &[Event]) -> Result<()> {
    let mut relay = node.connect().await?;
    for event in events {
        relay.send(json!(["EVENT", event])).await?;
    }
    for event in events {
        let answer = relay.answer(&event.id).await?;
        ensure!(answer.accepted, "{answer:?}");
    }
    Ok(())
}

async fn maintainers(node: &Node, owner: &Author, identifier: &str) -> Result<BTreeSet<String>> {
    let subject = format!("{}/{identifier}", owner.npub());
    let explained = node.explain(&subject).await?;
    let shown = explained["repository"]["maintainers"].as_array();
    let shown = shown.with_context(|| format!("{explained:#}"))?.iter();
    Ok(shown.filter_map(Value::as_str).map(str::to_owned).collect())
}

#[tokio::test]
async fn g01_82_leads_are_followed_for_64_steps_and_a_set_has_64_keys() -> Result<()> {
    let node = node().await?;
    let people: Vec<Author> = (0..MANY).map(|_| Author::new()).collect();
    let announce = |author: &Author, identifier: &str, tags| {
        author.announcement(&node.authority(), identifier, tags)
    };
    // Each points to the next one, and the last, who is the first to announce, to itself.
    let last = people.last().context("many")?;
    let next = people.iter().skip(1).chain([last]);
    let chain: Vec<(&Author, &Author)> = people.iter().zip(next).collect();
    let chain: Vec<Event> = chain
        .into_iter()
        .rev()
        .map(|(author, lead)| announce(author, "chain", vec![tag(["M", &lead.hex()])]))
        .collect();
    announce_all(&node, &chain).await?;
    let lead = BTreeSet::from([last.npub()]);
    let near = &people[MANY - MAX_KEYS];
    ensure!(
        maintainers(&node, near, "chain").await? == lead,
        "64 on the way"
    );
    let far = &people[MANY - MAX_KEYS - 1];
    ensure!(
        maintainers(&node, far, "chain").await?.is_empty(),
        "one more"
    );
    // All of them and their lead list each other.
    let owner = Author::new();
    let listed = people.iter().map(Author::hex);
    let list = vec![tag(["maintainers".to_owned()].into_iter().chain(listed))];
    let back = || vec![tag(["maintainers".to_owned(), owner.hex()])];
    let crowd = people.iter().map(|it| announce(it, "list", back()));
    let crowd: Vec<Event> = crowd.chain([announce(&owner, "list", list)]).collect();
    announce_all(&node, &crowd).await?;
    let set = maintainers(&node, &owner, "list").await?;
    ensure!(
        set.len() == MAX_KEYS && set.contains(&owner.npub()),
        "{}",
        set.len()
    );
    Ok(())
}

/// Whom an owner trusts is computed from the owner on, not over some of those who use the name.
#[tokio::test]
async fn g01_82_a_crowd_under_the_same_name_changes_nobodys_maintainers() -> Result<()> {
    let node = node().await?;
    let [a, b] = [0; 2].map(|_| Author::new());
    let listing = |author: &Author, others: &[&Author]| {
        let keys = others.iter().map(|it| it.hex());
        let tags = vec![tag(["maintainers".to_owned()].into_iter().chain(keys))];
        author.announcement(&node.authority(), "tides", tags)
    };
    let crowd: Vec<Author> = (0..CROWD).map(|_| Author::new()).collect();
    let (before, after) = crowd.split_at(CROWD / 4);
    let listing_both = |people: &[Author]| -> Vec<Event> {
        people.iter().map(|it| listing(it, &[&a, &b])).collect()
    };
    announce_all(&node, &listing_both(before)).await?;
    announce_all(&node, &[listing(&a, &[&b]), listing(&b, &[&a])]).await?;
    announce_all(&node, &listing_both(after)).await?;
    let both = BTreeSet::from([a.npub(), b.npub()]);
    for owner in [&a, &b] {
        let set = maintainers(&node, owner, "tides").await?;
        ensure!(set == both, "{set:?}");
    }
    let mut relay = node.connect().await?;
    let tip = "1".repeat(40);
    let refs = [("refs/heads/main", tip.as_str())];
    ensure!(
        relay
            .publish(&b.state("tides", &refs, None))
            .await?
            .is_held()
    );
    let stranger = relay.publish(&crowd[0].state("ebb", &refs, None)).await?;
    ensure!(!stranger.accepted, "{stranger:?}");
    Ok(())
}

/// What the operator reads is how each of them came to it.
#[tokio::test]
async fn explain_prints_who_leads_who_invited_whom_and_who_accepted() -> Result<()> {
    let node = node().await?;
    let [a, b, c] = [0; 3].map(|_| Author::new());
    let listing = |author: &Author, others: &[&Author]| {
        let keys = others.iter().map(|it| it.hex());
        let tags = vec![tag(["maintainers".to_owned()].into_iter().chain(keys))];
        author.announcement(&node.authority(), "tides", tags)
    };
    announce_all(&node, &[listing(&a, &[&b, &c]), listing(&b, &[&a])]).await?;
    let [a, b, c] = [a, b, c].map(|it| it.npub());
    let printed = node.run(&["explain", &format!("{a}/tides")]).await?;
    must_contain(
        &printed,
        &[
            &format!("{a} leads"),
            &format!("{a} invited {b}, {b} accepted"),
            &format!("{a} invited {c}, who has not announced the repository"),
        ],
    );
    Ok(())
}
