//! Digest of a repository's tags: equal digests mean equal tags.

use grip_git::{Ref, RefSnapshot};
use sha2::{Digest, Sha256};

const TAGS: &str = "refs/tags/";

/// The tags by name, without `refs/tags/`.
pub(super) fn tags(refs: &RefSnapshot) -> impl Iterator<Item = (&str, &Ref)> {
    refs.iter()
        .filter_map(|r| Some((r.name.as_str().strip_prefix(TAGS)?, r)))
}

/// Names and objects of all tags; refs are sorted, so equal tags give equal texts.
pub(super) fn of(refs: &RefSnapshot) -> String {
    let mut hash = Sha256::new();
    for (name, r) in tags(refs) {
        // No name holds a NUL, and ids are of one length each: no two lists read the same.
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update(r.oid.as_bytes());
    }
    faster_hex::hex_string(&hash.finalize()[..16])
}
