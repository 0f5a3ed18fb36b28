//! Repositories that are mirrored though they do not list this server (GRASP-05), and the tips that
//! their refs had before.

use std::time::Duration;

use grip_grasp::{ArchiveMode, DataSource, Millis, Policy, RepositoryStatus, TipRetention};
use grip_nostr::{Event, RepoAddr};
use grip_testkit::{Author, WorkTree, events::tag, wire};
use grip_types::{Identifier, Service};

use crate::node::{HELD, Node, ZERO, addr, announce, elsewhere, later};

const MAIN: &str = "refs/heads/main";

fn archive_all(policy: &mut Policy) {
    policy.archive.mode = Some(ArchiveMode::All);
    policy.archive.read_only = true;
}

/// A read-only archive of everything.
struct Mirror {
    node: Node,
    owner: Author,
    tree: WorkTree,
    repo: RepoAddr,
    seconds: u64,
}

impl Mirror {
    async fn new() -> Self {
        let (node, owner) = (Node::start().await, Author::new());
        node.enforce(archive_all).await;
        let announcement = elsewhere(&owner, &[], later(0));
        node.accepts(&announcement, HELD).await;
        Self {
            repo: addr(&owner, "x"),
            tree: WorkTree::with_commit().unwrap(),
            seconds: 0,
            node,
            owner,
        }
    }

    /// Has upstream say `refs`, and fetches what it needs.
    async fn follow(&mut self, refs: &[(&str, &str)]) -> Event {
        self.seconds += 1;
        let state = self
            .owner
            .state_at("x", refs, Some(MAIN), later(self.seconds));
        let answer = self.node.send(&state).await;
        assert!(answer.accepted, "{answer:?}");
        if answer.message == HELD {
            let tips: Vec<&str> = refs.iter().map(|(_, oid)| *oid).collect();
            let pack = wire::pack(&self.tree, &tips.join("\n"), None).await;
            let fetched = self.node.receive("x", pack.unwrap()).await;
            fetched.promote().unwrap();
            let identifier = Identifier::parse("x").unwrap();
            let grasp = self.node.grasp();
            grasp
                .process_newly_available_git_data(&identifier, DataSource::Fetch)
                .await;
        }
        assert!(self.node.serves(&state));
        state
    }

    /// What the log says, newest first: the ref, from, to.
    async fn log(&self) -> Vec<(String, Option<String>, Option<String>)> {
        let listed = self.node.grasp().ref_moves(&self.repo, 0, 100).await;
        let listed = listed.unwrap().unwrap();
        assert_eq!(listed.total, listed.moves.len());
        let text = |oid: Option<grip_types::Oid>| oid.map(|oid| oid.to_string());
        let moves = listed.moves.into_iter();
        moves
            .map(|it| (it.name.to_string(), text(it.from), text(it.to)))
            .collect()
    }
}

#[tokio::test]
async fn g05_7_an_archived_announcement_is_held_until_the_data_of_a_state_is_here() {
    let mut mirror = Mirror::new().await;
    assert!(mirror.node.is_on_disk(&mirror.repo));
    let status = mirror.node.grasp().repository(&mirror.repo);
    assert_eq!(status, Some(RepositoryStatus::Held));
    let tip = mirror.tree.tip("HEAD").unwrap();
    let early = mirror
        .owner
        .state_at("x", &[(MAIN, &tip)], Some(MAIN), later(1));
    mirror.node.accepts(&early, HELD).await;
    // Nobody can push it here, so it is looked for at once.
    let identifier = Identifier::parse("x").unwrap();
    let entry = mirror.node.grasp().sync_entry(&identifier).unwrap();
    let soon = later(5).as_secs() as i64 * 1000;
    assert!(entry.next_attempt < Millis::new(soon), "{entry:?}");
    mirror.seconds = 1;
    mirror.follow(&[(MAIN, &tip)]).await;
    let status = mirror.node.grasp().repository(&mirror.repo);
    assert_eq!(status, Some(RepositoryStatus::Served));
    assert_eq!(mirror.node.refs(&mirror.repo)[MAIN], tip);
    mirror.node.agrees().await;
    mirror.node.restart().await;
    assert!(
        !mirror.node.is_on_disk(&mirror.repo),
        "the rule is not kept in the data"
    );
    mirror.node.agrees().await;
}

