//! Errors of the store.

use std::io;

use nostr::prelude::Kind;

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("the directory of the event store cannot be created")]
    Directory(#[source] io::Error),
    #[error(
        "the event store is damaged or is none: restore it from a backup, or move it away to begin \
         with an empty one"
    )]
    Damaged(#[source] heed::Error),
    #[error("the event store cannot be opened")]
    Lmdb(#[source] heed::Error),
    #[error("the event store is already open in this process")]
    AlreadyOpen,
    #[error("the event store has format {found}, this version reads format {known}")]
    Format { found: u32, known: u32 },
}

impl From<heed::Error> for OpenError {
    fn from(error: heed::Error) -> Self {
        match error {
            heed::Error::EnvAlreadyOpened => Self::AlreadyOpen,
            heed::Error::Mdb(
                heed::MdbError::Invalid
                | heed::MdbError::Corrupted
                | heed::MdbError::PageNotFound
                | heed::MdbError::VersionMismatch,
            ) => Self::Damaged(error),
            other => Self::Lmdb(other),
        }
    }
}

/// Why reading or writing failed. Whatever it was, the transaction changed nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("the event store is full: the map size or the disk is used up")]
    Full,
    #[error("too many readers at once")]
    TooManyReaders,
    #[error("kind {} is ephemeral and is never stored", .0.as_u16())]
    Ephemeral(Kind),
    #[error("an earlier step of this transaction failed, so nothing of it was kept")]
    Incomplete,
    #[error("the event store is damaged: {0}")]
    Corrupt(&'static str),
    #[error("the event cannot be written as JSON")]
    Encode(#[source] serde_json::Error),
    #[error("the change could not be logged for the other copies of the event store")]
    NotLogged(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nothing can be read or written before it is opened again (`MDB_PANIC`).
    #[error("the event store is dead after an error of the disk")]
    Dead,
    #[error("the event store failed")]
    Lmdb(#[source] heed::Error),
}

impl StoreError {
    /// Says whether the same call may succeed later without anybody's help.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::TooManyReaders)
    }
}

impl From<heed::Error> for StoreError {
    fn from(error: heed::Error) -> Self {
        match error {
            heed::Error::Mdb(heed::MdbError::MapFull) => Self::Full,
            heed::Error::Io(error) if error.kind() == io::ErrorKind::StorageFull => Self::Full,
            heed::Error::Mdb(heed::MdbError::ReadersFull) => Self::TooManyReaders,
            heed::Error::Mdb(heed::MdbError::Panic) => Self::Dead,
            other => Self::Lmdb(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_lmdb_gave_up_is_dead_and_no_other_is() {
        let of = |error| StoreError::from(heed::Error::Mdb(error));
        assert!(matches!(of(heed::MdbError::Panic), StoreError::Dead));
        assert!(matches!(of(heed::MdbError::MapFull), StoreError::Full));
        assert!(matches!(of(heed::MdbError::Corrupted), StoreError::Lmdb(_)));
    }
}
