//! The seam to the search for missing data, and what happens to events whose data is late.

use std::time::Duration;

use grip_grasp::{
    AttemptEnd, DataSource, Millis, Released, Status, SyncContext as _, WaitingStatus,
};
use grip_nostr::{Event, Timestamp};
use grip_testkit::{Author, WorkTree, wire};
use grip_types::{Identifier, Origin};

use crate::node::{HELD, Node, SERVICE, ZERO, addr, announce, later, with_repository};

const MIRROR: &str = "https://mirror.example/x.git";
const FORK: &str = "https://fork.example/x.git";
pub(crate) const MAIN: &str = "refs/heads/main";
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn x() -> Identifier {
    Identifier::parse("x").unwrap()
}

pub(crate) fn in_minutes(minutes: u64) -> Millis {
    Millis::from(Timestamp::now()) + Duration::from_secs(minutes * 60 + 30)
}

/// A new version of the owner's announcement that names a mirror.
fn mirrored(owner: &Author) -> Event {
    let clone = vec!["clone".to_owned(), MIRROR.to_owned()];
    owner.announcement_at(SERVICE, "x", vec![clone], later(1))
}

/// A node that serves `x`, with a state on it whose commit is only in the work tree.
async fn waiting(owner: &Author) -> (Node, WorkTree, Event, String) {
    let (node, tree, _tip) = with_repository(owner, "x").await;
    node.accepts(&mirrored(owner), "").await;
    let next = tree.commit("a", "next").unwrap();
    let state = owner.state_at("x", &[(MAIN, &next)], None, later(1));
    node.accepts(&state, HELD).await;
    (node, tree, state, next)
}

/// The same after the state's half hour.
pub(crate) async fn wanting(owner: &Author) -> (Node, WorkTree, Event, String) {
    let (node, tree, state, next) = waiting(owner).await;
    assert_eq!(node.grasp().sweep(in_minutes(31)).await.events, 1);
    assert_eq!(node.grasp().stats().purgatory.wanted, 1);
    (node, tree, state, next)
}

async fn status(node: &Node, event: &Event) -> Status {
    let explained = node.grasp().explain(&event.id.to_hex()).await.unwrap();
    explained.status
}

pub(crate) async fn fetched(node: &Node) -> Released {
    let grasp = node.grasp();
    grasp
        .process_newly_available_git_data(&x(), DataSource::Fetch)
        .await
}

/// Puts an object with all it reaches where a fetch would.
pub(crate) async fn fetch(node: &Node, tree: &WorkTree, tip: &str) {
    let pack = wire::pack(tree, tip, None).await.unwrap();
    let quarantine = node.receive("x", pack).await;
    quarantine.promote().unwrap();
}

#[tokio::test]
async fn a_held_state_is_due_names_what_it_lacks_and_is_released_by_a_fetch() {
    let owner = Author::new();
    let (node, tree, state, next) = waiting(&owner).await;
    let grasp = node.grasp();
    assert!(grasp.has_pending_events(&x()));
    assert_eq!(grasp.sync_queue_len(), 1);
    assert_eq!(grasp.begin_sync().due(), None, "its author may still push");
    assert!(grasp.sync_now(&x()).await);
    assert_eq!(grasp.begin_sync().due(), Some(x()));
    assert_eq!(grasp.begin_sync().due(), None);

    let needs = grasp.needs(&x()).await.unwrap();
    assert_eq!(needs.len(), 1);
    assert_eq!(needs[0].event, state.id);
    let oids: Vec<String> = needs[0].oids.iter().map(ToString::to_string).collect();
    assert_eq!(oids, std::slice::from_ref(&next));
    assert_eq!(needs[0].urls, [MIRROR.parse().unwrap()]);

    fetch(&node, &tree, &next).await;
    let released = fetched(&node).await;
    assert_eq!(released.events, [state.id]);
    assert!(!grasp.has_pending_events(&x()));
    grasp.finish_sync(&x(), AttemptEnd::Complete).await;
    assert_eq!((grasp.sync_queue_len(), grasp.next_sync()), (0, None));
    assert!(grasp.needs(&x()).await.unwrap().is_empty());
    assert_eq!(node.refs(&addr(&owner, "x"))[MAIN], next);
}

