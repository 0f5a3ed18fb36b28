//! Damage to a data directory: the node starts, serves what is sound, names what is not, and mends
//! what events or another server can bring back.

use grip_grasp::DataSource;
use grip_testkit::{
    Author, WorkTree,
    damage::{DAMAGE, Damage, Files, Repair},
    wire,
};
use grip_types::Identifier;

use crate::node::{HELD, Node, ZERO, addr, announce};

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
    let is_whole = matches!(repair, Repair::ByEvents | Repair::WhenRead);
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
}

#[tokio::test]
async fn a_repository_that_cannot_be_used_is_named_and_stops_no_other() {
    suffers_all(Repair::ByHand).await;
}
