use grip_nostr::{Event, PullRequest, RepoAddr, kinds};
use grip_types::Service;
use nostr::prelude::Keys;
use url::Url;

use super::{Identifier, MAX_URL_BYTES, MAX_URLS, MAX_URLS_OF_ONE, Need, asks};
use crate::admission::{Announcements, fake::*};

const MAIN: &str = "refs/heads/main";

/// An announcement that lists this server and further clone URLs.
fn with_clones(keys: &Keys, clones: &[&str], maintainers: &[&Keys]) -> Event {
    let mut clone = vec!["clone"];
    clone.extend(clones);
    let trusted: Vec<String> = maintainers
        .iter()
        .map(|k| k.public_key().to_hex())
        .collect();
    let mut tag = vec!["maintainers"];
    tag.extend(trusted.iter().map(String::as_str));
    let relay = format!("wss://{SERVICE}");
    announce(keys, &clone_url(keys), &relay, &[&clone, &tag], 100)
}

fn request(target: &Keys, clones: &[&str]) -> Event {
    let (target, tip) = (coordinate(30617, &target.public_key()), oid(7).to_hex());
    let mut clone = vec!["clone"];
    clone.extend(clones);
    let tags: &[&[&str]] = &[&["a", &target], &["c", &tip], &clone];
    sign(&Keys::generate(), kinds::PULL_REQUEST, tags, 100)
}

fn need(view: &FakeView, event: &Event) -> Option<Need> {
    let announcements = Announcements::load(&identifier(), view, &view.policy).unwrap();
    asks(event, &announcements, &identifier(), view, &view.policy).unwrap()
}

fn urls(view: &FakeView, event: &Event) -> Vec<String> {
    let need = need(view, event).unwrap();
    need.urls.iter().map(Url::to_string).collect()
}

#[test]
fn only_the_objects_that_are_not_here_are_needed() {
    let mut view = FakeView::new();
    let owner = view.hosting(&[]);
    view.has(&[oid(1)]);
    let event = state(&owner, &[(MAIN, oid(1)), ("refs/tags/v1", oid(2))], 100);
    let need = need(&view, &event).unwrap();
    assert_eq!((need.event, need.oids), (event.id, [oid(2)].into()));
}

#[test]
fn a_commit_that_can_never_be_here_is_not_asked_for() {
    let mut view = FakeView::new();
    let owner = view.hosting(&[]);
    let (target, sha256) = (coordinate(30617, &owner.public_key()), "ab".repeat(32));
    let tags: &[&[&str]] = &[&["a", &target], &["c", &sha256]];
    let event = sign(&Keys::generate(), kinds::PULL_REQUEST, tags, 100);
    assert_eq!(need(&view, &event), None);
}

#[test]
fn another_project_of_the_same_name_is_never_asked() {
    let (owner, stranger) = (Keys::generate(), Keys::generate());
    let mut view = FakeView::new();
    view.serve(&with_clones(&owner, &["https://a.example/x.git"], &[]));
    view.serve(&with_clones(&stranger, &["https://b.example/x.git"], &[]));
    let of_owner = state(&owner, &[(MAIN, oid(1))], 100);
    assert_eq!(urls(&view, &of_owner), ["https://a.example/x.git"]);
    let of_stranger = state(&stranger, &[(MAIN, oid(2))], 100);
    assert_eq!(urls(&view, &of_stranger), ["https://b.example/x.git"]);
    let to_owner = request(&owner, &[]);
    assert_eq!(urls(&view, &to_owner), ["https://a.example/x.git"]);
}

#[test]
fn all_who_maintain_a_repository_together_are_asked_the_author_first() {
    let (owner, maintainer, mirror) = (Keys::generate(), Keys::generate(), Keys::generate());
    let mut view = FakeView::new();
    let of_owner = with_clones(&owner, &["https://a.example/x.git"], &[&maintainer]);
    let of_maintainer = with_clones(&maintainer, &["https://b.example/x.git"], &[&owner]);
    view.serve(&of_owner);
    // Held counts as well as served, and so does what went into hiding.
    view.hold(&of_maintainer);
    view.hidden.insert(of_maintainer.id);
    // The legacy rule lets anyone share in the owner's states; they come last.
    view.serve(&with_clones(
        &mirror,
        &["https://c.example/x.git"],
        &[&owner],
    ));
    for (author, first, second) in [(&owner, "a", "b"), (&maintainer, "b", "a")] {
        let asked = urls(&view, &state(author, &[(MAIN, oid(1))], 100));
        let expected = [first, second, "c"].map(|host| format!("https://{host}.example/x.git"));
        assert_eq!(asked, expected);
    }
}