#[tokio::test]
async fn packs_that_fetches_bring_are_rolled_up_as_those_of_pushes_are() {
    let (node, tree, _, next) = waiting(&Author::new()).await;
    let grasp = node.grasp();
    // What the pushes before left.
    grasp.maintain().await;
    assert_eq!(grasp.maintain().await.repacked, 0);
    fetch(&node, &tree, &next).await;
    fetched(&node).await;
    assert_eq!(grasp.maintain().await.repacked, 1);
}

#[tokio::test]
async fn every_attempt_that_comes_forward_is_notified() {
    let owner = Author::new();
    let (node, _tree, _state, _next) = waiting(&owner).await;
    let grasp = node.grasp();
    let mut changes = grasp.sync_changes();
    assert!(grasp.sync_now(&x()).await);
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    assert_eq!(grasp.begin_sync().due(), Some(x()));
    let retry = AttemptEnd::Retry(Duration::from_secs(20));
    grasp.finish_sync(&x(), retry).await;
    assert!(changes.has_changed().unwrap(), "something is due again");
    let facts = grasp.sync_entry(&x()).unwrap();
    assert_eq!((facts.attempt_count, facts.in_progress), (1, false));
    assert_eq!(grasp.sync_queue(10), [(x(), facts)]);
    changes.mark_unchanged();
    let other = owner.state_at("x", &[(MAIN, &"2".repeat(40))], None, later(5));
    let answer = node.send_as(&other, Origin::Synced).await;
    assert!(answer.accepted, "{answer:?}");
    assert!(changes.has_changed().unwrap(), "500 ms is sooner");
    assert_eq!(grasp.sync_entry(&x()).unwrap().attempt_count, 0);
    let nowhere = Identifier::parse("nowhere").unwrap();
    assert!(!grasp.sync_now(&nowhere).await);
}

#[tokio::test]
async fn a_restart_in_the_middle_of_an_attempt_makes_it_again() {
    let owner = Author::new();
    let (mut node, _tree, _state, _next) = waiting(&owner).await;
    assert!(node.grasp().sync_now(&x()).await);
    assert_eq!(node.grasp().begin_sync().due(), Some(x()));
    let retry = AttemptEnd::Retry(Duration::from_secs(0));
    node.grasp().finish_sync(&x(), retry).await;
    assert_eq!(node.grasp().begin_sync().due(), Some(x()));
    node.restart().await;
    let facts = node.grasp().sync_entry(&x()).unwrap();
    assert_eq!((facts.attempt_count, facts.in_progress), (1, false));
    assert_eq!(node.grasp().begin_sync().due(), Some(x()));
    node.agrees().await;
}

#[tokio::test]
async fn a_pull_request_names_its_fork_and_the_repository() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, tree, _tip) = with_repository(&owner, "x").await;
    node.accepts(&mirrored(&owner), "").await;
    let tip = tree.commit("a", "proposal").unwrap();
    let event = author.pull_request(&owner, "x", &tip, FORK);
    node.accepts(&event, HELD).await;
    let needs = node.grasp().needs(&x()).await.unwrap();
    assert_eq!(needs.len(), 1);
    assert_eq!(
        needs[0].urls,
        [FORK.parse().unwrap(), MIRROR.parse().unwrap()]
    );
    // After its half hour it is still looked for, and a fetch serves it with its ref.
    let _ = node.grasp().sweep(in_minutes(31)).await;
    assert_eq!(status(&node, &event).await, Status::Wanted);
    assert_eq!(node.grasp().needs(&x()).await.unwrap(), needs);
    fetch(&node, &tree, &tip).await;
    let released = fetched(&node).await;
    assert_eq!(released.prs_released, 1);
    let name = format!("refs/nostr/{}", event.id.to_hex());
    assert_eq!(node.refs(&addr(&owner, "x"))[&name], tip);
    assert_eq!(node.grasp().stats().purgatory.wanted, 0);
}

