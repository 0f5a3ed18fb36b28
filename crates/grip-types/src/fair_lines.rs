//! Keys that wait for a turn, in one line per owner.
//!
//! Whose share is used up: identifiers cost nothing, so a turn goes to an owner and not to a key.
//! Owners take turns, and the keys of one take turns among themselves. Those who are served here
//! come first, but every fourth turn is for the others, so that neither keeps the other out.

use std::collections::{BTreeMap, HashMap};

use crate::ClientNetwork;

/// Whose share of something a key uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// A public key, or a network behind 16 zeros.
    pub key: [u8; 32],
    /// Something of this owner is served here already.
    pub is_served: bool,
}

impl Owner {
    /// Who is known by nothing but the network he comes from.
    pub fn of_network(network: ClientNetwork) -> Self {
        let mut key = [0; 32];
        key[16..].copy_from_slice(&network.octets());
        Self {
            key,
            is_served: false,
        }
    }
}

/// Of so many turns one goes to those who are not served yet.
const TURNS: u32 = 4;

/// The place of a key: in whose line, and in which order it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub owner: Owner,
    pub number: u64,
}

/// Keys in lines by owner.
#[derive(Clone, Debug)]
pub struct FairLines<K> {
    lines: HashMap<Owner, Line<K>>,
    /// When each owner is next, of the served and of the others.
    order: [BTreeMap<u64, Owner>; 2],
    turns: u32,
    len: usize,
}

#[derive(Clone, Debug)]
struct Line<K> {
    keys: BTreeMap<u64, K>,
    next: u64,
}

impl<K> Default for FairLines<K> {
    fn default() -> Self {
        Self {
            lines: HashMap::new(),
            order: Default::default(),
            turns: 0,
            len: 0,
        }
    }
}

impl<K> FairLines<K> {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// All keys, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.lines.values().flat_map(|line| line.keys.values())
    }

    /// Keys of an owner.
    pub fn of(&self, owner: &Owner) -> usize {
        self.lines.get(owner).map_or(0, |line| line.keys.len())
    }

    /// The one of several owners in whose line a key waits least.
    pub fn choose(&self, owners: &[Owner]) -> Owner {
        let best = owners
            .iter()
            .min_by_key(|owner| (!owner.is_served, self.of(owner)));
        best.copied().unwrap_or_default()
    }

    /// Puts a key at the end of its owner's line. Numbers only grow.
    pub fn push(&mut self, Place { owner, number }: Place, key: K) {
        let line = self.lines.entry(owner).or_insert_with(|| {
            self.order[class(&owner)].insert(number, owner);
            Line {
                keys: BTreeMap::new(),
                next: number,
            }
        });
        line.keys.insert(number, key);
        self.len += 1;
    }

    /// Takes the key whose turn it is; its owner is next again at `number`.
    pub fn pop(&mut self, number: u64) -> Option<K> {
        self.turns = (self.turns + 1) % TURNS;
        let first = usize::from(self.turns == 0);
        let owner = [first, 1 - first]
            .into_iter()
            .find_map(|class| self.order[class].first_key_value())
            .map(|(_, owner)| *owner)?;
        let line = self.lines.get_mut(&owner)?;
        let (_, key) = line.keys.pop_first()?;
        self.len -= 1;
        let before = std::mem::replace(&mut line.next, number);
        let is_over = line.keys.is_empty();
        let order = &mut self.order[class(&owner)];
        order.remove(&before);
        if is_over {
            self.lines.remove(&owner);
        } else {
            order.insert(number, owner);
        }
        Some(key)
    }

    pub fn remove(&mut self, place: &Place) -> Option<K> {
        let line = self.lines.get_mut(&place.owner)?;
        let key = line.keys.remove(&place.number)?;
        self.len -= 1;
        if line.keys.is_empty() {
            self.order[class(&place.owner)].remove(&line.next);
            self.lines.remove(&place.owner);
        }
        Some(key)
    }

    /// The newest key of the owner with most, of those who have at least two more than `owner` has: it
    /// makes room for one of his. Strangers make room before those who are served, and any stranger does
    /// for the first key of one who is served; for a stranger nobody does who is served and has no more
    /// than his part of what is in line.
    pub fn longest_beside(&self, owner: &Owner) -> Option<&K> {
        let own = self.of(owner);
        let is_first = owner.is_served && own == 0;
        let fair = self.len.div_ceil(self.lines.len().max(1));
        let makes_room = |of: &Owner, line: &Line<K>| {
            let has_more = line.keys.len() >= own + 2;
            let is_fair = of.is_served && !owner.is_served && line.keys.len() <= fair;
            of != owner && ((is_first && !of.is_served) || (has_more && !is_fair))
        };
        let lines = self.lines.iter().filter(|(of, line)| makes_room(of, line));
        let (_, line) = lines.max_by_key(|(of, line)| (!of.is_served, line.keys.len()))?;
        line.keys.last_key_value().map(|(_, key)| key)
    }
}

