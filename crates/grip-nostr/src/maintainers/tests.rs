use std::collections::BTreeMap;

use grip_testkit::roles::{role_cases, role_tags};
use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Tag};
use proptest::prelude::*;

use super::{roster::is_active, *};
use crate::kinds;

fn announce(keys: &Keys, tags: Vec<Vec<String>>) -> Announcement {
    let mut all = vec![Tag::parse(["d", "x"]).unwrap()];
    all.extend(tags.into_iter().map(|tag| Tag::parse(tag).unwrap()));
    let event = EventBuilder::new(kinds::ANNOUNCEMENT, "")
        .tags(all)
        .finalize(keys)
        .unwrap();
    Announcement::parse(event).unwrap()
}

fn set(rule: MaintainerRule, owner: &Keys, all: &[Announcement]) -> MaintainerSet {
    let of = |author: &PublicKey| all.iter().find(|a| a.owner() == *author);
    maintainer_set(rule, &owner.public_key(), of)
}

/// People by their letters.
struct People(BTreeMap<char, Keys>);

impl People {
    fn new() -> Self {
        Self(['A', 'B', 'C'].map(|name| (name, Keys::generate())).into())
    }

    /// Reads the short form of [`grip_testkit::roles`].
    fn announcement(&self, text: &str) -> Announcement {
        let keys = &self.0[&text.chars().next().unwrap()];
        let hex = |name: char| self.0[&name].public_key().to_hex();
        announce(keys, role_tags(text, hex))
    }

    fn names<'a>(&self, keys: impl Iterator<Item = &'a PublicKey>) -> String {
        let keys: Vec<PublicKey> = keys.copied().collect();
        let names = self.0.iter();
        names
            .filter(|(_, person)| keys.contains(&person.public_key()))
            .map(|(name, _)| *name)
            .collect()
    }
}

/// What an announcement lists, whom it leads to and whether its author is active (G01-69, G01-71) come with them.
#[test]
fn g01_69_to_75_the_worked_cases_come_out_as_in_the_table() {
    for case in &role_cases() {
        let (number, people) = (case.number, People::new());
        let all: Vec<Announcement> = case
            .announcements
            .iter()
            .map(|text| people.announcement(text))
            .collect();
        for expected in &case.sets {
            let owner = expected.owner;
            let set = set(MaintainerRule::Reciprocal, &people.0[&owner], &all);
            let (members, invited) = (people.names(set.iter()), people.names(set.invited()));
            let why = set.why_empty().map(|why| format!("{why:?}"));
            assert_eq!(members, expected.members, "case {number}, owner {owner}");
            assert_eq!(invited, expected.invited, "case {number}, owner {owner}");
            let why = why.unwrap_or_default();
            assert_eq!(why, expected.why, "case {number}, owner {owner}");
        }
        if let Some(legacy) = case.legacy {
            let set = set(MaintainerRule::Legacy, &people.0[&'A'], &all);
            assert_eq!(people.names(set.iter()), legacy, "case {number}, legacy");
        }
    }
}

#[test]
fn g01_70_boundaries_decide_what_is_active() {
    for (boundaries, expected) in [
        ("", true),
        ("100", true),
        ("100 200", false),
        ("100 200 300", true),
        ("100 200 300 400", false),
        ("100 defer", false),
        ("defer", false),
        ("100 defer 300", false),
        ("100 open", false),
        ("soon", false),
        ("+1", false),
        ("-1", false),
    ] {
        let words = boundaries.split(' ').filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(str::to_owned).collect();
        assert_eq!(is_active(&words), expected, "{boundaries}");
    }
}

#[test]
fn g01_29_being_listed_gives_no_right_over_the_listed_ones_repository() {
    let people = People::new();
    let all = [people.announcement("A:[B]"), people.announcement("B:")];
    for rule in [MaintainerRule::Legacy, MaintainerRule::Reciprocal] {
        let a = people.0[&'A'].public_key();
        assert!(!set(rule, &people.0[&'B'], &all).contains(&a));
    }
}

