//! Endings of every kind, after which relay and git tell the same story (G01-101).

use std::{fs, time::Duration};

use grip_grasp::{CheckOptions, CheckRange, Millis, RepositoryStatus};
use grip_nostr::{Event, Timestamp};
use grip_testkit::{Author, events::tag, until, until_true};

use crate::{
    expiry::in_minutes,
    node::{
        HELD, Node, SERVICE, Scene, ZERO, addr, announce, announce_at, elsewhere, join, later,
        with_repository,
    },
};

/// Two branches of which only the first was pushed; the state that names them waits for the other.
async fn partial_push(scene: &Scene) -> (String, Event) {
    let next = scene.commit("next");
    let missing = "1".repeat(40);
    let refs = [
        ("refs/heads/main", next.as_str()),
        ("refs/heads/other", &missing),
    ];
    let state = scene.owner.state_at("x", &refs, None, later(1));
    scene.node.accepts(&state, HELD).await;
    scene.push_main(&scene.tip, &next).await.taken("waits");
    assert_eq!(scene.main(), next);
    scene.node.agrees().await;
    (next, state)
}

#[tokio::test]
async fn g01_101_a_partial_push_is_taken_back_when_its_state_is_deleted() {
    let scene = Scene::new().await;
    let (_next, state) = partial_push(&scene).await;
    let deletion = scene.owner.delete_events(&[state.id]);
    scene.node.accepts(&deletion, "").await;
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}

#[tokio::test]
async fn g01_101_a_partial_push_is_taken_back_when_its_state_expires() {
    let scene = Scene::new().await;
    let (_next, _state) = partial_push(&scene).await;
    scene.node.grasp().sweep(in_minutes(31)).await;
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}

#[tokio::test]
async fn g01_101_a_partial_push_is_taken_back_when_the_operator_drops_its_state() {
    let scene = Scene::new().await;
    let (_next, state) = partial_push(&scene).await;
    assert!(scene.node.grasp().drop_waiting(&state.id).await.unwrap());
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}

/// Whatever ends the state that a partial push rests on: its own time (NIP-40), its author (NIP-62), the
/// operator, or the owner who strikes its author.
#[tokio::test]
async fn g01_101_a_partial_push_is_taken_back_with_its_state_whatever_ends_it() {
    for ending in ["expiration", "vanish", "ban", "strike"] {
        let (owner, second) = (Author::new(), Author::new());
        let (mut node, tree, tip) = with_repository(&owner, "x").await;
        let repo = addr(&owner, "x");
        join(&node, &owner, &second).await;
        let next = tree.commit("a", "next").unwrap();
        let mut tags = vec![
            tag(["d", "x"]),
            tag(["refs/heads/main", &next]),
            tag(["refs/heads/other", &"1".repeat(40)]),
        ];
        if ending == "expiration" {
            tags.push(tag(["expiration", &later(6).as_secs().to_string()]));
        }
        let state = second.sign_at(30618, "", tags, later(2));
        node.accepts(&state, HELD).await;
        let push = [(tip.as_str(), next.as_str(), "refs/heads/main")];
        node.push(&repo, &tree, &push).await.taken("waits");
        assert_eq!(node.refs(&repo)["refs/heads/main"], next, "{ending}");
        match ending {
            "vanish" => {
                let everywhere = vec![tag(["relay", "ALL_RELAYS"])];
                let request = second.sign_at(62, "", everywhere, later(3));
                node.accepts(&request, "").await;
            }
            "ban" => {
                let banned = [second.pubkey()].into();
                node.enforce(|policy| policy.event_blacklist = banned).await;
            }
            "strike" => {
                let alone = announce_at(&owner, "x", &[], later(3));
                node.accepts(&alone, "").await;
            }
            _ => {}
        }
        until("the refs are those of the state before it", || async {
            node.grasp().sweep(in_minutes(0)).await;
            (node.refs(&repo)["refs/heads/main"] == tip).then_some(())
        })
        .await
        .unwrap_or_else(|_| panic!("{ending}: {:?}", node.refs(&repo)));
        // Who is struck goes on in their own repository.
        let is_held = node.holds(&state).await;
        assert_eq!(is_held, ending == "strike", "{ending}");
        node.restart().await;
        assert_eq!(node.refs(&repo)["refs/heads/main"], tip, "{ending}");
        node.agrees().await;
    }
}

#[tokio::test]
async fn g01_105_without_its_last_state_an_announcement_waits_again() {
    let mut scene = Scene::new().await;
    let deletion = scene.owner.delete_address(30618, "x");
    scene.node.accepts(&deletion, "").await;
    let status = scene.node.grasp().repository(&scene.repo);
    assert_eq!(status, Some(RepositoryStatus::Held));
    assert!(scene.node.refs(&scene.repo).is_empty());
    scene.node.restart().await;
    // The objects are still here: a new state of the same branch needs no push.
    let refs = [("refs/heads/main", scene.tip.as_str())];
    let state = scene.owner.state_at("x", &refs, None, later(2));
    scene.node.accepts(&state, "").await;
    assert_eq!(scene.main(), scene.tip);
    let status = scene.node.grasp().repository(&scene.repo);
    assert_eq!(status, Some(RepositoryStatus::Served));
    scene.node.agrees().await;
}

