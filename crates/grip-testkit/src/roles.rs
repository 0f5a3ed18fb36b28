//! Worked cases of roles, and announcements written in their short form.
//!
//! `A:[B,C]` is A's announcement with these maintainers, `A:` one without a list, `A{M A, m B 100 200}`
//! one with role tags; `+` begins role tags beside a list.

use crate::events::{Tags, tag};

/// One case: what is announced under one identifier, and what follows from it.
#[derive(Debug)]
pub struct RoleCase {
    pub number: u8,
    pub announcements: &'static [&'static str],
    pub sets: &'static [RoleSet],
    /// The set of A by the legacy rule, where it differs in kind.
    pub legacy: Option<&'static str>,
    /// Whose states are taken under some owner, and whose are refused; of those in neither, some owner
    /// invites them.
    pub taken: &'static str,
    pub refused: &'static str,
}

/// Who may move the refs of one owner's repository, and who is invited to, by their letters.
#[derive(Debug)]
pub struct RoleSet {
    pub owner: char,
    pub members: &'static str,
    pub invited: &'static str,
    /// Why there is nobody; empty where there is somebody.
    pub why: &'static str,
}

const fn set(
    owner: char,
    members: &'static str,
    invited: &'static str,
    why: &'static str,
) -> RoleSet {
    RoleSet {
        owner,
        members,
        invited,
        why,
    }
}

/// The role tags of an announcement in its short form. `key_of` gives the key of a letter.
pub fn role_tags(text: &str, key_of: impl Fn(char) -> String) -> Tags {
    let hex = |name: &str| name.chars().next().map(&key_of).unwrap_or_default();
    let rest = &text[1..];
    let (list, roles) = match rest.split_once('+') {
        Some((list, roles)) => (list, roles),
        None if rest.starts_with('{') => ("", rest.trim_matches(['{', '}'])),
        None => (rest, ""),
    };
    let mut tags = Tags::new();
    let listed = list.trim_start_matches(':').trim_matches(['[', ']']);
    if !listed.is_empty() {
        let mut maintainers = tag(["maintainers"]);
        maintainers.extend(listed.split(',').map(hex));
        tags.push(maintainers);
    }
    for role in roles.split(", ").filter(|role| !role.is_empty()) {
        let mut words = role.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let key = words.next().map(hex).unwrap_or_default();
        tags.push(
            [name, key]
                .into_iter()
                .chain(words.map(str::to_owned))
                .collect(),
        );
    }
    tags
}