#[tokio::test]
async fn g05_7_what_never_gets_its_data_is_never_served() {
    let mirror = Mirror::new().await;
    let state = mirror.owner.state("x", &[(MAIN, &"1".repeat(40))], None);
    mirror.node.accepts(&state, HELD).await;
    let expiry = Millis::new((later(31 * 60).as_secs() * 1000) as i64);
    mirror.node.grasp().sweep(expiry).await;
    assert!(!mirror.node.serves(&state));
    assert_eq!(mirror.node.grasp().repository(&mirror.repo), None);
    assert!(!mirror.node.is_on_disk(&mirror.repo));
}

#[tokio::test]
async fn g05_8_a_read_only_archive_refuses_pushes_and_who_is_not_selected() {
    let (owner, node) = (Author::new(), Node::start().await);
    node.enforce(|policy| {
        policy.archive.mode = Some(ArchiveMode::Listed("chosen".parse().unwrap()));
        policy.archive.read_only = true;
    })
    .await;
    node.refuses(&announce(&owner, "x", &[]), "read-only archive")
        .await;
    node.accepts(&announce(&owner, "chosen", &[]), HELD).await;
    let tree = WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    let state = owner.state("chosen", &[(MAIN, &tip)], None);
    node.accepts(&state, HELD).await;
    let push = [(ZERO, tip.as_str(), MAIN)];
    let told = node.push(&addr(&owner, "chosen"), &tree, &push).await;
    told.refused("takes no pushes");
    assert!(!node.has_object("chosen", &tip));
}

#[tokio::test]
async fn g05_6_whitelists_and_services_select_what_does_not_list_us() {
    let (owner, node) = (Author::new(), Node::start().await);
    let announcement = elsewhere(&owner, &[], later(0));
    node.refuses(&announcement, "must list this service").await;
    let services = |name: &str| {
        let service = Service::parse(name).unwrap();
        ArchiveMode::Services(vec![service])
    };
    let set = |mode: ArchiveMode| node.enforce(move |policy| policy.archive.mode = Some(mode));
    set(services("http://third.example.com")).await;
    node.refuses(&announcement, "must list this service").await;
    set(services("http://other.example.com")).await;
    node.accepts(&announcement, HELD).await;
    // What is not read-only still takes who lists it (G05-9).
    let listing = announce(&Author::new(), "y", &[]);
    node.accepts(&listing, HELD).await;
    let lists = [owner.npub(), format!("{}/z", owner.npub()), "z".to_owned()];
    for (list, seconds) in lists.iter().zip(1..) {
        set(ArchiveMode::Listed(list.parse().unwrap())).await;
        let at = later(seconds);
        let tags = vec![tag(["d", "z"]), tag(["clone", "https://git.example/z.git"])];
        node.accepts(&owner.sign_at(30617, "", tags, at), HELD)
            .await;
    }
    // A private one is copied by nobody.
    let tags = vec![tag(["d", "z"]), tag(["private", "true"])];
    let private = owner.sign_at(30617, "", tags, later(900));
    node.refuses(&private, "private").await;
}

#[tokio::test]
async fn g05_9_the_blacklist_comes_before_the_archive() {
    let (owner, node) = (Author::new(), Node::start().await);
    node.enforce(|policy| {
        archive_all(policy);
        policy.repository_blacklist = "x".parse().unwrap();
    })
    .await;
    node.refuses(
        &elsewhere(&owner, &[], later(0)),
        "does not take this repository",
    )
    .await;
}

#[tokio::test]
async fn g05_12_what_the_selection_no_longer_covers_leaves_and_comes_back_with_it() {
    let mut mirror = Mirror::new().await;
    let tip = mirror.tree.tip("HEAD").unwrap();
    mirror.follow(&[(MAIN, &tip)]).await;
    let next = mirror.tree.commit("a", "next").unwrap();
    mirror.follow(&[(MAIN, &next)]).await;
    let (node, repo) = (&mirror.node, &mirror.repo);
    node.enforce(|policy| policy.archive.mode = Some(ArchiveMode::Listed("y".parse().unwrap())))
        .await;
    assert_eq!(node.grasp().repository(repo), None);
    assert!(!node.is_on_disk(repo));
    node.agrees().await;
    node.enforce(archive_all).await;
    let status = node.grasp().repository(repo);
    assert_eq!(status, Some(RepositoryStatus::Served));
    assert_eq!(node.refs(repo)[MAIN], next);
    node.agrees().await;
    // The tips of before have come back with it.
    let log = mirror.log().await;
    assert!(
        log.contains(&(MAIN.into(), Some(tip), Some(next))),
        "{log:?}"
    );
}