#[tokio::test]
async fn g01_64_an_old_announcement_does_not_bring_back_who_left_before_the_first_push() {
    let (owner, mut node) = (Author::new(), Node::start().await);
    let old = announce(&owner, "x", &[]);
    node.accepts(&old, HELD).await;
    let elsewhere = owner.announcement_at("other.example.com", "x", vec![], later(5));
    node.refuses(&elsewhere, "blocked: ").await;
    node.refuses(&old, "left this server").await;
    node.restart().await;
    node.refuses(&old, "left this server").await;
    assert_eq!(node.grasp().repository(&addr(&owner, "x")), None);
    node.accepts(&announce_at(&owner, "x", &[], later(9)), HELD)
        .await;
    node.agrees().await;
}

#[tokio::test]
async fn g01_64_an_old_announcement_does_not_bring_back_who_left_later() {
    let owner = Author::new();
    let node = Node::start().await;
    let old = announce(&owner, "x", &[]);
    node.accepts(&old, HELD).await;
    let tree = grip_testkit::WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    let state = owner.state("x", &[("refs/heads/main", &tip)], None);
    node.accepts(&state, HELD).await;
    let repo = addr(&owner, "x");
    let main = [(ZERO, tip.as_str(), "refs/heads/main")];
    node.push(&repo, &tree, &main).await.taken("");
    let elsewhere = owner.announcement_at("other.example.com", "x", vec![], later(5));
    node.refuses(&elsewhere, "blocked: ").await;
    let then = Millis::from(Timestamp::now()) + Duration::from_secs(25 * 3600);
    assert_eq!(node.grasp().sweep(then).await.withdrawn, 1);
    node.refuses(&old, "left this server").await;
    assert!(!node.serves(&old));
    assert_eq!(node.grasp().repository(&repo), None);
    node.agrees().await;
}

/// An owner who left and then deletes the repository, or the state that speaks for it, does not want it
/// read for the rest of the day: whether nobody lists them here any more, or a co-maintainer does.
#[tokio::test]
async fn g01_106_a_deletion_ends_the_day_of_a_repository_that_its_owner_left() {
    for (kind, is_listed) in [(30617, false), (30617, true), (30618, false), (30618, true)] {
        let (owner, other) = (Author::new(), Author::new());
        let (mut node, _, _) = with_repository(&owner, "x").await;
        let repo = addr(&owner, "x");
        let left = elsewhere(&owner, &[&other], later(5));
        if is_listed {
            join(&node, &owner, &other).await;
            node.accepts(&left, "").await;
        } else {
            node.refuses(&left, "blocked: ").await;
        }
        let status = node.grasp().repository(&repo);
        assert_eq!(status, Some(RepositoryStatus::Served), "for a day");
        let address = format!("{kind}:{}:x", owner.hex());
        let deletion = owner.sign_at(5, "", vec![tag(["a", &address])], later(6));
        node.accepts(&deletion, "").await;
        for _ in 0..2 {
            assert_eq!(node.grasp().repository(&repo), None);
            node.agrees().await;
            node.restart().await;
        }
    }
}

/// Found by the model: the departure was forgotten when its author came back, and the deletion of the event
/// by which they had left rolled back to what they had announced before it.
#[tokio::test]
async fn g01_106_the_deletion_of_a_departure_brings_nothing_of_before_it_back() {
    let (owner, other) = (Author::new(), Author::new());
    let (node, _, _) = with_repository(&other, "x").await;
    node.accepts(&announce_at(&other, "x", &[&owner], later(1)), "")
        .await;
    let first = announce_at(&owner, "x", &[&other], later(1));
    node.accepts(&first, "").await;
    let left = elsewhere(&owner, &[], later(2));
    node.accepts(&left, "").await;
    node.accepts(&announce_at(&owner, "x", &[], later(3)), HELD)
        .await;
    let deletion = owner.delete_events(&[left.id]);
    node.accepts(&deletion, "").await;
    assert!(!node.serves(&first));
    node.agrees().await;
}

/// Anybody may send a request to vanish that somebody signed long ago.
#[tokio::test]
async fn g01_120_an_old_request_to_vanish_spares_what_its_author_has_had_here_since() {
    let owner = Author::new();
    let (mut node, _, tip) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    let left = elsewhere(&owner, &[], later(5));
    node.refuses(&left, "blocked: ").await;
    let then = Millis::from(Timestamp::now()) + Duration::from_secs(25 * 3600);
    assert_eq!(node.grasp().sweep(then).await.withdrawn, 1);
    let long_ago = Timestamp::from_secs(Timestamp::now().as_secs() - 1_000_000);
    let everywhere = vec![tag(["relay", "ALL_RELAYS"])];
    let request = owner.sign_at(62, "", everywhere, long_ago);
    node.accepts(&request, "").await;
    node.restart().await;
    node.accepts(&announce_at(&owner, "x", &[], later(9)), "")
        .await;
    assert_eq!(node.refs(&repo)["refs/heads/main"], tip);
    node.agrees().await;
}