/// The table of the specification (G01-68 … G01-76). In case 7, B answers under another identifier.
pub const ROLE_CASES: &[RoleCase] = &[
    RoleCase {
        number: 1,
        announcements: &["A:"],
        sets: &[set('A', "A", "", "")],
        legacy: Some("A"),
        taken: "A",
        refused: "B",
    },
    RoleCase {
        number: 2,
        announcements: &["B:"],
        sets: &[set('A', "", "", "Missing")],
        legacy: Some(""),
        taken: "B",
        refused: "A",
    },
    RoleCase {
        number: 3,
        announcements: &["A:[B]"],
        sets: &[set('A', "A", "B", "")],
        legacy: Some("AB"),
        taken: "A",
        refused: "C",
    },
    RoleCase {
        number: 4,
        announcements: &["A:[B]", "B:[A]"],
        sets: &[set('A', "AB", "", ""), set('B', "AB", "", "")],
        legacy: Some("AB"),
        taken: "AB",
        refused: "C",
    },
    RoleCase {
        number: 5,
        announcements: &["A:[B]", "B:"],
        sets: &[set('A', "A", "B", ""), set('B', "B", "", "")],
        legacy: Some("AB"),
        taken: "AB",
        refused: "C",
    },
    RoleCase {
        number: 6,
        announcements: &["A:[B]", "B:[C]"],
        sets: &[set('A', "A", "B", "")],
        legacy: Some("ABC"),
        taken: "AB",
        refused: "",
    },
    RoleCase {
        number: 7,
        announcements: &["A:[B]"],
        sets: &[set('A', "A", "B", "")],
        legacy: Some("AB"),
        taken: "A",
        refused: "C",
    },
    RoleCase {
        number: 8,
        announcements: &["A:[B]", "B:[A,C]", "C:[B]"],
        sets: &[set('A', "ABC", "", "")],
        legacy: Some("ABC"),
        taken: "ABC",
        refused: "",
    },
    RoleCase {
        number: 9,
        announcements: &["A:[B]", "B:[C]", "C:[B]"],
        sets: &[
            set('A', "A", "B", ""),
            set('B', "BC", "", ""),
            set('C', "BC", "", ""),
        ],
        legacy: Some("ABC"),
        taken: "ABC",
        refused: "",
    },
    RoleCase {
        number: 10,
        announcements: &["A{M A, m B}", "B{M A, m B}"],
        sets: &[set('A', "AB", "", ""), set('B', "AB", "", "")],
        legacy: None,
        taken: "AB",
        refused: "C",
    },
    RoleCase {
        number: 11,
        announcements: &["A{M A}", "B{M A, m B}"],
        sets: &[set('A', "A", "", ""), set('B', "A", "", "")],
        legacy: None,
        taken: "A",
        refused: "BC",
    },
    RoleCase {
        number: 12,
        announcements: &["A{M A, m B}", "B{M A, m B 100 200}"],
        sets: &[set('A', "A", "", ""), set('B', "A", "", "")],
        legacy: None,
        taken: "A",
        refused: "BC",
    },
    RoleCase {
        number: 13,
        announcements: &["A{M A, m B 0 1700000000}", "B{M A, m B}"],
        sets: &[set('A', "A", "", ""), set('B', "A", "", "")],
        legacy: None,
        taken: "A",
        refused: "BC",
    },
    RoleCase {
        number: 14,
        announcements: &["A{M A, m B 100 200 300}", "B{M A, m B}"],
        sets: &[set('A', "AB", "", ""), set('B', "AB", "", "")],
        legacy: None,
        taken: "AB",
        refused: "C",
    },
    RoleCase {
        number: 15,
        announcements: &["A{M A, m B 100 defer}", "B{M A}"],
        sets: &[set('A', "A", "", ""), set('B', "A", "", "")],
        legacy: None,
        taken: "A",
        refused: "BC",
    },
    RoleCase {
        number: 16,
        announcements: &["A{m A 100 200}"],
        sets: &[set('A', "", "", "Inactive")],
        legacy: None,
        taken: "",
        refused: "AB",
    },
    RoleCase {
        number: 17,
        announcements: &["B{M A}"],
        sets: &[set('B', "", "", "LeadMissing")],
        legacy: None,
        taken: "",
        refused: "AB",
    },
    RoleCase {
        number: 18,
        announcements: &["A:", "B{M A}"],
        sets: &[set('A', "A", "", ""), set('B', "", "", "Incomplete")],
        legacy: None,
        taken: "A",
        refused: "BC",
    },
    RoleCase {
        number: 19,
        announcements: &["A{M A, M B}", "B{M B}"],
        sets: &[set('A', "", "", "Ambiguous"), set('B', "B", "", "")],
        legacy: None,
        taken: "B",
        refused: "AC",
    },
    RoleCase {
        number: 20,
        announcements: &["A{M B}", "B{M A}"],
        sets: &[set('A', "", "", "Cycle"), set('B', "", "", "Cycle")],
        legacy: None,
        taken: "",
        refused: "ABC",
    },
    RoleCase {
        number: 21,
        announcements: &["A{M B}", "B{M C}", "C{M C, m A, m B}"],
        sets: &[
            set('A', "ABC", "", ""),
            set('B', "ABC", "", ""),
            set('C', "ABC", "", ""),
        ],
        legacy: None,
        taken: "ABC",
        refused: "",
    },
    RoleCase {
        number: 22,
        announcements: &["A{m A, m B}", "B{m B, m A}"],
        sets: &[set('A', "AB", "", ""), set('B', "AB", "", "")],
        legacy: None,
        taken: "AB",
        refused: "C",
    },
    RoleCase {
        number: 23,
        announcements: &["A{M A, o B}", "B:[A]"],
        sets: &[set('A', "A", "", ""), set('B', "B", "A", "")],
        legacy: None,
        taken: "AB",
        refused: "C",
    },
    RoleCase {
        number: 24,
        announcements: &["A:[B]+o C", "B:[A]"],
        sets: &[set('A', "A", "", ""), set('B', "B", "A", "")],
        legacy: Some("AB"),
        taken: "AB",
        refused: "C",
    },
    RoleCase {
        number: 25,
        announcements: &["A{o A}"],
        sets: &[set('A', "", "", "Inactive")],
        legacy: None,
        taken: "",
        refused: "AB",
    },
    RoleCase {
        number: 26,
        announcements: &["A{M A, m B}", "B:[A]+u A"],
        sets: &[set('A', "AB", "", ""), set('B', "AB", "", "")],
        legacy: None,
        taken: "AB",
        refused: "C",
    },
    RoleCase {
        number: 27,
        announcements: &["A{M A, M A 100}", "B{M A}"],
        sets: &[set('A', "A", "", ""), set('B', "A", "", "")],
        legacy: None,
        taken: "A",
        refused: "BC",
    },
    RoleCase {
        number: 28,
        announcements: &["A:[B]+M"],
        sets: &[set('A', "A", "", "")],
        legacy: Some("AB"),
        taken: "A",
        refused: "BC",
    },
];
