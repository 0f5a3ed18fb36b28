//! People and repositories.

use serde_json::Value;

use super::{Cell, Malformed, object, raw};
use crate::fields::{Field, Kind, REPOSITORY, USER};

/// Longest name by which something is found.
const MAX_NAME: usize = 512;

/// A credential that GitHub gives to some who ask: not ours to keep.
const SECRET: &str = "temp_clone_token";

/// What is kept of a person or a repository, a cell per field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: i64,
    pub cells: Vec<Cell>,
    /// Columns left empty because the value was of another kind. It is still in `raw`.
    pub unfit: Vec<&'static str>,
    /// As GitHub wrote it, without credentials.
    pub raw: String,
}

/// Reads a person or an organisation.
pub fn user(text: &[u8]) -> Result<Record, Malformed> {
    record(text, USER, "login")
}

/// Reads a repository.
pub fn repository(text: &[u8]) -> Result<Record, Malformed> {
    record(text, REPOSITORY, "full_name")
}

fn record(text: &[u8], fields: &[Field], name: &'static str) -> Result<Record, Malformed> {
    let value = object(text)?;
    let mut cells = Vec::with_capacity(fields.len());
    let mut unfit = Vec::new();
    let mut id = None;
    for field in fields {
        let cell = match Cell::read(&value, field) {
            Ok(cell) => cell,
            Err(error) if field.kind == Kind::Id || field.column == name => return Err(error),
            Err(_) => {
                unfit.push(field.column);
                Cell::empty(field.kind)
            }
        };
        match &cell {
            Cell::Int(found) if field.kind == Kind::Id => id = *found,
            Cell::Text(None) if field.column == name => {
                return Err(Malformed::Missing { what: name });
            }
            Cell::Text(Some(text)) if field.column == name && text.len() > MAX_NAME => {
                let most = MAX_NAME;
                return Err(Malformed::TooLong { what: name, most });
            }
            _ => {}
        }
        cells.push(cell);
    }
    Ok(Record {
        id: id.ok_or(Malformed::Missing { what: "id" })?,
        cells,
        unfit,
        raw: without_secret(value, text)?,
    })
}

fn without_secret(mut value: Value, text: &[u8]) -> Result<String, Malformed> {
    if strip(&mut value) {
        Ok(value.to_string())
    } else {
        raw(text)
    }
}

/// Takes every credential out; says whether there was one. No deeper than JSON was read.
fn strip(value: &mut Value) -> bool {
    match value {
        Value::Object(all) => {
            let found = all.remove(SECRET);
            let was_one = matches!(found, Some(Value::String(secret)) if !secret.is_empty());
            let below = all.values_mut().filter(|value| value.is_object());
            below.fold(was_one, |found, value| strip(value) || found)
        }
        _ => false,
    }
}

/// The parts of a record that no field takes, as JSON pointers: they are in the raw text only.
/// Of a nested object a field takes one part of, the others count as left out by intent.
pub fn unmapped(value: &Value, fields: &[Field]) -> Vec<String> {
    let Some(all) = value.as_object() else {
        return Vec::new();
    };
    let is_taken = |key: &str| {
        let pointer = format!("/{key}");
        let below = format!("/{key}/");
        let takes = |field: &Field| field.pointer == pointer || field.pointer.starts_with(&below);
        fields.iter().any(takes)
    };
    let left = all.keys().filter(|key| !is_taken(key));
    left.map(|key| format!("/{key}")).collect()
}
