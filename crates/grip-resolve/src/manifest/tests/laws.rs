//! The laws of the join.

use std::{cell::RefCell, collections::BTreeMap};

use super::*;

/// A small world: an owner and three who may be maintainers, with few moments, so that ties and
/// overlaps are common.
struct World {
    people: [Author; 4],
    /// What was signed once: to sign again would give another signature.
    signed: RefCell<BTreeMap<(usize, u8, u64), Event>>,
}

/// How one manifest is drawn: whom the owner lists and when, whom the second lists and when, who
/// made the state and when.
type Draw = (u8, u64, u8, u64, Option<usize>, u64);

impl World {
    fn new() -> Self {
        Self {
            people: [(); 4].map(|()| Author::new()),
            signed: RefCell::default(),
        }
    }

    fn list(&self, author: usize, bits: u8, seconds: u64) -> Event {
        let listed = (0..4)
            .filter(|i| *i != author && bits & (1 << i) != 0)
            .map(|i| &self.people[i]);
        let sign = || listing(&self.people[author], &listed.collect::<Vec<_>>(), seconds);
        let mut signed = self.signed.borrow_mut();
        let event = signed.entry((author, bits, seconds)).or_insert_with(sign);
        event.clone()
    }

    /// The manifest that a node with these events would make.
    fn manifest(&self, draw: &Draw) -> Manifest {
        let (owner_lists, when, second_lists, second_when, author, signed) = *draw;
        let announcement = self.list(0, owner_lists, when);
        // The others answer everybody, once and for all.
        let answers = [2, 3].map(|author| self.list(author, 15, 0));
        let others = [self.list(1, second_lists, second_when)];
        let others: Vec<Event> = others.into_iter().chain(answers).collect();
        let state = author.map(|author| state(&self.people[author], signed));
        Manifest::make(announcement.clone(), others, state)
            .unwrap_or_else(|_| Manifest::make(announcement, vec![], None).unwrap())
    }
}

fn draw() -> impl Strategy<Value = Draw> {
    let author = prop::option::of(0..4_usize);
    (0..16_u8, 0..4_u64, 0..16_u8, 0..3_u64, author, 0..6_u64)
}

/// Everybody is listed by everybody, so nobody is ever struck.
fn peaceful() -> impl Strategy<Value = Draw> {
    let author = prop::option::of(0..4_usize);
    (
        Just(15_u8),
        0..4_u64,
        Just(15_u8),
        Just(0),
        author,
        0..6_u64,
    )
}

