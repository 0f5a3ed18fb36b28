use grip_nostr::{Event, Kind, PullRequest, RepoAddr, kinds};
use grip_testkit::http::must_contain;
use grip_types::Oid;
use nostr::prelude::Keys;

use crate::admission::{Cause, Effect, Found, Outcome, Receiver, fake::*};

fn request(targets: &[&Keys], tip: Oid) -> Event {
    let targets: Vec<String> = targets
        .iter()
        .map(|keys| coordinate(30617, &keys.public_key()))
        .collect();
    let targets: Vec<[&str; 2]> = targets.iter().map(|t| ["a", t.as_str()]).collect();
    let tip = tip.to_hex();
    let tip = ["c", tip.as_str()];
    let mut tags: Vec<&[&str]> = vec![&tip];
    tags.extend(targets.iter().map(|t| &t[..]));
    sign(&Keys::generate(), kinds::PULL_REQUEST, &tags, 100)
}

fn update(root: &Event, tip: Oid) -> Event {
    let (root, tip) = (root.id.to_hex(), tip.to_hex());
    let tags: &[&[&str]] = &[&["E", &root], &["c", &tip]];
    sign(&Keys::generate(), kinds::PULL_REQUEST_UPDATE, tags, 200)
}

fn set(event: &Event, tip: Oid, repositories: &[RepoAddr]) -> Effect {
    Effect::SetPullRequestRef {
        source: None,
        event: event.id,
        tip,
        repositories: repositories.to_vec(),
    }
}

fn clear(event: &Event, repositories: &[RepoAddr], unless: Option<Oid>) -> Effect {
    Effect::ClearPullRequestRef {
        event: event.id,
        repositories: repositories.to_vec(),
        unless,
    }
}

#[test]
fn g01_50_a_pull_request_names_its_tip_as_40_or_64_hex_digits() {
    let (view, owner) = FakeView::hosted(&[]);
    let repo = coordinate(30617, &owner.public_key());
    let sha256 = "ab".repeat(32);
    let ask = |c: &[&str]| {
        let tags: &[&[&str]] = &[&["a", &repo], c];
        view.ask(&sign(&Keys::generate(), kinds::PULL_REQUEST, tags, 100))
    };
    for bad in [
        &["x", "y"][..],
        &["c"],
        &["c", "main"],
        &["c", &"AB".repeat(20)],
    ] {
        let (cause, text) = refusal(&ask(bad));
        assert_eq!(cause, Cause::Malformed);
        assert!(text.starts_with("invalid: "), "{text}");
    }
    assert_eq!(ask(&["c", &sha256]).outcome, Outcome::Hold);
}

/// Whose share it is: refs of one key are bounded by that key's, those of all strangers leave the
/// repository usable, and its maintainers find room.
#[test]
fn refs_of_pull_requests_are_bounded_by_author_and_repository() {
    let (mut view, owner) = FakeView::hosted(&[]);
    view.has(&[oid(1)]);
    let (many, other) = (Keys::generate(), Keys::generate());
    let repo = coordinate(30617, &owner.public_key());
    let tip = oid(1).to_hex();
    let by = |keys: &Keys| {
        let tags: &[&[&str]] = &[&["a", &repo], &["c", &tip]];
        sign(keys, kinds::PULL_REQUEST, tags, 100)
    };
    view.request_refs.insert(many.public_key(), 1_999);
    assert_eq!(view.ask(&by(&many)).outcome, Outcome::Serve);
    view.request_refs.insert(many.public_key(), 2_000);
    view.refuses(&by(&many), Cause::Full, "blocked: 2000 ");
    assert_eq!(view.ask(&by(&other)).outcome, Outcome::Serve);
    for _ in 0..9 {
        view.request_refs
            .insert(Keys::generate().public_key(), 2_000);
    }
    assert_eq!(view.cause(&by(&other)), Cause::Full);
    assert_eq!(view.ask(&by(&owner)).outcome, Outcome::Serve);
}

#[test]
fn g01_48_without_its_commit_a_pull_request_waits_and_wrong_refs_go() {
    let (view, owner) = FakeView::hosted(&[]);
    let event = request(&[&owner], oid(1));
    let decision = view.ask(&event);
    assert_eq!(decision.outcome, Outcome::Hold);
    assert_eq!(
        decision.effects,
        [clear(&event, &[addr(&owner)], Some(oid(1)))]
    );
}

#[test]
fn g01_48_with_its_commit_here_a_pull_request_is_served_and_its_ref_made() {
    let (mut view, owner) = FakeView::hosted(&[]);
    view.has(&[oid(1)]);
    let event = request(&[&owner], oid(1));
    let decision = view.ask(&event);
    assert_eq!(decision.outcome, Outcome::Serve);
    decision.must_do(&set(&event, oid(1), &[addr(&owner)]));
}

#[test]
fn g01_50_a_tip_that_is_no_commit_is_refused() {
    let (mut view, owner) = FakeView::hosted(&[]);
    view.objects.insert(oid(1), Found::Other);
    let decision = view.ask(&request(&[&owner], oid(1)));
    assert_eq!(refusal(&decision).0, Cause::Malformed);
    assert!(decision.effects.is_empty());
}

