use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Timestamp};
use serde_json::json;

use super::*;

#[test]
fn relay_2_the_claimed_id_survives_what_makes_an_event_unreadable() {
    let event = EventBuilder::new(Kind::from(1), "x")
        .finalize(&Keys::generate())
        .unwrap();
    let text = json!(["EVENT", event]).to_string();
    for broken in [
        text.replace("\"x\"", "\"\\ud800\""),
        text.replace("\"x\"", "1e400"),
        text.replace("\"x\"", "[[[[]]]]"),
        text.replace("}]", "},{}]"),
    ] {
        let Checked::Refused {
            id, event: None, ..
        } = check(broken.as_bytes(), &Limits::default(), Timestamp::now())
        else {
            panic!("refused with its id: {broken}");
        };
        assert_eq!(id, event.id.to_hex());
    }
    for hopeless in [text.replace("\"id\"", "\"di\""), text.replace("}]", "")] {
        let checked = check(hopeless.as_bytes(), &Limits::default(), Timestamp::now());
        assert!(matches!(checked, Checked::Unreadable(_)), "{hopeless}");
    }
}

#[test]
fn an_event_refers_to_so_many_others_and_no_more_however_often_it_names_them() {
    let limits = Limits::default();
    let answer_to = |distinct: usize| {
        let tags = (0..distinct).chain(0..distinct).map(|n| {
            let id = format!("{n:064x}");
            nostr::prelude::Tag::parse(["e", &id]).unwrap()
        });
        let event = EventBuilder::new(Kind::from(1111), "").tags(tags);
        let event = event.finalize(&Keys::generate()).unwrap();
        let text = json!(["EVENT", event]).to_string();
        match check(text.as_bytes(), &limits, Timestamp::now()) {
            Checked::Event(_) => None,
            Checked::Refused { answer, .. } => Some(answer.message),
            Checked::Unreadable(text) => Some(text),
        }
    };
    assert_eq!(answer_to(limits.references), None);
    let refusal = answer_to(limits.references + 1).unwrap();
    assert!(
        refusal.starts_with("invalid: ") && refusal.contains("500"),
        "{refusal}"
    );
}