#[test]
fn a_set_tells_how_its_keys_got_into_it() {
    let people = People::new();
    let all = ["A{M A, m B, m C}", "B{M A, m B}"].map(|text| people.announcement(text));
    let set = set(MaintainerRule::Reciprocal, &people.0[&'B'], &all);
    let of = |name: char| people.0[&name].public_key();
    let links: Vec<_> = set
        .links()
        .iter()
        .map(|link| (link.by, link.key, link.kind))
        .collect();
    assert_eq!(
        links,
        [
            (of('B'), of('A'), LinkKind::Leads),
            (of('A'), of('B'), LinkKind::Accepted),
            (of('A'), of('C'), LinkKind::Invited)
        ]
    );
    assert_eq!(set.lead(), Some(&of('A')));
}

#[test]
fn a_set_is_told_in_words() {
    let people = People::new();
    let name = |key: &PublicKey| {
        let found = people.0.iter().find(|(_, keys)| keys.public_key() == *key);
        found.map_or_else(String::new, |(name, _)| name.to_string())
    };
    for (announcements, owner, expected) in [
        (
            &["A{M A, m B, m C}", "B{M A, m B}"][..],
            'B',
            &[
                "B points to A as the lead",
                "A leads",
                "A invited B, B accepted",
                "A invited C, who has not announced the repository",
            ][..],
        ),
        (
            &["A:[B,C]", "B:", "C{m C 100 200}"],
            'A',
            &[
                "A leads",
                "A invited B, who has not listed a maintainer in return",
                "A invited C, who has left",
            ],
        ),
        (
            &["A{M A, M B}"],
            'A',
            &["nobody maintains it: an announcement names several leads"],
        ),
    ] {
        let all: Vec<_> = announcements
            .iter()
            .map(|text| people.announcement(text))
            .collect();
        let set = set(MaintainerRule::Reciprocal, &people.0[&owner], &all);
        let mut words = set.in_words(name);
        assert_eq!(words[0], expected[0]);
        // Those who nearly got in come in the order of their keys, which are random here.
        words.sort();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(words, expected);
    }
    let all = ["A:[B]"].map(|text| people.announcement(text));
    let legacy = set(MaintainerRule::Legacy, &people.0[&'A'], &all);
    assert_eq!(legacy.in_words(name), ["A leads", "A lists B"]);
    let set = set(MaintainerRule::Reciprocal, &people.0[&'A'], &all);
    let b = people.0[&'B'].public_key();
    assert!(set.names(&b) && set.objection(&b).is_some() && legacy.objection(&b).is_none());
}

#[test]
fn g01_82_the_set_is_bounded() {
    let owner = Keys::generate();
    let many: Vec<Keys> = (0..100).map(|_| Keys::generate()).collect();
    let mut list = vec!["maintainers".to_owned()];
    list.extend(many.iter().map(|keys| keys.public_key().to_hex()));
    let mut all = vec![announce(&owner, vec![list])];
    let back = vec!["maintainers".to_owned(), owner.public_key().to_hex()];
    all.extend(many.iter().map(|keys| announce(keys, vec![back.clone()])));
    for rule in [MaintainerRule::Legacy, MaintainerRule::Reciprocal] {
        let set = set(rule, &owner, &all);
        assert!(set.len() <= MAX_KEYS && set.len() > 2, "{}", set.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever people announce: only who lists and is listed gets in, and every member of a set is
    /// a member of the set of its lead.
    #[test]
    fn a_member_lists_a_member_and_is_listed_by_one(
        lists in prop::collection::vec(prop::collection::vec(0..6_usize, 0..4), 6)
    ) {
        let keys: Vec<Keys> = (0..6).map(|_| Keys::generate()).collect();
        let hex = |n: &usize| keys[*n].public_key().to_hex();
        let announcement = |(n, list): (usize, &Vec<usize>)| {
            let mut tag = vec!["maintainers".to_owned()];
            tag.extend(list.iter().map(hex));
            announce(&keys[n], vec![tag])
        };
        let all: Vec<Announcement> = lists.iter().enumerate().map(announcement).collect();
        for (n, owner) in keys.iter().enumerate() {
            let set = set(MaintainerRule::Reciprocal, owner, &all);
            prop_assert!(set.contains(&owner.public_key()));
            for (m, member) in keys.iter().enumerate().filter(|(m, k)| *m != n && set.contains(&k.public_key())) {
                let lists_member = lists[m].iter().any(|k| *k != m && set.contains(&keys[*k].public_key()));
                let is_listed = (0..6).any(|k| k != m && set.contains(&keys[k].public_key()) && lists[k].contains(&m));
                prop_assert!(lists_member && is_listed, "{}", member.public_key());
            }
        }
    }
}