#[test]
fn g01_49_the_ref_goes_into_every_repository_that_trusts_the_named_owner() {
    let m = Keys::generate();
    let (mut view, first) = FakeView::hosted(&[&m]);
    let second = view.hosting(&[&m]);
    view.hosting(&[]);
    view.serve(&elsewhere(&m, &[], 100));
    view.has(&[oid(1)]);
    let event = request(&[&m], oid(1));
    let decision = view.ask(&event);
    let mut expected = vec![addr(&first), addr(&second)];
    expected.sort();
    decision.must_do(&set(&event, oid(1), &expected));
    let parsed = PullRequest::parse(event).unwrap();
    let belongs = |keys| {
        let repository = addr(keys);
        let receiver = Receiver::load(&repository, &view, &view.policy).unwrap();
        receiver.takes(&parsed, &view, &view.policy).unwrap()
    };
    assert!(belongs(&first) && belongs(&second) && !belongs(&m));
}

#[test]
fn g01_45_a_ref_pushed_to_a_repository_it_does_not_belong_to_goes() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let other = view.hosting(&[]);
    let event = request(&[&owner], oid(1));
    view.placeholders.push((event.id, addr(&other)));
    view.placeholders.push((event.id, addr(&owner)));
    view.has(&[oid(1)]);
    let decision = view.ask(&event);
    decision.must_do(&clear(&event, &[addr(&other)], None));
    decision.must_do(&set(&event, oid(1), &[addr(&owner)]));
}

#[test]
fn g01_48a_a_pull_request_without_a_served_repository_is_blocked() {
    let view = FakeView::new();
    view.refuses(
        &request(&[&Keys::generate()], oid(1)),
        Cause::Unrelated,
        "blocked: ",
    );
}

#[test]
fn g01_8_a_pull_request_to_a_held_announcement_is_told_to_come_back() {
    let owner = Keys::generate();
    let mut view = FakeView::new();
    view.take(&listing(&owner, &[], 100));
    view.refuses(
        &request(&[&owner], oid(1)),
        Cause::NoGitData,
        "blocked: repository has no git data yet",
    );
}

#[test]
fn g01_50_an_update_finds_its_repository_through_the_pull_request_it_names() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let root = request(&[&owner], oid(1));
    let event = update(&root, oid(2));
    assert_eq!(view.cause(&event), Cause::Unrelated);
    view.take(&root);
    assert_eq!(view.cause(&event), Cause::NoGitData, "its root is held");
    view.serve(&root);
    assert_eq!(view.outcome(&event), Outcome::Hold);
    view.has(&[oid(2)]);
    let decision = view.ask(&event);
    assert_eq!(decision.outcome, Outcome::Serve);
    decision.must_do(&set(&event, oid(2), &[addr(&owner)]));
}

#[test]
fn g01_48a_a_deleted_pull_request_is_refused() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let author = Keys::generate();
    let (repo, tip) = (coordinate(30617, &owner.public_key()), oid(1).to_hex());
    let event = sign(
        &author,
        kinds::PULL_REQUEST,
        &[&["a", &repo], &["c", &tip]],
        100,
    );
    view.take(&delete_id(&author, &event.id));
    assert_eq!(view.cause(&event), Cause::Deleted);
}

#[test]
fn g01_49_a_pull_request_names_a_few_repositories_and_is_looked_up_through_a_few_events() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let tip = oid(7).to_hex();
    let others: Vec<String> = (0..16)
        .map(|_| coordinate(30617, &Keys::generate().public_key()))
        .collect();
    let ours = coordinate(30617, &owner.public_key());
    let mut tags: Vec<[&str; 2]> = vec![["c", &tip], ["a", &ours]];
    tags.extend(others.iter().map(|other| ["a", other.as_str()]));
    let sign_with = |tags: &[[&str; 2]]| {
        let tags: Vec<&[&str]> = tags.iter().map(|tag| &tag[..]).collect();
        sign(&Keys::generate(), kinds::PULL_REQUEST, &tags, 200)
    };
    let text = view.refuses(&sign_with(&tags), Cause::Malformed, "invalid: ");
    must_contain(&text, &["16"]);
    assert_eq!(view.outcome(&sign_with(&tags[..17])), Outcome::Hold);

    // Each name costs a turn and a decision.
    let key = owner.public_key().to_hex();
    let named: Vec<String> = (0..4).map(|n| format!("30617:{key}:name{n}")).collect();
    let mut tags: Vec<[&str; 2]> = vec![["c", &tip], ["a", &ours]];
    tags.extend(named.iter().map(|other| ["a", other.as_str()]));
    let text = view.refuses(&sign_with(&tags), Cause::Malformed, "invalid: ");
    must_contain(&text, &["4 different names"]);
    assert_eq!(view.outcome(&sign_with(&tags[..5])), Outcome::Hold);

    // Of many events it continues, the first few are read.
    let ids: Vec<String> = (0..100)
        .map(|_| {
            let root = sign(&Keys::generate(), Kind::Custom(1621), &[], 100);
            view.serve(&root);
            root.id.to_hex()
        })
        .collect();
    let mut tags: Vec<[&str; 2]> = vec![["c", &tip]];
    tags.extend(ids.iter().map(|id| ["e", id.as_str()]));
    view.reads.set(0);
    assert_eq!(view.cause(&sign_with(&tags)), Cause::Unrelated);
    assert!(view.reads.get() <= 16, "{}", view.reads.get());
}