fn newest_state(manifests: &[Manifest]) -> Option<(Timestamp, std::cmp::Reverse<String>)> {
    let states = manifests.iter().filter_map(Manifest::state);
    let rank = |s: &State| (s.event.created_at, std::cmp::Reverse(s.event.id.to_hex()));
    states.map(rank).max()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn joining_is_commutative_and_idempotent(a in draw(), b in draw()) {
        let world = World::new();
        let (a, b) = (world.manifest(&a), world.manifest(&b));
        let joint = a.join(&b);
        prop_assert_eq!(&b.join(&a), &joint);
        prop_assert_eq!(&a.join(&a), &a);
        prop_assert_eq!(&joint.join(&joint), &joint);
        prop_assert_eq!(Manifest::decode(joint.bytes()), Ok(joint));
    }

    #[test]
    fn joining_is_associative_while_nobody_is_struck(a in peaceful(), b in peaceful(), c in peaceful()) {
        let world = World::new();
        let (a, b, c) = (world.manifest(&a), world.manifest(&b), world.manifest(&c));
        let joint = a.join(&b).join(&c);
        prop_assert_eq!(&a.join(&b.join(&c)), &joint);
        prop_assert_eq!(Manifest::join_all([c.clone(), a.clone(), b.clone()]), Some(joint.clone()));
        for part in [&a, &b, &c] {
            prop_assert_eq!(&joint.join(part), &joint);
            prop_assert_eq!(&part.join(&joint), &joint);
        }
    }

    #[test]
    fn the_joint_of_many_depends_on_the_set_alone(
        draws in prop::collection::vec(draw(), 1..6),
        order in any::<prop::sample::Index>(),
    ) {
        let world = World::new();
        let mut all: Vec<Manifest> = draws.iter().map(|draw| world.manifest(draw)).collect();
        let joint = Manifest::join_all(all.clone());
        all.push(all[order.index(all.len())].clone());
        let turn = order.index(all.len());
        all.rotate_left(turn);
        prop_assert_eq!(&Manifest::join_all(all.clone()), &joint);
        all.reverse();
        prop_assert_eq!(Manifest::join_all(all), joint);
    }

    #[test]
    fn what_is_stale_never_wins(draws in prop::collection::vec(draw(), 1..6)) {
        let world = World::new();
        let all: Vec<Manifest> = draws.iter().map(|draw| world.manifest(draw)).collect();
        let joint = Manifest::join_all(all.clone()).unwrap();
        for part in &all {
            let (part, joint) = (&part.announcement().event, &joint.announcement().event);
            prop_assert!(part.id == joint.id || grip_nostr::supersedes(joint, part));
        }
        // Of the owner's states, and of those who answered and are listed by the newest announcement
        // itself, none is newer.
        let listed = &joint.announcement().maintainers;
        let answered = [2, 3].map(|i: usize| world.people[i].pubkey());
        let owner = joint.announcement().owner();
        let fit = |m: &&Manifest| m.state().is_some_and(|s| {
            let author = &s.event.pubkey;
            *author == owner || (listed.contains(author) && answered.contains(author))
        });
        let fitting: Vec<Manifest> = all.iter().filter(fit).cloned().collect();
        prop_assert!(newest_state(&fitting) <= newest_state(&[joint]));
    }

    #[test]
    fn folding_in_any_order_ends_at_the_newest_announcement(draws in prop::collection::vec(draw(), 2..6)) {
        let world = World::new();
        let all: Vec<Manifest> = draws.iter().map(|draw| world.manifest(draw)).collect();
        let joint = Manifest::join_all(all.clone()).unwrap();
        let fold = |all: &[Manifest]| all[1..].iter().fold(all[0].clone(), |a, b| a.join(b));
        let mut turned = all.clone();
        turned.reverse();
        for folded in [fold(&all), fold(&turned)] {
            prop_assert_eq!(folded.announcement(), joint.announcement());
            prop_assert_eq!(Manifest::decode(folded.bytes()), Ok(folded));
        }
    }
}

#[test]
fn who_is_struck_by_the_newest_announcement_speaks_no_more() {
    let (owner, other) = (Author::new(), Author::new());
    let before = Manifest::make(
        listing(&owner, &[&other], 1),
        vec![listing(&other, &[&owner], 1)],
        Some(state(&other, 9)),
    );
    let after = Manifest::make(listing(&owner, &[], 2), vec![], Some(state(&owner, 3)));
    let (before, after) = (before.unwrap(), after.unwrap());
    assert_eq!(before.join(&after), after);
    assert_eq!(after.join(&before), after);
}

#[test]
fn a_newer_state_moves_to_the_newer_announcement() {
    let owner = Author::new();
    let old = Manifest::make(
        announcement(&owner, vec![], 1),
        vec![],
        Some(state(&owner, 9)),
    );
    let new = Manifest::make(
        announcement(&owner, vec![], 2),
        vec![],
        Some(state(&owner, 3)),
    );
    let joint = old.unwrap().join(&new.unwrap());
    assert_eq!(joint.announcement().event.created_at, at(2));
    assert_eq!(joint.state().unwrap().event.created_at, at(9));
}

#[test]
fn one_event_signed_twice_is_the_same_from_both_sides() {
    let owner = Author::new();
    let event = announcement(&owner, vec![], 1);
    let again = announcement(&owner, vec![], 1);
    assert_eq!(event.id, again.id);
    let one = Manifest::make(event, vec![], None).unwrap();
    let two = Manifest::make(again, vec![], None).unwrap();
    assert_eq!(one.join(&two), two.join(&one));
}
