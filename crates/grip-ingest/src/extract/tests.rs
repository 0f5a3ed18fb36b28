use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    fields::{DELIVERY, EVENT, REPOSITORY, USER},
    testing::{put, words},
};

fn sample() -> Value {
    json!({
        "id": "51234567890",
        "type": "PushEvent",
        "actor": {
            "id": 583231,
            "login": "octocat",
            "url": "https://api.github.com/users/octocat",
        },
        "repo": { "id": 1296269, "name": "octocat/hello", "url": "https://api.github.com/repos/octocat/hello" },
        "payload": {
            "repository_id": 1296269,
            "push_id": 27_000_000_001_i64,
            "ref": "refs/heads/main",
            "head": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
            "before": "0000000000000000000000000000000000000000",
        },
        "public": true,
        "created_at": "2026-01-25T18:44:36Z",
    })
}

fn read(value: &Value) -> Result<Event, Malformed> {
    event(value.to_string().as_bytes())
}

fn push(value: &Value) -> Push {
    match read(value) {
        Ok(Event::Push(push)) => *push,
        other => panic!("{other:?}"),
    }
}

fn changed(pointer: &str, to: Value) -> Value {
    let mut value = sample();
    put(&mut value, pointer, to);
    value
}

fn without(pointer: &str) -> Value {
    let mut value = sample();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap();
    parent.as_object_mut().unwrap().remove(key).unwrap();
    value
}

#[test]
fn a_push_is_read_with_all_its_columns_and_kept_word_for_word() {
    let text = format!("  {}\n", sample());
    let Ok(Event::Push(push)) = event(text.as_bytes()) else {
        panic!("a push");
    };
    let expected = Push {
        id: "51234567890".to_owned(),
        actor: Actor::User("octocat".to_owned()),
        actor_id: Some(583_231),
        actor_login: Some("octocat".to_owned()),
        repository_id: 1_296_269,
        repository_name: Some("octocat/hello".to_owned()),
        clone_url: None,
        is_private: false,
        push_id: Some(27_000_000_001),
        git_ref: "refs/heads/main".to_owned(),
        head: "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d".to_owned(),
        before: Some("0".repeat(40)),
        at_ms: Some(1_769_366_676_000),
        raw: text.trim().to_owned(),
    };
    assert_eq!(*push, expected);
}

#[test]
fn who_pushed_is_told_by_the_url() {
    let user = |name: &str| Actor::User(name.to_owned());
    let api = "https://api.github.com";
    for (url, expected) in [
        // The rows of the table.
        (format!("{api}/users/octocat"), user("octocat")),
        (format!("{api}/users/github-actions[bot]"), Actor::Bot),
        (format!("{api}/orgs/github"), Actor::Unknown),
        // And around them.
        ("http://ghe.example/api/v3/users/jo".to_owned(), user("jo")),
        (format!("{api}/users/dependabot%5Bbot%5D"), Actor::Bot),
        (format!("{api}/users/robot"), user("robot")),
        (format!("{api}/users/"), Actor::Unknown),
        (format!("{api}/users/a/b"), Actor::Unknown),
        ("https:///users/a".to_owned(), Actor::Unknown),
        ("ftp://api.github.com/users/a".to_owned(), Actor::Unknown),
        ("users/a".to_owned(), Actor::Unknown),
        (String::new(), Actor::Unknown),
    ] {
        let push = push(&changed("/actor/url", json!(url)));
        assert_eq!(push.actor, expected, "{url}");
    }
    for event in [
        without("/actor/url"),
        without("/actor"),
        changed("/actor", Value::Null),
        changed("/actor/url", Value::Null),
    ] {
        assert_eq!(push(&event).actor, Actor::Missing);
    }
}

#[test]
fn what_may_be_missing_may_be_missing() {
    let push = push(&without("/payload/push_id"));
    assert_eq!(push.push_id, None);
    for pointer in [
        "/payload/before",
        "/created_at",
        "/repo/name",
        "/actor/login",
    ] {
        assert!(read(&without(pointer)).is_ok(), "{pointer}");
    }
}

