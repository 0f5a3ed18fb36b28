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
