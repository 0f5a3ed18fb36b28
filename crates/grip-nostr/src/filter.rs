//! NIP-01 filters, parsed strictly: a key that is not understood is refused, never ignored,
//! because ignoring it would return everything.

use std::collections::BTreeMap;

use nostr::prelude::{Event, Timestamp};
use serde_json::{Map, Value};

use crate::tags;

/// Most values one list of a filter may hold.
const MAX_VALUES: usize = 5_000;
/// Most tag conditions one filter may hold.
const MAX_TAGS: usize = 8;

/// One filter of a REQ, COUNT or NEG-OPEN. `None` = no condition; an empty list matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Sorted, without duplicates; so are all lists here.
    pub ids: Option<Vec<[u8; 32]>>,
    pub authors: Option<Vec<[u8; 32]>>,
    pub kinds: Option<Vec<u16>>,
    pub tags: BTreeMap<char, Vec<String>>,
    pub since: Option<u64>,
    pub until: Option<u64>,
    pub limit: Option<usize>,
}

/// Why a filter is refused, with the NIP-01 prefix of the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFilter {
    #[error(
        "unsupported: filter key `{0}` is not known here; use ids, authors, kinds, #<letter>, since, until, limit"
    )]
    Unsupported(String),
    #[error("unsupported: full-text `search` is not offered by this relay")]
    Search,
    #[error("invalid: a filter is a JSON object")]
    NotAnObject,
    #[error("invalid: `{key}` {problem}")]
    Value { key: String, problem: &'static str },
}

impl Filter {
    pub fn parse(value: &Value) -> Result<Self, InvalidFilter> {
        let object = value.as_object().ok_or(InvalidFilter::NotAnObject)?;
        let mut filter = Self::default();
        for (key, value) in object {
            filter.read(key, value)?;
        }
        if filter.tags.len() > MAX_TAGS {
            return Err(bad("#", "conditions on more than 8 tags"));
        }
        Ok(filter)
    }

    fn read(&mut self, key: &str, value: &Value) -> Result<(), InvalidFilter> {
        match key {
            "ids" => self.ids = Some(hex_list(key, value)?),
            "authors" => self.authors = Some(hex_list(key, value)?),
            "kinds" => self.kinds = Some(kind_list(key, value)?),
            "since" => self.since = Some(number(key, value)?),
            "until" => self.until = Some(number(key, value)?),
            "limit" => {
                self.limit = Some(usize::try_from(number(key, value)?).unwrap_or(usize::MAX));
            }
            "search" => return Err(InvalidFilter::Search),
            _ => {
                let letter = single_letter(key)
                    .ok_or_else(|| InvalidFilter::Unsupported(key.chars().take(64).collect()))?;
                self.tags.insert(letter, tag_list(key, value)?);
            }
        }
        Ok(())
    }

    /// Says whether no event at all can match.
    pub fn matches_nothing(&self) -> bool {
        let empty = |list: &Option<Vec<[u8; 32]>>| list.as_ref().is_some_and(Vec::is_empty);
        empty(&self.ids)
            || empty(&self.authors)
            || self.kinds.as_ref().is_some_and(Vec::is_empty)
            || self.tags.values().any(Vec::is_empty)
            || matches!((self.since, self.until), (Some(since), Some(until)) if since > until)
    }

    /// Says whether `event` satisfies every condition; `limit` plays no part.
    pub fn matches(&self, event: &Event) -> bool {
        self.matches_head(
            event.id.as_bytes(),
            event.pubkey.as_bytes(),
            event.kind.as_u16(),
            event.created_at,
        ) && self.tags.iter().all(|(letter, wanted)| {
            event.tags.iter().any(|tag| {
                let mut chars = tag.kind().chars();
                chars.next() == Some(*letter)
                    && chars.next().is_none()
                    && tag
                        .content()
                        .is_some_and(|value| contains_text(wanted, value))
            })
        })
    }

    /// The conditions that need no tags.
    pub fn matches_head(
        &self,
        id: &[u8; 32],
        author: &[u8; 32],
        kind: u16,
        created_at: Timestamp,
    ) -> bool {
        let within = |list: &Option<Vec<[u8; 32]>>, item: &[u8; 32]| {
            list.as_ref()
                .is_none_or(|list| list.binary_search(item).is_ok())
        };
        let at = created_at.as_secs();
        within(&self.ids, id)
            && within(&self.authors, author)
            && self
                .kinds
                .as_ref()
                .is_none_or(|kinds| kinds.binary_search(&kind).is_ok())
            && self.since.is_none_or(|since| since <= at)
            && self.until.is_none_or(|until| at <= until)
    }

    /// Bytes this filter holds in memory, for per-connection bounds.
    pub fn size_bytes(&self) -> usize {
        let lists =
            self.ids.as_ref().map_or(0, Vec::len) + self.authors.as_ref().map_or(0, Vec::len);
        let tags: usize = self
            .tags
            .values()
            .flatten()
            .map(|value| value.len() + 24)
            .sum();
        lists * 32 + self.kinds.as_ref().map_or(0, Vec::len) * 2 + tags + size_of::<Self>()
    }
}

fn contains_text(sorted: &[String], value: &str) -> bool {
    sorted
        .binary_search_by(|item| item.as_str().cmp(value))
        .is_ok()
}

fn single_letter(key: &str) -> Option<char> {
    let mut chars = key.strip_prefix('#')?.chars();
    let letter = chars.next().filter(char::is_ascii_alphabetic)?;
    chars.next().is_none().then_some(letter)
}

fn bad(key: &str, problem: &'static str) -> InvalidFilter {
    InvalidFilter::Value {
        key: key.chars().take(64).collect(),
        problem,
    }
}

