//! Strangers who use the name of somebody's repository: what they cost, they wait for themselves.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
    mpsc,
};

use grip_nostr::Event;
use grip_relay::Verdict;
use grip_tasks::fault;
use grip_testkit::{Author, until_true, wire, within};

use crate::node::{HELD, Scene, ZERO, add_repository, addr, announce, join, later};

/// Has the first who reaches a point wait there until the sender is dropped or sends.
pub(crate) fn close(point: &'static str) -> (mpsc::SyncSender<()>, Arc<AtomicBool>) {
    let (open, gate) = mpsc::sync_channel(1);
    let (gate, reached) = (Mutex::new(gate), Arc::new(AtomicBool::new(false)));
    let is_reached = Arc::clone(&reached);
    fault::meet(point, move || {
        if !is_reached.swap(true, Ordering::AcqRel) {
            let _ = gate.lock().unwrap().recv();
        }
    });
    (open, reached)
}

/// The owner of `x` pushes while the disk is slow for the event of a stranger, who stays at `point`
/// until then.
async fn owner_pushes_during(scene: &Scene, event: &Event, point: &'static str) {
    let (open, reached) = close(point);
    let stranger_waits = scene.node.send(event);
    let owner_works = async {
        until_true("the disk is slow for the stranger", || {
            reached.load(Ordering::Acquire)
        })
        .await?;
        let cycle = async {
            let (next, state) = scene.hold_next().await;
            scene.push_main(&scene.tip, &next).await.taken("");
            assert!(scene.node.serves(&state));
        };
        within("the owner pushes", cycle).await?;
        drop(open);
        anyhow::Ok(())
    };
    let (answer, worked) = tokio::join!(stranger_waits, owner_works);
    worked.unwrap();
    assert!(answer.accepted, "{answer:?}");
}

#[tokio::test]
async fn an_owner_does_not_wait_while_the_repository_of_a_stranger_is_made() {
    let scene = Scene::new().await;
    let stranger = Author::new();
    let announcement = announce(&stranger, "x", &[]);
    owner_pushes_during(&scene, &announcement, "git.draft.made").await;
    assert!(scene.node.holds(&announcement).await);
    assert!(scene.node.is_on_disk(&addr(&stranger, "x")));
    scene.node.agrees().await;
}

/// A name that a stranger has nothing under is not his to keep others waiting for.
#[tokio::test]
async fn an_owner_does_not_wait_for_a_deletion_that_only_mentions_the_name() {
    let scene = Scene::new().await;
    let request = Author::new().delete_address(30617, "x");
    owner_pushes_during(&scene, &request, "delete.looking").await;
    assert!(scene.node.serves(&request));
    scene.node.agrees().await;
}

#[tokio::test]
async fn an_owner_does_not_wait_for_a_deletion_that_names_somebody_elses_event() {
    let scene = Scene::new().await;
    let (contributor, tip) = (Author::new(), "5".repeat(40));
    let proposal = contributor.pull_request(&scene.owner, "x", &tip, "https://e.example/x.git");
    scene.node.accepts(&proposal, HELD).await;
    let request = Author::new().delete_events(&[proposal.id]);
    owner_pushes_during(&scene, &request, "delete.looking").await;
    scene.node.agrees().await;
}

#[tokio::test]
async fn an_owner_does_not_wait_for_a_pull_request_that_quotes_the_repository() {
    let scene = Scene::new().await;
    let (stranger, contributor) = (Author::new(), Author::new());
    let (_tree, tip) = add_repository(&scene.node, &stranger, "y").await;
    let tags = [
        ["a", &stranger.coordinate("y")],
        ["q", &scene.owner.coordinate("x")],
        ["A", &scene.owner.coordinate("x")],
        ["c", &tip],
    ];
    let tags = tags.map(|tag| tag.map(str::to_owned).to_vec());
    let request = contributor.sign(1618, "please pull", tags.to_vec());
    owner_pushes_during(&scene, &request, "git.refs.before").await;
    let name = format!("refs/nostr/{}", request.id.to_hex());
    assert!(scene.node.refs(&addr(&stranger, "y")).contains_key(&name));
    scene.node.agrees().await;
}

/// Who has a repository under the name has his turn, and not for the time that his other names take.
#[tokio::test]
async fn an_owner_does_not_wait_while_other_repositories_of_a_deletion_are_archived() {
    let scene = Scene::new().await;
    let stranger = Author::new();
    let mut tags = Vec::new();
    for name in ["a", "x"] {
        add_repository(&scene.node, &stranger, name).await;
        tags.push(vec!["a".into(), stranger.coordinate(name)]);
    }
    let request = stranger.sign_at(5, "", tags, later(1));
    owner_pushes_during(&scene, &request, "git.archive.moved").await;
    for name in ["a", "x"] {
        let repository = addr(&stranger, name);
        assert_eq!(scene.node.grasp().repository(&repository), None);
    }
    assert_eq!(scene.node.archived(&stranger), 2);
    scene.node.agrees().await;
}

/// Refs that somebody pushed ahead of an event, to whatever repository, make nobody wait for it.
#[tokio::test]
async fn an_owner_does_not_wait_for_an_event_whose_ref_was_pushed_to_his_repository() {
    let scene = Scene::new().await;
    let (stranger, contributor) = (Author::new(), Author::new());
    let (_tree, tip) = add_repository(&scene.node, &stranger, "y").await;
    let request = contributor.pull_request(&stranger, "y", &tip, "https://e.example/y.git");
    let name = format!("refs/nostr/{}", request.id.to_hex());
    let staged = scene.commit("staged");
    scene.push(&[(ZERO, &staged, &name)]).await.taken("stored");
    owner_pushes_during(&scene, &request, "git.refs.before").await;
    assert!(scene.node.refs(&addr(&stranger, "y")).contains_key(&name));
    assert!(!scene.node.refs(&scene.repo).contains_key(&name));
    scene.node.agrees().await;
}