#[tokio::test]
async fn g02_2_a_state_is_looked_for_every_hour_after_its_half_hour() {
    let owner = Author::new();
    let (mut node, tree, state, next) = wanting(&owner).await;
    assert!(!node.holds(&state).await && node.waiting() == 0);
    assert!(node.grasp().sync_now(&x()).await);
    let began = Millis::from(Timestamp::now());
    assert_eq!(node.grasp().begin_sync().due(), Some(x()));
    assert_eq!(node.grasp().needs(&x()).await.unwrap().len(), 1);
    let retry = AttemptEnd::Retry(Duration::from_secs(20));
    node.grasp().finish_sync(&x(), retry).await;
    let facts = node.grasp().sync_entry(&x()).unwrap();
    assert!(facts.next_attempt <= began + HOUR + Duration::from_secs(10));
    assert!(facts.next_attempt >= began + HOUR - Duration::from_secs(1));

    node.restart().await;
    assert_eq!(node.grasp().sync_entry(&x()), Some(facts));
    assert_eq!(status(&node, &state).await, Status::Wanted);
    fetch(&node, &tree, &next).await;
    let released = fetched(&node).await;
    assert_eq!(released.states_released, 1);
    assert!(node.serves(&state));
    assert_eq!(node.refs(&addr(&owner, "x"))[MAIN], next);
    assert_eq!(node.grasp().sync_queue_len(), 0);
    node.agrees().await;
}

#[tokio::test]
async fn data_that_was_here_before_a_restart_serves_a_wanted_state() {
    let owner = Author::new();
    let (mut node, tree, state, next) = wanting(&owner).await;
    fetch(&node, &tree, &next).await;
    node.restart().await;
    assert!(node.serves(&state));
    assert_eq!(node.grasp().stats().purgatory.wanted, 0);
    node.agrees().await;
}

#[tokio::test]
async fn an_attempt_finds_that_nothing_is_missing_and_settles_it() {
    let owner = Author::new();
    let (node, tree, state, next) = wanting(&owner).await;
    fetch(&node, &tree, &next).await;
    assert!(node.grasp().needs(&x()).await.unwrap().is_empty());
    assert!(node.serves(&state));
    assert!(!node.grasp().has_pending_events(&x()));
}

#[tokio::test]
async fn a_wanted_state_allows_no_push_and_a_push_that_brings_its_data_serves_it() {
    let owner = Author::new();
    let (node, tree, state, next) = wanting(&owner).await;
    let repo = addr(&owner, "x");
    let tip = node.refs(&repo)[MAIN].clone();
    let push = [(tip.as_str(), next.as_str(), MAIN)];
    let told = node.push(&repo, &tree, &push).await;
    told.refused("");
    assert!(!node.has_object("x", &next));
    let request = owner.pull_request(&owner, "x", &next, FORK);
    node.accepts(&request, HELD).await;
    let name = format!("refs/nostr/{}", request.id.to_hex());
    let told = node.push(&repo, &tree, &[(ZERO, &next, &name)]).await;
    told.taken("");
    assert!(node.serves(&state));
    assert_eq!(node.refs(&repo)[MAIN], next);
    assert_eq!(node.grasp().stats().purgatory.wanted, 0);
    assert_eq!(node.grasp().sync_queue_len(), 0);
}

#[tokio::test]
async fn a_pull_request_pushed_under_its_own_name_after_its_half_hour_is_served() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, tree, _tip) = with_repository(&owner, "x").await;
    let tip = tree.commit("a", "proposal").unwrap();
    let event = author.pull_request(&owner, "x", &tip, FORK);
    node.accepts(&event, HELD).await;
    let _ = node.grasp().sweep(in_minutes(31)).await;
    let name = format!("refs/nostr/{}", event.id.to_hex());
    let repo = addr(&owner, "x");
    let told = node.push(&repo, &tree, &[(ZERO, &tip, &name)]).await;
    assert!(told.accepted && node.serves(&event), "{told:?}");
    assert_eq!((node.waiting(), node.grasp().sync_queue_len()), (0, 0));
}

