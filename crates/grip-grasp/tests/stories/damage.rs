//! Damage to a data directory: the node starts, serves what is sound, names what is not, and mends
//! what events or another server can bring back.

use std::time::Duration;

use grip_grasp::{CheckOptions, CheckRange, DataSource, Disagreement};
use grip_testkit::{
    Author, WorkTree,
    damage::{DAMAGE, Damage, Files, Repair},
    wire,
};
use grip_types::Identifier;

use crate::{
    expiry::in_minutes,
    node::{HELD, Node, Scene, ZERO, addr, announce},
};

/// A served repository of one commit.
async fn publish(node: &Node, owner: &Author, name: &str, tree: &WorkTree) -> String {
    let tip = tree.tip("HEAD").unwrap();
    node.accepts(&announce(owner, name, &[]), HELD).await;
    let refs = [("refs/heads/main", tip.as_str())];
    let state = owner.state(name, &refs, Some("refs/heads/main"));
    node.accepts(&state, HELD).await;
    let push = [(ZERO, tip.as_str(), "refs/heads/main")];
    node.push(&addr(owner, name), tree, &push).await.taken("");
    tip
}

async fn suffers(kind: &Damage) {
    let (what, repair) = (kind.name, kind.repair);
    let (owner, mut node) = (Author::new(), Node::start().await);
    let tree = WorkTree::with_commit().unwrap();
    let tip = publish(&node, &owner, "sound", &tree).await;
    publish(&node, &owner, "x", &tree).await;
    let repo = addr(&owner, "x");
    let files = Files::new(node.data_dir(), &owner.npub(), "x");
    node.restart_after(|| kind.harm(&files).unwrap()).await;
    let sound = addr(&owner, "sound");
    assert_eq!(node.refs(&sound)["refs/heads/main"], tip, "{what}");
    assert_eq!(node.grasp().damage(&sound), None, "{what}");
    let damage = node.grasp().damage(&repo);
    let is_whole = !matches!(repair, Repair::ByFetch | Repair::ByHand);
    assert_eq!(damage.is_none(), is_whole, "{what}: {damage:?}");
    if repair == Repair::ByFetch {
        let wanted = node.grasp().stats().purgatory.wanted;
        assert_eq!(wanted, 1, "{what}: its data is looked for");
        let pack = wire::pack(&tree, &tip, None).await.unwrap();
        node.receive("x", pack).await.promote().unwrap();
        let x = Identifier::parse("x").unwrap();
        let grasp = node.grasp();
        grasp
            .process_newly_available_git_data(&x, DataSource::Fetch)
            .await;
        assert_eq!(grasp.damage(&repo), None, "{what}");
        assert_eq!(grasp.stats().purgatory.wanted, 0, "{what}");
    }
    if repair != Repair::ByHand {
        assert_eq!(node.refs(&repo)["refs/heads/main"], tip, "{what}");
        assert_eq!(node.refs(&repo)["HEAD"], "refs/heads/main", "{what}");
        node.agrees().await;
    } else {
        node.ends_in_disagreement();
    }
}

async fn suffers_all(repair: Repair) {
    let kinds = DAMAGE.iter().filter(|kind| kind.shows_at_start);
    for kind in kinds.filter(|kind| kind.repair == repair) {
        suffers(kind).await;
    }
}

#[tokio::test]
async fn damage_to_packs_is_noticed_and_mended_by_a_fetch() {
    suffers_all(Repair::ByFetch).await;
}

#[tokio::test]
async fn damage_to_refs_is_mended_by_what_the_events_say() {
    suffers_all(Repair::ByEvents).await;
    suffers_all(Repair::WhenRead).await;
    suffers_all(Repair::Needless).await;
}

#[tokio::test]
async fn a_repository_that_cannot_be_used_is_named_and_stops_no_other() {
    suffers_all(Repair::ByHand).await;
}

