//! Events that are taken back: history, what hangs on a repository, holding and its end (G01-101 … G01-126).

use std::fs;

use grip_grasp::RepositoryStatus;
use grip_nostr::{Event, Timestamp};
use grip_testkit::Author;

use crate::node::{
    Scene, add_repository, addr, announce, announce_at, join, later, with_repository,
};

const DAY: u64 = 24 * 3600;

fn days(count: u64) -> Timestamp {
    Timestamp::from_secs(Timestamp::now().as_secs() + count * DAY)
}

impl Scene {
    /// The owner moves `main` on; the state that says so is served.
    async fn advance(&self, content: &str, seconds: u64) -> (String, Event) {
        let old = self.main();
        let next = self.commit(content);
        let state = self.hold(&next, seconds).await;
        self.push_main(&old, &next).await.taken("");
        assert!(self.node.serves(&state));
        (next, state)
    }

    fn issue(&self, more: Option<&Author>) -> Event {
        let mut tags = vec![vec!["a".to_owned(), self.owner.coordinate("x")]];
        tags.extend(more.map(|other| vec!["a".to_owned(), other.coordinate("y")]));
        let issue = Author::new().sign(1621, "it leaks", tags);
        self.node.store(&issue);
        issue
    }
}

/// G01-104, G01-105, G01-128: roll back twice, over a restart.
#[tokio::test]
async fn g01_105_a_deleted_state_gives_way_to_the_one_before_it() {
    let mut scene = Scene::new().await;
    let first = scene.tip.clone();
    let (second, state_2) = scene.advance("two", 1).await;
    let (_third, state_3) = scene.advance("three", 2).await;
    let node = &scene.node;
    node.accepts(&scene.owner.delete_events(&[state_3.id]), "")
        .await;
    assert_eq!(scene.main(), second);
    assert!(node.serves(&state_2) && !node.serves(&state_3));
    node.agrees().await;
    node.refuses(&state_3, "deleted").await;
    scene.node.restart().await;
    let node = &scene.node;
    node.accepts(&scene.owner.delete_events(&[state_2.id]), "")
        .await;
    assert_eq!(scene.main(), first);
    node.agrees().await;
    let status = node.grasp().repository(&scene.repo);
    assert_eq!(status, Some(RepositoryStatus::Served));
}

#[tokio::test]
async fn g01_108_a_deleted_state_address_takes_its_history_along() {
    let scene = Scene::new().await;
    scene.advance("two", 1).await;
    let tags = vec![vec!["a".into(), format!("30618:{}:x", scene.owner.hex())]];
    let request = scene.owner.sign_at(5, "", tags, later(9));
    scene.node.accepts(&request, "").await;
    let status = scene.node.grasp().repository(&scene.repo);
    assert_eq!(status, Some(RepositoryStatus::Held), "no state is left");
    assert!(scene.node.refs(&scene.repo).is_empty());
    scene.node.agrees().await;
}

#[tokio::test]
async fn g01_106_a_deleted_announcement_gives_way_to_the_one_before_it() {
    let scene = Scene::new().await;
    let invited = Author::new();
    let version = announce_at(&scene.owner, "x", &[&invited], later(5));
    scene.node.accepts(&version, "").await;
    let deletion = scene.owner.delete_events(&[version.id]);
    scene.node.accepts(&deletion, "").await;
    let status = scene.node.grasp().repository(&scene.repo);
    assert_eq!(status, Some(RepositoryStatus::Served));
    assert_eq!(scene.main(), scene.tip);
    assert_eq!(scene.node.archived(&scene.owner), 0);
    scene.node.agrees().await;
    let state = invited.state_at("x", &[("refs/heads/main", &scene.tip)], None, later(6));
    scene.node.refuses(&state, "not authorized").await;
}

/// G01-107, G01-113: what hangs on the repository alone goes and comes back with it.
#[tokio::test]
async fn g01_107_what_hangs_on_a_deleted_repository_goes_and_what_reaches_another_stays() {
    let mut scene = Scene::new().await;
    let other = Author::new();
    let announcement = announce(&other, "y", &[]);
    scene.node.store(&announcement);
    let (alone, shared) = (scene.issue(None), scene.issue(Some(&other)));
    let comment = Author::new().sign(1111, "me too", vec![vec!["E".into(), alone.id.to_hex()]]);
    scene.node.store(&comment);
    let request =
        Author::new().pull_request(&scene.owner, "x", &scene.tip, "https://e.example/x.git");
    scene.node.accepts(&request, "").await;
    let gone = [&alone, &comment, &request];
    scene
        .node
        .accepts(&scene.owner.delete_address(30617, "x"), "")
        .await;
    let node = &scene.node;
    assert!(gone.iter().all(|event| !node.serves(event)));
    assert!(node.serves(&shared) && node.serves(&announcement));
    assert_eq!(node.grasp().repository(&scene.repo), None);
    let held = node.grasp().held_back().await.unwrap();
    let held: Vec<_> = held
        .iter()
        .map(|it| (it.reason, it.events, it.archives))
        .collect();
    assert_eq!(
        held,
        [("nip09", 5, 1)],
        "announcement, state, issue, comment, request"
    );
    scene.node.restart().await;
    let node = &scene.node;
    let back = announce_at(&scene.owner, "x", &[], later(5));
    let answer = node.send(&back).await;
    assert!(answer.accepted, "{answer:?}");
    let status = node.grasp().repository(&scene.repo);
    assert_eq!(status, Some(RepositoryStatus::Served));
    assert_eq!(scene.main(), scene.tip);
    assert!(gone.iter().all(|event| node.serves(event)));
    let name = format!("refs/nostr/{}", request.id.to_hex());
    assert!(node.refs(&scene.repo).contains_key(&name));
    node.agrees().await;
}

