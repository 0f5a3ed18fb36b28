//! The description beside the table of routes, and the reference for people.

use std::{collections::BTreeSet, fmt::Write as _};

use super::*;
use crate::routes::methods_by_path;

/// Paths that belong to the API by their beginning.
const PREFIXES: &[&str] = &[
    "/api/v1/",
    "/resolve/",
    "/providers/",
    "/admin/",
    "/index",
    "/readyz",
    "/version",
];

#[test]
fn the_operations_are_exactly_those_of_the_route_table() {
    let is_api = |path: &str| PREFIXES.iter().any(|prefix| path.starts_with(prefix));
    let routes = methods_by_path().filter(|(path, _)| is_api(path));
    let routed: BTreeSet<_> = routes
        .flat_map(|(path, methods)| {
            let methods = methods.split(", ");
            let methods = methods.filter(|method| !["HEAD", "OPTIONS"].contains(method));
            methods.map(move |method| (path, method))
        })
        .collect();
    let described: BTreeSet<_> = OPERATIONS.iter().map(|op| (op.path, op.method)).collect();
    assert_eq!(described.len(), OPERATIONS.len(), "each once");
    let difference: Vec<_> = routed.symmetric_difference(&described).collect();
    assert!(difference.is_empty(), "{difference:?}");
}

#[test]
fn every_reference_leads_to_a_schema_and_every_schema_has_a_name_of_its_own() {
    let description = description();
    let text = description.to_string();
    let references = text.split("\"$ref\":\"#").skip(1);
    for reference in references.filter_map(|rest| rest.split('"').next()) {
        assert!(description.pointer(reference).is_some(), "{reference}");
    }
    let schemas = description["components"]["schemas"].as_object().unwrap();
    let numbered = schemas.keys().find(|name| name.ends_with(char::is_numeric));
    assert_eq!(numbered, None, "two types have one name");
}

/// The reference for people; `UPDATE_DOCS=1` writes it.
#[test]
fn the_documented_operations_are_those_of_the_description() {
    let text = reference(&description());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    let written = std::fs::read_to_string(file).unwrap();
    assert!(
        written == text,
        "docs/api.md is not what the API is: UPDATE_DOCS=1 writes it"
    );
}

fn reference(description: &Value) -> String {
    let mut out = "# HTTP API\n\nMade from the types of the answers, the operations in \
                   `grip-web/src/api/operations.rs` and the route table. A running node serves the same \
                   for programs at `/api/v1/openapi.json` (OpenAPI 3.1).\n\n\
                   *operator*: `Authorization: Bearer` with the content of `admin.token` in the data \
                   directory, from the machine of the node. *signature*: the same, or an event signed by \
                   the operator's key (NIP-98). A failure has the form of \
                   [ErrorAnswer](#erroranswer). All other routes are in [routes.md](routes.md).\n\n\
                   ## Operations\n"
        .to_owned();
    for operation in OPERATIONS {
        let path = operation.path.replace("...}", "…}");
        let _ = write!(
            out,
            "\n### {} {path}\n\n{}.",
            operation.method, operation.summary
        );
        match credential(operation) {
            Credential::None => {}
            Credential::AdminToken => out += " For the *operator*.",
            Credential::Signature => out += " For the operator: *signature*.",
        }
        let place = operation.path.replace("...}", "}");
        let described = &description["paths"][place][operation.method.to_ascii_lowercase()];
        let content = &described["responses"][operation.status.to_string()]["content"];
        let status = operation.status;
        let _ = match operation.answer {
            Answer::Json(_) => {
                let schema = &content["application/json"]["schema"];
                write!(out, " Answers {status} with {}.", kind(schema))
            }
            Answer::Lines(_) => {
                let schema = &content["application/x-ndjson"]["schema"];
                write!(out, " Answers {status} with lines of {}.", kind(schema))
            }
            Answer::Other(media) => write!(out, " Answers {status} with {media}."),
            Answer::Nothing => Ok(()),
        };
        out.push('\n');
        if let Some(body) = operation.body {
            let _ = write!(out, "\nBody: {body}.\n");
        }
        if !operation.parameters.is_empty() {
            out.push('\n');
        }
        for (name, meaning) in operation.parameters {
            let _ = writeln!(out, "- `{name}`: {meaning}");
        }
    }
    out += "\n## Types\n";
    let schemas = description["components"]["schemas"].as_object().unwrap();
    for (name, schema) in schemas {
        let _ = write!(out, "\n### {name}\n");
        if let Some(about) = schema["description"].as_str() {
            let _ = write!(out, "\n{}\n", one_line(about));
        }
        fields(&mut out, schema);
    }
    out
}

fn fields(out: &mut String, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else {
        let _ = write!(out, "\n{}\n", kind(schema));
        return;
    };
    *out += "\n| field | type | meaning |\n|---|---|---|\n";
    for (field, schema) in properties {
        let about = schema["description"].as_str().map(one_line);
        let (kind, about) = (kind(schema).replace('|', "\\|"), about.unwrap_or_default());
        let _ = writeln!(out, "| `{field}` | {kind} | {about} |");
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A schema in a few words.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_ascii_lowercase());
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(all) = schema[several].as_array() {
            let all: Vec<_> = all.iter().map(kind).collect();
            return all.join(" or ");
        }
    }
    if let Some(only) = schema.get("const") {
        return format!("`{only}`");
    }
    if let Some(all) = schema["enum"].as_array() {
        let all: Vec<_> = all.iter().map(|value| format!("`{value}`")).collect();
        return all.join(", ");
    }
    match &schema["type"] {
        Value::String(one) if one == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(one) if one == "object" => match schema.get("additionalProperties") {
            Some(of) if of.is_object() => format!("object of {}", kind(of)),
            _ => "object".to_owned(),
        },
        Value::String(one) => one.clone(),
        Value::Array(several) => {
            let several = several.iter().filter_map(Value::as_str);
            several.collect::<Vec<_>>().join(" or ")
        }
        _ => "any value".to_owned(),
    }
}
