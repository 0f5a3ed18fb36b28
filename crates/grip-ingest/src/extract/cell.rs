//! One value of one column.

use jiff::Timestamp;
use serde_json::Value;

use super::Malformed;
use crate::fields::{Field, Kind};

/// The value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    Int(Option<i64>),
    Text(Option<String>),
}

impl Cell {
    /// What `value` has for a field; empty where there is nothing.
    pub(super) fn read(value: &Value, field: &Field) -> Result<Self, Malformed> {
        let found = value.pointer(field.pointer);
        let found = found.filter(|found| !found.is_null());
        let Some(found) = found else {
            return match field.kind {
                Kind::Id => Err(Malformed::Missing { what: field.column }),
                kind => Ok(Self::empty(kind)),
            };
        };
        let unfit = || Malformed::Unfit {
            what: field.column,
            expected: field.kind.expected(),
        };
        let int = |found: Option<i64>| found.map(|found| Self::Int(Some(found)));
        let cell = match field.kind {
            Kind::Id | Kind::MaybeId => int(found.as_i64().filter(|id| *id > 0)),
            Kind::Int => int(found.as_i64()),
            Kind::Flag => int(found.as_bool().map(i64::from)),
            Kind::Text => found.as_str().map(|text| Self::Text(Some(clean(text)))),
            Kind::Time => int(moment(found)),
            Kind::Json => Some(Self::Text(Some(found.to_string()))),
        };
        cell.ok_or_else(unfit)
    }

    pub(super) fn empty(kind: Kind) -> Self {
        match kind {
            Kind::Text | Kind::Json => Self::Text(None),
            Kind::Id | Kind::MaybeId | Kind::Int | Kind::Flag | Kind::Time => Self::Int(None),
        }
    }

    pub(super) fn int(self) -> Option<i64> {
        match self {
            Self::Int(int) => int,
            Self::Text(_) => None,
        }
    }

    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => text,
            Self::Int(_) => None,
        }
    }
}

impl Kind {
    fn expected(self) -> &'static str {
        match self {
            Self::Id | Self::MaybeId => "a positive integer",
            Self::Int => "an integer",
            Self::Flag => "true or false",
            Self::Text => "a text",
            Self::Time => "a moment such as 2025-01-25T18:44:36Z",
            Self::Json => "anything",
        }
    }
}

/// No database keeps a NUL character in a text.
fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Milliseconds since 1970; webhooks write some moments as seconds.
fn moment(value: &Value) -> Option<i64> {
    let moment = match value {
        Value::String(text) => text.parse::<Timestamp>().ok(),
        Value::Number(seconds) => Timestamp::from_second(seconds.as_i64()?).ok(),
        _ => None,
    };
    moment.map(Timestamp::as_millisecond)
}