#[test]
fn what_is_malformed_has_a_reason_that_says_what_is_wrong() {
    let number = |what: &str| format!("{what} should be a positive integer");
    let moment = "github_created_at should be a moment such as 2025-01-25T18:44:36Z";
    let nines = "9".repeat(21);
    for (pointer, values, reason) in [
        (
            "/id",
            json!([51_234_567_890_i64, 1.5, "-1", "1.0", "0", "", nines]),
            &*number("id").replace("integer", "integer in a text"),
        ),
        ("/id", json!([null]), "it has no id"),
        ("/type", json!([7]), "type should be a text"),
        (
            "/repo/id",
            json!(["1296269", 1.5, 1e3, -1, 0, u64::MAX]),
            &number("repository_id"),
        ),
        ("/repo/id", json!([null]), "it has no repository_id"),
        ("/repo", json!(["octocat/hello"]), "it has no repository_id"),
        (
            "/repo/name",
            json!(["x".repeat(257)]),
            "repository_name is longer than 256 bytes",
        ),
        ("/actor/id", json!(["583231", -5]), &number("actor_id")),
        ("/actor/id", json!([null]), "it has no actor_id"),
        ("/actor/login", json!([[]]), "actor_login should be a text"),
        ("/payload", json!([[]]), "it has no ref"),
        ("/payload/push_id", json!(["1"]), &number("push_id")),
        (
            "/payload/ref",
            json!(["main", "refs/heads/a\0b"]),
            "ref should be the name of a ref, such as refs/heads/main",
        ),
        (
            "/payload/ref",
            json!([["refs/heads/main"]]),
            "ref should be a text",
        ),
        (
            "/payload/head",
            json!(["7FD1"]),
            "head should be the id of a commit",
        ),
        ("/payload/head", json!([null]), "it has no head"),
        (
            "/payload/before",
            json!(["x"]),
            "before should be the id of a commit",
        ),
        ("/created_at", json!(["yesterday", {}]), moment),
    ] {
        for value in values.as_array().unwrap() {
            let error = read(&changed(pointer, value.clone())).unwrap_err();
            assert_eq!(error.to_string(), reason, "{pointer} {value}");
        }
    }
    let always = "/id /type /repo /repo/id /actor/id /payload /payload/ref /payload/head";
    for pointer in always.split(' ') {
        let error = read(&without(pointer)).unwrap_err();
        let is_missing = matches!(error, Malformed::Missing { .. });
        assert!(is_missing, "{pointer}: {error}");
    }
}

#[test]
fn what_is_no_event_at_all_has_a_reason_too() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_inside = sample().to_string().replacen("true", &deep, 1);
    let long = changed("/actor/display_login", json!("x".repeat(26 << 20))).to_string();
    let nul = String::from("{\"id\":\"1\0\"}");
    let surrogate = sample()
        .to_string()
        .replacen("refs/heads/main", "refs/heads/\\ud800", 1);
    let (other, unreadable) = ("it is no JSON object", "it is no JSON that can be read");
    let too_deep = &*format!("{unreadable}: recursion limit exceeded");
    for (text, reason) in [
        (b"null".as_slice(), other),
        (b"[]", other),
        (b"7", other),
        (b"\"PushEvent\"", other),
        (b"", unreadable),
        (b"{", unreadable),
        (b"{}{}", unreadable),
        (b"<html>", unreadable),
        (b"{\"id\":\"\xff\"}", unreadable),
        (nul.as_bytes(), unreadable),
        (surrogate.as_bytes(), unreadable),
        (deep.as_bytes(), too_deep),
        (deep_inside.as_bytes(), too_deep),
        (long.as_bytes(), "it is longer than 26214400 bytes"),
    ] {
        let error = event(text).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
        assert!(error.len() < 300);
    }
}