/// G01-107: as if the repositories had been deleted one after the other.
#[tokio::test]
async fn g01_107_what_hangs_on_two_repositories_goes_with_the_request_that_takes_both() {
    let scene = Scene::new().await;
    let (owner, other) = (&scene.owner, Author::new());
    for author in [owner, &other] {
        add_repository(&scene.node, author, "y").await;
    }
    let (gone, kept) = (scene.issue(Some(owner)), scene.issue(Some(&other)));
    let comment = |on: &Event| {
        let of_issue = vec!["E".into(), on.id.to_hex()];
        let tags = vec![of_issue, vec!["A".into(), owner.coordinate("x")]];
        let comment = Author::new().sign(1111, "me too", tags);
        scene.node.store(&comment);
        comment
    };
    let (gone_too, kept_too) = (comment(&gone), comment(&kept));
    let tags = ["x", "y"].map(|name| vec!["a".into(), owner.coordinate(name)]);
    let request = owner.sign_at(5, "", tags.to_vec(), later(1));
    scene.node.accepts(&request, "").await;
    assert!(!scene.node.serves(&gone) && !scene.node.serves(&gone_too));
    assert!(scene.node.serves(&kept) && scene.node.serves(&kept_too));
    scene.node.agrees().await;
}

/// G01-111: nothing leaves service that cannot be archived.
#[tokio::test]
async fn g01_111_a_repository_that_cannot_be_archived_stays_with_its_events() {
    let scene = Scene::new().await;
    let archive = scene.node.path_of(&scene.repo);
    let archive = archive.parent().unwrap().parent().unwrap().join(".archive");
    fs::remove_dir_all(&archive).ok();
    fs::write(&archive, "in the way").unwrap();
    let request = scene.owner.delete_address(30617, "x");
    scene.node.refuses(&request, "error:").await;
    assert!(!scene.node.serves(&request));
    let status = scene.node.grasp().repository(&scene.repo);
    assert_eq!(status, Some(RepositoryStatus::Served));
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
    fs::remove_file(&archive).unwrap();
    scene.node.accepts(&request, "").await;
    assert_eq!(scene.node.archived(&scene.owner), 1);
}

#[tokio::test]
async fn g01_112_what_is_kept_ends_after_90_days_events_and_archive_in_one_pass() {
    let scene = Scene::new().await;
    scene
        .node
        .accepts(&scene.owner.delete_address(30617, "x"), "")
        .await;
    let grasp = scene.node.grasp();
    let aged = grasp.age(days(89)).await;
    assert_eq!((aged.events, aged.archives), (0, 0));
    assert!(aged.next.is_some());
    assert_eq!(grasp.held_back().await.unwrap().len(), 1);
    let archive = scene.node.data_dir().join("git/.archive");
    fs::create_dir_all(archive.join(scene.owner.npub()).join("odd/x.git")).unwrap();
    let aged = grasp.age(days(91)).await;
    assert_eq!((aged.events, aged.archives, aged.unknown), (2, 1, 1));
    assert_eq!(scene.node.archived(&scene.owner), 0);
    assert!(grasp.held_back().await.unwrap().is_empty());
}

#[tokio::test]
async fn g01_126_an_operator_restores_or_destroys_what_is_kept() {
    let scene = Scene::new().await;
    let node = &scene.node;
    node.enforce(|policy| policy.repository_blacklist = "x".parse().unwrap())
        .await;
    assert_eq!(node.grasp().repository(&scene.repo), None);
    // Without the setting a rule that is taken back brings nothing back by itself (G01-124).
    node.enforce(|policy| policy.repository_blacklist = Default::default())
        .await;
    assert_eq!(node.grasp().repository(&scene.repo), None);
    let restored = node.grasp().restore_held_back(&scene.repo).await.unwrap();
    assert_eq!(restored, 1);
    assert_eq!(scene.main(), scene.tip);
    node.agrees().await;
    node.accepts(&scene.owner.delete_address(30617, "x"), "")
        .await;
    let restored = node.grasp().restore_held_back(&scene.repo).await.unwrap();
    assert_eq!(restored, 0, "its author does not want it");
    let purged = node.grasp().purge_held_back(&scene.repo).await.unwrap();
    assert_eq!(purged, (2, 1));
    assert!(node.grasp().held_back().await.unwrap().is_empty());
}

