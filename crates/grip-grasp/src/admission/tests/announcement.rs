use std::{collections::BTreeSet, sync::Arc};

use grip_nostr::{Event, kinds};
use grip_relay::Members;
use nostr::prelude::Keys;
use tokio::sync::watch;

use crate::{
    admission::{Cause, Decision, Effect, EventStatus, Outcome, fake::*},
    policy::ArchiveMode,
};

fn creates(decision: &Decision, keys: &Keys) -> bool {
    let created = Effect::CreateRepository(addr(keys));
    decision.effects.contains(&created)
}

#[test]
fn g01_2_both_clone_and_relays_must_list_this_server() {
    let keys = Keys::generate();
    let (clone, relay) = (clone_url(&keys), format!("wss://{SERVICE}"));
    let view = FakeView::new();
    let ask = |clone: &str, relay: &str| view.ask(&announce(&keys, clone, relay, &[], 100));
    assert_eq!(ask(&clone, &relay).outcome, Outcome::Hold);
    for (clone, relay, missing) in [
        (
            clone.as_str(),
            "wss://other.example",
            "`relays` lacks wss://grasp.example.com",
        ),
        (
            "https://other.example/x.git",
            relay.as_str(),
            "`clone` lacks https://grasp",
        ),
        (
            "https://other.example/x.git",
            "wss://other.example",
            "`clone` lacks https://grasp",
        ),
    ] {
        let decision = ask(clone, relay);
        let (cause, text) = refusal(&decision);
        assert_eq!(cause, Cause::NotListed);
        assert!(
            text.starts_with("blocked: announcement must list this service in clone and relays"),
            "{text}"
        );
        assert!(text.contains(missing), "{text}");
        assert!(decision.effects.is_empty());
    }
}

#[test]
fn g01_3_listing_is_decided_by_parsed_urls() {
    let keys = Keys::generate();
    let path = addr(&keys).path();
    let view = FakeView::new();
    let listed = |clone: String, relay: &str| {
        view.outcome(&announce(&keys, &clone, relay, &[], 100)) == Outcome::Hold
    };
    assert!(listed(
        format!("http://{SERVICE}:80//{path}/"),
        "ws://GRASP.example.com/"
    ));
    assert!(listed(
        format!("https://{SERVICE}/{path}"),
        "wss://grasp.example.com:443"
    ));
    assert!(!listed(
        format!("https://{SERVICE}.evil.net/{path}"),
        "wss://grasp.example.com"
    ));
    assert!(!listed(
        format!("https://{SERVICE}/{path}"),
        "wss://grasp.example.com.evil.net"
    ));
    assert!(!listed(
        format!("https://{SERVICE}/{path}?x"),
        "wss://grasp.example.com"
    ));
    let of_another = clone_url(&Keys::generate());
    assert!(!listed(of_another, "wss://grasp.example.com"));
}

#[test]
fn g01_4_identifiers_that_cannot_be_stored_are_refused() {
    let keys = Keys::generate();
    let long = "x".repeat(300);
    for d in ["", ".", "..", "a/b", "a\\b", "a\nb", &long] {
        let event = sign(&keys, kinds::ANNOUNCEMENT, &[&["d", d]], 100);
        FakeView::new().refuses(&event, Cause::Malformed, "invalid: ");
    }
    let event = sign(&keys, kinds::ANNOUNCEMENT, &[], 100);
    assert_eq!(FakeView::new().cause(&event), Cause::Malformed);
}

#[test]
fn g01_5_a_whitelist_admits_only_what_it_names() {
    let (chosen, other) = (Keys::generate(), Keys::generate());
    let mut view = FakeView::new();
    view.policy.repository_whitelist = addr(&chosen).npub().parse().unwrap();
    assert_eq!(view.outcome(&listing(&chosen, &[], 100)), Outcome::Hold);
    view.refuses(&listing(&other, &[], 100), Cause::NotSelected, "blocked: ");
}

#[test]
fn g01_5_the_maintainer_exception_holds_beside_a_whitelist() {
    let m = Keys::generate();
    let (mut view, owner) = FakeView::hosted(&[&m]);
    view.policy.repository_whitelist = addr(&owner).npub().parse().unwrap();
    let decision = view.ask(&listing(&m, &[], 100));
    assert_eq!(decision.outcome, Outcome::Serve);
    assert!(!creates(&decision, &m));
}

