//! Reader of the event store of ngit-grasp: LMDB as the crate nostr-lmdb writes it, of which nothing
//! is changed.
//!
//! The unnamed table maps ids to events as flatbuffers (L-6); its indexes are not looked at. Bytes
//! that are no event are told apart and skipped; whether an event is authentic is for the caller to
//! check.

use std::{fs, io, path::Path};

use grip_nostr::Event;
use heed::{CommitOrAbort, EnvFlags, EnvOpenOptions, types::Bytes};
use serde_json::json;

use crate::StoreError;

/// The file of an LMDB environment.
const DATA_FILE: &str = "data.mdb";
/// Tables that the crate makes, and some to spare.
const MAX_TABLES: u32 = 32;
/// Most tags of one event, and strings of one tag, that are read.
const MAX_PARTS: usize = 100_000;

/// What was found under one id.
#[derive(Debug)]
pub enum Found {
    Event(Box<Event>),
    /// The bytes are no event.
    Unreadable,
}

/// Says whether a directory holds an LMDB environment.
pub fn is_store(path: &Path) -> bool {
    path.join(DATA_FILE).is_file()
}

/// Reads every event, in the order of their ids. No other process may have the store open for
/// writing.
#[expect(
    unsafe_code,
    reason = "a memory map is sound as long as nobody changes its file; the caller makes sure that \
              the other server does not run"
)]
pub fn read(path: &Path, each: &mut dyn FnMut(Found)) -> Result<(), StoreError> {
    let size = fs::metadata(path.join(DATA_FILE)).map(|data| data.len());
    let size = usize::try_from(size.unwrap_or_default()).unwrap_or(usize::MAX);
    let mut builder = EnvOpenOptions::new().read_txn_without_tls();
    builder
        .map_size(size.next_multiple_of(1 << 16).max(1 << 20))
        .max_dbs(MAX_TABLES);
    // SAFETY: nothing is written, and without a lock file nothing beside the store is either; that
    // nobody else writes is required of the caller.
    let env = unsafe {
        builder.flags(EnvFlags::READ_ONLY | EnvFlags::NO_LOCK);
        builder.open(path)
    }?;
    let opened = env.open_databases_and_commit(env.read_txn()?, |opener, txn| {
        let table = opener.open_database::<Bytes, Bytes>(txn, None)?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(table))
    })?;
    let Some(table) = opened.commit().flatten() else {
        return Ok(());
    };
    let txn = env.read_txn()?;
    for entry in table.iter(&txn)? {
        let (id, bytes) = entry?;
        // The names of the other tables are keys of this one.
        if id.len() != 32 {
            continue;
        }
        each(match event(bytes) {
            Some(event) if event.id.as_bytes() == id => Found::Event(Box::new(event)),
            _ => Found::Unreadable,
        });
    }
    Ok(())
}

/// Fails if a process has the store open.
pub fn check_unused(path: &Path) -> io::Result<()> {
    let lock = match fs::File::options()
        .read(true)
        .write(true)
        .open(path.join("lock.mdb"))
    {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    // LMDB holds a lock on a part of this file while the environment is open.
    let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::fcntl_lock(&lock, exclusive)
        .map_err(|_| io::Error::new(io::ErrorKind::ResourceBusy, "a process has it open"))
}

/// Reads an event as nostr-lmdb lays it out.
fn event(bytes: &[u8]) -> Option<Event> {
    let buffer = Buffer(bytes);
    let table = buffer.table(buffer.offset(0)?)?;
    let array = |field| buffer.0.get(table.field(field)?..);
    let fixed = |field| array(field)?.first_chunk::<32>().copied();
    let number = |field| match table.field(field) {
        // A field at its default is left out.
        None => Some(0),
        Some(at) => Some(u64::from_le_bytes(*buffer.0.get(at..)?.first_chunk()?)),
    };
    let mut tags: Vec<Vec<&str>> = Vec::new();
    if let Some(at) = table.field(TAGS) {
        for at in buffer.vector(buffer.offset(at)?)? {
            let tag = buffer.table(buffer.offset(at)?)?;
            let parts = buffer.vector(buffer.offset(tag.field(0)?)?)?;
            let parts = parts.map(|at| buffer.string(buffer.offset(at)?));
            let parts = parts.collect::<Option<Vec<&str>>>()?;
            tags.push(parts);
        }
    }
    let content = buffer.string(buffer.offset(table.field(CONTENT)?)?)?;
    let signature = array(SIG)?.first_chunk::<64>()?;
    let json = json!({
        "id": faster_hex::hex_string(&fixed(ID)?),
        "pubkey": faster_hex::hex_string(&fixed(PUBKEY)?),
        "created_at": number(CREATED_AT)?,
        "kind": number(KIND)?,
        "tags": tags,
        "content": content,
        "sig": faster_hex::hex_string(signature),
    });
    serde_json::from_value(json).ok()
}

// Fields of an event, in the order of its schema.
const ID: usize = 0;
const PUBKEY: usize = 1;
const CREATED_AT: usize = 2;
const KIND: usize = 3;
const TAGS: usize = 4;
const CONTENT: usize = 5;
const SIG: usize = 6;

/// A flatbuffer: every offset is checked before it is followed.
#[derive(Clone, Copy)]
struct Buffer<'a>(&'a [u8]);

