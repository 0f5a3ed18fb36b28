use grip_nostr::{Event, Kind, kinds};
use grip_testkit::http::must_contain;
use nostr::prelude::Keys;

use crate::{
    admission::{Cause, Effect, Outcome, fake::*},
    departures::Departure,
};

const MAIN: &str = "refs/heads/main";

fn delete_address(keys: &Keys, of: &Keys, kind: u16, at: u64) -> Event {
    let address = coordinate(kind, &of.public_key());
    sign(keys, kinds::DELETION, &[&["a", &address]], at)
}

#[test]
fn g01_54_a_held_state_goes_by_id_or_by_address() {
    for by_address in [false, true] {
        let (mut view, owner) = FakeView::hosted(&[]);
        let waiting = state(&owner, &[(MAIN, oid(1))], 100);
        view.take(&waiting);
        let decision = view.take(&if by_address {
            delete_address(&owner, &owner, 30618, 500)
        } else {
            delete_id(&owner, &waiting.id)
        });
        assert_eq!(decision.outcome, Outcome::Serve);
        let dropped = Effect::DropStates {
            identifier: identifier(),
            ids: vec![waiting.id],
        };
        assert_eq!(decision.effects, [dropped]);
        assert!(view.held.is_empty());
        assert_eq!(view.cause(&waiting), Cause::Deleted);
    }
}

#[test]
fn g01_55_only_the_authors_own_events_go() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let waiting = state(&owner, &[(MAIN, oid(1))], 100);
    view.take(&waiting);
    let stranger = Keys::generate();
    let by_id = view.take(&delete_id(&stranger, &waiting.id));
    assert_eq!((by_id.outcome, by_id.effects), (Outcome::Serve, vec![]));
    let by_address = view.take(&delete_address(&stranger, &owner, 30618, 500));
    assert_eq!(
        (by_address.outcome, by_address.effects),
        (Outcome::Serve, vec![]),
        "it names nothing of its author's"
    );
    assert_eq!(view.held.len(), 1);
}

#[test]
fn g01_102_a_request_that_names_a_served_event_of_another_is_refused_as_a_whole() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let served = state(&owner, &[(MAIN, oid(1))], 100);
    view.serve(&served);
    let request = delete_id(&Keys::generate(), &served.id);
    let text = view.refuses(&request, Cause::Malformed, "");
    must_contain(&text, &["cannot delete event authored by another pubkey"]);
}

#[test]
fn g01_102_more_than_2048_targets_are_refused() {
    let (view, keys) = (FakeView::new(), Keys::generate());
    let ids: Vec<String> = (0..2_049).map(|n| format!("{n:064x}")).collect();
    let tags: Vec<[&str; 2]> = ids.iter().map(|id| ["e", id.as_str()]).collect();
    let tags: Vec<&[&str]> = tags.iter().map(|tag| &tag[..]).collect();
    let request = |count: usize| sign(&keys, kinds::DELETION, &tags[..count], 100);
    assert_eq!(view.outcome(&request(2_048)), Outcome::Serve);
    assert_eq!(view.cause(&request(2_049)), Cause::Malformed);
}

#[test]
fn g01_55_an_address_covers_versions_up_to_the_time_of_the_request() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let old = state(&owner, &[(MAIN, oid(1))], 100);
    let new = state(&owner, &[(MAIN, oid(2))], 300);
    view.take(&old);
    view.take(&new);
    view.take(&delete_address(&owner, &owner, 30618, 200));
    assert_eq!(view.held, [new]);
}

#[test]
fn g01_102_a_request_that_names_nothing_or_unknown_events_is_kept() {
    let mut view = FakeView::new();
    let keys = Keys::generate();
    let empty = sign(&keys, kinds::DELETION, &[], 100);
    assert_eq!(view.taken(&empty), Outcome::Serve);
    let note = sign(&keys, Kind::Custom(1), &[], 100);
    assert_eq!(view.taken(&delete_id(&keys, &note.id)), Outcome::Serve);
    assert_eq!(view.cause(&note), Cause::Deleted);
}