#[tokio::test]
async fn g01_122_an_expired_announcement_ends_its_repository_in_git_too() {
    let (owner, mut node) = (Author::new(), Node::start().await);
    let repo = addr(&owner, "x");
    let older = announce(&owner, "x", &[]);
    node.accepts(&older, HELD).await;
    let ends = vec![vec!["expiration".into(), later(4).as_secs().to_string()]];
    let announcement = owner.announcement_at(SERVICE, "x", ends, later(1));
    node.accepts(&announcement, HELD).await;
    let tree = grip_testkit::WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    let state = owner.state("x", &[("refs/heads/main", &tip)], None);
    node.accepts(&state, HELD).await;
    let main = [(ZERO, tip.as_str(), "refs/heads/main")];
    node.push(&repo, &tree, &main).await.taken("");
    until("the repository is gone", || async {
        let gone = node.grasp().repository(&repo).is_none();
        (gone && !node.serves(&announcement) && !node.is_on_disk(&repo)).then_some(())
    })
    .await
    .unwrap();
    node.agrees().await;
    node.refuses(&older, "left this server").await;
    node.restart().await;
    assert_eq!(node.grasp().repository(&repo), None);
    node.agrees().await;
}

/// Found by the model: a sweep came first, found the repository unannounced and removed it, and that its
/// owner had left was not remembered.
#[tokio::test]
async fn g01_122_an_expired_announcement_is_a_departure_whatever_sees_it_first() {
    let scene = Scene::new().await;
    let older = announce_at(&scene.owner, "x", &[], later(1));
    scene.node.accepts(&older, "").await;
    let end = later(3);
    let ends = vec![tag(["expiration", &end.as_secs().to_string()])];
    let announcement = scene.owner.announcement_at(SERVICE, "x", ends, later(2));
    scene.node.accepts(&announcement, "").await;
    until_true("its time is over", || Timestamp::now() >= end)
        .await
        .unwrap();
    scene.node.grasp().sweep(in_minutes(0)).await;
    scene.node.grasp().end_expired().await;
    scene.node.refuses(&older, "left this server").await;
    assert_eq!(scene.node.grasp().repository(&scene.repo), None);
    scene.node.agrees().await;
}

/// Found by the model: what had been announced before a departure was what the return replaced, and came
/// back when that was deleted.
#[tokio::test]
async fn g01_106_the_deletion_of_a_return_brings_nothing_of_before_the_departure_back() {
    let scene = Scene::new().await;
    let left = elsewhere(&scene.owner, &[], later(1));
    scene.node.refuses(&left, "blocked: ").await;
    let back = announce_at(&scene.owner, "x", &[], later(2));
    scene.node.accepts(&back, "").await;
    let deletion = scene
        .owner
        .sign_at(5, "", vec![tag(["e", &back.id.to_hex()])], later(3));
    scene.node.accepts(&deletion, "").await;
    assert_eq!(scene.node.grasp().repository(&scene.repo), None);
    scene.node.agrees().await;
}

/// How an owner goes who has had two announcements served.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Going {
    /// By an announcement that lists another server; the day is over.
    Leaves,
    /// By an announcement that is over.
    Expires,
    /// The announcement waits for another state, and is deleted.
    Deletes,
}

/// Has the second announcement of an owner served, lets the owner go, and has a third wait for its data.
async fn come_back(scene: &Scene, going: Going) -> Event {
    let (owner, node) = (&scene.owner, &scene.node);
    let end = later(3);
    let mut tags = Vec::new();
    if going == Going::Expires {
        tags.push(tag(["expiration", &end.as_secs().to_string()]));
    }
    let second = owner.announcement_at(SERVICE, "x", tags, later(1));
    node.accepts(&second, "").await;
    match going {
        Going::Leaves => {
            node.refuses(&elsewhere(owner, &[], later(2)), "blocked: ")
                .await;
            let then = Millis::from(Timestamp::now()) + Duration::from_secs(25 * 3600);
            assert_eq!(node.grasp().sweep(then).await.withdrawn, 1);
        }
        Going::Expires => {
            until_true("its time is over", || Timestamp::now() >= end)
                .await
                .unwrap();
            node.grasp().end_expired().await;
        }
        Going::Deletes => {}
    }
    let states = vec![tag(["a", &format!("30618:{}:x", owner.hex())])];
    node.accepts(&owner.sign_at(5, "", states, later(2)), "")
        .await;
    if going == Going::Deletes {
        assert!(node.holds(&second).await);
        delete(scene, &second).await;
    }
    assert_eq!(node.grasp().repository(&scene.repo), None);
    let back = announce_at(owner, "x", &[], later(4));
    node.accepts(&back, HELD).await;
    back
}

async fn delete(scene: &Scene, event: &Event) {
    let ids = vec![tag(["e", &event.id.to_hex()])];
    let deletion = scene.owner.sign_at(5, "", ids, later(9));
    scene.node.accepts(&deletion, "").await;
}