struct Table<'a> {
    buffer: Buffer<'a>,
    at: usize,
    fields: &'a [u8],
}

impl<'a> Buffer<'a> {
    fn number(self, at: usize) -> Option<usize> {
        let bytes = self.0.get(at..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    }

    /// Where the offset at a place leads.
    fn offset(self, at: usize) -> Option<usize> {
        at.checked_add(self.number(at)?)
    }

    fn table(self, at: usize) -> Option<Table<'a>> {
        let back = i32::from_le_bytes(*self.0.get(at..)?.first_chunk()?);
        let fields = i64::try_from(at).ok()?.checked_sub(i64::from(back))?;
        let fields = self.0.get(usize::try_from(fields).ok()?..)?;
        let size = u16::from_le_bytes(*fields.first_chunk()?);
        let fields = fields.get(4..usize::from(size))?;
        Some(Table {
            buffer: self,
            at,
            fields,
        })
    }

    /// The places of the elements of a vector of offsets.
    fn vector(self, at: usize) -> Option<impl Iterator<Item = usize> + use<>> {
        let count = self.number(at)?;
        let end = count.checked_mul(4)?.checked_add(at)?.checked_add(4)?;
        let fits = count <= MAX_PARTS && end <= self.0.len();
        fits.then(|| (0..count).map(move |n| at + 4 + 4 * n))
    }

    fn string(self, at: usize) -> Option<&'a str> {
        let start = at.checked_add(4)?;
        let end = start.checked_add(self.number(at)?)?;
        std::str::from_utf8(self.0.get(start..end)?).ok()
    }
}

impl Table<'_> {
    /// Where a field begins; none where it is left out.
    fn field(&self, n: usize) -> Option<usize> {
        let offset = u16::from_le_bytes(*self.fields.get(2 * n..)?.first_chunk()?);
        let at = self.at.checked_add(usize::from(offset))?;
        (offset != 0 && at < self.buffer.0.len()).then_some(at)
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod tests {
    use nostr::prelude::{EventBuilder, FinalizeEvent as _, Keys, Kind, Tag};
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Event {
        let tags = [["d", "tides"], ["name", "ebb und flüt"]].map(|tag| Tag::parse(tag).unwrap());
        EventBuilder::new(Kind::from(30_617), "content ✓")
            .tags(tags)
            .finalize(&Keys::generate())
            .unwrap()
    }

    /// L-6
    #[test]
    fn events_are_read_as_they_were_written_and_nothing_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let mut events: Vec<Event> = (0..20).map(|_| sample()).collect();
        testing::write(dir.path(), &events);
        let before = fs::read(dir.path().join(DATA_FILE)).unwrap();
        let mut found = Vec::new();
        let mut each = |it| match it {
            Found::Event(event) => found.push(*event),
            Found::Unreadable => panic!("all of them are events"),
        };
        check_unused(dir.path()).unwrap();
        read(dir.path(), &mut each).unwrap();
        events.sort_by_key(|event| event.id);
        assert_eq!(found, events);
        assert!(found.iter().all(|event| event.verify().is_ok()));
        assert_eq!(fs::read(dir.path().join(DATA_FILE)).unwrap(), before);
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_are_read_without_panic(
            noise in any::<Vec<u8>>(),
            at in any::<prop::sample::Index>(),
            to in any::<u8>(),
        ) {
            let _ = event(&noise);
            let mut bytes = testing::flatbuffer(&sample());
            let at = at.index(bytes.len());
            bytes[at] = to;
            let _ = event(&bytes);
            bytes.truncate(at);
            let _ = event(&bytes);
        }
    }
}
