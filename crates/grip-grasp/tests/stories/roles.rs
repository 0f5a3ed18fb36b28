//! The right to move refs: leads, invitations and answers to them (G01-68 to G01-81).

use grip_grasp::RepositoryStatus;
use grip_nostr::MaintainerRule;
use grip_testkit::{Author, events::tag};
use nostr::prelude::{Event, Timestamp};

use crate::node::{HELD, Node, SERVICE, Scene, addr, announce, announce_at, elsewhere, later};

/// An announcement that lists the node, with role tags.
fn roles(author: &Author, roles: &[(&str, &Author)], at: Timestamp) -> Event {
    let tags = roles.iter().map(|(role, key)| tag([*role, &key.hex()]));
    author.announcement_at(SERVICE, "x", tags.collect(), at)
}

/// A scene whose owner has invited somebody.
async fn invited() -> (Scene, Author) {
    let (scene, m) = (Scene::new().await, Author::new());
    let listing = announce_at(&scene.owner, "x", &[&m], later(1));
    scene.node.accepts(&listing, "").await;
    (scene, m)
}

#[tokio::test]
async fn g01_80_the_state_of_an_invited_key_is_held_and_authorises_nothing() {
    let (mut scene, m) = invited().await;
    let next = scene.commit("next");
    let state = scene.hold_by(&m, &next, 2).await;
    let told = scene.push_main(&scene.tip, &next).await;
    told.refused("has not announced the repository");
    assert!(!scene.node.serves(&state) && scene.node.holds(&state).await);
    assert_eq!(scene.main(), scene.tip);
    // Its objects are no reason to serve it either.
    let known = m.state_at("x", &[("refs/heads/other", &scene.tip)], None, later(3));
    scene.node.accepts(&known, HELD).await;
    scene.node.restart().await;
    assert!(!scene.node.serves(&known) && scene.node.holds(&known).await);
    let stranger = Author::new().state("x", &[("refs/heads/main", &next)], None);
    scene.node.refuses(&stranger, "no owner here lists").await;
    scene.node.agrees().await;
}

#[tokio::test]
async fn g01_31_who_is_not_invited_any_more_loses_the_held_state() {
    let (scene, m) = invited().await;
    let next = scene.commit("next");
    let state = scene.hold_by(&m, &next, 2).await;
    let struck = announce_at(&scene.owner, "x", &[], later(3));
    scene.node.accepts(&struck, "").await;
    assert!(!scene.node.holds(&state).await);
    assert_eq!(scene.node.waiting(), 0);
}

#[tokio::test]
async fn g01_79_an_announcement_that_does_not_answer_is_served_and_gives_no_authority() {
    let (scene, m) = invited().await;
    let next = scene.commit("next");
    let own = elsewhere(&m, &[], later(2));
    scene.node.accepts(&own, "").await;
    assert!(scene.node.serves(&own));
    assert_eq!(scene.node.grasp().repository(&addr(&m, "x")), None);
    scene.hold_by(&m, &next, 3).await;
    let told = scene.push_main(&scene.tip, &next).await;
    told.refused("has not listed a maintainer in return");
    // The answer is a new version of what is served for discovery alone (G01-6).
    let answer = elsewhere(&m, &[&scene.owner], later(4));
    scene.node.accepts(&answer, "").await;
    scene.push_main(&scene.tip, &next).await.taken("");
    assert_eq!(scene.main(), next);
}

#[tokio::test]
async fn g01_75_who_has_left_is_heard_and_not_held() {
    let (scene, m) = invited().await;
    let answer = elsewhere(&m, &[&scene.owner], later(2));
    scene.node.accepts(&answer, "").await;
    let next = scene.commit("next");
    scene.hold_by(&m, &next, 3).await;
    let leaving = m.announcement_at(
        "other.example.com",
        "x",
        vec![tag(["m", &m.hex(), "100", "200"])],
        later(4),
    );
    scene.node.accepts(&leaving, "").await;
    assert_eq!(scene.node.waiting(), 0, "the held state is dropped");
    let again = m.state_at("x", &[("refs/heads/main", &next)], None, later(5));
    scene.node.refuses(&again, "has left").await;
    scene.push_main(&scene.tip, &next).await.refused("");
}

#[tokio::test]
async fn g01_73_an_empty_set_refuses_states_and_pushes_with_the_reason_and_keeps_the_refs() {
    let (scene, b) = (Scene::new().await, Author::new());
    let next = scene.commit("next");
    let two_leads = roles(&scene.owner, &[("M", &scene.owner), ("M", &b)], later(1));
    scene.node.accepts(&two_leads, "").await;
    let state = scene
        .owner
        .state_at("x", &[("refs/heads/main", &next)], None, later(2));
    scene.node.refuses(&state, "names several leads").await;
    let told = scene.push_main(&scene.tip, &next).await;
    told.refused("names several leads");
    // It stays readable, and its refs as they were.
    assert_eq!(scene.main(), scene.tip);
    let status = scene.node.grasp().repository(&scene.repo);
    assert_eq!(status, Some(RepositoryStatus::Served));
    scene.node.agrees().await;
    let explained = scene.node.grasp().explain(&scene.repo.to_string()).await;
    let repository = explained.unwrap().repository.unwrap();
    assert_eq!(
        repository.roles,
        ["nobody maintains it: an announcement names several leads"]
    );
    // With one lead again everything goes on.
    let one_lead = roles(&scene.owner, &[("M", &scene.owner)], later(3));
    scene.node.accepts(&one_lead, "").await;
    scene.node.accepts(&state, HELD).await;
    scene.push_main(&scene.tip, &next).await.taken("");
}

#[tokio::test]
async fn explain_tells_the_chain_in_words() {
    let (scene, m) = invited().await;
    let (owner, member) = (scene.owner.npub(), m.npub());
    let roles = || async {
        let explained = scene.node.grasp().explain(&scene.repo.to_string()).await;
        explained.unwrap().repository.unwrap().roles
    };
    let invited = format!("{owner} invited {member}, who has not announced the repository");
    assert_eq!(roles().await, [format!("{owner} leads"), invited]);
    let answer = elsewhere(&m, &[&scene.owner], later(2));
    scene.node.accepts(&answer, "").await;
    let accepted = format!("{owner} invited {member}, {member} accepted");
    assert_eq!(roles().await, [format!("{owner} leads"), accepted.clone()]);
    let state = scene.hold_by(&m, &scene.commit("next"), 3).await;
    let explained = scene
        .node
        .grasp()
        .explain(&state.id.to_hex())
        .await
        .unwrap();
    let chain = explained.chain.join("\n");
    assert!(chain.contains(&accepted), "{chain}");
}

#[tokio::test]
async fn g01_77_a_change_of_the_rule_alone_moves_no_refs_back_that_a_lead_still_signs() {
    let (owner, node) = (Author::new(), Node::start().await);
    node.set_policy(|policy| policy.maintainer_rule = MaintainerRule::Legacy);
    node.accepts(&announce(&owner, "x", &[&Author::new()]), HELD)
        .await;
    node.enforce(|policy| policy.maintainer_rule = MaintainerRule::Reciprocal)
        .await;
    assert!(node.grasp().repository(&addr(&owner, "x")).is_some());
    node.agrees().await;
}
