//! Changes of a transaction, key by key: what a compaction takes over, and what another copy of the
//! store is brought up to date with.
//!
//! To make the same changes again, in their order, is harmless: each says what its key is from then on.

use heed::RwTxn;

use crate::{
    StoreError,
    tables::{Table, Tables},
};

/// Longest number of a change in its encoded form: a length of four bytes.
const LENGTH: usize = 4;
/// Stands for the length of a value that is gone.
const DELETED: u32 = u32::MAX;

/// Names a table in any environment; the number is that of its encoded form and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Events = 0,
    Ids = 1,
    ByTime = 2,
    ByKind = 3,
    ByAuthor = 4,
    ByTag = 5,
    Addresses = 6,
    Requests = 7,
    Targets = 8,
    History = 9,
    Expirations = 10,
}

impl Which {
    pub(crate) const ALL: [Self; 11] = [
        Self::Events,
        Self::Ids,
        Self::ByTime,
        Self::ByKind,
        Self::ByAuthor,
        Self::ByTag,
        Self::Addresses,
        Self::Requests,
        Self::Targets,
        Self::History,
        Self::Expirations,
    ];

    pub(crate) fn of(self, tables: &Tables) -> Table {
        match self {
            Self::Events => tables.events,
            Self::Ids => tables.ids,
            Self::ByTime => tables.by_time,
            Self::ByKind => tables.by_kind,
            Self::ByAuthor => tables.by_author,
            Self::ByTag => tables.by_tag,
            Self::Addresses => tables.addresses,
            Self::Requests => tables.requests,
            Self::Targets => tables.targets,
            Self::History => tables.history,
            Self::Expirations => tables.expirations,
        }
    }
}

/// What became of one key; `None` = deleted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    which: Which,
    key: Box<[u8]>,
    value: Option<Box<[u8]>>,
}

impl Change {
    pub(crate) fn new(which: Which, key: &[u8], value: Option<&[u8]>) -> Self {
        Self {
            which,
            key: key.into(),
            value: value.map(Into::into),
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.value.as_ref().map_or(0, |value| value.len())
    }

    pub(crate) fn apply(&self, tables: &Tables, txn: &mut RwTxn<'_>) -> heed::Result<()> {
        let table = self.which.of(tables);
        match &self.value {
            Some(value) => table.put(txn, &self.key, value),
            None => table.delete(txn, &self.key).map(drop),
        }
    }
}

/// The table, the length of the key, the length of the value, and both.
pub(crate) fn encode(changes: &[Change]) -> Vec<u8> {
    let mut encoded = Vec::new();
    let length = |len: usize| {
        let len = u32::try_from(len).ok().filter(|len| *len != DELETED);
        len.expect("keys and events are far shorter").to_be_bytes()
    };
    for Change { which, key, value } in changes {
        encoded.push(*which as u8);
        encoded.extend(length(key.len()));
        let value_length = value.as_ref().map(|value| length(value.len()));
        encoded.extend(value_length.unwrap_or(DELETED.to_be_bytes()));
        encoded.extend_from_slice(key);
        encoded.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    encoded
}

pub(crate) fn decode(mut encoded: &[u8]) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    while !encoded.is_empty() {
        let change = next(&mut encoded);
        changes.push(change.ok_or(StoreError::Corrupt("an encoded change cannot be read"))?);
    }
    Ok(changes)
}

fn next(encoded: &mut &[u8]) -> Option<Change> {
    let mut take = |len: usize| {
        let (taken, rest) = encoded.split_at_checked(len)?;
        *encoded = rest;
        Some(taken)
    };
    let which = *take(1)?.first()?;
    let which = *Which::ALL.get(usize::from(which))?;
    let mut length = || Some(u32::from_be_bytes(take(LENGTH)?.try_into().ok()?));
    let (key, value) = (length()?, length()?);
    let key = take(usize::try_from(key).ok()?)?.into();
    let value = match value {
        DELETED => None,
        len => Some(take(usize::try_from(len).ok()?)?.into()),
    };
    Some(Change { which, key, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_back_as_they_were_and_nothing_else_is() {
        let changes: Vec<Change> = Which::ALL
            .into_iter()
            .flat_map(|which| {
                let value = [which as u8; 300];
                [
                    Change::new(which, b"key", Some(&value)),
                    Change::new(which, b"", Some(b"")),
                    Change::new(which, b"gone", None),
                ]
            })
            .collect();
        let encoded = encode(&changes);
        assert_eq!(decode(&encoded).unwrap(), changes);
        assert!(decode(&encoded[..encoded.len() - 1]).is_err());
        assert!(decode(&[11, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
