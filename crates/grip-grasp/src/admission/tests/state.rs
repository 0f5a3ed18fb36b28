use grip_nostr::{MaintainerRule, State, kinds, maintainer_set};
use grip_testkit::http::must_contain;
use grip_types::RefEdit;
use nostr::prelude::Keys;

use crate::{
    admission::{Cause, Effect, EventStatus, Found, Outcome, effective_state, fake::*},
    push_rules::{Candidates, Refs, alignment, authorise},
};

const MAIN: &str = "refs/heads/main";
const TAG: &str = "refs/tags/v1";

#[test]
fn g01_16_1_a_state_that_git_could_never_have_is_refused() {
    let (view, owner) = FakeView::hosted(&[]);
    let a = oid(1).to_hex();
    for bad in [
        &[&["d", D][..], &["refs/heads/a..b", &a][..]][..],
        &[&["d", D], &["refs/heads/a", &a], &["refs/heads/a/b", &a]],
        &[&["d", ""]],
        &[],
    ] {
        let event = sign(&owner, kinds::STATE, bad, 100);
        view.refuses(&event, Cause::Malformed, "invalid: ");
    }
}

#[test]
fn g01_16_2_the_same_state_again_is_a_duplicate() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let event = state(&owner, &[(MAIN, oid(1))], 100);
    assert_eq!(view.taken(&event), Outcome::Hold);
    let again = view.ask(&event);
    assert_eq!(again.outcome, Outcome::Duplicate(EventStatus::Held));
    assert_eq!(again.answer(), (true, "duplicate: in purgatory".into()));
}

#[test]
fn g01_16_3_an_older_state_than_the_served_one_is_refused() {
    let (mut view, owner) = FakeView::hosted(&[]);
    view.serve(&state(&owner, &[], 200));
    view.refuses(
        &state(&owner, &[(MAIN, oid(1))], 100),
        Cause::Superseded,
        "invalid: a newer version",
    );
}

#[test]
fn g01_17_an_older_state_than_a_held_one_is_held_beside_it() {
    let (mut view, owner) = FakeView::hosted(&[]);
    view.take(&state(&owner, &[(MAIN, oid(2))], 200));
    let older = state(&owner, &[(MAIN, oid(1))], 100);
    assert_eq!(view.taken(&older), Outcome::Hold);
    assert_eq!(view.held.len(), 2);
}

#[test]
fn g01_17_a_served_state_ends_its_authors_older_held_ones() {
    let (mut view, owner) = FakeView::hosted(&[]);
    view.take(&state(&owner, &[(MAIN, oid(1))], 100));
    view.take(&state(&owner, &[(MAIN, oid(3))], 300));
    view.has(&[oid(2)]);
    assert_eq!(
        view.taken(&state(&owner, &[(MAIN, oid(2))], 200)),
        Outcome::Serve
    );
    assert_eq!(view.held.len(), 1, "the one of 300 still waits");
}

#[test]
fn g01_16_3_of_two_states_of_one_second_the_loser_is_told_to_sign_again() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let [winner, loser] = tied_states(&owner, 100, &[(MAIN, oid(1))], &[(MAIN, oid(2))]);

    view.take(&winner);
    view.has(&[oid(2)]);
    let decision = view.ask(&loser);
    assert_eq!(decision.outcome, Outcome::Hold, "against a held one");
    let (accepted, text) = decision.answer();
    assert!(accepted && text.starts_with("purgatory: "), "{text}");
    must_contain(&text, &["sign it again with a later created_at"]);

    view.serve(&winner);
    let text = view.refuses(&loser, Cause::Tie, "invalid: ");
    must_contain(&text, &["sign this again with a later created_at"]);
}

#[test]
fn g01_16_3_of_two_states_of_one_second_the_winner_supersedes_whenever_it_comes() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let [winner, loser] = tied_states(&owner, 100, &[(MAIN, oid(1))], &[(MAIN, oid(2))]);
    for states in [[&loser, &winner], [&winner, &loser]] {
        view.held.clear();
        for state in states {
            assert_eq!(view.taken(state), Outcome::Hold);
        }
        assert_eq!(view.held.len(), 2);
    }

    view.held.clear();
    view.serve(&loser);
    view.has(&[oid(1)]);
    assert_eq!(view.taken(&winner), Outcome::Serve);
    assert!(!view.served.contains(&loser));
}

/// whether a value is the id of an object is found out late: such a state waits, never matches,
/// and is ahead of none of the same second.
#[test]
fn a_10_a_state_whose_value_is_no_object_id_is_held_and_never_matches() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let sha256 = "ab".repeat(32);
    for value in ["abc123", "XYZ", &sha256, &"0".repeat(40)] {
        let tags = [&["d", D][..], &["refs/heads/main", value]];
        assert_eq!(
            view.taken(&sign(&owner, kinds::STATE, &tags, 100)),
            Outcome::Hold,
            "{value}"
        );
    }
    view.has(&[oid(1)]);
    for seconds in 100..110 {
        let valid = state(&owner, &[(MAIN, oid(1))], seconds);
        assert_eq!(view.ask(&valid).outcome, Outcome::Serve, "{seconds}");
    }
}

