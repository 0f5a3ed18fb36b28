//! Fields of commits and tags.

use std::collections::HashSet;

use gix_object::{CommitRefIter, TagRefIter};
use grip_types::Oid;

use super::{MAX_TAG_BYTES, MAX_TAG_DEPTH, ObjectKind, ReadError, Reader};

/// Largest commit read.
const MAX_COMMIT_BYTES: u64 = 4 << 20;
/// The last millisecond of the year 9999: what any calendar can show.
const MAX_TIME_MS: i64 = 253_402_300_799_999;

/// What a commit says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitFacts {
    pub oid: Oid,
    pub tree: Oid,
    /// Milliseconds since 1970, from 0 to the end of the year 9999 whatever was written; 0 also
    /// for what is no time.
    pub committed_at_ms: i64,
    pub parents: Vec<Oid>,
}

/// What a tag, annotated or light, says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TagFacts {
    pub commit: Oid,
    /// When it was tagged or, if the tag does not say, committed; as [`CommitFacts`] has it.
    pub created_at_ms: i64,
}

impl Reader {
    /// The commit that `oid` is or, over any tags, leads to; `None` if that is something else.
    pub(crate) fn commit(&self, oid: &Oid) -> Result<Option<CommitFacts>, ReadError> {
        Ok(self.follow(oid)?.map(|(_, commit)| commit))
    }

    /// The top directory of a commit that should be here.
    pub(crate) fn tree_of(&self, commit: &Oid) -> Result<Oid, ReadError> {
        let found = self.commit(commit)?;
        let found = found.ok_or_else(|| ReadError::unusable(commit, "it is no commit"))?;
        Ok(found.tree)
    }

    /// The one commit whose id begins so.
    pub(crate) fn expand(&self, prefix: &str) -> Option<Oid> {
        let prefix = gix_hash::Prefix::from_hex(prefix).ok()?;
        let mut candidates = HashSet::new();
        // As many as begin the same: it takes 2^28 attempts to make one more.
        let found = self.handle.lookup_prefix(prefix, Some(&mut candidates));
        if let Err(error) = found {
            tracing::warn!(%prefix, %error, "objects cannot be looked up");
            return None;
        }
        let oids = candidates
            .iter()
            .filter_map(|id| Oid::from_bytes(id.as_bytes()).ok());
        let mut commits = oids.filter(|oid| self.kind(oid) == Some(ObjectKind::Commit));
        let first = commits.next()?;
        commits.next().is_none().then_some(first)
    }

    /// The outermost tag's date counts: that is the one the ref names.
    pub(crate) fn tagged(&self, oid: &Oid) -> Result<Option<TagFacts>, ReadError> {
        let followed = self.follow(oid)?;
        Ok(followed.map(|(tagged_at_ms, commit)| TagFacts {
            commit: commit.oid,
            created_at_ms: tagged_at_ms.unwrap_or(commit.committed_at_ms),
        }))
    }

    /// Follows tags to a commit and notes when the first that says so was made.
    fn follow(&self, oid: &Oid) -> Result<Option<(Option<i64>, CommitFacts)>, ReadError> {
        let mut tagged_at_ms = None;
        let mut at = *oid;
        for _ in 0..=MAX_TAG_DEPTH {
            match self.look(&at)?.0 {
                ObjectKind::Commit => return Ok(Some((tagged_at_ms, self.commit_facts(&at)?))),
                ObjectKind::Tree | ObjectKind::Blob => return Ok(None),
                ObjectKind::Tag => {
                    let tag = self.text(&at, ObjectKind::Tag, MAX_TAG_BYTES)?;
                    tagged_at_ms = tagged_at_ms.or_else(|| time_ms(&tag, b"tagger "));
                    let target = TagRefIter::from_bytes(&tag, gix_hash::Kind::Sha1).target_id();
                    at = known(&at, target)?;
                }
            }
        }
        let reason = format!("a tag of a tag more than {MAX_TAG_DEPTH} times over");
        Err(ReadError::unusable(oid, reason))
    }