#[test]
fn a_pull_request_is_looked_for_at_its_own_urls_first() {
    let owner = Keys::generate();
    let mut view = FakeView::new();
    view.serve(&with_clones(&owner, &["https://a.example/x.git"], &[]));
    let event = request(&owner, &["https://fork.example/x.git"]);
    assert_eq!(
        urls(&view, &event),
        ["https://fork.example/x.git", "https://a.example/x.git"]
    );
    assert_eq!(need(&view, &event).unwrap().oids, [oid(7)].into());
    // Nothing of it belongs into another identifier.
    let other = Identifier::parse("other").unwrap();
    let announcements = Announcements::load(&other, &view, &view.policy).unwrap();
    let asked = asks(&event, &announcements, &other, &view, &view.policy);
    assert_eq!(asked.unwrap(), None);
}

#[test]
fn we_are_never_asked_under_any_of_our_names() {
    let owner = Keys::generate();
    let mut view = FakeView::new();
    view.policy.aliases = vec![Service::parse("https://alias.example:8443").unwrap()];
    let path = addr(&owner).path();
    let ours = [
        format!("https://{SERVICE}/{path}"),
        format!("http://{}:80/{path}", SERVICE.to_uppercase()),
        format!("https://alias.example:8443/{path}"),
    ];
    let others = [
        format!("https://{SERVICE}.evil.net/{path}"),
        format!("https://my{SERVICE}/{path}"),
        format!("https://alias.example/{path}"),
    ];
    let all: Vec<&str> = ours.iter().chain(&others).map(String::as_str).collect();
    view.serve(&with_clones(&owner, &all, &[]));
    assert_eq!(urls(&view, &state(&owner, &[(MAIN, oid(1))], 100)), others);
}

#[test]
fn what_is_no_plain_url_is_left_out() {
    let owner = Keys::generate();
    let mut view = FakeView::new();
    let long = format!("https://a.example/{}", "x".repeat(MAX_URL_BYTES));
    let clones = [
        "not a url",
        "",
        "https://",
        "file:///etc/passwd",
        "git://a.example/x",
        "ssh://git@a.example/x",
        "git@a.example:x.git",
        "https://user:secret@a.example/x.git",
        "https://user@grasp.example.com/x.git",
        "data:text/plain,x",
        &long,
        "https://a.example/x.git#fragment",
        "https://a.example/x.git",
    ];
    view.serve(&with_clones(&owner, &clones, &[]));
    let event = state(&owner, &[(MAIN, oid(1))], 100);
    assert_eq!(urls(&view, &event), ["https://a.example/x.git"]);
}

#[test]
fn a_long_list_of_urls_leaves_room_for_the_others() {
    let owner = Keys::generate();
    let mut view = FakeView::new();
    let many: Vec<String> = (0..100)
        .map(|n| format!("https://h{n}.example/x"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    view.serve(&with_clones(&owner, &["https://a.example/x.git"], &[]));
    let asked = urls(&view, &request(&owner, &many));
    assert_eq!(asked.len(), MAX_URLS_OF_ONE + 1);
    assert_eq!(asked.last().unwrap(), "https://a.example/x.git");
    view.serve(&with_clones(&owner, &many, &[]));
    assert!(urls(&view, &request(&owner, &many)).len() <= MAX_URLS);
}

/// `extract_identifier_from_repo_path_valid` of the source document.
#[test]
fn the_identifier_of_a_repository_is_read_from_its_path() {
    let owner = Keys::generate();
    let path = addr(&owner).path();
    let (npub, name) = path.split_once('/').unwrap();
    assert_eq!(name, format!("{D}.git"));
    let read = RepoAddr::from_segments(npub, name).unwrap();
    assert_eq!(read.identifier, identifier());
    assert_eq!(RepoAddr::from_segments("nobody", name), None);
}

/// `extract_identifier_from_pr_event_valid` of the source document.
#[test]
fn the_identifier_of_a_pull_request_is_read_from_its_a_tag() {
    let owner = Keys::generate();
    let request = PullRequest::parse(request(&owner, &[])).unwrap();
    assert_eq!(request.targets, [addr(&owner)]);
}

/// `extract_identifier_from_pr_event_missing_tag` of the source document.
#[test]
fn a_pull_request_without_an_a_tag_names_no_identifier() {
    let mut view = FakeView::new();
    let _ = view.hosting(&[]);
    let tip = oid(7).to_hex();
    let event = sign(&Keys::generate(), kinds::PULL_REQUEST, &[&["c", &tip]], 100);
    let request = PullRequest::parse(event.clone()).unwrap();
    assert!(request.targets.is_empty());
    assert_eq!(need(&view, &event), None);
}