/// Two states signed in the same second: the first with a tag, which is pushed; the second
/// without it. A server that lets the second count deletes the pushed tag.
#[test]
fn g01_30_a_tied_state_without_the_pushed_tag_is_refused_and_the_tag_stays() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let with_tag = [(MAIN, oid(1)), (TAG, oid(1))];
    let [first, second] = tied_states(&owner, 100, &with_tag, &[(MAIN, oid(1))]);
    let announcement = grip_nostr::Announcement::parse(view.served[0].clone()).unwrap();
    let own = |author: &_| (*author == owner.public_key()).then_some(&announcement);
    let set = maintainer_set(MaintainerRule::Legacy, &owner.public_key(), own);

    assert_eq!(view.taken(&first), Outcome::Hold);
    let held = vec![State::parse(first.clone()).unwrap()];
    let push: Vec<RefEdit> = with_tag
        .iter()
        .map(|(name, oid)| RefEdit {
            name: name.parse().unwrap(),
            old: None,
            new: Some(*oid),
        })
        .collect();
    let candidates = Candidates::new(&set, Vec::new(), held);
    let authorised = authorise(&push, &candidates, &Refs::default(), &[].into()).unwrap();
    assert_eq!(authorised.by, Some(first.id));
    let refs = authorised
        .edits
        .iter()
        .map(|e| (e.name.clone(), e.new.unwrap()));
    let current = Refs {
        refs: refs.collect(),
        head: authorised.head,
    };
    view.has(&[oid(1)]);
    view.serve(&first);

    let decision = view.take(&second);
    assert_eq!(refusal(&decision).0, Cause::Tie);
    assert!(decision.effects.is_empty());
    let served: Vec<State> = view
        .served
        .iter()
        .filter_map(|event| State::parse(event.clone()).ok())
        .collect();
    let effective = effective_state(&set, &served).unwrap();
    assert!(alignment(effective, &current).is_empty());
    assert!(current.refs.contains_key(TAG));
}

#[test]
fn g01_16_3_a_deleted_state_is_refused() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let event = state(&owner, &[(MAIN, oid(1))], 100);
    view.take(&delete_id(&owner, &event.id));
    assert_eq!(view.cause(&event), Cause::Deleted);
}

#[test]
fn g01_16_4_a_state_without_an_announcement_is_refused() {
    let start = "invalid: no announcement exists for this repository";
    let event = state(&Keys::generate(), &[], 100);
    FakeView::new().refuses(&event, Cause::Unannounced, start);
}

#[test]
fn g01_16_5_a_strangers_state_is_refused() {
    let mut view = FakeView::new();
    view.hosting(&[]);
    view.refuses(
        &state(&Keys::generate(), &[], 100),
        Cause::Unauthorised,
        "invalid: author not authorized for this repository",
    );
}

#[test]
fn g01_16_5_being_trusted_by_someone_hosted_elsewhere_is_not_enough() {
    let (m, friend) = (Keys::generate(), Keys::generate());
    let (mut view, owner) = FakeView::hosted(&[&m]);
    view.take(&elsewhere(&m, &[&friend], 100));
    assert_eq!(view.outcome(&state(&friend, &[], 100)), Outcome::Serve);
    view.take(&listing(&owner, &[], 200));
    assert_eq!(view.cause(&state(&friend, &[], 100)), Cause::Unauthorised);
}

#[test]
fn g01_26_a_listed_maintainer_without_an_announcement_may_send_states_for_a_held_one() {
    let (owner, m) = (Keys::generate(), Keys::generate());
    let mut view = FakeView::new();
    view.take(&listing(&owner, &[&m], 100));
    let decision = view.ask(&state(&m, &[(MAIN, oid(1))], 100));
    assert_eq!(decision.outcome, Outcome::Hold);
    assert!(
        decision.effects.contains(&Effect::KeepAlive(addr(&owner))),
        "G01-19"
    );
}

#[test]
fn g01_26_recursion_runs_through_a_held_announcement() {
    let (owner, m, r) = (Keys::generate(), Keys::generate(), Keys::generate());
    let mut view = FakeView::new();
    view.serve(&listing(&owner, &[&m], 100));
    assert_eq!(view.taken(&listing(&m, &[&r], 100)), Outcome::Hold);
    assert_eq!(
        view.outcome(&state(&r, &[(MAIN, oid(1))], 100)),
        Outcome::Hold
    );
}

#[test]
fn g01_78_a_grant_of_the_legacy_rule_alone_is_flagged() {
    let m = Keys::generate();
    let (mut view, owner) = FakeView::hosted(&[&m]);
    let by_m = state(&m, &[(MAIN, oid(1))], 100);
    assert!(view.ask(&by_m).legacy_only);
    assert!(!view.ask(&state(&owner, &[(MAIN, oid(1))], 100)).legacy_only);
    view.serve(&elsewhere(&m, &[&owner], 100));
    assert!(!view.ask(&by_m).legacy_only);
    view.policy.maintainer_rule = MaintainerRule::Reciprocal;
    assert_eq!(view.outcome(&by_m), Outcome::Hold);
    assert!(view.ask(&by_m).denials.is_empty());
}