#[test]
fn g01_56_a_held_announcement_goes_with_its_repository_and_states() {
    for by_address in [false, true] {
        let (owner, m) = (Keys::generate(), Keys::generate());
        let mut view = FakeView::new();
        let announcement = listing(&owner, &[&m], 100);
        view.take(&announcement);
        view.take(&state(&m, &[(MAIN, oid(1))], 100));
        let decision = view.take(&if by_address {
            delete_address(&owner, &owner, 30617, 500)
        } else {
            delete_id(&owner, &announcement.id)
        });
        decision.must_do(&Effect::EvictAnnouncement(addr(&owner)));
        assert!(view.held.is_empty());
    }
}

#[test]
fn g01_56_states_that_another_owner_uses_stay() {
    let (owner, m) = (Keys::generate(), Keys::generate());
    let mut view = FakeView::new();
    view.hosting(&[&m]);
    view.take(&listing(&owner, &[&m], 100));
    view.take(&state(&m, &[(MAIN, oid(1))], 100));
    view.take(&state(&owner, &[(MAIN, oid(2))], 100));
    view.take(&delete_address(&owner, &owner, 30617, 500));
    assert_eq!(
        view.held.len(),
        1,
        "the owner's own state served nobody else"
    );
    assert_eq!(view.held[0].pubkey, m.public_key());
}

fn pull_request(author: &Keys, owner: &Keys) -> Event {
    let (repo, tip) = (coordinate(30617, &owner.public_key()), oid(1).to_hex());
    let tags: [&[&str]; 2] = [&["a", &repo], &["c", &tip]];
    sign(author, kinds::PULL_REQUEST, &tags, 100)
}

#[test]
fn g01_56_57_a_pull_request_that_is_held_or_served_goes_with_its_ref() {
    for is_held in [true, false] {
        let ((mut view, owner), author) = (FakeView::hosted(&[]), Keys::generate());
        let event = pull_request(&author, &owner);
        let dropped = Effect::DropPullRequest(event.id);
        let cleared = Effect::ClearPullRequestRef {
            event: event.id,
            repositories: vec![addr(&owner)],
            unless: None,
        };
        let expected = if is_held {
            view.take(&event);
            vec![dropped, cleared]
        } else {
            view.serve(&event);
            vec![cleared]
        };
        let decision = view.take(&delete_id(&author, &event.id));
        assert_eq!(decision.effects, expected);
        assert!(view.held.is_empty());
    }
}

#[test]
fn g01_106_a_served_announcement_leaves_its_repository_no_grace() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let other = view.hosting(&[]);
    let decision = view.take(&delete_address(&owner, &owner, 30617, 500));
    assert_eq!(
        decision.effects,
        [
            Effect::EndGrace(addr(&owner)),
            Effect::Reexamine(identifier())
        ]
    );
    let mut left = view.served.iter().map(|event| event.pubkey);
    assert!(left.any(|author| author == other.public_key()));
}

#[test]
fn g01_57_a_served_state_is_only_recomputed() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let served = state(&owner, &[(MAIN, oid(1))], 100);
    view.serve(&served);
    let decision = view.take(&delete_id(&owner, &served.id));
    assert_eq!(decision.effects, [Effect::Reexamine(identifier())]);
}

#[test]
fn g01_57_deleting_an_announcement_of_another_server_archives_nothing() {
    let m = Keys::generate();
    let mut view = FakeView::new();
    view.hosting(&[&m]);
    view.take(&elsewhere(&m, &[], 100));
    let decision = view.take(&delete_address(&m, &m, 30617, 500));
    // The end of a day that has not begun is nothing.
    let effects = [Effect::EndGrace(addr(&m)), Effect::Reexamine(identifier())];
    assert_eq!(decision.effects, effects);
}

/// A ban that was taken back leaves a departure by the very announcement that is served again.
#[test]
fn g01_106_nobody_has_left_by_the_announcement_that_is_served() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let departure = Departure::by(&view.served[0]);
    view.departures.insert(addr(&owner), departure);
    view.serve(&state(&owner, &[(MAIN, oid(1))], 100));
    let decision = view.ask(&delete_address(&owner, &owner, 30618, 500));
    assert_eq!(decision.outcome, Outcome::Serve);
    assert_eq!(decision.effects, [Effect::Reexamine(identifier())]);
}