#[tokio::test]
async fn a_copy_that_another_relay_sends_is_a_duplicate_and_one_that_a_person_sends_is_held() {
    let owner = Author::new();
    let (node, tree, state, next) = wanting(&owner).await;
    let answer = node.send_as(&state, Origin::Synced).await;
    assert!(
        answer.accepted && answer.message.starts_with("duplicate"),
        "{answer:?}"
    );
    assert_eq!(status(&node, &state).await, Status::Wanted);
    node.accepts(&state, HELD).await;
    assert_eq!(node.grasp().stats().purgatory.wanted, 0);
    let repo = addr(&owner, "x");
    let tip = node.refs(&repo)[MAIN].clone();
    let push = [(tip.as_str(), next.as_str(), MAIN)];
    assert!(node.push(&repo, &tree, &push).await.accepted);
    assert!(node.serves(&state));
}

#[tokio::test]
async fn a_newer_state_takes_the_place_of_a_wanted_one_whether_held_or_served() {
    for is_here in [false, true] {
        let owner = Author::new();
        let (node, _tree, state, _next) = wanting(&owner).await;
        let tip = node.refs(&addr(&owner, "x"))[MAIN].clone();
        let object = if is_here { tip } else { "3".repeat(40) };
        let newer = owner.state_at("x", &[(MAIN, &object)], None, later(9));
        assert!(node.send(&newer).await.accepted);
        assert_eq!(node.serves(&newer), is_here);
        assert_eq!(status(&node, &state).await, Status::Unknown);
        assert_eq!(node.grasp().stats().purgatory.wanted, 0);
        assert_eq!(node.grasp().has_pending_events(&x()), !is_here);
    }
}

#[tokio::test]
async fn a_deletion_ends_the_search_by_id_and_by_address() {
    for by_id in [true, false] {
        let (owner, stranger) = (Author::new(), Author::new());
        let (mut node, _tree, state, _next) = wanting(&owner).await;
        let foreign = stranger.delete_events(&[state.id]);
        assert!(node.send(&foreign).await.accepted);
        assert_eq!(status(&node, &state).await, Status::Wanted);
        let request = if by_id {
            owner.delete_events(&[state.id])
        } else {
            owner.sign_at(
                5,
                "",
                vec![vec!["a".to_owned(), format!("30618:{}:x", owner.hex())]],
                later(2),
            )
        };
        assert!(node.send(&request).await.accepted);
        assert_eq!(node.grasp().stats().purgatory.wanted, 0, "by id: {by_id}");
        assert_eq!(node.grasp().sync_queue_len(), 0);
        node.restart().await;
        assert_eq!(node.grasp().stats().purgatory.wanted, 0);
        node.agrees().await;
    }
}

#[tokio::test]
async fn what_nobody_here_would_serve_any_more_is_dropped_at_the_next_attempt() {
    let (owner, maintainer) = (Author::new(), Author::new());
    let (node, _tree, _tip) = with_repository(&owner, "x").await;
    let with = owner.announcement_at(
        SERVICE,
        "x",
        vec![vec!["maintainers".to_owned(), maintainer.hex()]],
        later(1),
    );
    node.accepts(&with, "").await;
    let state = maintainer.state_at("x", &[(MAIN, &"4".repeat(40))], None, later(2));
    node.accepts(&state, HELD).await;
    let _ = node.grasp().sweep(in_minutes(31)).await;
    assert_eq!(status(&node, &state).await, Status::Wanted);
    let without = owner.announcement_at(SERVICE, "x", vec![], later(3));
    node.accepts(&without, "").await;
    assert!(node.grasp().needs(&x()).await.unwrap().is_empty());
    assert_eq!(status(&node, &state).await, Status::Unknown);
}

