//! Damage to a data directory: the node starts, serves what is sound, names what is not, and mends
//! what events or another server can bring back.

use grip_grasp::DataSource;
use grip_testkit::{
    Author, WorkTree,
    damage::{DAMAGE, Ends, Harm, Paths},
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

async fn suffers(what: &str, harm: Harm, ends: Ends) {
    let (owner, mut node) = (Author::new(), Node::start().await);
    let tree = WorkTree::with_commit().unwrap();
    let tip = publish(&node, &owner, "sound", &tree).await;
    publish(&node, &owner, "x", &tree).await;
    let repo = addr(&owner, "x");
    let paths = Paths::new(node.data_dir(), &owner.npub(), "x");
    node.restart_after(|| harm(&paths).unwrap()).await;
    let sound = addr(&owner, "sound");
    assert_eq!(node.refs(&sound)["refs/heads/main"], tip, "{what}");
    assert_eq!(node.grasp().damage(&sound), None, "{what}");
    let damage = node.grasp().damage(&repo);
    assert_eq!(damage.is_none(), ends == Ends::Whole, "{what}: {damage:?}");
    if ends == Ends::Fetched {
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
    if ends != Ends::Named {
        assert_eq!(node.refs(&repo)["refs/heads/main"], tip, "{what}");
        assert_eq!(node.refs(&repo)["HEAD"], "refs/heads/main", "{what}");
        node.agrees().await;
    }
}

#[tokio::test]
async fn damage_to_packs_is_noticed_and_mended_by_a_fetch() {
    for (what, harm, ends) in DAMAGE {
        if ends == Ends::Fetched {
            suffers(what, harm, ends).await;
        }
    }
}

#[tokio::test]
async fn damage_to_refs_is_mended_by_what_the_events_say() {
    for (what, harm, ends) in DAMAGE {
        if ends == Ends::Whole {
            suffers(what, harm, ends).await;
        }
    }
}

#[tokio::test]
async fn a_repository_that_cannot_be_used_is_named_and_stops_no_other() {
    for (what, harm, ends) in DAMAGE {
        if ends == Ends::Named {
            suffers(what, harm, ends).await;
        }
    }
}