/// The versions that a departure ended were forgotten when its owner came back, if that was served at once.
#[tokio::test]
async fn g01_106_the_deletion_of_a_return_that_waited_brings_nothing_of_before_it_back() {
    for going in [Going::Leaves, Going::Expires, Going::Deletes] {
        let mut scene = Scene::new().await;
        let back = come_back(&scene, going).await;
        let next = scene.commit("next");
        let refs = [("refs/heads/main", next.as_str())];
        let state = scene.owner.state_at("x", &refs, None, later(5));
        scene.node.accepts(&state, HELD).await;
        scene.push_main(ZERO, &next).await.taken("served");
        assert!(scene.node.serves(&back), "{going:?}");
        scene.node.restart().await;
        delete(&scene, &back).await;
        let status = scene.node.grasp().repository(&scene.repo);
        assert_eq!(status, None, "{going:?}");
        scene.node.agrees().await;
    }
}

/// A departure was forgotten when its owner came back, whatever became of the return.
#[tokio::test]
async fn g01_64_no_announcement_of_before_a_departure_counts_after_its_owner_was_back() {
    for going in [Going::Leaves, Going::Expires] {
        let mut scene = Scene::new().await;
        let older = announce_at(&scene.owner, "x", &[], later(0));
        let back = come_back(&scene, going).await;
        delete(&scene, &back).await;
        for _ in 0..2 {
            scene.node.refuses(&older, "left this server").await;
            assert_eq!(scene.node.grasp().repository(&scene.repo), None);
            scene.node.agrees().await;
            scene.node.restart().await;
        }
        scene
            .node
            .accepts(&announce_at(&scene.owner, "x", &[], later(10)), HELD)
            .await;
    }
}

#[tokio::test]
async fn g01_106_a_version_since_the_return_comes_back_by_a_deletion() {
    let scene = Scene::new().await;
    let left = elsewhere(&scene.owner, &[], later(1));
    scene.node.refuses(&left, "blocked: ").await;
    let back = announce_at(&scene.owner, "x", &[], later(2));
    scene.node.accepts(&back, "").await;
    let last = announce_at(&scene.owner, "x", &[], later(3));
    scene.node.accepts(&last, "").await;
    delete(&scene, &last).await;
    assert!(scene.node.serves(&back));
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}

/// Has an announcement of `owner` held, and then a newer one that is over at `end`.
async fn hold_until(owner: &Author, node: &Node, end: Timestamp) -> (Event, Event) {
    let older = announce(owner, "x", &[]);
    node.accepts(&older, HELD).await;
    let ends = vec![tag(["expiration", &end.as_secs().to_string()])];
    let ending = owner.announcement_at(SERVICE, "x", ends, later(1));
    node.accepts(&ending, HELD).await;
    (older, ending)
}

/// Found by the model: an older announcement was held again after one that had waited for its data was over.
#[tokio::test]
async fn g01_122_an_announcement_that_is_over_while_it_waits_is_a_departure_too() {
    let (owner, mut node) = (Author::new(), Node::start().await);
    let end = later(2);
    let (older, _) = hold_until(&owner, &node, end).await;
    until_true("its time is over", || Timestamp::now() >= end)
        .await
        .unwrap();
    node.grasp().sweep(in_minutes(0)).await;
    for _ in 0..2 {
        node.refuses(&older, "left this server").await;
        assert_eq!(node.grasp().repository(&addr(&owner, "x")), None);
        node.restart().await;
    }
    // Its owner may come back.
    node.accepts(&announce_at(&owner, "x", &[], later(3)), HELD)
        .await;
}

/// No sweep has seen it before the push does.
#[tokio::test]
async fn g01_122_an_announcement_that_is_over_when_its_data_comes_is_a_departure_too() {
    let (owner, mut node) = (Author::new(), Node::start().await);
    let end = later(3);
    let (older, announcement) = hold_until(&owner, &node, end).await;
    let tree = grip_testkit::WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    let state = owner.state("x", &[("refs/heads/main", &tip)], None);
    node.accepts(&state, HELD).await;
    until_true("its time is over", || Timestamp::now() >= end)
        .await
        .unwrap();
    let repo = addr(&owner, "x");
    let main = [(ZERO, tip.as_str(), "refs/heads/main")];
    node.push(&repo, &tree, &main).await;
    assert!(!node.serves(&announcement));
    for _ in 0..2 {
        node.refuses(&older, "left this server").await;
        node.grasp().sweep(in_minutes(0)).await;
        assert_eq!(node.grasp().repository(&repo), None);
        node.agrees().await;
        node.restart().await;
    }
}

