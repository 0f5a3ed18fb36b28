//! Links of an object: the objects that cannot be missing where it is.

use gix_object::{TagRefIter, tree::EntryKind};
use grip_types::Oid;

use super::{MAX_TAG_BYTES, ObjectKind, ReadError, Reader};

impl Reader {
    /// What `oid` links to, submodules left out, and the bytes that were read to find out.
    pub(crate) fn links(&self, oid: &Oid) -> Result<(Vec<Oid>, u64), ReadError> {
        let (kind, size) = self.look(oid)?;
        let mut links = Vec::new();
        match kind {
            ObjectKind::Blob => return Ok((links, 0)),
            ObjectKind::Tree => self.directory(oid)?.each(|_, entry| {
                if entry.kind != EntryKind::Commit {
                    links.push(entry.oid);
                }
                Ok::<_, ReadError>(true)
            })?,
            ObjectKind::Commit => {
                let commit = self.commit(oid)?;
                let commit = commit.ok_or_else(|| ReadError::unusable(oid, "it is no commit"))?;
                links.push(commit.tree);
                links.extend(commit.parents);
            }
            ObjectKind::Tag => {
                let tag = self.contents(oid, ObjectKind::Tag, MAX_TAG_BYTES)?;
                let target = TagRefIter::from_bytes(&tag, gix_hash::Kind::Sha1).target_id();
                let target = target
                    .ok()
                    .and_then(|id| Oid::from_bytes(id.as_bytes()).ok());
                links.push(target.ok_or_else(|| ReadError::unusable(oid, "it is malformed"))?);
            }
        }
        Ok((links, size))
    }
}
