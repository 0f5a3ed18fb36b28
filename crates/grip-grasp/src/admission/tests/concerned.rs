use grip_nostr::{Event, Kind, kinds};
use nostr::prelude::Keys;

use crate::{
    admission::{Cause, Effect, Outcome, concerned, fake::*},
    departures::Departure,
};

const PULL_REQUEST: Kind = Kind::Custom(1618);

/// The names whose turns an event takes.
fn names(view: &FakeView, event: &Event) -> Vec<String> {
    let names = concerned(event, view, &view.policy).unwrap();
    names.iter().map(|name| name.as_str().to_owned()).collect()
}

fn delete(keys: &Keys, tag: [&str; 2]) -> Event {
    sign(keys, kinds::DELETION, &[&tag], 500)
}

/// Somebody's announcement of another name, served.
fn serve_name(view: &mut FakeView, name: &str) -> String {
    let keys = Keys::generate();
    view.serve(&sign(&keys, kinds::ANNOUNCEMENT, &[&["d", name]], 100));
    format!("30617:{}:{name}", keys.public_key().to_hex())
}

#[test]
fn a_deletion_has_the_turns_of_names_under_which_its_author_has_something() {
    let mut view = FakeView::new();
    let owner = view.hosting(&[]);
    let waiting = state(&owner, &[("refs/heads/main", oid(1))], 100);
    view.hold(&waiting);
    let (newcomer, departed, stranger) = (Keys::generate(), Keys::generate(), Keys::generate());
    let announcement = listing(&newcomer, &[], 100);
    view.hold(&announcement);
    let left = Departure::by(&elsewhere(&departed, &[], 100));
    view.departures.insert(addr(&departed), left);
    for (keys, expected) in [
        (&owner, vec![D]),
        (&newcomer, vec![D]),
        (&departed, vec![D]),
        (&stranger, vec![]),
    ] {
        for kind in [30617, 30618] {
            let address = coordinate(kind, &keys.public_key());
            assert_eq!(names(&view, &delete(keys, ["a", &address])), expected);
        }
    }
    let id = waiting.id.to_hex();
    assert_eq!(names(&view, &delete(&owner, ["e", &id])), [D]);
    assert!(names(&view, &delete(&stranger, ["e", &id])).is_empty());
}

/// The refs of its pull requests are cleared in the turn of one name after the other.
#[test]
fn a_deletion_of_what_is_said_about_a_repository_has_no_turn() {
    let mut view = FakeView::new();
    let owner = view.hosting(&[]);
    let ours = coordinate(30617, &owner.public_key());
    let stranger = Keys::generate();
    let tip = oid(1).to_hex();
    let request = sign(&stranger, PULL_REQUEST, &[&["a", &ours], &["c", &tip]], 100);
    let article = sign(
        &stranger,
        Kind::Custom(30023),
        &[&["a", &ours], &["d", D]],
        100,
    );
    for event in [&request, &article] {
        view.serve(event);
        let deletion = delete(&stranger, ["e", &event.id.to_hex()]);
        assert!(names(&view, &deletion).is_empty());
    }
    let mut decision = view.ask(&delete(&stranger, ["e", &request.id.to_hex()]));
    let cleared = decision.take_cleared_beyond(&[]);
    assert_eq!(
        cleared[&identifier()].iter().collect::<Vec<_>>(),
        [&request.id]
    );
    let is_clear = |effect: &Effect| match effect {
        Effect::ClearPullRequestRef { repositories, .. } => repositories.is_empty(),
        _ => true,
    };
    assert!(decision.effects.iter().all(is_clear));
}

#[test]
fn a_pull_request_has_the_turns_of_what_it_is_for_and_of_nothing_it_mentions() {
    let mut view = FakeView::new();
    let owner = view.hosting(&[]);
    let ours = coordinate(30617, &owner.public_key());
    let other = serve_name(&mut view, "other");
    let root = sign(
        &owner,
        Kind::Custom(1617),
        &[&["a", &ours], &["q", &other]],
        100,
    );
    view.serve(&root);
    let (tip, root) = (oid(1).to_hex(), root.id.to_hex());
    let tip = ["c", tip.as_str()];
    let request = |tags: &[[&str; 2]]| {
        let mut all = vec![tip.as_slice()];
        all.extend(tags.iter().map(|tag| tag.as_slice()));
        names(&view, &sign(&Keys::generate(), PULL_REQUEST, &all, 200))
    };
    assert_eq!(request(&[["a", &ours], ["q", &other], ["A", &other]]), [D]);
    assert_eq!(request(&[["a", &ours], ["a", &other]]), ["other", D]);
    assert_eq!(request(&[["e", &root]]), [D], "inherited");
    assert_eq!(request(&[["a", &other], ["e", &root]]), ["other"]);
    let unknown = format!("30617:{}:unknown", owner.public_key().to_hex());
    assert!(request(&[["a", &unknown]]).is_empty());
}

/// Whether it names them itself or through an event that somebody stored for it.
#[test]
fn g01_49_a_pull_request_for_more_than_four_names_is_refused_without_a_turn() {
    let mut view = FakeView::new();
    view.hosting(&[]);
    let named: Vec<String> = (0..5)
        .map(|n| serve_name(&mut view, &format!("name{n}")))
        .collect();
    let tags: Vec<[&str; 2]> = named.iter().map(|name| ["a", name.as_str()]).collect();
    let tags: Vec<&[&str]> = tags.iter().map(|tag| tag.as_slice()).collect();
    let tip = oid(1).to_hex();
    let tip = ["c", tip.as_str()];
    for most in [4, 5] {
        let root = sign(&Keys::generate(), Kind::Custom(1621), &tags[..most], 100);
        view.serve(&root);
        let root = root.id.to_hex();
        let root = ["e", root.as_str()];
        let by_root = vec![tip.as_slice(), root.as_slice()];
        let mut by_itself = vec![tip.as_slice()];
        by_itself.extend(&tags[..most]);
        for tags in [by_root, by_itself] {
            let request = sign(&Keys::generate(), PULL_REQUEST, &tags, 200);
            let is_refused = refusal_of(&view, &request) == Some(Cause::Malformed);
            let turns = names(&view, &request).len();
            assert_eq!(
                (is_refused, turns),
                if most == 5 { (true, 0) } else { (false, 4) }
            );
        }
    }
}

fn refusal_of(view: &FakeView, event: &Event) -> Option<Cause> {
    match view.outcome(event) {
        Outcome::Refuse(reason) => Some(reason.cause),
        _ => None,
    }
}