#[test]
fn g01_80_the_state_of_an_invited_key_is_held_even_if_its_data_is_here() {
    let m = Keys::generate();
    let mut view = FakeView::reciprocal();
    let owner = view.hosting(&[&m]);
    view.has(&[oid(1)]);
    let by_m = state(&m, &[(MAIN, oid(1))], 100);
    let decision = view.ask(&by_m);
    assert_eq!(decision.outcome, Outcome::Hold);
    assert_eq!(decision.effects, []);
    assert!(decision.families.iter().all(|family| !family.granted));
    let [denial] = &decision.denials[..] else {
        panic!("{decision:?}");
    };
    assert_eq!(denial.repository, addr(&owner));
    assert!(denial.why.contains("has not announced"), "{}", denial.why);
    view.serve(&elsewhere(&m, &[&owner], 100));
    assert_eq!(view.outcome(&by_m), Outcome::Serve);
    let stranger = state(&Keys::generate(), &[(MAIN, oid(1))], 100);
    assert_eq!(view.cause(&stranger), Cause::Unauthorised);
    assert!(view.ask(&stranger).denials.is_empty());
}

#[test]
fn g01_16_6_a_state_whose_objects_are_here_is_served_at_once() {
    let (mut view, owner) = FakeView::hosted(&[]);
    view.has(&[oid(1)]);
    let decision = view.ask(&state(&owner, &[(MAIN, oid(1)), (TAG, oid(1))], 100));
    assert_eq!(decision.outcome, Outcome::Serve);
    assert_eq!(decision.answer(), (true, "".into()));
    assert_eq!(decision.effects, [Effect::Reexamine(identifier())]);
}

#[test]
fn g01_16_7_one_missing_object_makes_it_wait() {
    let (mut view, owner) = FakeView::hosted(&[]);
    view.has(&[oid(1)]);
    let decision = view.ask(&state(&owner, &[(MAIN, oid(1)), (TAG, oid(2))], 100));
    assert_eq!(decision.outcome, Outcome::Hold);
    assert!(
        decision
            .steps
            .iter()
            .any(|step| step.text.contains("1 of 2 refs"))
    );
}

#[test]
fn g01_38_an_empty_state_applies_to_a_served_repository_only() {
    let (mut view, owner) = FakeView::hosted(&[]);
    assert_eq!(view.outcome(&state(&owner, &[], 100)), Outcome::Serve);
    let newcomer = Keys::generate();
    view.take(&listing(&newcomer, &[], 100));
    assert_eq!(view.outcome(&state(&newcomer, &[], 100)), Outcome::Hold);
}

#[test]
fn g01_38_a_branch_that_names_no_commit_is_refused_and_a_tag_may_name_anything() {
    let (mut view, owner) = FakeView::hosted(&[]);
    view.objects.insert(oid(7), Found::Other);
    let nothing = state(&owner, &[(MAIN, oid(7))], 100);
    let text = view.refuses(&nothing, Cause::Malformed, "");
    must_contain(&text, &["refs/heads/main must name a commit"]);
    assert_eq!(
        view.outcome(&state(&owner, &[(TAG, oid(7))], 100)),
        Outcome::Serve
    );
}

#[test]
fn g01_20_a_state_brings_an_announcement_back_from_hiding() {
    let keys = Keys::generate();
    let mut view = FakeView::new();
    let announcement = listing(&keys, &[], 100);
    view.take(&announcement);
    view.hidden.insert(announcement.id);
    let decision = view.take(&state(&keys, &[(MAIN, oid(1))], 100));
    assert_eq!(decision.outcome, Outcome::Hold);
    decision.must_do(&Effect::KeepAlive(addr(&keys)));
    assert!(view.hidden.is_empty());
}

#[test]
fn g01_30_the_effective_state_is_the_latest_of_the_set_and_ties_go_to_the_lowest_id() {
    let (m, stranger) = (Keys::generate(), Keys::generate());
    let (view, owner) = FakeView::hosted(&[&m]);
    let announcements =
        crate::admission::Announcements::load(&identifier(), &view, &view.policy).unwrap();
    let set = announcements.set_of(&owner.public_key());
    let parse = |event| State::parse(event).unwrap();
    let old = parse(state(&owner, &[], 100));
    let [winner, loser] = tied_states(&m, 200, &[], &[]).map(parse);
    let foreign = parse(state(&stranger, &[], 300));
    for order in [
        [&old, &winner, &loser, &foreign],
        [&foreign, &loser, &winner, &old],
    ] {
        assert_eq!(effective_state(&set, order), Some(&winner));
    }
    assert_eq!(effective_state(&set, [&foreign]), None);
}