#[tokio::test]
async fn g01_122_an_expired_state_gives_way_to_the_one_before_it() {
    let scene = Scene::new().await;
    let next = scene.commit("next");
    let event = scene.owner.sign_at(
        30618,
        "",
        vec![
            vec!["d".into(), "x".into()],
            vec!["refs/heads/main".into(), next.clone()],
            vec!["expiration".into(), later(4).as_secs().to_string()],
        ],
        later(1),
    );
    scene.node.accepts(&event, HELD).await;
    scene.push_main(&scene.tip, &next).await.taken("served");
    until("the state before it counts again", || async {
        (scene.main() == scene.tip).then_some(())
    })
    .await
    .unwrap();
    let status = scene.node.grasp().repository(&scene.repo);
    assert_eq!(status, Some(RepositoryStatus::Served));
    scene.node.agrees().await;
}

/// A mark in memory for the sweep, and the comparison of everything for the start: what could not be done
/// is done by whichever comes first.
#[tokio::test]
async fn g01_36_a_sibling_that_could_not_be_aligned_is_aligned_by_the_next_sweep_or_start() {
    for by_start in [false, true] {
        let (owner, second) = (Author::new(), Author::new());
        let (mut node, tree, tip) = with_repository(&owner, "x").await;
        join(&node, &owner, &second).await;
        let sibling = addr(&second, "x");
        assert_eq!(node.refs(&sibling)["refs/heads/main"], tip);
        let next = tree.commit("a", "next").unwrap();
        let state = owner.state_at("x", &[("refs/heads/main", &next)], None, later(1));
        node.accepts(&state, HELD).await;
        // A directory in the place of the file: it can be neither read nor replaced.
        let file = node.path_of(&sibling).join("packed-refs");
        let aside = node.path_of(&sibling).join("aside");
        fs::rename(&file, &aside).unwrap();
        fs::create_dir_all(file.join("in-the-way")).unwrap();
        let push = [(tip.as_str(), next.as_str(), "refs/heads/main")];
        node.push(&addr(&owner, "x"), &tree, &push).await.taken("");
        assert!(node.serves(&state));
        let clear = || {
            fs::remove_dir_all(&file).unwrap();
            fs::rename(&aside, &file).unwrap();
        };
        if by_start {
            node.start_again(clear).await;
        } else {
            clear();
            node.grasp().sweep(in_minutes(0)).await;
        }
        assert_eq!(node.refs(&sibling)["refs/heads/main"], next);
        node.agrees().await;
    }
}

/// Whether a maintainer between them takes back what links them, or the owner lists nobody any more.
#[tokio::test]
async fn g01_31_who_is_struck_from_the_chain_loses_effect_at_once() {
    for is_struck_by_owner in [false, true] {
        let [owner, middle, last] = [Author::new(), Author::new(), Author::new()];
        let (node, tree, tip) = with_repository(&owner, "x").await;
        node.accepts(&announce_at(&owner, "x", &[&middle], later(1)), "")
            .await;
        let link = elsewhere(&middle, &[&owner, &last], later(1));
        node.accepts(&link, "").await;
        let answer = elsewhere(&last, &[&middle], later(1));
        node.accepts(&answer, "").await;
        let next = tree.commit("a", "next").unwrap();
        let state = last.state_at("x", &[("refs/heads/main", &next)], None, later(2));
        node.accepts(&state, HELD).await;
        let push = [(tip.as_str(), next.as_str(), "refs/heads/main")];
        let repo = addr(&owner, "x");
        node.push(&repo, &tree, &push).await.taken("");
        assert!(node.serves(&state));
        assert_eq!(node.refs(&repo)["refs/heads/main"], next);
        let strike = if is_struck_by_owner {
            announce_at(&owner, "x", &[], later(3))
        } else {
            middle.delete_events(&[link.id])
        };
        node.accepts(&strike, "").await;
        assert_eq!(node.refs(&repo)["refs/heads/main"], tip);
        assert!(node.serves(&state), "it stays a valid event");
        node.agrees().await;
    }
}

#[tokio::test]
async fn a_database_failure_in_a_sweep_loses_no_clean_up() {
    let (owner, node) = (Author::new(), Node::start().await);
    node.accepts(&announce(&owner, "x", &[]), HELD).await;
    assert!(node.is_on_disk(&addr(&owner, "x")));
    node.close_journal().await;
    node.grasp().sweep(in_minutes(31)).await;
    assert!(!node.is_on_disk(&addr(&owner, "x")));
    assert_eq!(node.grasp().repository(&addr(&owner, "x")), None);
}

/// The same where the relay's own store cannot be written, and a request of before is to be noted there.
#[tokio::test]
async fn a_failure_of_the_store_in_a_sweep_loses_no_clean_up() {
    let (owner, node) = (Author::new(), Node::start().await);
    let gone = announce(&owner, "y", &[]);
    node.accepts(&gone, HELD).await;
    node.accepts(&owner.delete_events(&[gone.id]), "").await;
    let repo = addr(&owner, "x");
    node.accepts(&announce(&owner, "x", &[]), HELD).await;
    assert!(node.is_on_disk(&repo));
    node.stop_writer().await;
    node.grasp().sweep(in_minutes(31)).await;
    assert!(!node.is_on_disk(&repo));
    assert_eq!(node.grasp().repository(&repo), None);
}

