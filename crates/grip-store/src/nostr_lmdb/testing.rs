//! Writer of stores as nostr-lmdb lays them out, for tests of the reader.

use std::path::Path;

use grip_nostr::Event;
use heed::{CommitOrAbort, EnvOpenOptions, types::Bytes};

/// Writes a store with these events and a table of another name, as the crate has.
///
/// # Panics
/// Where the directory cannot be written to.
#[expect(
    unsafe_code,
    reason = "the store is made by this test and used by nobody else"
)]
pub fn write(path: &Path, events: &[Event]) {
    std::fs::create_dir_all(path).expect("the directory can be made");
    let mut builder = EnvOpenOptions::new();
    builder.map_size(64 << 20).max_dbs(4);
    // SAFETY: nobody else knows of the store.
    let env = unsafe { builder.open(path) }.expect("a store can be made");
    let txn = env.write_txn().expect("it can be written");
    let opened = env.create_databases_and_commit(txn, |opener, txn| {
        let main = opener.create_database::<Bytes, Bytes>(txn, None)?;
        let other = opener.create_database::<Bytes, Bytes>(txn, Some("deleted-coordinates"))?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit([main, other]))
    });
    let opened = opened.expect("tables can be made");
    let [main, _] = opened.commit().expect("the closure above only commits");
    let mut txn = env.write_txn().expect("it can be written");
    for event in events {
        let bytes = flatbuffer(event);
        main.put(&mut txn, event.id.as_bytes(), &bytes)
            .expect("room");
    }
    txn.commit().expect("it can be written");
    env.prepare_for_closing().wait();
}

/// An event as a flatbuffer of the schema of nostr-lmdb.
pub fn flatbuffer(event: &Event) -> Vec<u8> {
    // Offset of the root, places of the fields, the table itself; strings and vectors follow, each
    // found by an offset that is filled in once its place is known.
    let fields: [u16; 7] = [20, 52, 4, 12, 84, 88, 92];
    let size = u16::try_from(4 + 2 * fields.len()).expect("few fields");
    let table_size: u16 = 92 + 64;
    let mut out = Vec::new();
    let vtable = 4;
    let table = vtable + usize::from(size);
    out.extend(u32::try_from(table).expect("small").to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(table_size.to_le_bytes());
    for field in fields {
        out.extend(field.to_le_bytes());
    }
    let back = i32::try_from(table - vtable).expect("small");
    out.extend(back.to_le_bytes());
    out.extend(event.created_at.as_secs().to_le_bytes());
    out.extend(u64::from(event.kind.as_u16()).to_le_bytes());
    out.extend(event.id.as_bytes());
    out.extend(event.pubkey.to_bytes());
    let tags_at = out.len();
    out.extend([0; 8]);
    out.extend(signature(event));
    let content = append_string(&mut out, &event.content);
    point(&mut out, tags_at + 4, content);
    let tags: Vec<_> = event.tags.iter().map(|tag| tag.as_slice()).collect();
    let vector = append_vector(&mut out, tags.len());
    point(&mut out, tags_at, vector);
    for (n, parts) in tags.into_iter().enumerate() {
        // A table with one field, a vector of strings.
        let vtable = out.len();
        for number in [6_u16, 8, 4] {
            out.extend(number.to_le_bytes());
        }
        let table = out.len();
        out.extend(i32::try_from(table - vtable).expect("small").to_le_bytes());
        out.extend([0; 4]);
        point(&mut out, vector + 4 + 4 * n, table);
        let strings = append_vector(&mut out, parts.len());
        point(&mut out, table + 4, strings);
        for (n, part) in parts.iter().enumerate() {
            let string = append_string(&mut out, part);
            point(&mut out, strings + 4 + 4 * n, string);
        }
    }
    out
}

fn signature(event: &Event) -> Vec<u8> {
    let json = serde_json::to_value(event).expect("an event can be written");
    let hex = json["sig"].as_str().expect("it is signed").as_bytes();
    let digit = |byte: &u8| char::from(*byte).to_digit(16).expect("it is hex");
    let byte = |pair: &[u8]| pair.iter().fold(0, |high, low| (high << 4) + digit(low));
    let bytes = hex.chunks(2).map(byte);
    bytes
        .map(|byte| u8::try_from(byte).expect("two digits"))
        .collect()
}

fn append_string(out: &mut Vec<u8>, text: &str) -> usize {
    let at = out.len();
    out.extend(u32::try_from(text.len()).expect("short").to_le_bytes());
    out.extend(text.as_bytes());
    out.push(0);
    at
}

fn append_vector(out: &mut Vec<u8>, count: usize) -> usize {
    let at = out.len();
    out.extend(u32::try_from(count).expect("few").to_le_bytes());
    out.resize(at + 4 + 4 * count, 0);
    at
}

/// Writes the offset from a place to another one behind it.
fn point(out: &mut [u8], from: usize, to: usize) {
    let offset = u32::try_from(to - from).expect("it lies behind");
    out[from..from + 4].copy_from_slice(&offset.to_le_bytes());
}