    fn commit_facts(&self, oid: &Oid) -> Result<CommitFacts, ReadError> {
        let commit = self.text(oid, ObjectKind::Commit, MAX_COMMIT_BYTES)?;
        let fields = CommitRefIter::from_bytes(&commit, gix_hash::Kind::Sha1);
        let parents = fields
            .parent_ids()
            .map(|parent| known(oid, Ok::<_, ()>(parent)));
        Ok(CommitFacts {
            oid: *oid,
            tree: known(oid, fields.clone().tree_id())?,
            committed_at_ms: time_ms(&commit, b"committer ").unwrap_or(0),
            parents: parents.collect::<Result<_, _>>()?,
        })
    }

    fn text(&self, oid: &Oid, kind: ObjectKind, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
        self.contents(oid, kind, max_bytes)
            .map_err(|error| match error {
                ReadError::TooLarge(oid, size) => {
                    ReadError::unusable(&oid, format!("its {size} bytes are too many"))
                }
                other => other,
            })
    }
}

fn known(within: &Oid, id: Result<gix_hash::ObjectId, impl Sized>) -> Result<Oid, ReadError> {
    let oid = id.ok().and_then(|id| Oid::from_bytes(id.as_bytes()).ok());
    oid.ok_or_else(|| ReadError::unusable(within, "it is malformed"))
}

/// The time at the end of a header line, if there is such a line.
pub(super) fn time_ms(object: &[u8], field: &[u8]) -> Option<i64> {
    let headers = object.split(|byte| *byte == b'\n');
    let mut headers = headers.take_while(|line| !line.is_empty());
    let line = headers.find_map(|line| line.strip_prefix(field))?;
    // A name may hold anything but the bracket that ends the address.
    let after = line.iter().rposition(|byte| *byte == b'>')? + 1;
    let mut words = line[after..].split(|byte| *byte == b' ');
    let seconds = words.find(|word| !word.is_empty()).unwrap_or_default();
    Some(clamped_ms(seconds))
}

fn clamped_ms(seconds: &[u8]) -> i64 {
    if seconds.is_empty() || !seconds.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let seconds = std::str::from_utf8(seconds).unwrap_or_default();
    // All digits and no number: too many of them.
    let seconds = seconds.parse().unwrap_or(i64::MAX);
    seconds.saturating_mul(1000).min(MAX_TIME_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(line: &str) -> Option<i64> {
        let commit = format!("tree x\n{line}\n\ncommitter B <b> 7 +0000\n");
        time_ms(commit.as_bytes(), b"committer ")
    }

    #[test]
    fn a_time_is_read_from_the_end_of_its_line() {
        let ordinary = committed("committer A <a@b.example> 1700000000 +0130");
        assert_eq!(ordinary, Some(1_700_000_000_000));
        assert_eq!(committed("committer A <5 > <a> 8 +0000"), Some(8_000));
        assert_eq!(committed("committer A <a>9"), Some(9_000));
        assert_eq!(
            committed("author A <a> 9 +0000"),
            None,
            "the message is no header"
        );
        assert_eq!(committed("committer A 9 +0000"), None);
    }

    #[test]
    fn a_hostile_time_is_brought_into_the_calendar() {
        for (written, read) in [
            ("-1", 0),
            ("-99999999999999999999999", 0),
            ("x", 0),
            ("", 0),
            ("1e9", 0),
            ("+5", 0),
            ("253402300799", 253_402_300_799_000),
            ("253402300800", MAX_TIME_MS),
            ("9223372036854775807", MAX_TIME_MS),
            ("99999999999999999999999999", MAX_TIME_MS),
        ] {
            let line = format!("committer A <a> {written}");
            assert_eq!(committed(&line), Some(read), "{written}");
        }
    }
}
