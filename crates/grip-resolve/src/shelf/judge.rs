//! What other nodes may lay here for the network.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use grip_dht::{Judge, RecordKey, Verdict};

use super::Shelf;
use crate::{Card, Key, Manifest, manifest::MAX_RECORD_BYTES, node_record};

impl Judge for Shelf {
    fn judge(&self, key: &RecordKey, offered: &[u8], held: Option<&[u8]>) -> Verdict {
        judge(key, offered, held, now())
    }
}

/// A manifest lies under its name or its id, a card under its peer; nothing else lies anywhere.
pub(crate) fn judge(key: &RecordKey, offered: &[u8], held: Option<&[u8]>, now: u64) -> Verdict {
    if offered.len() > MAX_RECORD_BYTES {
        return Verdict::Refuse(format!("a record has at most {MAX_RECORD_BYTES} bytes"));
    }
    if held == Some(offered) {
        return Verdict::Ignore;
    }
    if Card::is_form_of(offered) {
        return judge_card(key, offered, held, now);
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
    match joint.fits_a_record() {
        true if joint == *held => Verdict::Ignore,
        true => Verdict::Keep(joint.bytes().clone()),
        // Two that fit, and what they say together does not: the newer announcement counts.
        false if joint.announcement() == held.announcement() => Verdict::Ignore,
        false => Verdict::Keep(offered.bytes().clone()),
    }
}

fn judge_card(key: &RecordKey, offered: &[u8], held: Option<&[u8]>, now: u64) -> Verdict {
    let card = match Card::decode(offered) {
        Ok(card) => card,
        Err(error) => return Verdict::Refuse(error.to_string()),
    };
    if node_record(&card.peer) != *key {
        return Verdict::Refuse("the card belongs under another key".to_owned());
    }
    if !card.is_current(now) {
        return Verdict::Refuse("the card is too old, or from the future".to_owned());
    }
    let newer = held
        .and_then(|held| Card::decode(held).ok())
        .is_some_and(|held| held.issued >= card.issued);
    match newer {
        true => Verdict::Ignore,
        false => Verdict::Keep(Bytes::copy_from_slice(offered)),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