#[test]
fn g01_9_a_blacklisted_repository_is_refused_and_counts_no_longer() {
    let m = Keys::generate();
    let (mut view, owner) = FakeView::hosted(&[&m]);
    view.policy.repository_blacklist = format!("{}/{D}", addr(&owner).npub()).parse().unwrap();
    assert_eq!(view.cause(&listing(&owner, &[], 200)), Cause::Banned);
    assert_eq!(view.cause(&elsewhere(&m, &[], 200)), Cause::NotListed);
    assert_eq!(view.cause(&state(&m, &[], 200)), Cause::Unannounced);
}

#[test]
fn g01_6_a_maintainer_of_a_hosted_repository_is_served_without_a_repository() {
    let m = Keys::generate();
    let mut view = FakeView::new();
    view.hosting(&[&m]);
    let decision = view.ask(&elsewhere(&m, &[], 100));
    assert_eq!(decision.outcome, Outcome::Serve);
    assert!(!creates(&decision, &m));
    decision.must_do(&Effect::Reexamine(identifier()));
    assert_eq!(
        view.cause(&elsewhere(&Keys::generate(), &[], 100)),
        Cause::NotListed
    );
}

#[test]
fn g01_6_the_exception_follows_the_chain_over_held_announcements() {
    let (owner, m, r) = (Keys::generate(), Keys::generate(), Keys::generate());
    let mut view = FakeView::new();
    view.take(&listing(&owner, &[&m], 100));
    assert_eq!(view.taken(&elsewhere(&m, &[&r], 100)), Outcome::Serve);
    assert_eq!(view.outcome(&elsewhere(&r, &[], 100)), Outcome::Serve);
}

#[test]
fn g01_6_the_exception_is_scoped_to_owners_hosted_here() {
    let (owner, m, friend) = (Keys::generate(), Keys::generate(), Keys::generate());
    let mut view = FakeView::new();
    view.take(&listing(&owner, &[&m], 100));
    view.take(&elsewhere(&m, &[], 100));
    // Once M is no maintainer any more, M's announcement still is served but opens no door.
    view.take(&elsewhere(&m, &[&friend], 200));
    view.take(&listing(&owner, &[], 200));
    assert_eq!(view.cause(&elsewhere(&friend, &[], 300)), Cause::NotListed);
    // Nor does one whose repository expired.
    let mut view = FakeView::new();
    let held = listing(&owner, &[&m], 100);
    view.take(&held);
    view.hidden.insert(held.id);
    assert_eq!(view.cause(&elsewhere(&m, &[], 100)), Cause::NotListed);
}

#[test]
fn g01_79_announcements_of_invited_keys_are_taken_whatever_they_say() {
    let m = Keys::generate();
    let mut view = FakeView::reciprocal();
    let owner = view.hosting(&[&m]);
    assert_eq!(view.taken(&elsewhere(&m, &[], 100)), Outcome::Serve);
    assert_eq!(view.taken(&elsewhere(&m, &[&owner], 200)), Outcome::Serve);
    // An earlier one is replaced freely, even by one who is not listed any more (G01-64).
    view.take(&listing(&owner, &[], 300));
    assert_eq!(view.outcome(&elsewhere(&m, &[], 400)), Outcome::Serve);
    // Whom nobody confirmed lists is no exception: the chain ends at the invited.
    let (n, r) = (Keys::generate(), Keys::generate());
    view.take(&listing(&owner, &[&n], 500));
    view.take(&elsewhere(&n, &[&r], 500));
    assert_eq!(view.cause(&elsewhere(&r, &[], 500)), Cause::NotListed);
}

#[test]
fn one_that_was_served_for_discovery_alone_waits_for_data_when_it_lists_this_server() {
    let m = Keys::generate();
    let mut view = FakeView::reciprocal();
    view.hosting(&[&m]);
    assert_eq!(view.taken(&elsewhere(&m, &[], 100)), Outcome::Serve);
    assert_eq!(view.outcome(&listing(&m, &[], 200)), Outcome::Hold);
}

#[test]
fn g05_9_the_order_of_decision() {
    let keys = Keys::generate();
    let mut view = FakeView::reciprocal();
    view.policy.archive.mode = Some(ArchiveMode::All);
    let foreign = elsewhere(&keys, &[], 100);
    let decision = view.ask(&foreign);
    assert_eq!(decision.outcome, Outcome::Hold);
    assert!(creates(&decision, &keys));
    view.policy.repository_blacklist = D.parse().unwrap();
    assert_eq!(view.cause(&foreign), Cause::Banned);
    view.policy.repository_blacklist = Default::default();
    view.policy.archive.mode = Some(ArchiveMode::Listed("another".parse().unwrap()));
    assert_eq!(view.cause(&foreign), Cause::NotListed);
    assert_eq!(view.outcome(&listing(&keys, &[], 100)), Outcome::Hold);
    view.policy.archive.read_only = true;
    assert_eq!(view.cause(&listing(&keys, &[], 100)), Cause::NotSelected);
    view.policy.archive.mode = Some(ArchiveMode::Listed(D.parse().unwrap()));
    assert_eq!(view.outcome(&listing(&keys, &[], 100)), Outcome::Hold);
}

