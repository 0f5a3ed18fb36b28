//! Requests of a client: what it asks for, and how much of it at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde_json::Value;

use super::Frame;

/// A REQ or NEG-OPEN of a client.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which websocket it came on, counted from 0.
    pub connection: usize,
    pub at: Instant,
    /// Of the subscription.
    pub name: String,
    pub filters: Vec<Value>,
    /// By NIP-77.
    pub is_comparison: bool,
    /// Bytes of the whole message.
    pub size_bytes: usize,
}

impl Request {
    pub(super) fn read(frame: &Frame) -> Option<Self> {
        let parts = frame.message.as_array()?;
        let is_comparison = match parts.first()?.as_str()? {
            "REQ" => false,
            "NEG-OPEN" => true,
            _ => return None,
        };
        let filters = parts.iter().skip(2);
        Some(Self {
            connection: frame.connection,
            at: frame.at,
            name: parts.get(1)?.as_str()?.to_owned(),
            filters: filters.filter(|part| part.is_object()).cloned().collect(),
            is_comparison,
            size_bytes: frame.message.to_string().len(),
        })
    }

    /// Asks for what comes from now on and for nothing that is there.
    pub fn is_live(&self) -> bool {
        !self.filters.is_empty() && self.filters.iter().all(|filter| filter["limit"] == 0)
    }

    /// Asks for what is there, by REQ.
    pub fn is_page(&self) -> bool {
        !self.is_comparison && !self.is_live()
    }

    /// Says whether a filter has a field such as `#a` or `ids`.
    pub fn has(&self, field: &str) -> bool {
        self.filters.iter().any(|filter| !filter[field].is_null())
    }

    /// Says whether such a field has a value.
    pub fn asks(&self, field: &str, value: &str) -> bool {
        self.values(field).any(|it| it == value)
    }

    /// The texts of such a field, of all filters.
    pub fn values<'a>(&'a self, field: &'a str) -> impl Iterator<Item = &'a str> {
        let lists = self.filters.iter().map(move |filter| &filter[field]);
        let values = lists.flat_map(|list| list.as_array().into_iter().flatten());
        values.filter_map(Value::as_str)
    }

    /// A number such as `until`, of the first filter.
    pub fn number(&self, field: &str) -> Option<u64> {
        self.filters.first()?[field].as_u64()
    }
}

/// The requests that are open on each connection, as both sides said.
#[derive(Debug, Default)]
pub(super) struct Open {
    of: BTreeMap<usize, BTreeSet<String>>,
    most: usize,
}

impl Open {
    pub(super) fn hear(&mut self, connection: usize, message: &Value) {
        let names = self.of.entry(connection).or_default();
        let name = message[1].as_str().unwrap_or_default();
        match message[0].as_str() {
            Some("REQ" | "NEG-OPEN") => {
                names.insert(name.to_owned());
                self.most = self.most.max(names.len());
            }
            Some("CLOSE" | "NEG-CLOSE") => drop(names.remove(name)),
            _ => {}
        }
    }

    pub(super) fn answer(&mut self, connection: usize, answer: &Value) {
        let name = answer[1].as_str().unwrap_or_default();
        if matches!(answer[0].as_str(), Some("CLOSED" | "NEG-ERR"))
            && let Some(names) = self.of.get_mut(&connection)
        {
            names.remove(name);
        }
    }

    /// Ends all that was open on a connection.
    pub(super) fn leave(&mut self, connection: usize) {
        self.of.remove(&connection);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.of.values().flatten().cloned().collect()
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }
}
