//! The REC column of the push table in GRASP-01 §5, and §5b.

use std::collections::BTreeMap;

use grip_nostr::{
    Announcement, EventId, Kind, MaintainerRule, MaintainerSet, State, maintainer_set,
};
use grip_types::{Oid, RefName};
use nostr::prelude::{Event, Keys};
use proptest::prelude::*;

use super::*;
use crate::admission::fake::{FakeView, addr, coordinate, listing, oid, sign, state, tied_states};

const MAIN: &str = "refs/heads/main";
const SIDE: &str = "refs/heads/side";
const TAG: &str = "refs/tags/v1";

fn name(text: &str) -> RefName {
    text.parse().unwrap()
}

fn set_to(name_text: &str, old: Option<u64>, new: u64) -> RefEdit {
    RefEdit {
        name: name(name_text),
        old: old.map(oid),
        new: Some(oid(new)),
    }
}

fn delete(name_text: &str, old: u64) -> RefEdit {
    RefEdit {
        name: name(name_text),
        old: Some(oid(old)),
        new: None,
    }
}

fn refs(entries: &[(&str, u64)]) -> Refs {
    Refs {
        refs: entries.iter().map(|(n, o)| (name(n), oid(*o))).collect(),
        head: Some(name(MAIN)),
    }
}

