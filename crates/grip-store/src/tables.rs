//! The tables of the environment.

use heed::{CommitOrAbort, Database, Env, WithoutTls, types::Bytes};

use crate::OpenError;

pub(crate) type Table = Database<'static, Bytes, Bytes>;

/// Rises with every change of the bytes below.
const FORMAT: u32 = 1;
const FORMAT_KEY: &[u8] = b"format";

/// How many tables there are, for LMDB's own bound.
pub(crate) const COUNT: u32 = 11;

#[derive(Clone, Copy)]
pub(crate) struct Tables {
    /// serial → record
    pub(crate) events: Table,
    /// id → serial
    pub(crate) ids: Table,
    /// position → entry; so are the values of the next three
    pub(crate) by_time: Table,
    /// kind, position
    pub(crate) by_kind: Table,
    /// author, kind, position
    pub(crate) by_author: Table,
    /// digest of the value, letter, position
    pub(crate) by_tag: Table,
    /// address → serial of its one version
    pub(crate) addresses: Table,
    /// id, author → id of the request
    pub(crate) deleted_ids: Table,
    /// address → time of the latest request, its id
    pub(crate) deleted_addresses: Table,
    /// expiration, id → serial
    pub(crate) expirations: Table,
}

impl Tables {
    pub(crate) fn open(env: &Env<WithoutTls>) -> Result<Self, OpenError> {
        let txn = env.write_txn()?;
        let opened = env.create_databases_and_commit(txn, |opener, txn| {
            let mut table = |name| opener.create_database::<Bytes, Bytes>(txn, Some(name));
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit([
                table("meta")?,
                table("events")?,
                table("ids")?,
                table("by_time")?,
                table("by_kind")?,
                table("by_author")?,
                table("by_tag")?,
                table("addresses")?,
                table("deleted_ids")?,
                table("deleted_addresses")?,
                table("expirations")?,
            ]))
        })?;
        let [
            meta,
            events,
            ids,
            by_time,
            by_kind,
            by_author,
            by_tag,
            addresses,
            deleted_ids,
            deleted_addresses,
            expirations,
        ] = opened.commit().expect("the closure above only commits");
        check_format(env, meta)?;
        Ok(Self {
            events,
            ids,
            by_time,
            by_kind,
            by_author,
            by_tag,
            addresses,
            deleted_ids,
            deleted_addresses,
            expirations,
        })
    }
}

/// Marks a new store with its format and refuses one of another.
fn check_format(env: &Env<WithoutTls>, meta: Table) -> Result<(), OpenError> {
    let mut txn = env.write_txn()?;
    let found = meta
        .get(&txn, FORMAT_KEY)?
        .map(|bytes| bytes.try_into().map_or(0, u32::from_be_bytes));
    match found {
        Some(FORMAT) => Ok(()),
        Some(found) => Err(OpenError::Format {
            found,
            known: FORMAT,
        }),
        None => {
            meta.put(&mut txn, FORMAT_KEY, &FORMAT.to_be_bytes())?;
            Ok(txn.commit()?)
        }
    }
}