fn class(owner: &Owner) -> usize {
    usize::from(!owner.is_served)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(n: u8, is_served: bool) -> Owner {
        let key = [n; 32];
        Owner { key, is_served }
    }

    fn filled(lines: &[(u8, bool, usize)]) -> (FairLines<String>, u64) {
        let (mut filled, mut number) = (FairLines::default(), 0);
        for (of, is_served, count) in lines {
            for n in 0..*count {
                number += 1;
                let owner = owner(*of, *is_served);
                filled.push(Place { owner, number }, format!("{of}-{n}"));
            }
        }
        (filled, number)
    }

    fn turns((mut lines, mut number): (FairLines<String>, u64), count: usize) -> Vec<String> {
        let mut turn = || {
            number += 1;
            lines.pop(number)
        };
        (0..count).map_while(|_| turn()).collect()
    }

    #[test]
    fn owners_take_turns_however_many_keys_one_has() {
        let order = turns(
            filled(&[(1, false, 1_000), (2, false, 1), (3, false, 2)]),
            6,
        );
        assert_eq!(order, ["1-0", "2-0", "3-0", "1-1", "3-1", "1-2"]);
    }

    #[test]
    fn those_who_are_served_come_first_and_leave_every_fourth_turn() {
        let order = turns(filled(&[(1, false, 9), (2, true, 9)]), 8);
        let expected = ["2-0", "2-1", "2-2", "1-0", "2-3", "2-4", "2-5", "1-1"];
        assert_eq!(order, expected);
        assert_eq!(turns(filled(&[(1, false, 3)]), 9).len(), 3);
        assert_eq!(turns(filled(&[(2, true, 9)]), 20).len(), 9);
    }

    #[test]
    fn a_key_waits_for_the_owner_who_is_served_or_waits_least() {
        let (lines, _) = filled(&[(1, false, 5), (2, false, 2), (3, true, 9)]);
        let (one, two, three) = (owner(1, false), owner(2, false), owner(3, true));
        assert_eq!(lines.choose(&[one, two]), two);
        assert_eq!(lines.choose(&[one, two, three]), three);
        assert_eq!(lines.choose(&[]), Owner::default());
    }

    #[test]
    fn the_longest_line_makes_room_but_not_for_one_as_long() {
        let (lines, _) = filled(&[(1, false, 5), (2, false, 3), (3, false, 4)]);
        let newest = |of: u8| lines.longest_beside(&owner(of, false)).cloned();
        assert_eq!(newest(2).as_deref(), Some("1-4"));
        assert_eq!(newest(9).as_deref(), Some("1-4"));
        assert_eq!(newest(3), None);
        assert_eq!(newest(1), None);
        let (lines, _) = filled(&[(1, true, 50), (2, false, 3)]);
        let newest = lines.longest_beside(&owner(9, false)).cloned();
        assert_eq!(newest.as_deref(), Some("2-2"), "strangers make room first");
    }

    #[test]
    fn the_first_of_one_who_is_served_finds_room_among_strangers_with_one_each() {
        let (lines, _) = filled(&[(1, false, 1), (2, false, 1), (3, true, 1)]);
        let newest = |of: u8, is_served| lines.longest_beside(&owner(of, is_served)).cloned();
        assert!(newest(9, true).is_some_and(|key| key != "3-0"));
        assert_eq!(newest(9, false), None);
        assert_eq!(newest(3, true), None, "he has one already");
    }

    #[test]
    fn a_long_line_makes_room_though_a_short_one_of_strangers_cannot() {
        let newest = |lines: &[(u8, bool, usize)], of: u8, is_served| {
            let (lines, _) = filled(lines);
            lines.longest_beside(&owner(of, is_served)).cloned()
        };
        // One who is served has all but one place: neither a stranger nor another who is served is kept out.
        let taken = [(1, true, 9), (2, false, 1)];
        assert_eq!(newest(&taken, 9, false).as_deref(), Some("1-8"));
        assert_eq!(
            newest(&[(1, true, 9), (2, false, 2), (3, true, 1)], 3, true).as_deref(),
            Some("1-8")
        );
        // But strangers push out nobody who is served and has his part.
        let shared = [(1, true, 2), (2, false, 1), (3, true, 2), (4, false, 2)];
        assert_eq!(newest(&shared, 9, false).as_deref(), Some("4-1"));
        assert_eq!(newest(&shared[..3], 9, false), None);
    }

    #[test]
    fn nothing_is_left_of_lines_that_are_empty() {
        let (mut lines, number) = filled(&[(1, false, 2), (2, true, 1)]);
        for n in 1..=number {
            let of = if n == 3 {
                owner(2, true)
            } else {
                owner(1, false)
            };
            let place = Place {
                owner: of,
                number: n,
            };
            assert!(lines.remove(&place).is_some());
            assert!(lines.remove(&place).is_none());
        }
        assert!(lines.is_empty() && lines.lines.is_empty());
        assert!(lines.order.iter().all(BTreeMap::is_empty));
    }
}
