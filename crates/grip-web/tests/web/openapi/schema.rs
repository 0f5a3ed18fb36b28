//! Validation of JSON against the part of JSON Schema that the description uses.
//!
//! Stricter than the standard in one point: a key that an object's schema does not name is an error
//! unless the schema lets further keys in, so that nothing is answered that is not described.

use serde_json::Value;

/// Says what of `value` is not as `schema` has it; `root` resolves references.
pub fn check(value: &Value, schema: &Value, root: &Value, place: &str) -> Result<(), String> {
    let fails = |why: String| Err(format!("{place}: {why}"));
    if let Some(is_all) = schema.as_bool() {
        return if is_all {
            Ok(())
        } else {
            fails("nothing may be here".into())
        };
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        let target = root
            .pointer(pointer)
            .ok_or(format!("{place}: no {reference}"))?;
        return check(value, target, root, place);
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[several].as_array() {
            let tried: Vec<_> = choices
                .iter()
                .filter_map(|choice| check(value, choice, root, place).err())
                .collect();
            let fits = choices.len() - tried.len();
            if fits == 0 || (several == "oneOf" && fits > 1) {
                return fails(format!("{fits} of {several} fit {value}: {tried:?}"));
            }
        }
    }
    if let Some(only) = schema.get("const").filter(|only| *only != value) {
        return fails(format!("{value} is not {only}"));
    }
    if let Some(all) = schema["enum"].as_array().filter(|all| !all.contains(value)) {
        return fails(format!("{value} is none of {all:?}"));
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is_a(value, kind)) {
        return fails(format!("{value} is not of type {kinds:?}"));
    }
    if let Value::Array(items) = value {
        for (index, item) in items.iter().enumerate() {
            check(item, &schema["items"], root, &format!("{place}[{index}]")).or_else(|why| {
                if schema.get("items").is_some() {
                    Err(why)
                } else {
                    Ok(())
                }
            })?;
        }
    }
    check_keys(value, schema, root, place)
}

fn check_keys(value: &Value, schema: &Value, root: &Value, place: &str) -> Result<(), String> {
    let Value::Object(fields) = value else {
        return Ok(());
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        if !name.as_str().is_some_and(|name| fields.contains_key(name)) {
            return Err(format!("{place}: {name} is missing"));
        }
    }
    let others = schema.get("additionalProperties");
    let is_closed = schema.get("properties").is_some()
        && schema.get("anyOf").is_none()
        && schema.get("oneOf").is_none();
    for (name, field) in fields {
        let place = format!("{place}.{name}");
        match (schema["properties"].get(name), others) {
            (Some(own), _) => check(field, own, root, &place)?,
            (None, Some(others)) => check(field, others, root, &place)?,
            (None, None) if is_closed => return Err(format!("{place} is not described")),
            (None, None) => {}
        }
    }
    Ok(())
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[test]
fn a_value_that_is_not_as_described_is_named_with_its_place() {
    let root = serde_json::json!({
        "one": { "type": "object", "properties": { "n": { "type": ["integer", "null"] } }, "required": ["n"] },
    });
    let schema = serde_json::json!({ "type": "array", "items": { "$ref": "#/one" } });
    let check = |text: &str| check(&serde_json::from_str(text).unwrap(), &schema, &root, "");
    assert_eq!(check(r#"[{"n": 1}, {"n": null}]"#), Ok(()));
    for (text, why) in [
        (r#"[{"n": "1"}]"#, "[0].n: \"1\" is not of type"),
        (r#"[{"n": 1}, {}]"#, "[1]: \"n\" is missing"),
        (r#"[{"n": 1, "m": 2}]"#, "[0].m is not described"),
        ("{}", "is not of type"),
    ] {
        let found = check(text).unwrap_err();
        assert!(found.contains(why), "{found}");
    }
}