/// Nobody has to ask: every minute a few identifiers are compared, told of and repaired.
#[tokio::test]
async fn what_does_not_agree_at_rest_is_found_by_the_sweep_and_repaired() {
    let scene = Scene::new().await;
    let swept = scene.node.grasp().sweep(in_minutes(0)).await;
    assert_eq!(swept.disagreements, 0);
    fs::remove_dir_all(scene.node.path_of(&scene.repo)).unwrap();
    let swept = scene.node.grasp().sweep(in_minutes(0)).await;
    assert_eq!(swept.disagreements, 1);
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}

#[tokio::test]
async fn g01_49_an_owner_announced_later_gets_the_refs_of_served_pull_requests() {
    let (owner, second, author) = (Author::new(), Author::new(), Author::new());
    let (node, _tree, tip) = with_repository(&owner, "x").await;
    let request = author.pull_request(&owner, "x", &tip, "https://elsewhere.example/x.git");
    node.accepts(&request, "").await;
    join(&node, &owner, &second).await;
    let name = format!("refs/nostr/{}", request.id.to_hex());
    assert_eq!(node.refs(&addr(&second, "x"))[&name], tip);
    node.agrees().await;
    // Who strikes the owner has no part in the request any more.
    let own = second.state("x", &[("refs/heads/main", &tip)], None);
    node.accepts(&own, "").await;
    node.accepts(&announce_at(&second, "x", &[], later(1)), "")
        .await;
    let refs = node.refs(&addr(&second, "x"));
    assert!(!refs.contains_key(&name), "{refs:?}");
    node.agrees().await;
}

#[tokio::test]
async fn g01_123_a_ban_acts_on_what_is_served_and_held_without_a_restart() {
    let scene = Scene::new().await;
    let (next, held) = scene.hold_next().await;
    let other = Author::new();
    join(&scene.node, &scene.owner, &other).await;
    let banned = scene.owner.pubkey();
    scene.node.set_policy(|policy| {
        policy.event_blacklist.insert(banned);
    });
    until(
        "the banned author's repository and states are gone",
        || async {
            let grasp = scene.node.grasp();
            let gone = grasp.repository(&scene.repo).is_none();
            let emptied = grasp.repository(&addr(&other, "x")) == Some(RepositoryStatus::Held);
            (gone && emptied && !scene.node.holds(&held).await).then_some(())
        },
    )
    .await
    .unwrap();
    assert!(!scene.node.is_on_disk(&scene.repo));
    assert!(
        scene.node.refs(&addr(&other, "x")).is_empty(),
        "nothing proves it"
    );
    assert_ne!(next, scene.tip);
    scene.node.agrees().await;
    // A ban that is taken back has lost nothing.
    scene
        .node
        .enforce(|policy| policy.event_blacklist.clear())
        .await;
    assert_eq!(scene.main(), scene.tip);
    let status = scene.node.grasp().repository(&scene.repo);
    assert_eq!(status, Some(RepositoryStatus::Served));
    scene.node.agrees().await;
}

#[tokio::test]
async fn g01_124_a_blacklisted_repository_leaves_without_a_restart() {
    let scene = Scene::new().await;
    scene.node.set_policy(|policy| {
        policy.repository_blacklist = "x".parse().unwrap();
    });
    until("the repository is gone", || async {
        scene
            .node
            .grasp()
            .repository(&scene.repo)
            .is_none()
            .then_some(())
    })
    .await
    .unwrap();
    assert!(!scene.node.is_on_disk(&scene.repo));
    scene.node.agrees().await;
}

#[tokio::test]
async fn another_domain_keeps_what_was_acknowledged_under_the_old_one() {
    let mut scene = Scene::new().await;
    let (next, _state) = scene.hold_next().await;
    let fresh = Author::new();
    scene.node.accepts(&announce(&fresh, "y", &[]), HELD).await;
    scene.node.restart_as("new.example.com").await;
    assert_eq!(scene.main(), scene.tip);
    assert_eq!(scene.node.waiting(), 2);
    let told = scene.push_main(&scene.tip, &next).await;
    told.taken("served");
    scene.node.agrees().await;
    scene.node.restart_as("new.example.com").await;
    assert_eq!(scene.main(), next);
    let old_name = announce(&Author::new(), "z", &[]);
    scene
        .node
        .refuses(&old_name, "must list this service")
        .await;
    scene.node.agrees().await;
}

#[tokio::test]
async fn what_a_crash_left_between_refs_and_event_is_taken_back_by_the_start() {
    let mut scene = Scene::new().await;
    let next = scene.commit("next");
    // The objects come under the name of a pull request; then the refs move, and the event that
    // says so is lost.
    let request =
        scene
            .owner
            .pull_request(&scene.owner, "x", &next, "https://elsewhere.example/x.git");
    scene.node.accepts(&request, HELD).await;
    let name = format!("refs/nostr/{}", request.id.to_hex());
    scene.push(&[(ZERO, &next, &name)]).await.taken("");
    scene.node.agrees().await;
    let file = scene.node.path_of(&scene.repo).join("packed-refs");
    let text = fs::read_to_string(&file).unwrap();
    let moved = text.replace(
        &format!("{} refs/heads/main", scene.tip),
        &format!("{next} refs/heads/main"),
    );
    assert_ne!(text, moved);
    scene
        .node
        .restart_after(|| fs::write(&file, &moved).unwrap())
        .await;
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}