#[test]
fn a_nul_in_a_text_is_replaced_because_no_database_keeps_it() {
    let push = push(&changed("/actor/login", json!("a\0b")));
    assert_eq!(push.actor_login.as_deref(), Some("a\u{fffd}b"));
    assert!(push.raw.contains("a\\u0000b") && !push.raw.contains('\0'));
}

#[test]
fn other_events_are_named_as_github_names_them() {
    let other = |kind: &str| {
        read(&json!({ "id": "7", "type": kind, "created_at": "1970-01-01T00:00:01Z" }))
    };
    for (kind, expected) in [
        ("WatchEvent", "WatchEvent"),
        ("NewsEvent", "unknown"),
        ("", "unknown"),
    ] {
        let expected = Event::Other {
            id: "7".to_owned(),
            kind: expected,
            at_ms: Some(1_000),
        };
        assert_eq!(other(kind).unwrap(), expected);
    }
    let no_moment = read(&json!({ "id": "7", "type": "ForkEvent", "created_at": 7.5 }));
    assert!(matches!(no_moment, Ok(Event::Other { at_ms: None, .. })));
}

#[test]
fn a_push_says_whether_everybody_may_see_the_repository() {
    assert!(push(&changed("/public", json!(false))).is_private);
    assert!(!push(&without("/public")).is_private);
    let delivered = |private: Value| {
        let body = json!({
            "ref": "refs/heads/main",
            "before": "0".repeat(40),
            "after": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
            "repository": { "id": 1, "full_name": "acme/secret", "private": private },
            "sender": { "id": 2, "login": "a", "url": "https://api.github.com/users/a" },
        });
        delivery("72d3162e", body.to_string().as_bytes()).unwrap()
    };
    let said = delivered(json!(true));
    assert!(said.is_private);
    // Also when it is read again from what was kept.
    assert_eq!(Push::reread(&said.id, &said.raw), Ok(said));
    for other in [json!(false), json!(null), json!("true")] {
        assert!(!delivered(other).is_private);
    }
}

#[test]
fn a_delivery_of_a_webhook_is_the_same_kind_of_push() {
    let body = json!({
        "ref": "refs/tags/v1.0.0",
        "before": "0".repeat(40),
        "after": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
        "repository": { "id": 186_853_002, "full_name": "Codertocat/Hello-World", "pushed_at": 1_557_933_656 },
        "sender": { "id": 21_031_067, "login": "Codertocat", "url": "https://api.github.com/users/Codertocat" },
        "commits": [],
    });
    let text = body.to_string();
    let push = delivery("72d3162e-cc78-11e3-81ab-4c9367dc0958", text.as_bytes()).unwrap();
    assert_eq!(push.id, "delivery 72d3162e-cc78-11e3-81ab-4c9367dc0958");
    assert_eq!(push.actor, Actor::User("Codertocat".to_owned()));
    assert_eq!(
        (push.actor_id, push.repository_id),
        (Some(21_031_067), 186_853_002)
    );
    assert_eq!(
        push.repository_name.as_deref(),
        Some("Codertocat/Hello-World")
    );
    assert_eq!((push.push_id, push.at_ms), (None, Some(1_557_933_656_000)));
    assert_eq!(push.git_ref, "refs/tags/v1.0.0");
    assert_eq!(
        (push.before.unwrap(), push.raw),
        ("0".repeat(40), text.clone())
    );
    for id in ["", "a b", "a/b", "ä", &"x".repeat(65)] {
        assert!(delivery(id, text.as_bytes()).is_err(), "{id}");
    }
}

#[test]
fn both_forms_of_a_push_have_the_same_columns() {
    let columns = |fields: &[crate::fields::Field]| -> Vec<_> {
        fields
            .iter()
            .map(|field| (field.column, field.kind))
            .collect()
    };
    assert_eq!(columns(EVENT), columns(DELIVERY));
}