fn number(key: &str, value: &Value) -> Result<u64, InvalidFilter> {
    value
        .as_u64()
        .ok_or_else(|| bad(key, "is a whole number, zero or more"))
}

fn list<'a>(key: &str, value: &'a Value) -> Result<&'a Vec<Value>, InvalidFilter> {
    let list = value.as_array().ok_or_else(|| bad(key, "is a list"))?;
    if list.len() > MAX_VALUES {
        return Err(bad(key, "holds more than 5000 values"));
    }
    Ok(list)
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items.dedup();
    items
}

fn hex_list(key: &str, value: &Value) -> Result<Vec<[u8; 32]>, InvalidFilter> {
    let hex = |item: &Value| item.as_str().and_then(tags::hex32);
    let items: Option<Vec<_>> = list(key, value)?.iter().map(hex).collect();
    items
        .map(sorted)
        .ok_or_else(|| bad(key, "holds values that are not 64 lower-case hex digits"))
}

fn kind_list(key: &str, value: &Value) -> Result<Vec<u16>, InvalidFilter> {
    let kind = |item: &Value| item.as_u64().and_then(|kind| u16::try_from(kind).ok());
    let items: Option<Vec<_>> = list(key, value)?.iter().map(kind).collect();
    items
        .map(sorted)
        .ok_or_else(|| bad(key, "holds values that are not kinds (0 to 65535)"))
}

fn tag_list(key: &str, value: &Value) -> Result<Vec<String>, InvalidFilter> {
    let needs_hex = matches!(key, "#e" | "#p");
    let text = |item: &Value| item.as_str().map(str::to_owned);
    let items: Option<Vec<_>> = list(key, value)?.iter().map(text).collect();
    let items = items.ok_or_else(|| bad(key, "holds values that are not strings"))?;
    if needs_hex && items.iter().any(|item| tags::hex32(item).is_none()) {
        return Err(bad(
            key,
            "holds values that are not 64 lower-case hex digits",
        ));
    }
    Ok(sorted(items))
}

impl From<&Filter> for Value {
    /// The JSON form, as a client would send it.
    fn from(filter: &Filter) -> Self {
        let hex = |list: &[[u8; 32]]| -> Value {
            list.iter()
                .map(|item| Value::from(faster_hex::hex_string(item)))
                .collect()
        };
        let mut object = Map::new();
        if let Some(ids) = &filter.ids {
            object.insert("ids".into(), hex(ids));
        }
        if let Some(authors) = &filter.authors {
            object.insert("authors".into(), hex(authors));
        }
        if let Some(kinds) = &filter.kinds {
            object.insert("kinds".into(), kinds.clone().into());
        }
        for (letter, values) in &filter.tags {
            object.insert(format!("#{letter}"), values.clone().into());
        }
        let limit = filter.limit.and_then(|limit| u64::try_from(limit).ok());
        for (key, value) in [
            ("since", filter.since),
            ("until", filter.until),
            ("limit", limit),
        ] {
            if let Some(value) = value {
                object.insert(key.into(), value.into());
            }
        }
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_keys_are_refused_not_ignored() {
        for key in ["#refs/heads/main", "#clone", "#", "#é", "id", "foo"] {
            let error = Filter::parse(&json!({ key: ["x"] })).unwrap_err();
            assert!(
                error.to_string().starts_with("unsupported:"),
                "{key}: {error}"
            );
        }
        assert_eq!(
            Filter::parse(&json!({"search": "x"})),
            Err(InvalidFilter::Search)
        );
    }

    #[test]
    fn malformed_values_are_invalid() {
        for bad in [
            json!([]),
            json!("x"),
            json!({"ids": ["abc"]}),
            json!({"ids": "x"}),
            json!({"authors": ["A".repeat(64)]}),
            json!({"kinds": [-1]}),
            json!({"kinds": [70000]}),
            json!({"kinds": [1.5]}),
            json!({"since": -1}),
            json!({"limit": "5"}),
            json!({"#e": ["short"]}),
            json!({"#t": [1]}),
        ] {
            let error = Filter::parse(&bad).unwrap_err();
            assert!(error.to_string().starts_with("invalid:"), "{bad}: {error}");
        }
    }

    #[test]
    fn empty_lists_match_nothing_and_empty_filters_everything() {
        assert!(
            Filter::parse(&json!({"ids": []}))
                .unwrap()
                .matches_nothing()
        );
        assert!(Filter::parse(&json!({"#t": []})).unwrap().matches_nothing());
        assert!(
            Filter::parse(&json!({"since": 2, "until": 1}))
                .unwrap()
                .matches_nothing()
        );
        assert!(!Filter::parse(&json!({})).unwrap().matches_nothing());
        assert!(
            !Filter::parse(&json!({"limit": 0}))
                .unwrap()
                .matches_nothing()
        );
    }

    proptest! {
        #[test]
        fn parsing_what_was_printed_gives_the_same_filter(
            kinds in proptest::option::of(proptest::collection::vec(any::<u16>(), 0..5)),
            ids in proptest::option::of(proptest::collection::vec(any::<[u8; 32]>(), 0..3)),
            values in proptest::collection::vec(".{0,8}", 0..4),
            since in proptest::option::of(0u64..1 << 40),
        ) {
            let filter = Filter {
                kinds: kinds.map(sorted), ids: ids.map(sorted), since,
                tags: BTreeMap::from([('t', sorted(values))]), ..Filter::default()
            };
            prop_assert_eq!(Filter::parse(&Value::from(&filter)).unwrap(), filter);
        }

        #[test]
        fn arbitrary_json_never_panics(text in "\\PC{0,80}") {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                let _ = Filter::parse(&value);
            }
        }
    }
}