#[tokio::test]
async fn g01_124_what_the_whitelist_no_longer_names_leaves_and_comes_back() {
    let owner = Author::new();
    let (node, _tree, tip) = crate::node::with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    node.enforce(|policy| policy.repository_whitelist = "y".parse().unwrap())
        .await;
    assert_eq!(node.grasp().repository(&repo), None);
    node.agrees().await;
    node.enforce(|policy| policy.repository_whitelist = Default::default())
        .await;
    assert_eq!(node.refs(&repo)[MAIN], tip);
    node.agrees().await;
}

#[tokio::test]
async fn a_rewrite_and_a_deletion_upstream_lose_no_tip() {
    let mut mirror = Mirror::new().await;
    let first = mirror.tree.tip("HEAD").unwrap();
    let created = mirror
        .follow(&[(MAIN, &first), ("refs/tags/v1", &first)])
        .await;
    // Another root, forced over the first.
    let rewrite = ["commit", "-q", "--amend", "-m", "another history"];
    mirror.tree.git(rewrite).unwrap();
    let second = mirror.tree.tip("HEAD").unwrap();
    let forced = mirror.follow(&[(MAIN, &second)]).await;
    assert_eq!(
        mirror.node.refs(&mirror.repo).keys().collect::<Vec<_>>(),
        ["HEAD", MAIN],
        "records are shown to nobody"
    );
    let some = |oid: &str| Some(oid.to_owned());
    let log = mirror.log().await;
    assert_eq!(log.len(), 4);
    assert!(log[..2].contains(&(MAIN.into(), some(&first), some(&second))));
    assert!(log[..2].contains(&("refs/tags/v1".into(), some(&first), None)));
    assert!(log[2..].contains(&(MAIN.into(), None, some(&first))));
    let listed = mirror.node.grasp().ref_moves(&mirror.repo, 0, 4).await;
    let listed = listed.unwrap().unwrap().moves;
    assert_eq!(listed[0].state, Some(forced.id.to_hex()));
    assert_eq!(listed[3].state, Some(created.id.to_hex()));
    assert_eq!(listed[0].author, Some(mirror.owner.npub()));
    assert!(mirror.node.can_read(&mirror.repo, &first));
    assert!(mirror.node.fsck_is_clean(&mirror.repo).await);
    mirror.node.agrees().await;
    // The end of the last state deletes the refs and keeps what they had.
    let deletion = vec![tag(["a", &format!("30618:{}:x", mirror.owner.hex())])];
    let deletion = mirror.owner.sign_at(5, "", deletion, later(9));
    mirror.node.accepts(&deletion, "").await;
    assert!(mirror.node.refs(&mirror.repo).is_empty());
    let log = mirror.log().await;
    assert_eq!(log[0], (MAIN.into(), some(&second), None));
    mirror.node.agrees().await;
}

#[tokio::test]
async fn tips_are_kept_as_long_as_the_operator_says() {
    let mut mirror = Mirror::new().await;
    let first = mirror.tree.tip("HEAD").unwrap();
    mirror.follow(&[(MAIN, &first)]).await;
    let second = mirror.tree.commit("a", "second").unwrap();
    mirror.follow(&[(MAIN, &second)]).await;
    assert_eq!(mirror.log().await.len(), 2);
    let keep = |time: Option<Duration>, tips| {
        mirror.node.enforce(move |policy| {
            policy.archive.retention = TipRetention { time, tips };
        })
    };
    keep(Some(Duration::from_secs(3600)), 10).await;
    mirror.node.grasp().sweep(Millis::new(0)).await;
    assert_eq!(mirror.log().await.len(), 2);
    keep(Some(Duration::ZERO), 10).await;
    mirror.node.grasp().sweep(Millis::new(0)).await;
    assert_eq!(mirror.log().await, []);
    assert_eq!(mirror.node.refs(&mirror.repo)[MAIN], second);
}

#[tokio::test]
async fn refs_of_what_is_not_archived_leave_no_record() {
    let owner = Author::new();
    let (node, tree, tip) = crate::node::with_repository(&owner, "x").await;
    let next = tree.commit("a", "next").unwrap();
    let state = owner.state_at("x", &[(MAIN, &next)], None, later(1));
    node.accepts(&state, HELD).await;
    let push = [(tip.as_str(), next.as_str(), MAIN)];
    node.push(&addr(&owner, "x"), &tree, &push).await.taken("");
    let listed = node.grasp().ref_moves(&addr(&owner, "x"), 0, 9).await;
    assert_eq!(listed.unwrap().unwrap().total, 0);
}
