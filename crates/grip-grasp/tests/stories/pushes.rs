//! Pushes: allowed, refused, half and broken.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use grip_testkit::{Author, WorkTree, wire, within};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use crate::node::{HELD, Node, Scene, ZERO, addr, announce, later, told};

#[tokio::test]
async fn a_refused_push_leaves_no_object_and_tells_why() {
    let scene = Scene::new().await;
    let unsigned = scene.commit("nobody signed this");
    let told = scene.push_main(&scene.tip, &unsigned).await;
    told.refused("");
    assert!(told.text.contains("unpack rejected\n") && told.text.contains("ng refs/heads/main"));
    assert!(told.text.contains("publish a new state first"), "{told:?}");
    assert!(!scene.node.has_object("x", &unsigned));
    assert_eq!(scene.main(), scene.tip);
}

#[tokio::test]
async fn a_push_that_changes_nothing_leaves_none_of_its_bytes() {
    let scene = Scene::new().await;
    let before = scene.node.pack_files("x");
    let foreign = WorkTree::with_commit().unwrap();
    let planted = foreign.commit("planted", "of a stranger").unwrap();
    let tip = scene.tip.as_str();
    let mut body = wire::commands(&[(tip, tip, "refs/heads/main")], wire::CAPABILITIES);
    body.extend(wire::pack(&foreign, &planted, None).await.unwrap());
    let told = scene.node.push_bytes(&scene.repo, body).await;
    told.taken("ok refs/heads/main");
    assert!(!scene.node.has_object("x", &planted));
    assert_eq!(scene.node.pack_files("x"), before);
    // Also what is here already is not stored a second time.
    let told = scene.push_main(tip, tip).await;
    told.taken("ok refs/heads/main");
    assert_eq!(scene.node.pack_files("x"), before);
}

#[tokio::test]
async fn of_a_pack_only_what_the_new_tips_reach_is_kept() {
    let scene = Scene::new().await;
    let (next, state) = scene.hold_next().await;
    let foreign = scene
        .tree
        .git(["commit-tree", "HEAD^{tree}", "-m", "planted"])
        .unwrap();
    let mut body = wire::commands(
        &[(&scene.tip, &next, "refs/heads/main")],
        wire::CAPABILITIES,
    );
    let both = format!("{next}\n{foreign}");
    body.extend(wire::pack(&scene.tree, &both, None).await.unwrap());
    scene.node.push_bytes(&scene.repo, body).await.taken("");
    assert!(scene.node.serves(&state) && scene.node.has_object("x", &next));
    assert!(!scene.node.has_object("x", &foreign));
    assert!(scene.node.fsck_is_clean(&scene.repo).await);
}

#[tokio::test]
async fn part_of_a_state_is_taken_and_the_state_waits_for_the_rest() {
    let (owner, node) = (Author::new(), Node::start().await);
    let repo = addr(&owner, "x");
    let tree = WorkTree::with_commit().unwrap();
    let one = tree.tip("HEAD").unwrap();
    let two = tree.commit("a", "two").unwrap();
    let announcement = announce(&owner, "x", &[]);
    node.accepts(&announcement, HELD).await;
    let refs = [
        ("refs/heads/main", one.as_str()),
        ("refs/heads/next", two.as_str()),
    ];
    let state = owner.state("x", &refs, Some("refs/heads/next"));
    node.accepts(&state, HELD).await;

    let told = node
        .push(&repo, &tree, &[(ZERO, &one, "refs/heads/main")])
        .await;
    told.taken("waits for the rest");
    assert_eq!(node.refs(&repo)["refs/heads/main"], one);
    assert!(!node.serves(&state) && !node.serves(&announcement));

    assert!(
        node.push(&repo, &tree, &[(ZERO, &two, "refs/heads/next")])
            .await
            .accepted
    );
    assert!(node.serves(&state) && node.serves(&announcement));
    assert_eq!(node.refs(&repo)["HEAD"], "refs/heads/next");
}

#[tokio::test]
async fn an_old_value_that_is_out_of_date_refuses_the_push() {
    let scene = Scene::new().await;
    let (next, _state) = scene.hold_next().await;
    let told = scene.push_main(ZERO, &next).await;
    told.refused("fetch first");
}

