//! The tables of the environment.

use heed::{CommitOrAbort, Database, Env, WithoutTls, types::Bytes};

use crate::{OpenError, write};

pub(crate) type Table = Database<'static, Bytes, Bytes>;

/// Rises with every change of the bytes below.
const FORMAT: u32 = 2;
const FORMAT_KEY: &[u8] = b"format";

/// How many tables there are, for LMDB's own bound.
pub(crate) const COUNT: u32 = 14;

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
    /// id → what is known of a request to delete or to vanish
    pub(crate) requests: Table,
    /// what is to be deleted, id of the request → up to which time
    pub(crate) targets: Table,
    /// author, kind, digest of `d`, position → record of a version that another replaced
    pub(crate) history: Table,
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
                table("requests")?,
                table("targets")?,
                table("history")?,
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
            requests,
            targets,
            history,
            expirations,
        ] = opened.commit().expect("the closure above only commits");
        let tables = Self {
            events,
            ids,
            by_time,
            by_kind,
            by_author,
            by_tag,
            addresses,
            requests,
            targets,
            history,
            expirations,
        };
        check_format(env, meta, tables)?;
        Ok(tables)
    }
}

/// Marks a new store with its format, brings one of before to it, and refuses one of another.
fn check_format(env: &Env<WithoutTls>, meta: Table, tables: Tables) -> Result<(), OpenError> {
    let mut txn = env.write_txn()?;
    let found = meta
        .get(&txn, FORMAT_KEY)?
        .map(|bytes| bytes.try_into().map_or(0, u32::from_be_bytes));
    match found {
        Some(FORMAT) => return Ok(()),
        None => {}
        Some(1) => write::take_over_requests(tables, &mut txn)?,
        Some(found) => {
            return Err(OpenError::Format {
                found,
                known: FORMAT,
            });
        }
    }
    meta.put(&mut txn, FORMAT_KEY, &FORMAT.to_be_bytes())?;
    Ok(txn.commit()?)
}
