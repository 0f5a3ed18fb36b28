//! Roles: whose states move the refs of which repository, as the node explains it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, Node, WorkTree,
    events::tag,
    http::must_contain,
    roles::{RoleCase, RoleSet, role_cases, role_tags},
};
use nostr::prelude::Timestamp;
use serde_json::Value;

use super::scene::{node, publish};

/// Held ones count as served ones do; older ones and those of another identifier do not.
#[tokio::test]
async fn g01_68_the_newest_announcement_of_each_author_counts_under_its_own_identifier()
-> Result<()> {
    let node = node().await?;
    let [a, b] = [0; 2].map(|_| Author::new());
    let mut relay = node.connect().await?;
    let mut announce = async |author: &Author, identifier: &str, listed: &[&Author], age: u64| {
        let keys = listed.iter().map(|it| it.hex());
        let tags = vec![tag(["maintainers".to_owned()].into_iter().chain(keys))];
        let at = Timestamp::now() - age;
        let event = author.announcement_at(&node.authority(), identifier, tags, at);
        anyhow::Ok(relay.publish(&event).await?.is_held())
    };
    let owner = a.npub();
    let maintainers = async || -> Result<BTreeSet<String>> {
        let explained = node.explain(&format!("{owner}/tides")).await?;
        let shown = explained["repository"]["maintainers"].as_array();
        let shown = shown.with_context(|| format!("{explained:#}"))?.iter();
        Ok(shown.filter_map(Value::as_str).map(str::to_owned).collect())
    };
    let alone = BTreeSet::from([a.npub()]);
    let both = BTreeSet::from([a.npub(), b.npub()]);
    ensure!(announce(&a, "tides", &[&b], 60).await?);
    ensure!(announce(&b, "ebb", &[&a], 50).await?);
    ensure!(maintainers().await? == alone, "of another identifier");
    ensure!(announce(&b, "tides", &[&a], 50).await?);
    ensure!(maintainers().await? == both, "held, and it answers");
    ensure!(announce(&b, "tides", &[], 40).await?);
    ensure!(maintainers().await? == alone, "a newer one answers no more");
    ensure!(!announce(&b, "tides", &[&a], 45).await?, "an older one");
    ensure!(maintainers().await? == alone);
    ensure!(announce(&b, "tides", &[&a], 30).await?);
    ensure!(maintainers().await? == both, "and the newest does again");
    Ok(())
}

/// For each coordinate apart.
#[tokio::test]
async fn g01_69_to_76_explain_names_the_maintainers_of_the_worked_cases_and_whom_they_invite()
-> Result<()> {
    let node = node().await?;
    for case in &role_cases() {
        worked(&node, case)
            .await
            .with_context(|| format!("case {}: {:?}", case.number, case.announcements))?;
    }
    Ok(())
}

async fn worked(node: &Node, case: &RoleCase) -> Result<()> {
    let people: BTreeMap<char, Author> = ['A', 'B', 'C'].map(|it| (it, Author::new())).into();
    let identifier = format!("case-{}", case.number);
    for text in &case.announcements {
        let author = &people[&text.chars().next().context("it names its author")?];
        let tags = role_tags(text, |name| people[&name].hex());
        let event = author.announcement(&node.authority(), &identifier, tags);
        publish(node, &event).await?;
    }
    let is_announced = |set: &&RoleSet| {
        let mut texts = case.announcements.iter();
        texts.any(|text| text.starts_with(set.owner))
    };
    for set in case.sets.iter().filter(is_announced) {
        let owner = people[&set.owner].npub();
        let explained = node.explain(&format!("{owner}/{identifier}")).await?;
        let compared = compare(set, &people, &explained["repository"]);
        compared.with_context(|| format!("owner {}: {explained:#}", set.owner))?;
    }
    Ok(())
}

fn compare(set: &RoleSet, people: &BTreeMap<char, Author>, repository: &Value) -> Result<()> {
    let texts = |name: &str| -> Vec<String> {
        let texts = repository[name].as_array().into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let members = set.members.chars().map(|name| people[&name].npub());
    let members: BTreeSet<String> = members.collect();
    let shown: BTreeSet<String> = texts("maintainers").into_iter().collect();
    ensure!(shown == members, "{shown:?} may move refs");
    let roles = texts("roles");
    let is_empty = roles
        .iter()
        .any(|role| role.starts_with("nobody maintains"));
    ensure!(is_empty != set.why.is_empty(), "{roles:?}");
    for name in set.invited.chars() {
        let invited = format!("invited {}, who", people[&name].npub());
        ensure!(
            roles.iter().any(|it| it.contains(&invited)),
            "{name}: {roles:?}"
        );
    }
    Ok(())
}

/// Case 3: A lists B, who has announced nothing.
#[tokio::test]
async fn g01_78_what_only_the_legacy_rule_would_have_allowed_is_logged_once() -> Result<()> {
    const LINE: &str = "which only the legacy maintainer rule would have allowed";
    let mut node = node().await?;
    let [a, b, c] = [0; 3].map(|_| Author::new());
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let listed = vec![tag(["maintainers", &b.hex()])];
    publish(&node, &a.announcement(&node.authority(), "tides", listed)).await?;
    let mut relay = node.connect().await?;
    for (author, age) in [(&b, 2), (&b, 1), (&c, 1)] {
        let at = Timestamp::now() - age;
        let main = "refs/heads/main";
        let state = author.state_at("tides", &[(main, &tip)], Some(main), at);
        relay.publish(&state).await?;
    }
    let lines = |log: &str| -> Vec<String> {
        let lines = log.lines().filter(|line| line.contains(LINE));
        lines.map(str::to_owned).collect()
    };
    let logged = lines(&node.log());
    ensure!(logged.len() == 1, "{logged:#?}");
    let (owner, author) = (a.npub(), b.npub());
    let named = ["INFO", "a state", &owner, "tides", &author, "why="];
    must_contain(&logged[0], &named);
    // A push is spoken of as well; what was said is forgotten with the process.
    node.crash_and_restart().await?;
    let url = a.clone_url(&node.authority(), "tides");
    ensure!(!tree.push(&url, &["main"]).await?.ok);
    let logged = lines(&node.log());
    ensure!(logged.len() == 2, "{logged:#?}");
    must_contain(
        &logged[1],
        &["INFO", "refused a push", &owner, "tides", &author, "why="],
    );
    Ok(())
}