#[tokio::test]
async fn a_deletion_the_state_implies_is_taken_also_when_it_is_done_already() {
    let scene = Scene::new().await;
    let (node, tip) = (&scene.node, scene.tip.as_str());
    let main = ("refs/heads/main", tip);
    let both = scene
        .owner
        .state_at("x", &[main, ("refs/heads/old", tip)], None, later(1));
    node.accepts(&both, "").await;
    assert!(node.refs(&scene.repo).contains_key("refs/heads/old"));
    let deletion = [(tip, ZERO, "refs/heads/old")];
    let told = scene.push(&deletion).await;
    assert!(!told.accepted, "the state still names it: {told:?}");
    let without = scene.owner.state_at("x", &[main], None, later(2));
    node.accepts(&without, "").await;
    assert!(!node.refs(&scene.repo).contains_key("refs/heads/old"));
    let told = scene.push(&deletion).await;
    told.taken("");
}

#[tokio::test]
async fn a_push_to_nothing_is_refused_in_band() {
    let (owner, node) = (Author::new(), Node::start().await);
    let tree = WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    let push = [(ZERO, tip.as_str(), "refs/heads/main")];
    let told = node.push(&addr(&owner, "x"), &tree, &push).await;
    told.refused("not hosted here");
}

#[tokio::test]
async fn a_corrupt_or_lacking_pack_leaves_nothing() {
    let scene = Scene::new().await;
    let (node, tip) = (&scene.node, scene.tip.as_str());
    let (next, state) = scene.hold_next().await;
    let head = wire::commands(&[(tip, &next, "refs/heads/main")], wire::CAPABILITIES);

    let mut corrupt = wire::pack(&scene.tree, &next, None).await.unwrap();
    let middle = corrupt.len() / 2;
    corrupt[middle] ^= 0xff;
    let lacking = wire::pack(&scene.tree, tip, None).await.unwrap();
    for pack in [corrupt, lacking, b"PACK".to_vec(), Vec::new()] {
        let body = [head.clone(), pack].concat();
        let told = node.push_bytes(&scene.repo, body).await;
        told.refused("unpack ");
        assert!(!node.has_object("x", &next) && !node.serves(&state));
    }
    assert!(scene.push_main(tip, &next).await.accepted);
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_leaves_nothing() {
    let scene = Scene::new().await;
    let (next, state) = scene.hold_next().await;
    let mut body = scene.body(&next).await;
    body.truncate(body.len() - 10);
    let grasp = scene.node.grasp();
    let reply = grasp
        .push(scene.repo.clone(), None, Broken(io::Cursor::new(body)))
        .await;
    assert!(!told(reply).await.accepted);
    assert!(!scene.node.has_object("x", &next) && !scene.node.serves(&state));
    assert_eq!(grasp.stats().pushes, 0);
}

#[tokio::test]
async fn a_whole_push_is_finished_though_nobody_waits_for_the_answer() {
    let scene = Scene::new().await;
    let (next, state) = scene.hold_next().await;
    let body = io::Cursor::new(scene.body(&next).await);
    drop(
        scene
            .node
            .grasp()
            .push(scene.repo.clone(), None, body)
            .await,
    );
    grip_testkit::until("the state is served", || async {
        scene.node.serves(&state).then_some(())
    })
    .await
    .unwrap();
    scene.node.agrees().await;
}

#[tokio::test]
async fn a_plain_report_is_given_to_clients_without_side_band() {
    let scene = Scene::new().await;
    let tip = scene.tip.as_str();
    let mut body = wire::commands(
        &[(tip, tip, "refs/heads/main")],
        "report-status delete-refs",
    );
    body.extend(wire::pack(&scene.tree, tip, None).await.unwrap());
    let told = scene.node.push_bytes(&scene.repo, body).await;
    assert_eq!(told.text, "000eunpack ok\n0017ok refs/heads/main\n0000");
}

#[tokio::test]
async fn of_two_pushes_at_once_one_lands_and_the_other_is_told_to_fetch() {
    let scene = Scene::new().await;
    let (two, three) = (scene.commit("two"), scene.commit("three"));
    scene.hold(&two, 1).await;
    let newer = scene.hold(&three, 2).await;
    let (first, second) = tokio::join!(
        scene.push_main(&scene.tip, &two),
        scene.push_main(&scene.tip, &three)
    );
    assert_ne!(first.accepted, second.accepted, "{first:?} {second:?}");
    assert_eq!(scene.main(), if first.accepted { two } else { three });
    assert_eq!(scene.node.serves(&newer), second.accepted);
}

#[tokio::test]
async fn a_push_whose_state_is_deleted_meanwhile_is_refused_in_its_turn() {
    let scene = Scene::new().await;
    let (next, state) = scene.hold_next().await;
    let body = scene.body(&next).await;
    let (mut client, server) = tokio::io::duplex(64);
    let deletion = scene.owner.delete_events(&[state.id]);
    let uploading = async {
        let (most, last) = body.split_at(body.len() - 100);
        client.write_all(most).await.unwrap();
        scene.node.accepts(&deletion, "").await;
        client.write_all(last).await.unwrap();
        drop(client);
    };
    let grasp = scene.node.grasp();
    let pushing = async { told(grasp.push(scene.repo.clone(), None, server).await).await };
    let ((), told) = tokio::join!(uploading, pushing);
    told.refused("");
    assert!(!scene.node.has_object("x", &next));
    assert_eq!(scene.main(), scene.tip);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_repositories_push_side_by_side() {
    let node = Node::start().await;
    let tree = WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    let cycle = |n: usize| {
        let (node, tree, tip) = (&node, &tree, tip.as_str());
        async move {
            let (owner, name) = (Author::new(), format!("r{}", n % 5));
            let announcement = announce(&owner, &name, &[]);
            // The data may be here already through a namesake's push, but nobody's state speaks
            // for this owner yet.
            node.accepts(&announcement, HELD).await;
            let state = owner.state(&name, &[("refs/heads/main", tip)], Some("refs/heads/main"));
            assert!(node.send(&state).await.accepted);
            let old = node
                .refs(&addr(&owner, &name))
                .get("refs/heads/main")
                .cloned();
            let old = old.unwrap_or_else(|| ZERO.to_owned());
            let push = [(old.as_str(), tip, "refs/heads/main")];
            let told = node.push(&addr(&owner, &name), tree, &push).await;
            told.taken("");
            assert!(node.serves(&state) && node.serves(&announcement));
        }
    };
    futures_util::future::join_all((0..20).map(cycle)).await;
    assert_eq!(node.waiting(), 0);
    assert_eq!(node.grasp().repositories().len(), 20);
    assert_eq!(node.grasp().stats().turns, 0);
}

/// Gives its bytes, then fails as a connection does.
struct Broken(io::Cursor<Vec<u8>>);

impl AsyncRead for Broken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.0).poll_read(cx, buf);
        if buf.filled().len() == before {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        } else {
            read
        }
    }
}