#[tokio::test]
async fn a_wanted_state_of_a_hidden_repository_brings_it_back_with_its_data() {
    let (owner, node) = (Author::new(), Node::start().await);
    let tree = WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    let announcement = announce(&owner, "x", &[]);
    node.accepts(&announcement, HELD).await;
    let state = owner.state("x", &[(MAIN, &tip)], None);
    node.accepts(&state, HELD).await;
    let swept = node.grasp().sweep(in_minutes(31)).await;
    assert_eq!((swept.events, swept.repositories), (1, 1));
    assert_eq!(node.grasp().repository(&addr(&owner, "x")), None);
    assert_eq!(status(&node, &state).await, Status::Wanted);
    fetch(&node, &tree, &tip).await;
    let released = fetched(&node).await;
    assert!(released.errors.is_empty(), "{released:?}");
    assert!(node.serves(&state) && node.serves(&announcement));
    assert_eq!(node.refs(&addr(&owner, "x"))[MAIN], tip);
}

#[tokio::test]
async fn what_waits_is_listed_with_what_it_lacks() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, _tree, state, next) = wanting(&owner).await;
    let request = author.pull_request(&owner, "x", &"5".repeat(40), FORK);
    node.accepts(&request, HELD).await;
    let announcement = announce(&author, "y", &[]);
    node.accepts(&announcement, HELD).await;
    let listed = node.grasp().waiting(10).await.unwrap();
    let told: Vec<_> = listed
        .iter()
        .map(|facts| (&*facts.class, facts.status, facts.missing))
        .collect();
    assert_eq!(
        told,
        [
            ("pull_request", WaitingStatus::Held, 1),
            ("announcement", WaitingStatus::Held, 0),
            ("state", WaitingStatus::Wanted, 1),
        ]
    );
    let last = &listed[2];
    assert_eq!(
        (&last.id, &last.author),
        (&state.id.to_hex(), &owner.npub())
    );
    assert_eq!(last.identifiers, ["x"]);
    let lacks = last.first_missing.as_ref().unwrap();
    assert_eq!((lacks.name.as_str(), lacks.oid.to_string()), (MAIN, next));
    assert!(last.next_attempt.is_some() && listed[1].next_attempt.is_none());
    assert!(last.deadline > last.since);
    assert_eq!(node.grasp().waiting(1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_waits_can_be_dropped_for_good() {
    let owner = Author::new();
    let (mut node, _tree, state, _next) = wanting(&owner).await;
    let held = owner.state_at("x", &[(MAIN, &"6".repeat(40))], None, later(2));
    let announcement = announce(&owner, "y", &[]);
    node.accepts(&announcement, HELD).await;
    for event in [&state, &announcement] {
        assert!(node.grasp().drop_waiting(&event.id).await.unwrap());
        assert!(!node.grasp().drop_waiting(&event.id).await.unwrap());
    }
    assert_eq!(node.grasp().repository(&addr(&owner, "y")), None);
    assert!(!node.is_on_disk(&addr(&owner, "y")));
    node.accepts(&held, HELD).await;
    assert!(node.grasp().drop_waiting(&held.id).await.unwrap());
    node.restart().await;
    assert_eq!((node.waiting(), node.grasp().sync_queue_len()), (0, 0));
    assert_eq!(node.grasp().stats().purgatory.wanted, 0);
    node.agrees().await;
}

#[tokio::test]
async fn what_waits_can_be_looked_for_at_once() {
    let owner = Author::new();
    for (node, _tree, state, _next) in [waiting(&owner).await, wanting(&Author::new()).await] {
        assert!(node.grasp().retry_waiting(&state.id).await.unwrap());
        assert_eq!(node.grasp().begin_sync().due(), Some(x()));
        let unknown = announce(&owner, "y", &[]);
        assert!(!node.grasp().retry_waiting(&unknown.id).await.unwrap());
    }
}

#[tokio::test]
async fn the_search_is_explained_for_a_held_and_for_a_wanted_event() {
    let owner = Author::new();
    let (node, _tree, state, next) = waiting(&owner).await;
    let explain = || async { node.grasp().explain(&state.id.to_hex()).await.unwrap() };
    let told = explain().await;
    assert_eq!(told.status, Status::Held);
    assert_eq!(told.missing[0].oid.to_string(), next);
    assert_eq!(told.urls, [MIRROR.parse().unwrap()]);
    assert_eq!((told.attempts, told.in_progress), (Some(0), false));
    assert!(told.next_attempt.is_some() && told.next_attempt < told.deadline);
    assert_eq!(told.identifiers, [x()]);

    assert!(node.grasp().sync_now(&x()).await);
    let _ = node.grasp().begin_sync().due().unwrap();
    assert!(explain().await.in_progress);
    let retry = AttemptEnd::Retry(Duration::from_secs(20));
    node.grasp().finish_sync(&x(), retry).await;
    let _ = node.grasp().sweep(in_minutes(31)).await;
    let told = explain().await;
    assert_eq!((told.status, told.attempts), (Status::Wanted, Some(1)));
    let text = "its data did not come within 30 minutes; it is looked for every hour until 2";
    assert!(told.summary.starts_with(text), "{}", told.summary);
    assert_eq!(told.urls, [MIRROR.parse().unwrap()]);
    assert_eq!(told.missing_total, 1);
    assert!(!told.chain.is_empty() && told.deadline.is_some());
    let repository = addr(&owner, "x").to_string();
    let told = node.grasp().explain(&repository).await.unwrap();
    assert_eq!((told.held.len(), told.wanted.len()), (0, 1));
}

#[tokio::test]
async fn a_pull_request_named_by_sha_256_waits_for_nothing_that_is_looked_for() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, _tree, state, _next) = waiting(&owner).await;
    let event = author.pull_request(&owner, "x", &"ab".repeat(32), FORK);
    node.accepts(&event, HELD).await;
    let needs = node.grasp().needs(&x()).await.unwrap();
    let events: Vec<_> = needs.iter().map(|need| need.event).collect();
    assert_eq!(events, [state.id]);
    let told = node.grasp().explain(&event.id.to_hex()).await.unwrap();
    assert_eq!((told.status, told.missing_total), (Status::Held, 1));
    assert!(told.summary.contains("not looked for"), "{}", told.summary);
    assert!(told.urls.is_empty() && told.attempts.is_none() && told.next_attempt.is_none());
    let listed = node.grasp().waiting(10).await.unwrap();
    let facts = listed.iter().find(|facts| facts.id == event.id.to_hex());
    assert_eq!(facts.unwrap().next_attempt, None);
    let _ = node.grasp().sweep(in_minutes(31)).await;
    assert_eq!(status(&node, &event).await, Status::Unknown);
    assert_eq!(node.grasp().stats().purgatory.wanted, 1);
}

#[tokio::test]
async fn what_cannot_be_journalled_ends_no_search() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, _tree, _tip) = with_repository(&owner, "x").await;
    let state = owner.state_at("x", &[(MAIN, &"1".repeat(40))], None, later(1));
    let request = author.pull_request(&owner, "x", &"2".repeat(40), FORK);
    for event in [&state, &request] {
        node.accepts(event, HELD).await;
    }
    let _ = node.grasp().sweep(in_minutes(31)).await;
    let newer = owner.state_at("x", &[(MAIN, &"3".repeat(40))], None, later(2));
    node.close_journal().await;
    for event in [&state, &request, &newer] {
        node.refuses(event, "error: ").await;
    }
    for event in [&state, &request] {
        assert_eq!(status(&node, event).await, Status::Wanted);
    }
    assert_eq!(node.waiting(), 0);
    let needs = node.grasp().needs(&x()).await.unwrap();
    assert_eq!((needs.len(), node.grasp().sync_queue_len()), (2, 1));
}