fn of(entries: &[(&'static str, u64)]) -> Vec<(&'static str, Oid)> {
    entries.iter().map(|(n, o)| (*n, oid(*o))).collect()
}

/// One owner, and candidates made of their states.
struct Owner {
    keys: Keys,
    set: MaintainerSet,
}

impl Owner {
    fn new(maintainers: &[&Keys]) -> Self {
        let keys = Keys::generate();
        let announcement = Announcement::parse(listing(&keys, maintainers, 1)).unwrap();
        let own = |author: &_| (*author == keys.public_key()).then_some(&announcement);
        let set = maintainer_set(MaintainerRule::Legacy, &keys.public_key(), own);
        Self { keys, set }
    }

    fn state(&self, refs: &[(&'static str, u64)], at: u64) -> Event {
        state(&self.keys, &of(refs), at)
    }

    fn candidates(&self, served: &[&Event], held: &[&Event]) -> Candidates {
        let parse = |events: &[&Event]| {
            let events = events.iter().map(|event| (*event).clone());
            events.map(|event| State::parse(event).unwrap()).collect()
        };
        Candidates::new(&self.set, parse(served), parse(held))
    }
}

fn push(
    commands: &[RefEdit],
    candidates: &Candidates,
    current: &Refs,
) -> Result<Authorised, PushRefusal> {
    authorise(commands, candidates, current, &BTreeMap::new())
}

/// A push where one state is served and nothing is held.
fn push_on(
    state: &[(&'static str, u64)],
    commands: &[RefEdit],
    current: &[(&str, u64)],
) -> Result<Authorised, PushRefusal> {
    let owner = Owner::new(&[]);
    let served = owner.state(state, 100);
    let candidates = owner.candidates(&[&served], &[]);
    push(commands, &candidates, &refs(current))
}

#[test]
fn g01_35_without_a_candidate_every_push_is_refused_with_advice() {
    let refusal = push(&[set_to(MAIN, None, 1)], &Candidates::default(), &refs(&[]));
    assert_eq!(
        refusal.unwrap_err().summary,
        "no state event from a maintainer allows refs/heads/main at 0000000000; \
         publish the state first"
    );
}

#[test]
fn g01_35_a_push_that_equals_the_newest_state_is_accepted() {
    let owner = Owner::new(&[]);
    let event = owner.state(&[(MAIN, 2), (TAG, 2)], 100);
    let candidates = owner.candidates(&[], &[&event]);
    let commands = [set_to(MAIN, Some(1), 2), set_to(TAG, None, 2)];
    let authorised = push(&commands, &candidates, &refs(&[(MAIN, 1)])).unwrap();
    assert_eq!(authorised.by, Some(event.id));
    assert_eq!(authorised.edits.len(), 2);
    assert_eq!(authorised.edits[0].old, Some(oid(1)));
}

#[test]
fn g01_35_some_of_the_refs_of_a_state_are_enough() {
    let owner = Owner::new(&[]);
    let event = owner.state(&[(MAIN, 2), (SIDE, 3)], 100);
    let candidates = owner.candidates(&[], &[&event]);
    assert!(push(&[set_to(SIDE, None, 3)], &candidates, &refs(&[])).is_ok());
}

#[test]
fn g01_35_an_older_held_state_that_is_newer_than_the_served_one_is_enough() {
    let owner = Owner::new(&[]);
    let served = owner.state(&[(MAIN, 1)], 100);
    let older = owner.state(&[(MAIN, 2)], 200);
    let newest = owner.state(&[(MAIN, 3)], 300);
    let candidates = owner.candidates(&[&served], &[&newest, &older]);
    let authorised = push(
        &[set_to(MAIN, Some(1), 2)],
        &candidates,
        &refs(&[(MAIN, 1)]),
    );
    assert_eq!(authorised.unwrap().by, Some(older.id));
}

#[test]
fn g01_35_states_older_than_the_effective_served_one_allow_nothing() {
    let m = Keys::generate();
    let owner = Owner::new(&[&m]);
    let stale = state(&m, &of(&[(MAIN, 1)]), 50);
    let served = owner.state(&[(MAIN, 2)], 100);
    let candidates = owner.candidates(&[&served], &[&stale]);
    let back = [set_to(MAIN, Some(2), 1)];
    assert!(push(&back, &candidates, &refs(&[(MAIN, 2)])).is_err());
}

#[test]
fn g01_30_of_tied_states_the_loser_is_no_candidate() {
    let owner = Owner::new(&[]);
    let [winner, loser] = tied_states(&owner.keys, 100, &of(&[(MAIN, 1)]), &of(&[(MAIN, 2)]));
    let candidates = owner.candidates(&[&winner], &[&loser]);
    assert_eq!(candidates.iter().count(), 1);
    let candidates = owner.candidates(&[&loser], &[&winner]);
    assert_eq!(candidates.iter().next().unwrap().event.id, winner.id);
}

#[test]
fn a_12_of_tied_held_states_only_the_winner_may_be_pushed_and_the_pusher_is_told() {
    let owner = Owner::new(&[]);
    let [winner, loser] = tied_states(&owner.keys, 100, &of(&[(MAIN, 1)]), &of(&[(MAIN, 2)]));
    let older = owner.state(&[(MAIN, 3)], 90);
    let candidates = owner.candidates(&[], &[&loser, &winner, &older]);
    for (tip, by) in [(1, &winner), (3, &older)] {
        let authorised = push(&[set_to(MAIN, None, tip)], &candidates, &refs(&[])).unwrap();
        assert_eq!(authorised.by, Some(by.id));
    }
    let refusal = push(&[set_to(MAIN, None, 2)], &candidates, &refs(&[])).unwrap_err();
    assert!(
        refusal.summary.contains("same second"),
        "{}",
        refusal.summary
    );
    // Once the winner is gone, deleted or expired, the other counts.
    let candidates = owner.candidates(&[], &[&loser]);
    assert!(push(&[set_to(MAIN, None, 2)], &candidates, &refs(&[])).is_ok());
}

#[test]
fn g01_35_a_strangers_held_state_allows_nothing() {
    let owner = Owner::new(&[]);
    let foreign = state(&Keys::generate(), &of(&[(MAIN, 1)]), 100);
    let candidates = owner.candidates(&[&foreign], &[&foreign]);
    assert!(push(&[set_to(MAIN, None, 1)], &candidates, &refs(&[])).is_err());
}

#[test]
fn g01_35_pushing_the_served_state_again_is_accepted() {
    let commands = [set_to(MAIN, Some(1), 1), set_to(SIDE, None, 2)];
    let authorised = push_on(&[(MAIN, 1), (SIDE, 2)], &commands, &[(MAIN, 1)]).unwrap();
    assert_eq!(authorised.edits.len(), 1, "what is as asked needs no edit");
}

#[test]
fn g01_35_a_ref_absent_from_the_state_may_be_deleted_even_if_gone_already() {
    let owner = Owner::new(&[]);
    let served = owner.state(&[(MAIN, 1)], 100);
    let candidates = owner.candidates(&[&served], &[]);
    let commands = [delete(SIDE, 5)];
    let authorised = push(&commands, &candidates, &refs(&[(MAIN, 1), (SIDE, 5)])).unwrap();
    assert_eq!(authorised.edits[0].new, None);
    let authorised = push(&commands, &candidates, &refs(&[(MAIN, 1)])).unwrap();
    assert!(authorised.edits.is_empty());
    assert_eq!(authorised.by, Some(served.id));
}

#[test]
fn g01_35_a_ref_named_in_the_state_cannot_be_deleted() {
    let refusal = push_on(&[(MAIN, 1)], &[delete(MAIN, 1)], &[(MAIN, 1)]);
    let summary = refusal.unwrap_err().summary;
    assert!(summary.contains("still names refs/heads/main"), "{summary}");
}

#[test]
fn g01_35_refs_outside_the_three_namespaces_are_refused() {
    for outside in [
        "refs/notes/commits",
        "refs/remotes/o/main",
        "refs/nostrils/x",
    ] {
        let refusal = push_on(&[(MAIN, 1)], &[set_to(outside, None, 1)], &[]).unwrap_err();
        assert!(refusal.summary.contains("outside refs/heads"), "{refusal}");
    }
}

#[test]
fn g01_35_branches_below_pr_follow_the_state_like_others() {
    let state = [("refs/heads/pr/x", 1)];
    assert!(push_on(&state, &[set_to("refs/heads/pr/x", None, 1)], &[]).is_ok());
    assert!(push_on(&state, &[set_to("refs/heads/pr/y", None, 1)], &[]).is_err());
}

#[test]
fn g01_40_the_whole_push_is_refused_and_every_ref_is_told_why() {
    let commands = [set_to(MAIN, None, 1), set_to(SIDE, None, 9)];
    let refusal = push_on(&[(MAIN, 1), (SIDE, 2)], &commands, &[]).unwrap_err();
    assert!(
        refusal.summary.contains("has refs/heads/side at"),
        "{refusal}"
    );
    assert_eq!(refusal.refs.len(), 2);
    assert!(refusal.refs[0].reason.contains("taken whole or not at all"));
    assert_eq!(refusal.refs[1].reason, refusal.summary);
}

#[test]
fn g01_40_one_candidate_must_accept_all_commands() {
    let owner = Owner::new(&[]);
    let older = owner.state(&[(MAIN, 1), (SIDE, 2)], 100);
    let newer = owner.state(&[(MAIN, 3), (SIDE, 4)], 200);
    let candidates = owner.candidates(&[], &[&older, &newer]);
    let commands = [set_to(MAIN, None, 3), set_to(SIDE, None, 2)];
    assert!(push(&commands, &candidates, &refs(&[])).is_err());
}

#[test]
fn g01_40_a_ref_that_moved_since_the_client_looked_is_refused() {
    let command = [set_to(MAIN, Some(1), 3)];
    let refusal = push_on(&[(MAIN, 3)], &command, &[(MAIN, 2)]).unwrap_err();
    assert!(refusal.summary.contains("fetch first"), "{refusal}");
    let as_asked = push_on(&[(MAIN, 3)], &command, &[(MAIN, 3)]);
    assert!(as_asked.is_ok());
}

#[test]
fn one_ref_twice_in_a_push_is_refused() {
    let commands = [set_to(MAIN, None, 1), set_to(MAIN, None, 1)];
    let refusal = push_on(&[(MAIN, 1)], &commands, &[]).unwrap_err();
    assert!(refusal.summary.contains("named twice"), "{refusal}");
    assert_eq!(refusal.refs.len(), 1);
}

#[test]
fn a_push_without_commands_changes_nothing() {
    let authorised = push(&[], &Candidates::default(), &refs(&[])).unwrap();
    assert_eq!(authorised, Authorised::default());
}

#[test]
fn a_branch_in_the_way_of_a_pushed_one_goes_with_the_push() {
    let owner = Owner::new(&[]);
    let served = owner.state(&[("refs/heads/a/b", 1), ("refs/tags/t", 1)], 100);
    let candidates = owner.candidates(&[], &[&served]);
    let commands = [
        set_to("refs/heads/a/b", None, 1),
        set_to("refs/tags/t", None, 1),
    ];
    let current = refs(&[
        ("refs/heads/a", 2),
        ("refs/heads/a-c", 3),
        ("refs/tags/t/x", 4),
    ]);
    let authorised = push(&commands, &candidates, &current).unwrap();
    let gone: Vec<&str> = authorised
        .edits
        .iter()
        .filter(|edit| edit.new.is_none())
        .map(|edit| edit.name.as_str())
        .collect();
    assert_eq!(gone, ["refs/heads/a", "refs/tags/t/x"]);
}

fn nostr_ref(id: &EventId) -> String {
    format!("refs/nostr/{}", id.to_hex())
}

fn some_event() -> EventId {
    sign(&Keys::generate(), Kind::Custom(1618), &[], 1).id
}

#[test]
fn g01_43_anyone_may_push_the_tip_of_an_event_not_known_yet() {
    let id = some_event();
    let commands = [set_to(&nostr_ref(&id), None, 1)];
    let authorised = push(&commands, &Candidates::default(), &refs(&[])).unwrap();
    assert_eq!(authorised.placeholders, [(id, oid(1))]);
    assert_eq!(authorised.by, None);
    assert_eq!(authorised.edits.len(), 1);
}

#[test]
fn the_first_tip_pushed_for_an_event_not_known_yet_stays() {
    let id = some_event();
    let current = refs(&[(&nostr_ref(&id), 1)]);
    let again = [set_to(&nostr_ref(&id), None, 1)];
    let authorised = push(&again, &Candidates::default(), &current).unwrap();
    assert_eq!(authorised.placeholders, [(id, oid(1))]);
    for old in [None, Some(1)] {
        let over = [set_to(&nostr_ref(&id), old, 2)];
        let refusal = push(&over, &Candidates::default(), &current).unwrap_err();
        assert!(refusal.summary.contains("publish the event first"));
    }
}

#[test]
fn g01_44_the_ref_must_be_an_event_id_in_lower_case_hex() {
    let upper = format!("refs/nostr/{}", "AB".repeat(32));
    let deeper = format!("{}/x", nostr_ref(&some_event()));
    for bad in ["refs/nostr/123", &upper, &deeper] {
        let refusal = push(&[set_to(bad, None, 1)], &Candidates::default(), &refs(&[]));
        let summary = refusal.unwrap_err().summary;
        assert!(summary.contains("64 lower-case hex digits"), "{summary}");
    }
}

#[test]
fn g01_45_a_known_event_decides_about_its_ref() {
    let id = some_event();
    let tip = oid(1);
    for (known, new, expected) in [
        (Known::PullRequest { tip, belongs: true }, 1, None),
        (
            Known::PullRequest { tip, belongs: true },
            2,
            Some("has its tip at"),
        ),
        (
            Known::PullRequest {
                tip,
                belongs: false,
            },
            1,
            Some("is for another repository"),
        ),
        (
            Known::OtherKind(Kind::Custom(1621)),
            1,
            Some("is of kind 1621"),
        ),
    ] {
        let commands = [set_to(&nostr_ref(&id), None, new)];
        let known = [(id, known)].into();
        let result = authorise(&commands, &Candidates::default(), &refs(&[]), &known);
        match (result, expected) {
            (Ok(authorised), None) => assert_eq!(authorised.pull_requests, [(id, tip)]),
            (Err(refusal), Some(text)) => assert!(refusal.summary.contains(text), "{refusal}"),
            (result, _) => panic!("{result:?}"),
        }
    }
}

/// Whose announcements they are, is the same for every event of a push, and costs nothing of what strangers stored.
#[test]
fn announcements_are_read_once_however_many_events_a_push_names() {
    let mut view = FakeView::new();
    let owner = view.hosting(&[]);
    for _ in 0..9 {
        view.hosting(&[]);
    }
    let (ours, tip) = (coordinate(30617, &owner.public_key()), oid(1).to_hex());
    let commands: Vec<RefEdit> = (0..200)
        .map(|n| {
            let tags: [&[&str]; 2] = [&["a", &ours], &["c", &tip]];
            let event = sign(&Keys::generate(), Kind::Custom(1618), &tags, n);
            view.hold(&event);
            set_to(&nostr_ref(&event.id), None, 1)
        })
        .collect();
    view.reads.set(0);
    let known = known_events(&commands, &addr(&owner), &view, &view.policy).unwrap();
    let belongs = |it: &Known| matches!(it, Known::PullRequest { belongs: true, .. });
    assert_eq!(known.values().filter(|it| belongs(it)).count(), 200);
    assert_eq!(view.reads.get(), 201, "an announcement and 200 requests");
}

#[test]
fn g01_51_a_pull_request_ref_cannot_be_deleted_by_a_push() {
    let id = some_event();
    let current = refs(&[(&nostr_ref(&id), 1)]);
    let deletion = [delete(&nostr_ref(&id), 1)];
    let refusal = push(&deletion, &Candidates::default(), &current);
    let summary = refusal.unwrap_err().summary;
    assert!(summary.contains("cannot be deleted by a push"), "{summary}");
}

#[test]
fn g01_40_a_mixed_push_needs_both_parts_to_be_fine() {
    let tip = set_to(&nostr_ref(&some_event()), None, 7);
    let push = |main: RefEdit, other: &RefEdit| push_on(&[(MAIN, 1)], &[main, other.clone()], &[]);
    let fine = push(set_to(MAIN, None, 1), &tip).unwrap();
    assert_eq!((fine.edits.len(), fine.placeholders.len()), (2, 1));
    assert!(push(set_to(MAIN, None, 2), &tip).is_err());
    let bad = set_to("refs/nostr/123", None, 7);
    assert!(push(set_to(MAIN, None, 1), &bad).is_err());
}

fn parsed(owner: &Owner, tags: &[&[&str]]) -> State {
    let mut all: Vec<&[&str]> = vec![&["d", "tide-table"]];
    all.extend(tags);
    State::parse(sign(&owner.keys, grip_nostr::kinds::STATE, &all, 100)).unwrap()
}

#[test]
fn g01_39_alignment_sets_what_is_named_and_deletes_what_is_not() {
    let owner = Owner::new(&[]);
    let state = State::parse(owner.state(&[(MAIN, 2), (TAG, 1)], 100)).unwrap();
    let nostr = nostr_ref(&some_event());
    let current = refs(&[(MAIN, 1), (SIDE, 1), ("refs/tags/old", 1), (&nostr, 5)]);
    let aligned = alignment(&state, &current);
    let edits: Vec<(&str, Option<Oid>)> = aligned
        .edits
        .iter()
        .map(|edit| (edit.name.as_str(), edit.new))
        .collect();
    assert_eq!(
        edits,
        [
            (SIDE, None),
            ("refs/tags/old", None),
            (MAIN, Some(oid(2))),
            (TAG, Some(oid(1))),
        ]
    );
    assert_eq!(aligned.head, None, "it stays at main");
}

#[test]
fn g01_38_an_empty_state_removes_all_branches_and_tags_and_leaves_head() {
    let owner = Owner::new(&[]);
    let state = State::parse(owner.state(&[], 100)).unwrap();
    let aligned = alignment(&state, &refs(&[(MAIN, 1), (TAG, 1)]));
    assert!(aligned.edits.iter().all(|edit| edit.new.is_none()) && aligned.edits.len() == 2);
    assert_eq!(aligned.head, None);
}

#[test]
fn g01_37_head_follows_the_state_or_falls_back() {
    let owner = Owner::new(&[]);
    let one = oid(1).to_hex();
    let develop: &[&str] = &["refs/heads/develop", &one];
    let trunk: &[&str] = &["refs/heads/trunk", &one];
    let main: &[&str] = &[MAIN, &one];
    let master: &[&str] = &["refs/heads/master", &one];
    let head = |tags: &[&[&str]], at: &str| {
        let current = Refs {
            refs: BTreeMap::new(),
            head: Some(name(at)),
        };
        let to = alignment(&parsed(&owner, tags), &current).head;
        to.map(|head| head.short().to_owned())
    };
    let says_develop: &[&str] = &["HEAD", "ref: refs/heads/develop"];
    assert_eq!(
        head(&[develop, main, says_develop], MAIN).as_deref(),
        Some("develop")
    );
    assert_eq!(
        head(&[develop, main], "refs/heads/develop"),
        None,
        "no HEAD tag: it stays"
    );
    let bare: &[&str] = &["HEAD", "refs/heads/develop"];
    assert_eq!(
        head(&[develop, main, bare], MAIN).as_deref(),
        Some("develop")
    );
    assert_eq!(
        head(&[main, says_develop], MAIN),
        None,
        "names no branch of the state"
    );
    let outside: &[&str] = &["HEAD", "ref: refs/tags/v1"];
    assert_eq!(head(&[main, outside], MAIN), None);
    assert_eq!(
        head(&[develop, master, main], "refs/heads/gone").as_deref(),
        Some("main")
    );
    assert_eq!(
        head(&[develop, master], "refs/heads/gone").as_deref(),
        Some("master")
    );
    assert_eq!(
        head(&[trunk, develop], "refs/heads/gone").as_deref(),
        Some("develop")
    );
    assert_eq!(head(&[], "refs/heads/gone"), None);
}

#[test]
fn g01_37_head_moves_with_the_push_that_brings_its_branch() {
    let owner = Owner::new(&[]);
    let (one, two) = (oid(1).to_hex(), oid(2).to_hex());
    let state = parsed(
        &owner,
        &[
            &[MAIN, &one],
            &[SIDE, &two],
            &["HEAD", "ref: refs/heads/side"],
        ],
    );
    let candidates = Candidates::new(&owner.set, Vec::new(), vec![state]);
    let first = push(&[set_to(MAIN, None, 1)], &candidates, &refs(&[])).unwrap();
    assert_eq!(first.head, None, "its branch is not here yet");
    let second = push(&[set_to(SIDE, None, 2)], &candidates, &refs(&[(MAIN, 1)])).unwrap();
    assert_eq!(second.head, Some(name(SIDE)));
}

/// Few names and few objects, so that pushes and states often agree and often do not.
fn any_name() -> impl Strategy<Value = RefName> {
    let hex = "ab".repeat(32);
    prop::sample::select(vec![
        "refs/heads/a".to_owned(),
        "refs/heads/a/b".to_owned(),
        "refs/heads/a-c".to_owned(),
        "refs/heads/main".to_owned(),
        "refs/tags/v1".to_owned(),
        "refs/tags/v1/x".to_owned(),
        "refs/notes/commits".to_owned(),
        "refs/nostr/123".to_owned(),
        format!("refs/nostr/{hex}"),
    ])
    .prop_map(|text| name(&text))
}

fn any_refs() -> impl Strategy<Value = BTreeMap<RefName, Oid>> {
    prop::collection::btree_map(any_name(), (1..4u64).prop_map(oid), 0..7)
}

fn any_refs_of_a_repository() -> impl Strategy<Value = Refs> {
    let head = prop::option::of(prop::sample::select(vec![name(MAIN), name("refs/heads/a")]));
    (any_refs(), head).prop_map(|(refs, head)| Refs { refs, head })
}

fn any_commands() -> impl Strategy<Value = Vec<RefEdit>> {
    let value = || prop::option::of((1..4u64).prop_map(oid));
    let command = (any_name(), value(), value());
    let command = command.prop_map(|(name, old, new)| RefEdit { name, old, new });
    prop::collection::vec(command, 0..4)
}

thread_local! {
    /// Keys are costly to make and play no part in the properties.
    static OWNER: Owner = Owner::new(&[]);
}

/// A state as it would be parsed: branches and tags only, none below another.
fn as_state(refs: BTreeMap<RefName, Oid>, head: Option<RefName>, at: u64) -> State {
    let names: Vec<RefName> = refs.keys().cloned().collect();
    let below = |name: &RefName| {
        let parent = |other: &RefName| name.as_str().starts_with(&format!("{other}/"));
        names.iter().any(parent)
    };
    let refs: BTreeMap<RefName, Oid> = refs
        .into_iter()
        .filter(|(name, _)| name.is_state_ref() && !below(name))
        .collect();
    let head = head.filter(|head| refs.contains_key(head));
    OWNER.with(|owner| {
        let mut state = State::parse(owner.state(&[], at)).unwrap();
        state.refs = refs;
        state.head = head;
        state
    })
}

fn apply(current: &Refs, edits: &[RefEdit], head: Option<RefName>) -> Refs {
    let mut after = current.clone();
    for edit in edits {
        let old = match edit.new {
            Some(new) => after.refs.insert(edit.name.clone(), new),
            None => after.refs.remove(&edit.name),
        };
        assert_eq!(old, edit.old, "an edit starts from what is there");
    }
    after.head = head.or(after.head);
    after
}

proptest! {
    #[test]
    fn an_accepted_push_never_contradicts_the_chosen_state(
        commands in any_commands(),
        states in prop::collection::vec(any_refs(), 0..4),
        current in any_refs_of_a_repository(),
    ) {
        let states: Vec<State> = states
            .into_iter()
            .zip(100..)
            .map(|(refs, at)| as_state(refs, None, at))
            .collect();
        let set = OWNER.with(|owner| owner.set.clone());
        let candidates = Candidates::new(&set, Vec::new(), states.clone());
        match authorise(&commands, &candidates, &current, &BTreeMap::new()) {
            Ok(authorised) => {
                let by = states.iter().find(|state| Some(state.event.id) == authorised.by);
                for edit in &authorised.edits {
                    if edit.name.is_state_ref() {
                        let state = by.expect("branches and tags need a state");
                        prop_assert_eq!(state.refs.get(&edit.name).copied(), edit.new);
                    } else {
                        prop_assert!(edit.name.nostr_event_id().is_some() && edit.new.is_some());
                    }
                }
                let after = apply(&current, &authorised.edits, authorised.head);
                for command in &commands {
                    prop_assert_eq!(after.refs.get(&command.name).copied(), command.new);
                }
            }
            Err(refusal) => {
                prop_assert!(!commands.is_empty() && !refusal.summary.is_empty());
                for command in &commands {
                    let told = refusal.refs.iter().filter(|told| told.name == command.name);
                    prop_assert_eq!(told.count(), 1);
                }
            }
        }
    }

    #[test]
    fn alignment_reaches_the_state_at_once_and_never_touches_other_refs(
        refs in any_refs(),
        said in prop::option::of(prop::sample::select(vec![name(MAIN), name("refs/heads/a")])),
        current in any_refs_of_a_repository(),
    ) {
        let state = as_state(refs, said, 100);
        let aligned = alignment(&state, &current);
        prop_assert!(aligned.edits.iter().all(|edit| edit.name.is_state_ref()));
        let after = apply(&current, &aligned.edits, aligned.head);
        prop_assert!(alignment(&state, &after).is_empty());
        let (kept, of_state): (BTreeMap<_, _>, BTreeMap<_, _>) = after
            .refs
            .into_iter()
            .partition(|(name, _)| !name.is_state_ref());
        prop_assert_eq!(&of_state, &state.refs);
        let mut others = current.refs;
        others.retain(|name, _| !name.is_state_ref());
        prop_assert_eq!(kept, others);
        if let Some(head) = &state.head {
            prop_assert_eq!(after.head.as_ref(), Some(head));
        }
    }
}
