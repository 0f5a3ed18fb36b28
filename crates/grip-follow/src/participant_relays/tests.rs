use grip_nostr::RepoAddr;
use grip_types::Identifier;
use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Kind, Tag};

use super::*;
use crate::targets::TakenPart;

fn url(text: &str) -> RelayUrl {
    RelayUrl::parse(text).unwrap()
}

fn list(tags: &[&[&str]]) -> RelayList {
    let tags = tags
        .iter()
        .map(|tag| Tag::parse(tag.iter().copied()).unwrap());
    let event = EventBuilder::new(Kind::from(10002), "").tags(tags);
    let event = event.finalize(&Keys::generate()).unwrap();
    RelayList::read(&event, |url| !url.as_str().contains("forbidden"))
}

/// An author of an issue, one who answered, and an owner.
fn scene() -> (Participants, [PublicKey; 3], EventId) {
    let [author, other, owner] = [(); 3].map(|()| Keys::generate().public_key());
    let root = EventId::from_byte_array([7; 32]);
    let mut participants = Participants::default();
    let taken = |author, is_its_author| TakenPart {
        author,
        root,
        is_its_author,
    };
    participants.add_threads(
        &owner,
        &Threads {
            participants: vec![taken(author, true), taken(other, false)],
            ..Threads::default()
        },
    );
    participants.add_members(&FollowedRepository {
        addr: RepoAddr::new(owner, Identifier::parse("tides").unwrap()),
        is_served: true,
        members: vec![owner],
        relays: Vec::new(),
        relays_of_invited: Vec::new(),
        clones: Vec::new(),
        state: None,
    });
    (participants, [author, other, owner], root)
}

fn options() -> PlusOptions {
    PlusOptions {
        index_relays: vec![url("wss://index.example")],
        fallback_relays: vec![url("wss://fallback.example")],
    }
}

fn classes(wishes: &[(RelayUrl, Plan)], of: &str) -> Option<Vec<Class>> {
    let (_, plan) = wishes.iter().find(|(relay, _)| relay.as_str() == of)?;
    Some(plan.values.keys().copied().collect())
}

#[test]
fn g03_7_four_relays_of_a_list_count_in_its_order_for_each_purpose() {
    let read = list(&[
        &["r", "wss://a.example", "write"],
        &["r", "wss://forbidden.example"],
        &["r", "no address"],
        &["r", "wss://b.example"],
        &["r", "wss://b.example/"],
        &["r", "wss://c.example", "read"],
        &["r", "wss://d.example", "whatever"],
        &["r", "wss://e.example"],
        &["r", "wss://f.example"],
        &["r", "wss://g.example"],
    ]);
    let of = |names: &[&str]| -> Vec<RelayUrl> {
        names
            .iter()
            .map(|name| url(&format!("wss://{name}.example")))
            .collect()
    };
    assert_eq!(read.write, of(&["a", "b", "e", "f"]));
    assert_eq!(read.read, of(&["b", "c", "e", "f"]));
}

/// All of them but generated words (docs/decisions/0112).
#[test]
fn g03_9_a_trap_is_left_out_and_the_rest_of_the_list_stays() {
    let key = format!("wss://a.example/{}", "ab".repeat(32));
    let long = format!("wss://a.example/{}", "x".repeat(2_048));
    let read = list(&[
        &["r", &key],
        &["r", &long],
        &["r", "wss://a.example/a.example"],
        &["r", "wss://user@a.example"],
        &["r", "https://a.example"],
        &["r", "wss://a.example/inbox"],
    ]);
    assert_eq!(read.write, [url("wss://a.example/inbox")]);
}

/// G03-6: lists are looked up at the index, by at most a hundred authors a filter.
#[test]
fn g03_2_write_relays_are_asked_for_what_tags_the_issue_and_read_relays_of_its_author_too() {
    let (participants, [author, other, owner], root) = scene();
    let list_of = |key: &PublicKey| {
        let [write, read] = match key {
            key if *key == author => ["wss://aw.example", "wss://ar.example"],
            key if *key == other => ["wss://ow.example", "wss://or.example"],
            key if *key == owner => ["wss://mw.example", "wss://mr.example"],
            _ => unreachable!(),
        };
        Some(list(&[&["r", write, "write"], &["r", read, "read"]]))
    };
    let wishes = wishes(&participants, &options(), &[], list_of, &HashSet::new());
    let threads = [Class::Event, Class::RootEvent, Class::Quote];
    let with_profile = [
        Class::Event,
        Class::RootEvent,
        Class::Quote,
        Class::Profiles,
    ];
    assert_eq!(classes(&wishes, "wss://aw.example").unwrap(), with_profile);
    assert_eq!(classes(&wishes, "wss://ar.example").unwrap(), threads);
    assert_eq!(classes(&wishes, "wss://ow.example").unwrap(), with_profile);
    assert_eq!(classes(&wishes, "wss://or.example"), None);
    let repository = [Class::Address, Class::RootAddress, Class::Quote];
    assert_eq!(classes(&wishes, "wss://mr.example").unwrap(), repository);
    assert_eq!(
        classes(&wishes, "wss://mw.example").unwrap(),
        [Class::Profiles]
    );
    // Everybody's list is looked up at the index (G03-6), by at most a hundred authors a filter.
    let (_, index) = &wishes[0];
    assert_eq!(index.values[&Class::Profiles].len(), 3);
    assert_eq!(
        Class::Profiles
            .filter(index.values[&Class::Profiles].iter())
            .kinds
            .unwrap(),
        [0, 10_002, 10_317]
    );
    let value: Arc<str> = root.to_hex().into();
    assert!(
        wishes
            .iter()
            .any(|(_, plan)| plan.contains(Class::RootEvent, &value))
    );
}

