//! Worked cases of roles, and announcements written in their short form.
//!
//! `A:[B,C]` is A's announcement with these maintainers, `A:` one without a list, `A{M A, m B 100 200}`
//! one with role tags; `+` begins role tags beside a list.

use crate::events::{Tags, tag};

/// One case: what is announced under one identifier, and what follows from it.
#[derive(Debug)]
pub struct RoleCase {
    pub number: u8,
    pub announcements: Vec<&'static str>,
    pub sets: Vec<RoleSet>,
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

/// The table of the specification (G01-68 … G01-76): the announcements; the set of each owner, as `A=AB` with
/// members, `A=A?B` with B invited too, `A!Cycle` for nobody and why; the set of A by the legacy rule, `-` where
/// it is the same in kind; whose states are taken, and whose refused. In case 7, B answers under another
/// identifier.
const TABLE: &str = "\
 1 | A:                                    | A=A               | A   | A   | B
 2 | B:                                    | A!Missing         |     | B   | A
 3 | A:[B]                                 | A=A?B             | AB  | A   | C
 4 | A:[B]; B:[A]                          | A=AB B=AB         | AB  | AB  | C
 5 | A:[B]; B:                             | A=A?B B=B         | AB  | AB  | C
 6 | A:[B]; B:[C]                          | A=A?B             | ABC | AB  |
 7 | A:[B]                                 | A=A?B             | AB  | A   | C
 8 | A:[B]; B:[A,C]; C:[B]                 | A=ABC             | ABC | ABC |
 9 | A:[B]; B:[C]; C:[B]                   | A=A?B B=BC C=BC   | ABC | ABC |
10 | A{M A, m B}; B{M A, m B}              | A=AB B=AB         | -   | AB  | C
11 | A{M A}; B{M A, m B}                   | A=A B=A           | -   | A   | BC
12 | A{M A, m B}; B{M A, m B 100 200}      | A=A B=A           | -   | A   | BC
13 | A{M A, m B 0 1700000000}; B{M A, m B} | A=A B=A           | -   | A   | BC
14 | A{M A, m B 100 200 300}; B{M A, m B}  | A=AB B=AB         | -   | AB  | C
15 | A{M A, m B 100 defer}; B{M A}         | A=A B=A           | -   | A   | BC
16 | A{m A 100 200}                        | A!Inactive        | -   |     | AB
17 | B{M A}                                | B!LeadMissing     | -   |     | AB
18 | A:; B{M A}                            | A=A B!Incomplete  | -   | A   | BC
19 | A{M A, M B}; B{M B}                   | A!Ambiguous B=B   | -   | B   | AC
20 | A{M B}; B{M A}                        | A!Cycle B!Cycle   | -   |     | ABC
21 | A{M B}; B{M C}; C{M C, m A, m B}      | A=ABC B=ABC C=ABC | -   | ABC |
22 | A{m A, m B}; B{m B, m A}              | A=AB B=AB         | -   | AB  | C
23 | A{M A, o B}; B:[A]                    | A=A B=B?A         | -   | AB  | C
24 | A:[B]+o C; B:[A]                      | A=A B=B?A         | AB  | AB  | C
25 | A{o A}                                | A!Inactive        | -   |     | AB
26 | A{M A, m B}; B:[A]+u A                | A=AB B=AB         | -   | AB  | C
27 | A{M A, M A 100}; B{M A}               | A=A B=A           | -   | A   | BC
28 | A:[B]+M                               | A=A               | AB  | A   | BC";

/// The cases of the table.
pub fn role_cases() -> Vec<RoleCase> {
    TABLE.lines().map(RoleCase::read).collect()
}

impl RoleCase {
    fn read(row: &'static str) -> Self {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let [number, announcements, sets, legacy, taken, refused] = columns[..] else {
            panic!("six columns: {row}");
        };
        Self {
            number: number.parse().expect("a number"),
            announcements: announcements.split("; ").collect(),
            sets: sets.split(' ').map(RoleSet::read).collect(),
            legacy: (legacy != "-").then_some(legacy),
            taken,
            refused,
        }
    }
}

impl RoleSet {
    fn read(text: &'static str) -> Self {
        let (owner, rest) = text.split_at(1);
        let (members, why) = rest.split_once('!').unwrap_or((&rest[1..], ""));
        let (members, invited) = members.split_once('?').unwrap_or((members, ""));
        Self {
            owner: owner.chars().next().expect("an owner"),
            members,
            invited,
            why,
        }
    }
}
