use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::event::{Checked, check};

fn parsed(text: &str) -> Result<Message, Value> {
    let refusal = |Refusal { frame, .. }| serde_json::from_slice(&frame).unwrap();
    parse(text.as_bytes(), &Limits::default()).map_err(refusal)
}

#[test]
fn relay_2_text_that_is_no_message_gets_a_notice() {
    for bad in [
        "",
        "hello",
        "{}",
        "[]",
        "[1]",
        "[null, \"x\"]",
        "[\"REQ\"",
        "[\"SING\"]",
        "[\"REQ\"]",
        "[\"REQ\", 1, {}]",
        "[\"CLOSE\"]",
        "[\"COUNT\", {}]",
        "[\"NEG-OPEN\"]",
        "[\"NEG-MSG\", null]",
        "[\"CLOSE\", \"a\"] x",
    ] {
        let answer = parsed(bad).unwrap_err();
        assert_eq!(answer[0], "NOTICE", "{bad}");
        let text = answer[1].as_str().unwrap();
        assert!(text.starts_with("invalid:"), "{bad}: {text}");
    }
}

#[test]
fn relay_2_a_subscription_id_has_1_to_250_characters() {
    let with = |sub: &str| parsed(&json!(["REQ", sub, {}]).to_string());
    assert!(with("a").is_ok() && with(&"ü".repeat(250)).is_ok());
    for bad in [String::new(), "ü".repeat(251)] {
        let answer = with(&bad).unwrap_err();
        assert_eq!((&answer[0], &answer[1]), (&json!("CLOSED"), &json!(bad)));
        assert!(answer[2].as_str().unwrap().starts_with("invalid:"));
    }
    // Not worth sending back.
    assert_eq!(with(&"a".repeat(10_000)).unwrap_err()[0], "NOTICE");
}

#[test]
fn relay_3_filters_that_are_not_understood_close_the_subscription() {
    for (filters, prefix) in [
        (json!([]), "invalid:"),
        (json!([1]), "invalid:"),
        (json!([{"ids": ["abc"]}]), "invalid:"),
        (json!([{}, {"search": "x"}]), "unsupported:"),
        (json!([{"#clone": ["x"]}]), "unsupported:"),
        (
            json!(vec![json!({}); 201]),
            "invalid: more than 200 filters",
        ),
    ] {
        for label in ["REQ", "COUNT"] {
            let mut message = vec![json!(label), json!("s")];
            message.extend(filters.as_array().unwrap().iter().cloned());
            let answer = parsed(&json!(message).to_string()).unwrap_err();
            assert_eq!((&answer[0], &answer[1]), (&json!("CLOSED"), &json!("s")));
            let text = answer[2].as_str().unwrap();
            assert!(text.starts_with(prefix), "{filters}: {text}");
        }
    }
}

#[test]
fn relay_7_a_bad_filter_or_message_ends_the_exchange_only() {
    let answer = parsed(r#"["NEG-OPEN","n",{"kinds":"x"},"61"]"#).unwrap_err();
    assert_eq!((&answer[0], &answer[1]), (&json!("NEG-ERR"), &json!("n")));
    for bad in [json!("6"), json!("xx"), json!(7), json!(null)] {
        let text = json!(["NEG-OPEN", "n", {}, bad]).to_string();
        let answer = parsed(&text).unwrap_err();
        assert!(answer[2].as_str().unwrap().starts_with("invalid:"));
    }
    let open = parsed(r#"["NEG-OPEN","n",{},"6100"]"#).unwrap();
    assert!(matches!(open, Message::ReconcileOpen { first, .. } if first == [0x61, 0]));
}

#[test]
fn the_label_is_read_without_parsing() {
    assert_eq!(label(b" [ \"EVENT\" , {}]"), Some("EVENT"));
    assert_eq!(label(b"[\"REQ\""), Some("REQ"));
    // Written with escapes: the parser tells.
    assert_eq!(label(b"[\"\\u0045VENT\",{}]"), None);
    assert_eq!(parsed(r#"["\u0045VENT",{}]"#), Ok(Message::Event));
    assert_eq!(
        label(b"[\"a label without end, or a very long one\"]"),
        None
    );
}

#[test]
fn relay_6_auth_is_understood_enough_to_be_refused() {
    let id = "a".repeat(64);
    let text = json!(["AUTH", {"id": id}]).to_string();
    assert_eq!(
        parsed(&text),
        Ok(Message::Auth {
            id: Some(id),
            event: None
        })
    );
    assert_eq!(
        parsed(r#"["AUTH","challenge"]"#),
        Ok(Message::Auth {
            id: None,
            event: None
        })
    );
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,200}",
        "\\[\"(EVENT|REQ|COUNT|CLOSE|AUTH|NEG-OPEN|NEG-MSG|NEG-CLOSE)\",[\\PC]{0,80}\\]",
        "\\[\"(REQ|COUNT|NEG-OPEN|EVENT)\",(\"[a-z]{0,3}\",)?[{}\\[\\]:,\"a-z#0-9.-]{0,60}\\]",
    ]
}

proptest! {
    #[test]
    fn relay_2_arbitrary_text_is_a_message_or_gets_an_answer(text in any_text()) {
        if let Err(Refusal { frame: answer, .. }) = parse(text.as_bytes(), &Limits::default()) {
            let answer: Vec<Value> = serde_json::from_slice(&answer).unwrap();
            let text = answer.last().and_then(Value::as_str).unwrap();
            prop_assert!(text.starts_with("invalid:") || text.starts_with("unsupported:"));
        }
    }

    #[test]
    fn relay_2_arbitrary_bytes_as_an_event_get_an_answer(text in any_text(), broken in any::<Vec<u8>>()) {
        for text in [text.as_bytes(), &broken] {
            let _ = label(text);
            match check(text, &Limits::default(), nostr::prelude::Timestamp::now()) {
                Checked::Event(_) => prop_assert!(false, "nobody signed this"),
                Checked::Refused { answer, .. } => prop_assert!(!answer.accepted),
                Checked::Unreadable(text) => prop_assert!(text.starts_with("invalid:")),
            }
        }
    }
}