#[test]
fn g03_8_fallback_relays_are_asked_only_where_a_look_found_no_list() {
    let (participants, [author, ..], _) = scene();
    let none = |_: &PublicKey| None;
    let before = wishes(&participants, &options(), &[], none, &HashSet::new());
    assert_eq!(classes(&before, "wss://fallback.example"), None);
    let asked = HashSet::from([Arc::from(author.to_hex())]);
    let after = wishes(&participants, &options(), &[], none, &asked);
    let (_, plan) = after
        .iter()
        .find(|(url, _)| url.as_str().contains("fallback"))
        .unwrap();
    assert_eq!(plan.values[&Class::Profiles].len(), 1);
}

#[test]
fn g03_10_relays_of_lists_are_few_and_those_of_most_authors() {
    let mut participants = Participants::default();
    let root = EventId::from_byte_array([7; 32]);
    let authors: Vec<PublicKey> = (0..40).map(|_| Keys::generate().public_key()).collect();
    let owner = authors[0];
    participants.add_threads(
        &owner,
        &Threads {
            participants: authors
                .iter()
                .map(|author| TakenPart {
                    author: *author,
                    root,
                    is_its_author: false,
                })
                .collect(),
            ..Threads::default()
        },
    );
    let list_of = |key: &PublicKey| {
        let own = format!("wss://{}.example", &key.to_hex()[..20]);
        Some(list(&[&["r", &own], &["r", "wss://common.example"]]))
    };
    let wishes = wishes(
        &participants,
        &PlusOptions::default(),
        &[],
        list_of,
        &HashSet::new(),
    );
    assert_eq!(wishes.len(), MAX_RELAYS);
    assert_eq!(wishes[0].0.as_str(), "wss://common.example");
}

#[test]
fn a_crowd_in_one_repository_leaves_room_for_the_people_of_others() {
    let mut participants = Participants::default();
    let root = EventId::from_byte_array([7; 32]);
    let crowd = |count: u16, salt: u8| Threads {
        participants: (0..count)
            .map(|n| {
                let mut key = [salt; 32];
                key[..2].copy_from_slice(&n.to_be_bytes());
                TakenPart {
                    author: PublicKey::from_byte_array(key),
                    root,
                    is_its_author: false,
                }
            })
            .collect(),
        ..Threads::default()
    };
    let [spammer, honest] = [(); 2].map(|()| Keys::generate().public_key());
    participants.add_threads(&spammer, &crowd(60_000, 1));
    participants.add_threads(&honest, &crowd(3, 2));
    assert_eq!(participants.parts.len(), MAX_BY_ONE + 3);
}

#[test]
fn a_crowd_with_relays_of_its_own_leaves_the_places_of_others() {
    let mut participants = Participants::default();
    let root = EventId::from_byte_array([7; 32]);
    let [spammer, honest] = [(); 2].map(|()| Keys::generate().public_key());
    let crowd: Vec<PublicKey> = (0..400_u16)
        .map(|n| {
            let mut key = [1; 32];
            key[..2].copy_from_slice(&n.to_be_bytes());
            PublicKey::from_byte_array(key)
        })
        .collect();
    let author = Keys::generate().public_key();
    for (owner, authors) in [(spammer, &crowd[..]), (honest, &[author])] {
        let participants_of = |author: &PublicKey| TakenPart {
            author: *author,
            root,
            is_its_author: false,
        };
        let threads = Threads {
            participants: authors.iter().map(participants_of).collect(),
            ..Threads::default()
        };
        participants.add_threads(&owner, &threads);
    }
    assert!(participants.has_room(&honest));
    // Ten of the crowd name each of forty relays; one person names one.
    let list_of = |key: &PublicKey| {
        let name = if *key == author {
            "wss://honest.example".to_owned()
        } else {
            format!("wss://crowd{}.example", key.to_bytes()[1] % 40)
        };
        Some(list(&[&["r", &name]]))
    };
    let options = PlusOptions::default();
    let wishes = wishes(&participants, &options, &[], list_of, &HashSet::new());
    assert_eq!(wishes.len(), MAX_RELAYS);
    assert_eq!(wishes[0].0.as_str(), "wss://honest.example");
    participants.add_threads(&spammer, &{
        let more = (0..600_u16).map(|n| {
            let mut key = [2; 32];
            key[..2].copy_from_slice(&n.to_be_bytes());
            TakenPart {
                author: PublicKey::from_byte_array(key),
                root,
                is_its_author: false,
            }
        });
        Threads {
            participants: more.collect(),
            ..Threads::default()
        }
    });
    assert!(!participants.has_room(&spammer) && participants.has_room(&honest));
}

#[test]
fn g03_12_a_newer_list_replaces_the_relays_of_the_older() {
    let (participants, ..) = scene();
    let named = |by: &str| {
        let url = format!("wss://{by}.example");
        let list_of = |_: &PublicKey| Some(list(&[&["r", &url]]));
        let options = PlusOptions::default();
        wishes(&participants, &options, &[], list_of, &HashSet::new())
    };
    let [older, newer] = ["older", "newer"].map(named);
    assert!(classes(&older, "wss://older.example").is_some());
    assert!(classes(&newer, "wss://newer.example").is_some());
    assert_eq!(classes(&newer, "wss://older.example"), None);
}
