//! Place in the log: a record, and a digest of it and of all records before it.
//!
//! Two histories of the same length differ in it. So a copy finds out that the database was set back and
//! went on without it.

use serde::{Deserialize, Serialize};

use crate::cluster::{Record, as_counted};

/// The last record that somebody has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tip {
    pub seq: u64,
    /// Hexadecimal; empty before the first record, and where the log was begun without digests.
    #[serde(default)]
    pub digest: String,
}

impl Tip {
    /// The digest of a record that comes next.
    pub(crate) fn digest_of_next(&self, kind: &str, payload: &[u8]) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in [self.digest.as_bytes(), kind.as_bytes()] {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        hasher.update(payload);
        hasher.finalize().to_hex().to_string()
    }

    /// The place after a record; none if that record does not come after this one.
    pub(crate) fn after(&self, record: &Record) -> Option<Self> {
        let is_unknown = self.digest.is_empty() && self.seq > 0;
        let is_next = record.digest.is_empty()
            || is_unknown
            || record.digest == self.digest_of_next(&record.kind, &record.payload);
        is_next.then(|| Self {
            seq: as_counted(record.seq),
            digest: record.digest.clone(),
        })
    }

    /// Says whether this may be the same place of the same log.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        let is_known = !self.digest.is_empty() && !other.digest.is_empty();
        self.seq == other.seq && (!is_known || self.digest == other.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(after: &Tip, text: &str) -> Record {
        Record {
            seq: i64::try_from(after.seq + 1).unwrap(),
            kind: "git".to_owned(),
            payload: text.as_bytes().to_vec(),
            digest: after.digest_of_next("git", text.as_bytes()),
        }
    }

    #[test]
    fn a_record_of_another_history_does_not_come_next() {
        let begin = Tip::default();
        let one = begin.after(&record(&begin, "one")).expect("the first");
        let other = begin.after(&record(&begin, "other")).expect("a first");
        assert!(one.seq == other.seq && !one.agrees_with(&other));
        assert!(one.after(&record(&one, "two")).is_some());
        assert_eq!(one.after(&record(&other, "two")), None);
        let mut changed = record(&one, "two");
        changed.payload = b"three".to_vec();
        assert_eq!(one.after(&changed), None);
    }

    #[test]
    fn a_log_that_was_begun_without_digests_goes_on() {
        let before = Tip {
            seq: 7,
            digest: String::new(),
        };
        let next = before.after(&record(&before, "next")).expect("unknown");
        assert_eq!(next.seq, 8);
        assert!(before.agrees_with(&Tip {
            seq: 7,
            digest: "aa".to_owned()
        }));
        let bare = Record {
            digest: String::new(),
            ..record(&before, "bare")
        };
        assert!(before.after(&bare).is_some_and(|tip| tip.digest.is_empty()));
    }
}
