//! Filters over several indexes at once.

use std::ops::ControlFlow;

use grip_nostr::Filter;
use grip_store::{Progress, Query};
use nostr::prelude::EventId;

use crate::support::*;

/// Ten events: kinds 1 and 2, two authors, times 1 to 10, `#t` every second, `#a` every third.
fn ten() -> Fixture {
    let store = Fixture::new();
    for number in 1..=10_u8 {
        let author = if number <= 5 { ALICE } else { BOB };
        let mut tags: Vec<&[&str]> = Vec::new();
        if number % 2 == 0 {
            tags.push(&["t", "even"]);
        }
        if number % 3 == 0 {
            tags.extend([&["a", "three"][..], &["a", "drei"]]);
        }
        let kind = 1 + u16::from(number % 2);
        store.put(&event(number, author, kind, u64::from(number), &tags));
    }
    store
}

fn hex(author: u8) -> String {
    key(author).to_hex()
}

#[test]
fn every_sort_of_condition_answers_newest_first() {
    let store = ten();
    let (alice, bob) = (hex(ALICE), hex(BOB));
    for (json, expected) in [
        ("{}".to_owned(), vec![10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (r##"{"since":3,"until":5}"##.into(), vec![5, 4, 3]),
        (r##"{"kinds":[1],"limit":2}"##.into(), vec![10, 8]),
        (
            r##"{"kinds":[1,2],"until":4,"limit":3}"##.into(),
            vec![4, 3, 2],
        ),
        (
            format!(r##"{{"authors":["{alice}"]}}"##),
            vec![5, 4, 3, 2, 1],
        ),
        (
            format!(r##"{{"authors":["{alice}","{bob}"],"kinds":[2],"since":4}}"##),
            vec![9, 7, 5],
        ),
        (r##"{"#t":["even"],"limit":2}"##.into(), vec![10, 8]),
        (r##"{"#a":["three","drei"]}"##.into(), vec![9, 6, 3]),
        (r##"{"#a":["three"],"#t":["even","odd"]}"##.into(), vec![6]),
        (r##"{"#a":["three"],"kinds":[2]}"##.into(), vec![9, 3]),
        (
            format!(r##"{{"#a":["drei"],"authors":["{alice}"]}}"##),
            vec![3],
        ),
        (
            format!(r##"{{"#t":["even"],"authors":["{bob}"]}}"##),
            vec![10, 8, 6],
        ),
        (
            format!(r##"{{"ids":["{}","{}","{}"]}}"##, id(2), id(7), id(99)),
            vec![7, 2],
        ),
        (
            format!(r##"{{"ids":["{}","{}"],"#t":["even"]}}"##, id(2), id(7)),
            vec![2],
        ),
        (
            format!(r##"{{"ids":["{}","{}"],"since":3}}"##, id(2), id(7)),
            vec![7],
        ),
        (
            format!(r##"{{"ids":["{}","{}"],"limit":1}}"##, id(2), id(7)),
            vec![7],
        ),
        (r##"{"limit":0}"##.into(), vec![]),
        (r##"{"kinds":[]}"##.into(), vec![]),
        (r##"{"#t":[]}"##.into(), vec![]),
        (r##"{"#T":["even"]}"##.into(), vec![]),
        (r##"{"since":6,"until":5}"##.into(), vec![]),
        (r##"{"kinds":[7]}"##.into(), vec![]),
    ] {
        assert_eq!(store.numbers(&[filter(&json)]), expected, "{json}");
    }
}

#[test]
fn several_filters_give_each_event_once_in_one_order() {
    let store = ten();
    let filters = [
        filter(r##"{"kinds":[1],"limit":2}"##),
        filter(r##"{"#a":["three"]}"##),
        filter(r##"{"until":2}"##),
        filter(r##"{"limit":0}"##),
    ];
    assert_eq!(store.numbers(&filters), [10, 9, 8, 6, 3, 2, 1]);
    assert_eq!(
        store.count(&filters[..3], NOW),
        8,
        "limits play no part in a count"
    );
}

#[test]
fn an_event_that_two_filters_match_uses_up_the_limit_of_both() {
    let store = ten();
    let filters = [
        filter(r##"{"limit":3}"##),
        filter(r##"{"kinds":[1],"limit":2}"##),
    ];
    assert_eq!(store.numbers(&filters), [10, 9, 8]);
}

#[test]
fn limits_default_and_clamp() {
    let store = ten();
    let view = store.store.read().unwrap();
    let count = |json: &str| {
        let limits = grip_store::Limits {
            default_limit: 2,
            max_limit: 4,
        };
        let mut count = 0;
        view.query(&[filter(json)], limits, NOW, &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        count
    };
    assert_eq!(count("{}"), 2);
    assert_eq!(count(r##"{"limit":3}"##), 3);
    assert_eq!(count(r##"{"limit":99}"##), 4);
}

#[test]
fn the_reader_can_break_off() {
    let store = ten();
    let view = store.store.read().unwrap();
    let mut seen = 0;
    view.query(&[Filter::default()], LIMITS, NOW, &mut |_| {
        seen += 1;
        if seen == 3 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .unwrap();
    assert_eq!(seen, 3);
}

#[test]
fn ties_come_lowest_id_first_from_every_index() {
    let store = Fixture::new();
    for number in [3, 1, 4, 2] {
        store.put(&event(
            number,
            ALICE,
            u16::from(number % 2),
            10,
            &[&["t", "x"], &["t", "y"]],
        ));
    }
    for json in [
        "{}",
        r##"{"#t":["x","y"]}"##,
        r##"{"kinds":[0,1]}"##,
        &format!(r##"{{"authors":["{}"],"kinds":[0,1]}}"##, hex(ALICE)),
    ] {
        // Kind 0 is replaceable: of 4 and 2 the lower id stayed.
        assert_eq!(store.numbers(&[filter(json)]), [1, 2, 3], "{json}");
    }
}

#[test]
fn times_at_both_ends_of_the_scale_are_ordered_and_found() {
    let store = Fixture::new();
    for (number, at) in [(1, 0), (2, u64::MAX), (3, 1)] {
        store.put(&event(number, ALICE, 1, at, &[]));
    }
    assert_eq!(store.all(), [2, 3, 1]);
    let until = Filter {
        until: Some(0),
        ..Filter::default()
    };
    assert_eq!(store.numbers(&[until]), [1]);
    let since = Filter {
        since: Some(u64::MAX),
        ..Filter::default()
    };
    assert_eq!(store.numbers(&[since]), [2]);
}

#[test]
fn long_values_are_matched_whole() {
    let store = Fixture::new();
    let long = "v".repeat(2_000);
    let other = format!("{long}!");
    store.put(&event(1, ALICE, 1, 10, &[&["r", &long]]));
    store.put(&event(2, ALICE, 1, 10, &[&["r", &other]]));
    assert_eq!(
        store.numbers(&[filter(&format!(r##"{{"#r":["{long}"]}}"##))]),
        [1]
    );
}

#[test]
fn only_the_first_value_of_single_letter_tags_is_searched() {
    let store = Fixture::new();
    store.put(&event(
        1,
        ALICE,
        1,
        10,
        &[
            &["t", "first", "second"],
            &["tt", "third"],
            &["t"],
            &["x", ""],
        ],
    ));
    assert_eq!(store.numbers(&[filter(r##"{"#t":["first"]}"##)]), [1]);
    assert_eq!(store.numbers(&[filter(r##"{"#x":[""]}"##)]), [1]);
    for value in ["second", "third", ""] {
        assert!(
            store
                .numbers(&[filter(&format!(r##"{{"#t":["{value}"]}}"##))])
                .is_empty()
        );
    }
}

#[test]
fn filters_with_more_values_than_cursors_find_the_same() {
    let store = ten();
    let many = |present: Vec<[u8; 32]>| {
        let absent = (0..5_000_u32).map(|n| {
            let mut item = [0; 32];
            item[..4].copy_from_slice(&n.to_be_bytes());
            item
        });
        let mut all: Vec<[u8; 32]> = absent.chain(present).collect();
        all.sort_unstable();
        all
    };
    let by_author = Filter {
        authors: Some(many(vec![[ALICE; 32]])),
        ..Filter::default()
    };
    assert_eq!(
        store.numbers(std::slice::from_ref(&by_author)),
        [5, 4, 3, 2, 1]
    );
    let by_kind = Filter {
        kinds: Some((0..5_000).collect()),
        ..Filter::default()
    };
    assert_eq!(store.numbers(&[by_author.clone(), by_kind]).len(), 10);
    let mut words: Vec<String> = (0..5_000).map(|n| format!("word {n}")).collect();
    words.push("even".to_owned());
    words.sort_unstable();
    let by_tag = Filter {
        tags: [('t', words)].into(),
        ..by_author
    };
    assert_eq!(store.numbers(&[by_tag]), [4, 2]);
}

#[test]
fn items_name_time_and_id_and_a_limit_keeps_the_newest() {
    let store = ten();
    let even = filter(r##"{"#t":["even"]}"##);
    let items = store.run(Query::of_set(even.clone()), NOW, u64::MAX);
    let expected: Vec<(u64, [u8; 32])> = [10, 8, 6, 4, 2].map(|n| (u64::from(n), [n; 32])).to_vec();
    assert_eq!(items, expected);
    let newest = Filter {
        limit: Some(2),
        ..even
    };
    assert_eq!(store.run(Query::of_set(newest), NOW, 1), expected[..2]);
}

/// What the whole query costs.
fn steps(store: &Fixture, json: &str) -> u64 {
    let mut query = Query::of_all(vec![filter(json)]);
    let view = store.store.read().unwrap();
    query.run(&view, NOW, u64::MAX, &mut |_| Ok(true)).unwrap();
    query.steps()
}

#[test]
fn the_condition_with_fewest_entries_picks_the_index() {
    let store = Fixture::new();
    let alice = hex(ALICE);
    store
        .store
        .write(|view| {
            for number in 0..3_000_u16 {
                let mut id = [9; 32];
                id[..2].copy_from_slice(&number.to_be_bytes());
                let rare = number % 1_000 == 7;
                let author = if rare { ALICE } else { BOB };
                let kind = if rare { 1_621 } else { 1 };
                let tags: &[&[&str]] = if rare {
                    &[&["a", "popular"], &["t", "rare"]]
                } else {
                    &[&["a", "popular"], &["t", "common"]]
                };
                let mut event = event(1, author, kind, u64::from(number), tags);
                event.id = EventId::from_byte_array(id);
                view.put(&event, NOW)?;
            }
            Ok(())
        })
        .unwrap();
    // A few thousand entries stand behind `popular`, three behind the other condition.
    for other in [
        r##""#t":["rare"]"##.to_owned(),
        format!(r##""authors":["{alice}"]"##),
        r##""kinds":[1621]"##.to_owned(),
        r##""#x":["absent"]"##.to_owned(),
    ] {
        let cost = steps(&store, &format!(r##"{{"#a":["popular"],{other}}}"##));
        assert!(cost < 200, "{other}: {cost} steps");
    }
    assert!(steps(&store, r##"{"#a":["popular"]}"##) >= 3_000);
}

#[test]
fn a_slice_looks_at_no_more_than_it_may() {
    let store = Fixture::new();
    store
        .store
        .write(|view| {
            for number in 0..2_000_u16 {
                let mut event = event(1, ALICE, 1, u64::from(number), &[]);
                let mut id = [9; 32];
                id[..2].copy_from_slice(&number.to_be_bytes());
                event.id = EventId::from_byte_array(id);
                view.put(&event, NOW)?;
            }
            Ok(())
        })
        .unwrap();
    // Nothing matches, so that all of it is work without an answer.
    let mut query = Query::new(
        vec![filter(r##"{"since":0,"#t":["absent"],"authors":[]}"##)],
        LIMITS,
    );
    assert_eq!(
        query
            .run(&store.store.read().unwrap(), NOW, 10, &mut |_| Ok(true))
            .unwrap(),
        Progress::Done,
        "a filter that matches nothing costs nothing"
    );
    let mut query = Query::of_all(vec![filter("{}")]);
    let mut slices = 0;
    loop {
        let before = query.steps();
        let view = store.store.read().unwrap();
        let progress = query.run(&view, NOW, 100, &mut |_| Ok(true)).unwrap();
        slices += 1;
        assert!(query.steps() - before <= 101);
        if progress == Progress::Done {
            break;
        }
    }
    assert!((20..=22).contains(&slices), "{slices}");

    // So are ids that are looked up.
    let many = (0..2_000_u32).map(|n| format!("\"{n:064x}\""));
    let many = many.collect::<Vec<_>>().join(",");
    let mut query = Query::of_all(vec![filter(&format!(r##"{{"ids":[{many}]}}"##))]);
    let view = store.store.read().unwrap();
    let progress = query.run(&view, NOW, 100, &mut |_| Ok(true)).unwrap();
    assert_eq!((progress, query.steps()), (Progress::More, 100));
}

#[test]
fn an_author_of_very_many_kinds_is_found_whole() {
    let store = Fixture::new();
    let kinds = 1_000..6_000_u16;
    store
        .store
        .write(|view| {
            for kind in kinds.clone() {
                let mut event = event(1, ALICE, kind, u64::from(kind), &[]);
                let mut id = [1; 32];
                id[..2].copy_from_slice(&kind.to_be_bytes());
                event.id = EventId::from_byte_array(id);
                view.put(&event, NOW)?;
            }
            view.put(&event(2, BOB, 5_999, 9_999, &[]), NOW)
        })
        .unwrap();
    let count = |json: &str| store.count(&[filter(json)], NOW);
    let alice = hex(ALICE);
    assert_eq!(count(&format!(r##"{{"authors":["{alice}"]}}"##)), 5_000);
    let last: Vec<u16> = (5_980..6_100).collect();
    let json = format!(r##"{{"authors":["{alice}"],"kinds":{last:?}}}"##);
    assert_eq!(count(&json), 20);
}
