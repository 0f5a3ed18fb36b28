//! The requirements of GRASP-01 §1, §2, §4 and §6, one by one.

mod announcement;
mod concerned;
mod contributor;
mod deletion;
mod pull_request;
mod related;
mod state;

use grip_types::Origin;
use nostr::prelude::Keys;

use super::{Cause, EventStatus, HELD, Outcome, fake::*};

#[test]
fn g01_12_a_held_event_is_acknowledged_in_the_words_of_the_specification() {
    let decision = FakeView::new().ask(&listing(&Keys::generate(), &[], 100));
    assert_eq!(decision.outcome, Outcome::Hold);
    assert_eq!(decision.answer(), (true, HELD.into()));
    assert_eq!(HELD, "purgatory: won't be served until git data arrives");
}

#[test]
fn g01_9_nothing_of_a_banned_author_is_taken() {
    let (mut view, keys) = FakeView::hosted(&[]);
    view.policy.event_blacklist.insert(keys.public_key());
    for event in [listing(&keys, &[], 200), state(&keys, &[], 200)] {
        view.refuses(&event, Cause::Banned, "blocked: ");
    }
}

#[test]
fn nip40_an_expired_event_is_refused_before_it_is_held() {
    let keys = Keys::generate();
    let relay = format!("wss://{SERVICE}");
    let expired = announce(
        &keys,
        &clone_url(&keys),
        &relay,
        &[&["expiration", "999"]],
        100,
    );
    assert_eq!(FakeView::new().cause(&expired), Cause::Expired);
}

#[test]
fn g01_15a_2_the_same_event_again_is_a_duplicate_whether_held_or_served() {
    let mut view = FakeView::new();
    let event = listing(&Keys::generate(), &[], 100);
    view.take(&event);
    let again = view.ask(&event);
    assert_eq!(again.outcome, Outcome::Duplicate(EventStatus::Held));
    assert_eq!(again.answer(), (true, "duplicate: in purgatory".into()));
    view.serve(&event);
    let again = view.ask(&event);
    assert_eq!(again.outcome, Outcome::Duplicate(EventStatus::Served));
    assert_eq!(again.answer(), (true, "duplicate: already served".into()));
}

#[test]
fn g01_20_what_expired_after_a_sync_is_not_synced_again_but_may_be_sent_again() {
    let mut view = FakeView::new();
    let event = listing(&Keys::generate(), &[], 100);
    view.expired.insert(event.id);
    let (cause, text) = refusal(&view.ask_as(&event, Origin::Synced));
    assert_eq!(cause, Cause::Expired);
    assert_eq!(
        text,
        "invalid: previously expired from purgatory without git data"
    );
    assert_eq!(view.outcome(&event), Outcome::Hold);
}

#[test]
fn g02_2_a_synced_copy_of_what_is_still_looked_for_is_a_duplicate_and_a_sent_one_is_held() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let event = state(&owner, &[("refs/heads/main", oid(1))], 100);
    view.wanted.insert(event.id);
    view.expired.insert(event.id);
    let synced = view.ask_as(&event, Origin::Synced);
    assert_eq!(synced.outcome, Outcome::Duplicate(EventStatus::Held));
    assert_eq!(view.outcome(&event), Outcome::Hold);
}

#[test]
fn every_decision_names_the_rules_that_led_to_it() {
    let mut view = FakeView::new();
    let keys = Keys::generate();
    let events = [
        listing(&keys, &[], 100),
        elsewhere(&Keys::generate(), &[], 100),
        state(&keys, &[("refs/heads/main", oid(1))], 100),
        state(&Keys::generate(), &[], 100),
    ];
    for event in events {
        let decision = view.take(&event);
        assert!(!decision.steps.is_empty(), "{decision:?}");
    }
}