#[tokio::test]
async fn g01_49_a_pull_request_over_several_identifiers_has_its_ref_in_each() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, tree, tip) = with_repository(&owner, "x").await;
    node.accepts(&announce(&owner, "y", &[]), HELD).await;
    let state = owner.state("y", &[("refs/heads/main", &tip)], None);
    node.accepts(&state, HELD).await;
    let main = [(ZERO, tip.as_str(), "refs/heads/main")];
    node.push(&addr(&owner, "y"), &tree, &main).await.taken("");
    let next = tree.commit("a", "proposal").unwrap();
    let tags = vec![
        vec!["a".to_owned(), owner.coordinate("x")],
        vec!["a".to_owned(), owner.coordinate("y")],
        vec!["c".to_owned(), next.clone()],
    ];
    let request = author.sign(1618, "both", tags);
    node.accepts(&request, HELD).await;
    let name = format!("refs/nostr/{}", request.id.to_hex());
    let push = [(ZERO, next.as_str(), name.as_str())];
    node.push(&addr(&owner, "x"), &tree, &push).await.taken("");
    node.push(&addr(&owner, "y"), &tree, &push).await.taken("");
    for identifier in ["x", "y"] {
        assert_eq!(node.refs(&addr(&owner, identifier))[&name], next);
    }
    assert!(node.serves(&request));
    node.agrees().await;
}

#[tokio::test]
async fn g01_47_a_push_without_room_for_its_refs_forgets_none_that_was_noted_before() {
    let mut scene = Scene::new().await;
    let name = |digits: &str| format!("refs/nostr/{}", digits.repeat(32));
    let first = name("ab");
    scene.push(&[(ZERO, &scene.tip, &first)]).await.taken("");
    let next = scene.commit("next");
    scene.node.restart_with_room_for(1).await;
    let both = [
        (scene.tip.as_str(), next.as_str(), first.as_str()),
        (ZERO, next.as_str(), &name("cd")),
    ];
    scene.push(&both).await.refused("");
    // What was noted before has its time and its end, as if nothing had happened.
    assert_eq!(scene.node.refs(&scene.repo)[&first], scene.tip);
    scene.node.agrees().await;
    scene.node.restart().await;
    assert_eq!(scene.node.grasp().sweep(in_minutes(20)).await.refs, 1);
    assert!(!scene.node.refs(&scene.repo).contains_key(&first));
    scene.node.agrees().await;
}

#[tokio::test]
async fn g01_124_what_was_blacklisted_while_the_node_was_down_leaves_at_the_start() {
    let mut scene = Scene::new().await;
    let announcement = announce_at(&scene.owner, "x", &[], later(1));
    scene.node.accepts(&announcement, "").await;
    let whole = scene.owner.npub();
    for list in ["x", &format!("{whole}/x"), &whole] {
        scene.node.restart_with_blacklist(list).await;
        until("relay and git have both let it go", || async {
            let is_served = scene.node.serves(&announcement);
            (!is_served && !scene.node.is_on_disk(&scene.repo)).then_some(())
        })
        .await
        .unwrap();
        assert_eq!(scene.node.archived(&scene.owner), 1, "{list}: it is kept");
        scene.node.restart_with_blacklist("").await;
        let restored = scene.node.grasp().restore_held_back(&scene.repo).await;
        assert_eq!(restored.unwrap(), 1, "{list}");
        assert!(scene.node.serves(&announcement), "{list}");
        assert_eq!(scene.main(), scene.tip, "{list}");
        scene.node.agrees().await;
    }
}

/// Found by the model: who leaves is read for a day, unless the operator bans it.
#[tokio::test]
async fn g01_123_a_ban_ends_a_repository_that_its_owner_has_left() {
    let scene = Scene::new().await;
    let leaving = elsewhere(&scene.owner, &[], later(1));
    scene.node.send(&leaving).await;
    assert_eq!(scene.main(), scene.tip, "it is readable for a day");
    let banned = [scene.owner.pubkey()].into();
    scene
        .node
        .enforce(|policy| policy.event_blacklist = banned)
        .await;
    assert_eq!(scene.node.grasp().repository(&scene.repo), None);
    assert!(!scene.node.is_on_disk(&scene.repo));
    assert_eq!(scene.node.archived(&scene.owner), 1);
    scene.node.agrees().await;
}

/// Found by the model: a second pass of the rules, which found nothing to drop, ended before the first had
/// removed the repository.
#[tokio::test]
async fn g01_123_a_held_announcement_is_dropped_and_its_repository_removed_in_one_turn() {
    let (node, stranger) = (Node::start().await, Author::new());
    let announcement = announce(&stranger, "x", &[]);
    node.accepts(&announcement, HELD).await;
    let banned = [stranger.pubkey()].into();
    let ban = node.enforce(|policy| policy.event_blacklist = banned);
    let audit = async {
        while node.grasp().is_held(&announcement.id) {
            tokio::task::yield_now().await;
        }
        node.grasp().audit(&addr(&stranger, "x").identifier).await
    };
    let ((), found) = tokio::join!(ban, audit);
    assert_eq!(found.unwrap(), []);
}