#[tokio::test]
async fn g01_124_blacklisted_repositories_come_back_by_themselves_if_the_operator_says_so() {
    let scene = Scene::new().await;
    let node = &scene.node;
    node.enforce(|policy| {
        policy.blacklist_auto_restore = true;
        policy.repository_blacklist = "x".parse().unwrap();
    })
    .await;
    assert_eq!(node.grasp().repository(&scene.repo), None);
    node.enforce(|policy| policy.repository_blacklist = Default::default())
        .await;
    assert_eq!(scene.main(), scene.tip);
    node.agrees().await;
}

#[tokio::test]
async fn g01_124_what_leaves_the_whitelist_leaves_and_comes_back_with_it() {
    let scene = Scene::new().await;
    let node = &scene.node;
    node.enforce(|policy| policy.repository_whitelist = "y".parse().unwrap())
        .await;
    assert_eq!(node.grasp().repository(&scene.repo), None);
    node.agrees().await;
    node.enforce(|policy| policy.repository_whitelist = "x,y".parse().unwrap())
        .await;
    assert_eq!(scene.main(), scene.tip);
    node.agrees().await;
}

/// G01-103, G01-116 through the service: retired, of use again, forgotten.
#[tokio::test]
async fn g01_103_requests_are_retired_credited_and_forgotten_by_the_clock() {
    let owner = Author::new();
    let (node, _tree, tip) = with_repository(&owner, "x").await;
    let state = owner.state_at("x", &[("refs/heads/main", &tip)], None, later(1));
    let request = owner.delete_events(&[state.id]);
    node.accepts(&request, "").await;
    let aged = node.grasp().age(days(31)).await;
    assert_eq!((aged.retired, aged.forgotten), (1, 0));
    assert!(!node.serves(&request));
    let answer = node.send(&request).await;
    assert!(
        answer.accepted
            && answer
                .message
                .starts_with("duplicate: deletion request is no longer served"),
        "{answer:?}"
    );
    node.refuses(&state, "this event is deleted").await;
    // The next sweep notes the use, by which the request is served again.
    node.grasp().sweep(crate::expiry::in_minutes(0)).await;
    assert!(node.serves(&request));
    assert_eq!(node.grasp().age(days(271)).await.retired, 1);
    assert_eq!(node.grasp().age(days(361)).await.forgotten, 1);
    let answer = node.send(&state).await;
    assert!(answer.accepted, "{answer:?}");
}

/// G01-121.
#[tokio::test]
async fn g01_121_where_deletions_are_ignored_nothing_goes() {
    let scene = Scene::new().await;
    scene
        .node
        .enforce(|policy| policy.ignores_deletions = true)
        .await;
    let foreign = Author::new().delete_events(&[scene.issue(None).id]);
    scene.node.refuses(&foreign, "another pubkey").await;
    let aged = scene.node.grasp().age(days(1_000)).await;
    assert_eq!(aged.retired + aged.forgotten, 0);
    assert_eq!(scene.main(), scene.tip);
}

/// The bytes of one key's requests are bounded beside those of its network, and the bound is a setting.
#[tokio::test]
async fn requests_of_one_key_take_up_what_the_settings_allow() {
    let scene = Scene::new().await;
    let node = &scene.node;
    node.enforce(|policy| policy.request_bytes_per_key = Some(1_000))
        .await;
    let (one, other) = (Author::new(), Author::new());
    let request = |author: &Author| author.delete_events(&[Author::new().sign(1, "x", vec![]).id]);
    let mut taken = 0;
    let refusal = loop {
        let answer = node.send(&request(&one)).await;
        if !answer.accepted {
            break answer;
        }
        taken += 1;
        assert!(taken < 10, "nothing bounds them");
    };
    assert!(taken >= 2, "{refusal:?}");
    assert!(refusal.message.starts_with("rate-limited:"), "{refusal:?}");
    node.accepts(&request(&other), "").await;
    node.enforce(|policy| policy.request_bytes_per_key = None)
        .await;
    for _ in 0..10 {
        node.accepts(&request(&one), "").await;
    }
}

#[tokio::test]
async fn g01_57_a_deleted_repository_is_gone_at_once_and_comes_back_with_its_owner() {
    let (owner, second) = (Author::new(), Author::new());
    let (mut node, _tree, tip) = with_repository(&owner, "x").await;
    join(&node, &owner, &second).await;
    // What only the owner's state proves would go with the owner.
    let own = second.state("x", &[("refs/heads/main", &tip)], None);
    node.accepts(&own, "").await;
    let ending = vec![vec!["a".into(), format!("30617:{}:x", owner.hex())]];
    node.accepts(&owner.sign_at(5, "", ending, later(2)), "")
        .await;
    let repo = addr(&owner, "x");
    assert_eq!(node.grasp().repository(&repo), None);
    assert_eq!(
        node.refs(&addr(&second, "x"))["refs/heads/main"],
        tip,
        "another owner's stays"
    );
    node.restart().await;
    assert_eq!(node.grasp().repository(&repo), None);
    let back = announce_at(&owner, "x", &[], later(5));
    node.accepts(&back, "").await;
    assert_eq!(node.refs(&repo)["refs/heads/main"], tip);
    node.agrees().await;
}