/// What only reading everything can find is looked for all the same, and everything is read again once it is
/// here.
#[tokio::test]
async fn damage_that_a_full_check_finds_is_mended_by_a_fetch() {
    for kind in DAMAGE.iter().filter(|kind| !kind.shows_at_start) {
        let mut scene = Scene::new().await;
        let what = kind.name;
        let files = Files::new(scene.node.data_dir(), &scene.owner.npub(), "x");
        scene
            .node
            .restart_after(|| kind.harm(&files).unwrap())
            .await;
        let grasp = scene.node.grasp();
        let range = CheckRange {
            after: None,
            limit: 10,
            time: Duration::from_secs(60),
        };
        let full = CheckOptions {
            full: true,
            ..CheckOptions::default()
        };
        let checked = grasp.check(range, full).await.unwrap();
        assert!(!checked.found.is_empty(), "{what}");
        let sweep = async || grasp.sweep(in_minutes(0)).await;
        // Once it is set aside there is nothing to do until its data comes.
        for _ in 0..2 {
            sweep().await;
            assert!(grasp.damage(&scene.repo).is_some(), "{what}");
            assert_eq!(grasp.stats().purgatory.wanted, 1, "{what}");
        }
        let pack = wire::pack(&scene.tree, &scene.tip, None).await.unwrap();
        scene.node.receive("x", pack).await.promote().unwrap();
        let x = Identifier::parse("x").unwrap();
        grasp
            .process_newly_available_git_data(&x, DataSource::Fetch)
            .await;
        sweep().await;
        assert_eq!(grasp.damage(&scene.repo), None, "{what}");
        assert_eq!(scene.main(), scene.tip, "{what}");
        scene.node.agrees().await;
    }
}

/// A served pull request whose tip is gone is named, looked for, and shown again once it is back.
#[tokio::test]
async fn a_served_pull_request_without_its_tip_is_named_and_looked_for() {
    let Scene {
        owner,
        mut node,
        tree,
        repo,
        tip: main,
    } = Scene::new().await;
    let before = node.pack_files("x");
    let tip = tree.commit("a", "proposal").unwrap();
    let request = Author::new().pull_request(&owner, "x", &tip, "https://elsewhere.example/x.git");
    node.accepts(&request, HELD).await;
    let name = format!("refs/nostr/{}", request.id.to_hex());
    let push = [(ZERO, tip.as_str(), name.as_str())];
    node.push(&repo, &tree, &push).await.taken("");
    assert!(node.serves(&request));
    let mut packs = node.pack_files("x");
    packs.retain(|pack| !before.contains(pack));
    assert_eq!(packs.len(), 1, "the proposal has a pack of its own");
    let dir = node.data_dir().join("git/.objects/x.git/objects/pack");
    node.restart_after(|| {
        for extension in ["idx", "rev", "pack"] {
            let _ = std::fs::remove_file(dir.join(&packs[0]).with_extension(extension));
        }
    })
    .await;

    let x = Identifier::parse("x").unwrap();
    let lost = |found: Vec<Disagreement>| {
        let kinds = found.iter().map(|it| it.fault.kind());
        kinds.filter(|kind| *kind == "lost_tip").count()
    };
    let audit = async || node.grasp().audit(&x).await.unwrap();
    assert_eq!(lost(audit().await), 1);
    let range = CheckRange {
        after: None,
        limit: 10,
        time: Duration::from_secs(60),
    };
    let checked = node.grasp().check(range, CheckOptions::default()).await;
    assert_eq!(lost(checked.unwrap().found), 1);
    assert_eq!(
        node.grasp().damage(&repo),
        None,
        "it is served all the same"
    );
    assert_eq!(node.refs(&repo)["refs/heads/main"], main);
    // Whatever else happens meanwhile, it is looked for.
    let grasp = node.grasp();
    for _ in 0..2 {
        assert_eq!(grasp.stats().purgatory.wanted, 1);
        grasp
            .process_newly_available_git_data(&x, DataSource::Fetch)
            .await;
    }

    let pack = wire::pack(&tree, &tip, None).await.unwrap();
    node.receive("x", pack).await.promote().unwrap();
    grasp
        .process_newly_available_git_data(&x, DataSource::Fetch)
        .await;
    assert_eq!(grasp.stats().purgatory.wanted, 0);
    assert_eq!(node.refs(&repo)[&name], tip);
    node.agrees().await;
}

#[tokio::test]
async fn object_directories_that_belong_to_nobody_are_named() {
    let scene = Scene::new().await;
    let grasp = scene.node.grasp();
    let stray = async |options| {
        let range = CheckRange {
            after: None,
            limit: 10,
            time: Duration::from_secs(60),
        };
        let checked = grasp.check(range, options).await.unwrap();
        let found = checked.found.iter().map(ToString::to_string);
        found.collect::<Vec<_>>()
    };
    assert_eq!(stray(CheckOptions::default()).await, [""; 0]);
    let stores = scene.node.data_dir().join("git/.objects");
    std::fs::create_dir_all(stores.join("left behind/objects/pack")).unwrap();
    let found = stray(CheckOptions::default()).await;
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains(".objects/left behind is on disk"),
        "{found:?}"
    );
    // It is nothing of ours: a person decides.
    let repair = CheckOptions {
        repair: true,
        ..CheckOptions::default()
    };
    assert_eq!(stray(repair).await, found);
    assert!(stores.join("left behind").exists());
    scene.node.ends_in_disagreement();
}