/// Found by the model: the archive brought back refs that no state speaks for.
#[tokio::test]
async fn a_hidden_repository_comes_back_without_the_refs_of_a_deleted_state() {
    let scene = Scene::new().await;
    let deletion = scene.owner.delete_address(30618, "x");
    scene.node.accepts(&deletion, "").await;
    scene.node.grasp().sweep(in_minutes(31)).await;
    let nothing = scene.owner.state_at("x", &[], None, later(1));
    scene.node.accepts(&nothing, HELD).await;
    let refs = scene.node.refs(&scene.repo);
    assert!(!refs.contains_key("refs/heads/main"), "{refs:?}");
    scene.node.agrees().await;
}

/// Memory has dropped what the journal cannot be told of: git follows, and nothing else stays.
#[tokio::test]
async fn g01_123_a_ban_without_the_database_drops_what_waits_under_every_name() {
    let (node, stranger) = (Node::start().await, Author::new());
    let waiting = ["x", "y"].map(|name| (addr(&stranger, name), announce(&stranger, name, &[])));
    for (_, announcement) in &waiting {
        node.accepts(announcement, HELD).await;
    }
    node.close_journal().await;
    let banned = [stranger.pubkey()].into();
    node.enforce(|policy| policy.event_blacklist = banned).await;
    for (repo, announcement) in &waiting {
        assert!(!node.grasp().is_held(&announcement.id), "{repo}");
        assert_eq!(node.grasp().repository(repo), None);
        assert!(!node.is_on_disk(repo));
    }
    node.agrees().await;
}

grip_db::statements! {
    mod sql {
        LOSE_HOLDING = "ALTER TABLE holding RENAME TO lost";
        FIND_HOLDING = "ALTER TABLE lost RENAME TO holding";
        REFUSE = "CREATE TRIGGER refuse BEFORE INSERT ON purgatory WHEN NEW.class = 'withdrawal' \
                  BEGIN SELECT RAISE(ABORT, 'refused'); END";
        REFUSE_NO_MORE = "DROP TRIGGER refuse";
    }
}

/// What a ban takes out of service could not be kept: it is taken out as soon as it can be.
#[tokio::test]
async fn g01_123_a_ban_that_failed_is_applied_by_the_sweep() {
    let scene = Scene::new().await;
    let (node, banned) = (&scene.node, [scene.owner.pubkey()].into());
    let announcement = announce_at(&scene.owner, "x", &[], later(1));
    node.accepts(&announcement, "").await;
    node.db().execute(&sql::LOSE_HOLDING, &[]).await.unwrap();
    node.enforce(|policy| policy.event_blacklist = banned).await;
    node.grasp().sweep(in_minutes(0)).await;
    assert!(node.serves(&announcement));
    node.db().execute(&sql::FIND_HOLDING, &[]).await.unwrap();
    node.grasp().sweep(in_minutes(0)).await;
    assert!(!node.serves(&announcement));
    assert_eq!(node.grasp().repository(&scene.repo), None);
    node.agrees().await;
}

/// One without the other would bring an owner back who has left, or go on serving what they left.
#[tokio::test]
async fn g01_64_a_departure_and_its_withdrawal_are_written_at_once_or_not_at_all() {
    let scene = Scene::new().await;
    let (node, owner) = (&scene.node, &scene.owner);
    node.db().execute(&sql::REFUSE, &[]).await.unwrap();
    let leaving = elsewhere(owner, &[], later(9));
    node.refuses(&leaving, "error: ").await;
    node.db().execute(&sql::REFUSE_NO_MORE, &[]).await.unwrap();
    let between = announce_at(owner, "x", &[], later(5));
    node.accepts(&between, "").await;
    node.refuses(&leaving, "blocked: ").await;
    node.refuses(&announce_at(owner, "x", &[], later(7)), "left this server")
        .await;
    node.agrees().await;
}

/// The sweep has ended the state in memory, and has not had the turn yet in which git follows.
#[tokio::test]
async fn a_check_during_a_sweep_reports_nothing_that_the_sweep_is_about_to_settle() {
    let scene = Scene::new().await;
    let (_next, state) = partial_push(&scene).await;
    let grasp = scene.node.grasp();
    let check = async {
        while grasp.is_held(&state.id) {
            tokio::task::yield_now().await;
        }
        let range = CheckRange {
            after: None,
            limit: 10,
            time: Duration::from_secs(60),
        };
        grasp.check(range, CheckOptions::default()).await
    };
    let (_swept, checked) = tokio::join!(grasp.sweep(in_minutes(31)), check);
    assert_eq!(checked.unwrap().found, []);
    assert_eq!(scene.main(), scene.tip);
}
