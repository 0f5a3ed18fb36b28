//! Validation of records that other nodes want this one to store.

use bytes::Bytes;
use grip_dht::{RecordKey, Verdict};

use crate::{Key, Manifest, NodeRecord, manifest::MAX_RECORD_BYTES, node_record_key};

/// Accepts a manifest under its name or its id, a node record under its peer, and nothing else.
pub(crate) fn validate(key: &RecordKey, offered: &[u8], held: Option<&[u8]>, now: u64) -> Verdict {
    if offered.len() > MAX_RECORD_BYTES {
        return Verdict::Refuse(format!("a record has at most {MAX_RECORD_BYTES} bytes"));
    }
    if held == Some(offered) {
        return Verdict::Ignore;
    }
    if NodeRecord::is_form_of(offered) {
        return validate_node_record(key, offered, held, now);
    }
    let manifest = match Manifest::decode(offered) {
        Ok(manifest) => manifest,
        Err(error) => return Verdict::Refuse(error.to_string()),
    };
    if Key::Manifest(manifest.id()).record() == *key {
        return Verdict::Keep(Bytes::copy_from_slice(offered));
    }
    if Key::Name(manifest.name()).record() != *key {
        return Verdict::Refuse("the manifest belongs under another key".to_owned());
    }
    let held = held.and_then(|held| Manifest::decode(held).ok());
    join(&manifest, held.as_ref())
}

fn join(offered: &Manifest, held: Option<&Manifest>) -> Verdict {
    let Some(held) = held else {
        return Verdict::Keep(offered.bytes().clone());
    };
    let joint = held.join(offered);
    if joint.fits_a_record() {
        if joint == *held {
            return Verdict::Ignore;
        }
        return Verdict::Keep(joint.bytes().clone());
    }
    // Both fit, and their joint does not: the newer announcement counts.
    if joint.announcement() == held.announcement() {
        return Verdict::Ignore;
    }
    Verdict::Keep(offered.bytes().clone())
}

fn validate_node_record(key: &RecordKey, offered: &[u8], held: Option<&[u8]>, now: u64) -> Verdict {
    let record = match NodeRecord::decode(offered) {
        Ok(record) => record,
        Err(error) => return Verdict::Refuse(error.to_string()),
    };
    if node_record_key(&record.peer) != *key {
        return Verdict::Refuse("the node record belongs under another key".to_owned());
    }
    if !record.is_current(now) {
        return Verdict::Refuse("the node record is too old, or from the future".to_owned());
    }
    let held = held.and_then(|held| NodeRecord::decode(held).ok());
    if held.is_some_and(|held| held.issued >= record.issued) {
        return Verdict::Ignore;
    }
    Verdict::Keep(Bytes::copy_from_slice(offered))
}