#[tokio::test]
async fn announcements_beyond_the_room_leave_nothing_on_the_disk() {
    let mut scene = Scene::new().await;
    scene.node.restart_with_room_for(2).await;
    let strangers: Vec<Author> = (0..6).map(|_| Author::new()).collect();
    for stranger in &strangers {
        let announcement = announce(stranger, "x", &[]);
        scene.node.accepts(&announcement, HELD).await;
    }
    let git = scene.node.data_dir().join("git");
    let owners = strangers.iter().map(|it| git.join(it.npub()));
    assert_eq!(owners.filter(|owner| owner.exists()).count(), 2);
    let quarantine = std::fs::read_dir(git.join(".quarantine")).unwrap();
    assert_eq!(quarantine.count(), 0);
    let (next, _state) = scene.hold_next().await;
    scene.push_main(&scene.tip, &next).await.taken("");
    scene.node.restart().await;
    assert_eq!(scene.main(), next);
    scene.node.agrees().await;
}

/// An announcement that is forgotten for room takes along what only it made count.
#[tokio::test]
async fn what_depended_on_a_forgotten_announcement_goes_with_it() {
    let mut scene = Scene::new().await;
    scene.node.restart_with_room_for(1).await;
    let first = Author::new();
    scene.node.accepts(&announce(&first, "x", &[]), HELD).await;
    let state = scene.hold_by(&first, &"5".repeat(40), 1).await;
    // The next one hides it, the one after it has it forgotten.
    for _ in 0..2 {
        assert!(scene.node.holds(&state).await);
        let announcement = announce(&Author::new(), "x", &[]);
        scene.node.accepts(&announcement, HELD).await;
    }
    assert!(!scene.node.holds(&state).await);
    scene.node.agrees().await;
}

/// Two small events of any key are served under a name if they say what is here already. There is no end to
/// keys, so neither the owner's events and pushes nor those of the next stranger may pay for them.
#[tokio::test]
async fn nobody_pays_for_strangers_who_are_served_under_a_name() {
    const STRANGERS: usize = 300;
    /// For those who are concerned, in several looks.
    const FEW: usize = 20;
    let scene = Scene::new().await;
    let parsed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&parsed);
    fault::meet("state.parsed", move || {
        count.fetch_add(1, Ordering::AcqRel);
    });
    let parsed = || parsed.swap(0, Ordering::AcqRel);
    let stranger_comes = async || {
        let stranger = Author::new();
        scene
            .node
            .accepts(&announce(&stranger, "x", &[]), HELD)
            .await;
        let main = [("refs/heads/main", scene.tip.as_str())];
        let state = stranger.state("x", &main, Some("refs/heads/main"));
        scene.node.accepts(&state, "").await;
        assert!(scene.node.serves(&state));
        stranger
    };
    let owner_pushes = async |old: &str, seconds: u64| {
        let next = scene.commit(&seconds.to_string());
        let state = scene.hold(&next, seconds).await;
        scene.push_main(old, &next).await.taken("");
        assert!(scene.node.serves(&state));
        next
    };
    let first = owner_pushes(&scene.tip, 1).await;
    let alone = parsed();
    for _ in 0..STRANGERS {
        stranger_comes().await;
    }
    parsed();
    let last = stranger_comes().await;
    assert!(parsed() <= FEW, "a stranger pays for the others");
    // One that waits makes everybody look for what it waits for.
    let waiting = announce(&Author::new(), "x", &[]);
    scene.node.accepts(&waiting, HELD).await;
    parsed();
    owner_pushes(&first, 2).await;
    let beside = parsed();
    assert!(beside <= alone + FEW, "{beside} parsed, {alone} alone");
    let refs = scene.node.refs(&addr(&last, "x"));
    assert_eq!(refs["refs/heads/main"], scene.tip);
    scene.node.agrees().await;
}

/// Whose the last of the disk is: those who maintain something that is served. Patient strangers reached the
/// floor of all, and the next push of the owner was refused.
#[tokio::test]
async fn the_last_of_the_disk_is_left_to_maintainers() {
    const KEPT: &str = "kept for those who maintain";
    let mut scene = Scene::new().await;
    let second = Author::new();
    join(&scene.node, &scene.owner, &second).await;
    scene.node.restart_full_for_strangers().await;
    let (node, owner) = (&scene.node, &scene.owner);
    let stranger = Author::new();
    match node.judge(&stranger.issue(owner, "x", "ebb")) {
        Verdict::Refuse(answer) => {
            assert!(answer.message.starts_with("rate-limited: "), "{answer:?}");
            assert!(answer.message.contains(KEPT), "{answer:?}");
        }
        other => panic!("{other:?}"),
    }
    for maintainer in [owner, &second] {
        let issue = maintainer.issue(owner, "x", "flood");
        assert_eq!(node.judge(&issue), Verdict::Store);
    }
    node.refuses(&announce(&stranger, "y", &[]), KEPT).await;
    let tip = scene.commit("proposal");
    let name = format!("refs/nostr/{}", "ab".repeat(32));
    let mut body = wire::commands(&[(ZERO, &tip, &name)], wire::CAPABILITIES);
    body.extend(
        wire::pack(&scene.tree, &tip, Some(&scene.tip))
            .await
            .unwrap(),
    );
    node.push_bytes(&scene.repo, body).await.refused(KEPT);
    assert_eq!(node.staged_bytes(), 0);

    let (next, state) = scene.hold_next().await;
    scene.push_main(&scene.tip, &next).await.taken("");
    assert!(scene.node.serves(&state));
    scene.node.agrees().await;
}
