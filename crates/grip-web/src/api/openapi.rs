//! The description of the JSON API for programs (OpenAPI 3.1).

use std::sync::LazyLock;

use bytes::Bytes;
use http::{StatusCode, header};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    operations::{Answer, OPERATIONS, Operation},
    types::ErrorAnswer,
};
use crate::{
    request_context::{HttpResult, RequestContext},
    respond::{self, WithHeader as _},
    routes::{Credential, credential_of},
};

/// Where schemas refer to each other.
const SCHEMAS: &str = "/components/schemas";

static DESCRIPTION: LazyLock<Bytes> = LazyLock::new(|| {
    let text = serde_json::to_vec_pretty(&description());
    text.expect("because a value can be written").into()
});

/// `GET /api/v1/openapi.json`
pub(crate) fn show(_: &RequestContext<'_>) -> HttpResult {
    let kind = "application/json";
    let response = respond::typed(StatusCode::OK, kind, DESCRIPTION.clone());
    Ok(response.with(header::CACHE_CONTROL, "no-cache"))
}

/// The whole description.
pub(crate) fn description() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schemas = settings
        .with(|settings| {
            settings.definitions_path = SCHEMAS.into();
            settings.meta_schema = None;
        })
        .into_generator();
    let error = schemas.subschema_for::<ErrorAnswer>();
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = operation.path.replace("...}", "}");
        let method = operation.method.to_ascii_lowercase();
        let paths = paths.entry(path).or_insert_with(|| json!({}));
        paths[method] = described(operation, &mut schemas, &error.clone().to_value());
    }
    let components = schemas.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "gripfast",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What operators' tools read and order. A private service also asks \
                            readers for a proof of membership (GRASP-08).",
        },
        // From the place of this file, so that a base path is kept.
        "servers": [{ "url": "../.." }],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "adminToken": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The content of `admin.token` in the data directory",
                },
                "nostr": {
                    "type": "http",
                    "scheme": "Nostr",
                    "description": "A signed event of the operator's key for this request (NIP-98)",
                },
            },
        },
    })
}

fn described(operation: &Operation, schemas: &mut SchemaGenerator, error: &Value) -> Value {
    let named = operation.path.split(['{', '}']).skip(1).step_by(2);
    let in_path = named.map(|name| {
        let name = name.trim_end_matches("...");
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    let in_query = operation.parameters.iter().map(|(name, description)| {
        json!({
            "name": name,
            "in": "query",
            "description": description,
            "schema": { "type": "string" },
        })
    });
    let parameters: Vec<_> = in_path.chain(in_query).collect();
    let mut responses = Map::new();
    let content = match operation.answer {
        Answer::Json(schema) => Some(("application/json", schema(schemas).to_value())),
        Answer::Lines(schema) => Some(("application/x-ndjson", schema(schemas).to_value())),
        Answer::Other(kind) => Some((kind, json!({}))),
        Answer::Nothing => None,
    };
    if let Some((kind, schema)) = content {
        let answer = json!({
            "description": "Success",
            "content": { kind: { "schema": schema } },
        });
        for status in [Some(operation.status), operation.also]
            .into_iter()
            .flatten()
        {
            responses.insert(status.to_string(), answer.clone());
        }
    }
    let failure = json!({
        "description": "Failure, with its reason",
        "content": { "application/json": { "schema": error } },
    });
    responses.insert("default".to_owned(), failure);
    let mut described = json!({
        "summary": operation.summary,
        "parameters": parameters,
        "responses": responses,
    });
    let security = match credential(operation) {
        Credential::None => None,
        Credential::AdminToken => Some(json!([{ "adminToken": [] }])),
        Credential::Signature => Some(json!([{ "adminToken": [] }, { "nostr": [] }])),
    };
    if let Some(security) = security {
        described["security"] = security;
    }
    if let Some(body) = operation.body {
        described["requestBody"] = json!({
            "description": body,
            "content": { "application/json": {} },
        });
    }
    described
}

/// What must be shown for an operation.
pub(crate) fn credential(operation: &Operation) -> Credential {
    if operation.is_for_operator {
        Credential::AdminToken
    } else {
        credential_of(operation.path)
    }
}

#[cfg(test)]
mod tests;