#[test]
fn every_field_of_a_person_and_a_repository_is_taken() {
    for (fields, read) in [
        (USER, user as fn(&[u8]) -> Result<Record, Malformed>),
        (REPOSITORY, repository),
    ] {
        let (words, kept) = words(fields);
        let record = read(words.to_string().as_bytes()).unwrap();
        assert_eq!((record.id, record.unfit.len()), (1_000, 0));
        for ((field, cell), (column, shown)) in fields.iter().zip(&record.cells).zip(kept) {
            assert_eq!(field.column, column);
            let expected = match shown {
                Value::Bool(flag) => Cell::Int(Some(flag.into())),
                Value::Number(int) => Cell::Int(int.as_i64()),
                Value::String(text) => Cell::Text(Some(text)),
                other => Cell::Text(Some(other.to_string())),
            };
            assert_eq!(*cell, expected, "{column}");
        }
        assert_eq!(unmapped(&words, fields), Vec::<String>::new());
    }
    assert!(USER.len() >= 30 && REPOSITORY.len() >= 80);
    assert_eq!(
        unmapped(&json!({ "id": 1, "new_field": 2 }), USER),
        ["/new_field"]
    );
}

#[test]
fn columns_and_pointers_are_named_once() {
    for fields in [EVENT, DELIVERY, USER, REPOSITORY] {
        let mut columns: Vec<_> = fields.iter().map(|field| field.column).collect();
        let mut pointers: Vec<_> = fields.iter().map(|field| field.pointer).collect();
        for names in [&mut columns, &mut pointers] {
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}

#[test]
fn a_value_of_another_kind_leaves_its_column_empty_and_is_named() {
    let (mut words, _) = words(USER);
    put(&mut words, "/followers", json!("many"));
    put(&mut words, "/bio", json!({ "a": 1 }));
    put(&mut words, "/company", Value::Null);
    let record = user(words.to_string().as_bytes()).unwrap();
    assert_eq!(record.unfit, ["bio", "followers"]);
    for (pointer, value) in [
        ("/id", json!("1")),
        ("/id", json!(0)),
        ("/login", Value::Null),
        ("/login", json!(5)),
        ("/login", json!("x".repeat(513))),
    ] {
        let mut bad = words.clone();
        put(&mut bad, pointer, value);
        assert!(user(bad.to_string().as_bytes()).is_err(), "{pointer}");
    }
}

#[test]
fn credentials_are_not_kept() {
    let (mut words, _) = words(REPOSITORY);
    put(&mut words, "/temp_clone_token", json!("s3cret"));
    put(&mut words, "/parent/temp_clone_token", json!("s3cret"));
    let record = repository(words.to_string().as_bytes()).unwrap();
    assert!(!record.raw.contains("s3cret") && record.raw.contains("clone_url"));
    assert!(!format!("{record:?}").contains("s3cret"));
}

proptest! {
    /// Whatever comes, there is an answer.
    #[test]
    fn nothing_that_comes_makes_it_fall(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(event(&bytes).is_err());
        prop_assert!(user(&bytes).is_err());
        prop_assert!(repository(&bytes).is_err());
    }

    #[test]
    fn any_value_in_any_place_is_a_column_or_a_reason(
        at in 0_usize..12,
        value in prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,20}".prop_map(Value::from),
            Just(json!([])),
            Just(json!({})),
        ],
    ) {
        let pointers = [
            "/id", "/type", "/actor", "/actor/id", "/actor/url", "/repo", "/repo/id", "/payload",
            "/payload/ref", "/payload/head", "/payload/push_id", "/created_at",
        ];
        let text = changed(pointers[at], value).to_string();
        if let Ok(Event::Push(push)) = event(text.as_bytes()) {
            prop_assert!(push.repository_id > 0 && push.actor_id.is_none_or(|id| id > 0));
            prop_assert!(!push.git_ref.contains('\0'));
        }
    }
}