#[tokio::test]
async fn a_full_disk_refuses_pushes_and_events_and_leaves_nothing_half_written() {
    let mut scene = Scene::new().await;
    let (next, state) = scene.hold_next().await;
    let after = scene.commit("after");
    let refs = [("refs/heads/main", after.as_str())];
    let later_state = scene.owner.state_at("x", &refs, None, later(2));
    scene.node.restart_full(true).await;
    scene
        .push_main(&scene.tip, &next)
        .await
        .refused("disk of this server is full");
    let name = format!("refs/nostr/{}", "ab".repeat(32));
    let proposal = [(ZERO, next.as_str(), name.as_str())];
    scene
        .push(&proposal)
        .await
        .refused("disk of this server is full");
    scene
        .node
        .refuses(&later_state, "error: the disk of this server is full")
        .await;
    assert_eq!(scene.main(), scene.tip);
    assert!(!scene.node.has_object("x", &next));
    assert_eq!(scene.node.waiting(), 1, "the state from before");

    scene.node.restart_full(false).await;
    scene.push_main(&scene.tip, &next).await.taken("");
    assert!(scene.node.serves(&state));
    scene.node.agrees().await;
}

/// Each event that a push names is judged in the turn of the repository.
#[tokio::test]
async fn a_push_that_names_too_many_events_is_refused_before_its_pack() {
    let scene = Scene::new().await;
    let names: Vec<String> = (0..257).map(|n| format!("refs/nostr/{n:064x}")).collect();
    let commands = names
        .iter()
        .map(|name| (ZERO, scene.tip.as_str(), name.as_str()));
    let commands: Vec<_> = commands.collect();
    // The rest of the body never comes.
    let (mut client, body) = tokio::io::duplex(1 << 20);
    let head = wire::commands(&commands, wire::CAPABILITIES);
    client.write_all(&head).await.unwrap();
    let pushing = scene.node.grasp().push(scene.repo.clone(), None, body);
    let reply = within("the push is refused", pushing).await.unwrap();
    drop(client);
    told(reply).await.refused("at most 256");
    let most = scene.push(&commands[..256]).await;
    assert!(!most.text.contains("at most 256"), "{most:?}");
}
