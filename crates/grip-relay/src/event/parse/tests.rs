use grip_nostr::Event;
use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Kind, Tag};
use proptest::prelude::*;
use serde_json::json;

use super::parse;

fn signed(kind: u16, content: &str, tags: Vec<Vec<String>>) -> Event {
    let tags = tags.into_iter().map(|tag| Tag::parse(tag).unwrap());
    EventBuilder::new(Kind::from(kind), content)
        .tags(tags)
        .finalize(&Keys::generate())
        .unwrap()
}

fn message(event: &Event) -> String {
    json!(["EVENT", event]).to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn relay_1_what_was_signed_is_what_is_read(
        kind in any::<u16>(),
        content in any::<String>(),
        tags in proptest::collection::vec(proptest::collection::vec(any::<String>(), 1..4), 0..5),
    ) {
        let event = signed(kind, &content, tags);
        let read = parse(message(&event).as_bytes(), 10).unwrap();
        prop_assert_eq!(&read, &event);
        prop_assert!(read.verify().is_ok());
        prop_assert_eq!(read.as_json(), event.as_json());
    }
}

#[test]
fn relay_2_an_event_message_holds_one_event() {
    let event = message(&signed(1, "x", Vec::new()));
    assert!(parse(event.as_bytes(), 10).is_ok());
    let two = event.replace("}]", "},1]");
    let after = format!("{event} 1");
    for bad in ["[\"EVENT\"]", "[]", &two, &after] {
        assert!(parse(bad.as_bytes(), 10).is_err(), "{bad}");
    }
}

#[test]
fn a_flood_of_tags_is_cut_short() {
    let tags = vec![vec!["t".to_owned()]; 11];
    let error = parse(message(&signed(1, "", tags)).as_bytes(), 10).unwrap_err();
    assert!(
        error.to_string().starts_with("more than 10 tags"),
        "{error}"
    );
}