#[test]
fn g01_14_a_new_coordinate_is_held_and_gets_an_empty_repository() {
    let keys = Keys::generate();
    let decision = FakeView::new().ask(&listing(&keys, &[], 100));
    assert_eq!(decision.outcome, Outcome::Hold);
    assert!(creates(&decision, &keys));
}

#[test]
fn g01_14_a_new_version_of_a_served_announcement_is_served_at_once() {
    let (view, owner) = FakeView::hosted(&[]);
    assert_eq!(view.outcome(&listing(&owner, &[], 200)), Outcome::Serve);
}

#[test]
fn g01_15a_3_an_announcement_whose_data_is_here_is_served_at_once() {
    let m = Keys::generate();
    let mut view = FakeView::new();
    view.hosting(&[&m]);
    view.serve(&state(&m, &[("refs/heads/main", oid(1))], 100));
    let newcomer = Keys::generate();
    let decision = view.ask(&listing(&newcomer, &[&m], 200));
    assert_eq!(decision.outcome, Outcome::Serve);
    assert!(creates(&decision, &newcomer));
    assert_eq!(view.outcome(&listing(&newcomer, &[], 200)), Outcome::Hold);
}

#[test]
fn g01_15a_3_an_empty_state_puts_no_announcement_on_show() {
    let m = Keys::generate();
    let mut view = FakeView::new();
    view.hosting(&[&m]);
    view.serve(&state(&m, &[], 100));
    assert_eq!(view.outcome(&listing(&m, &[], 200)), Outcome::Hold);
}

#[test]
fn g01_15a_2_an_older_version_changes_nothing() {
    for hold in [true, false] {
        let keys = Keys::generate();
        let mut view = FakeView::new();
        let newer = listing(&keys, &[], 200);
        if hold {
            view.hold(&newer);
        } else {
            view.serve(&newer);
        }
        for older in [listing(&keys, &[], 100), elsewhere(&keys, &[], 100)] {
            let decision = view.ask(&older);
            let (cause, text) = refusal(&decision);
            assert_eq!(cause, Cause::Superseded);
            assert!(text.starts_with("invalid: a newer version"), "{text}");
            assert!(decision.effects.is_empty());
        }
    }
}

#[test]
fn g01_15a_2_a_deleted_announcement_does_not_come_back() {
    let keys = Keys::generate();
    let mut view = FakeView::new();
    let coordinate = coordinate(30617, &keys.public_key());
    view.take(&sign(&keys, kinds::DELETION, &[&["a", &coordinate]], 150));
    assert_eq!(view.cause(&listing(&keys, &[], 100)), Cause::Deleted);
    assert_eq!(view.outcome(&listing(&keys, &[], 200)), Outcome::Hold);
}

#[test]
fn g01_18_a_replacement_of_a_held_announcement_is_held_again() {
    let keys = Keys::generate();
    let mut view = FakeView::new();
    view.take(&listing(&keys, &[], 100));
    assert_eq!(view.taken(&listing(&keys, &[], 200)), Outcome::Hold);
    assert_eq!(view.held.len(), 1);
}

#[test]
fn g01_18_a_newer_version_that_leaves_this_server_evicts_the_held_one_and_its_states() {
    let keys = Keys::generate();
    let mut view = FakeView::new();
    view.take(&listing(&keys, &[], 100));
    let waiting = state(&keys, &[("refs/heads/main", oid(1))], 100);
    view.take(&waiting);
    let newer = elsewhere(&keys, &[], 200);
    let decision = view.take(&newer);
    assert_eq!(refusal(&decision).0, Cause::NotListed);
    decision.must_do(&leave(newer, Some(EventStatus::Held)));
    assert!(view.held.is_empty());
}

#[test]
fn g01_18_states_stay_while_another_owner_uses_them() {
    let (leaving, m) = (Keys::generate(), Keys::generate());
    let mut view = FakeView::new();
    view.hosting(&[&m]);
    view.take(&listing(&leaving, &[&m], 100));
    view.take(&state(&m, &[("refs/heads/main", oid(1))], 100));
    view.take(&elsewhere(&leaving, &[&m], 200));
    assert_eq!(view.held.len(), 1);
}

#[test]
fn g01_15a_6_leaving_with_a_served_announcement_withdraws_the_repository() {
    let (view, owner) = FakeView::hosted(&[]);
    let newer = elsewhere(&owner, &[], 200);
    let decision = view.ask(&newer);
    assert_eq!(refusal(&decision).0, Cause::NotListed);
    let expected = leave(newer, Some(EventStatus::Served));
    assert_eq!(decision.effects, [expected]);
}

/// Nothing is here any more, and what came between the two departures is replayed.
#[test]
fn g01_15a_6_a_later_departure_takes_the_place_of_the_one_that_is_remembered() {
    let keys = Keys::generate();
    let mut view = FakeView::new();
    view.take(&listing(&keys, &[], 100));
    for left_at in [200, 400] {
        view.take(&elsewhere(&keys, &[], left_at));
        let between = view.ask(&listing(&keys, &[], left_at - 50));
        let (cause, text) = refusal(&between);
        assert_eq!(cause, Cause::Superseded, "{text}");
    }
    assert_eq!(view.taken(&listing(&keys, &[], 500)), Outcome::Hold);
}

/// Whoever has had nothing here has nothing remembered of them.
#[test]
fn g01_15a_6_an_announcement_of_a_stranger_on_another_server_is_no_departure() {
    let view = FakeView::new();
    let decision = view.ask(&elsewhere(&Keys::generate(), &[], 200));
    assert_eq!(decision.effects, []);
}

fn leave(by: Event, of: Option<EventStatus>) -> Effect {
    let by = Box::new(by);
    Effect::Leave { by, of }
}

#[test]
fn g01_20_an_announcement_in_hiding_is_held_again_when_it_is_sent_again() {
    let keys = Keys::generate();
    let mut view = FakeView::new();
    let event = listing(&keys, &[], 100);
    view.take(&event);
    view.hidden.insert(event.id);
    let decision = view.take(&event);
    assert_eq!(decision.outcome, Outcome::Hold);
    assert!(creates(&decision, &keys) && view.hidden.is_empty());
}

#[test]
fn g01_31_held_states_of_a_dropped_maintainer_are_dropped() {
    let m = Keys::generate();
    let (mut view, owner) = FakeView::hosted(&[&m]);
    let waiting = state(&m, &[("refs/heads/main", oid(1))], 100);
    view.take(&waiting);
    let decision = view.take(&listing(&owner, &[], 200));
    let dropped = Effect::DropStates {
        identifier: identifier(),
        ids: vec![waiting.id],
    };
    decision.must_do(&dropped);
}

#[test]
fn grasp_08_a_private_announcement_is_refused_even_from_a_maintainer() {
    let keys = Keys::generate();
    let mut view = FakeView::new();
    view.hosting(&[&keys]);
    let relay = format!("wss://{SERVICE}");
    view.take(&listing(&keys, &[], 50));
    let private = announce(
        &keys,
        &clone_url(&keys),
        &relay,
        &[&["private", "true"]],
        100,
    );
    let decision = view.ask(&private);
    let (cause, text) = refusal(&decision);
    assert_eq!(cause, Cause::Private);
    assert!(text.starts_with("blocked: "), "{text}");
    decision.must_do(&leave(private, Some(EventStatus::Held)));
}

/// G08-12, G08-19: a private service takes announcements of members alone, flagged or not.
#[test]
fn grasp_08_a_private_service_takes_announcements_of_its_members_alone() {
    let (mut view, member) = (FakeView::new(), Keys::generate());
    let keys = watch::Sender::new(Arc::new(BTreeSet::from([member.public_key()])));
    view.policy.members = Some(Members::new(&keys));
    let relay = format!("wss://{SERVICE}");
    let flagged = |keys: &Keys| {
        let tags: [&[&str]; 1] = [&["private", "true"]];
        announce(keys, &clone_url(keys), &relay, &tags, 100)
    };
    assert_eq!(view.outcome(&flagged(&member)), Outcome::Hold);
    assert_eq!(view.outcome(&listing(&member, &[], 100)), Outcome::Hold);
    let stranger = Keys::generate();
    assert_eq!(view.cause(&flagged(&stranger)), Cause::NotAMember);
    assert_eq!(view.cause(&listing(&stranger, &[], 100)), Cause::NotAMember);
    keys.send_replace(Arc::default());
    assert_eq!(view.cause(&listing(&member, &[], 100)), Cause::NotAMember);
}
