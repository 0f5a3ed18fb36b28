//! An unchanging view of a repository's refs.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use grip_types::{Oid, RefName};

use crate::upload_request::{GitService, LsRefs, Protocol};

use super::{
    advertise::{self, RefListing},
    moves::{RefMove, is_record},
};

/// One ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    pub name: RefName,
    pub oid: Oid,
    /// What an annotated tag finally points at.
    pub peeled: Option<Oid>,
}

/// All refs of a repository at one moment, sorted by name, with what HEAD names. Records of moves are
/// apart: nothing that shows refs to somebody meets them.
#[derive(Debug, Default)]
pub struct RefSnapshot {
    refs: Vec<Ref>,
    /// Hidden refs, see [`RefMove`].
    kept: Vec<Ref>,
    head: Option<RefName>,
    upload_v0: OnceLock<Bytes>,
    upload_v1: OnceLock<Bytes>,
    receive: OnceLock<Bytes>,
}

impl RefSnapshot {
    /// Takes refs that are sorted by name and named once each.
    pub(crate) fn new(refs: Vec<Ref>, head: Option<RefName>) -> Self {
        debug_assert!(refs.is_sorted_by(|a, b| a.name < b.name));
        let is_record = |found: &Ref| is_record(&found.name);
        let (kept, refs) = if refs.iter().any(is_record) {
            refs.into_iter().partition(is_record)
        } else {
            (Vec::new(), refs)
        };
        Self {
            refs,
            kept,
            head,
            ..Self::default()
        }
    }

    pub fn get(&self, name: &RefName) -> Option<&Ref> {
        let found = self.refs.binary_search_by(|r| r.name.cmp(name));
        found.ok().map(|at| &self.refs[at])
    }

    /// Every ref, sorted by the bytes of its name.
    pub fn iter(&self) -> std::slice::Iter<'_, Ref> {
        self.refs.iter()
    }

    pub fn len(&self) -> usize {
        self.refs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.refs.is_empty()
    }

    /// The recorded moves, oldest first.
    pub fn moves(&self) -> impl Iterator<Item = RefMove> {
        self.kept.iter().filter_map(RefMove::read)
    }

    /// What the recorded tips lead to, newest first, tags followed.
    pub fn kept_commits(&self) -> impl Iterator<Item = Oid> {
        let kept = self.kept.iter().rev();
        kept.map(|found| found.peeled.unwrap_or(found.oid))
    }

    /// Says whether it has neither refs nor records of moves.
    pub(crate) fn is_blank(&self) -> bool {
        self.refs.is_empty() && self.kept.is_empty()
    }

    /// The records of moves, as refs.
    pub(crate) fn kept(&self) -> &[Ref] {
        &self.kept
    }

    /// Every ref and every record, sorted by name: what is written.
    pub(crate) fn all(&self) -> Vec<Ref> {
        let mut all = [&self.kept[..], &self.refs[..]].concat();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// The branch HEAD names, whether or not it exists.
    pub fn head(&self) -> Option<&RefName> {
        self.head.as_ref()
    }

    /// The branch HEAD names, if it exists.
    pub fn head_ref(&self) -> Option<&Ref> {
        self.get(self.head()?)
    }

    /// The body of an answer to `info/refs`, made once and then shared.
    pub fn advertisement(&self, service: GitService, protocol: Protocol) -> Bytes {
        let made = match (service, protocol) {
            (GitService::ReceivePack, _) => {
                self.receive.get_or_init(|| advertise::receive_pack(self))
            }
            (GitService::UploadPack, Protocol::V0) => self
                .upload_v0
                .get_or_init(|| advertise::upload_pack(self, false)),
            (GitService::UploadPack, Protocol::V1) => self
                .upload_v1
                .get_or_init(|| advertise::upload_pack(self, true)),
            (GitService::UploadPack, Protocol::V2) => return advertise::capabilities_v2(),
        };
        made.clone()
    }

    /// The body of an answer to the `ls-refs` command.
    pub fn ls_refs(self: &Arc<Self>, request: &LsRefs) -> RefListing {
        RefListing::new(Arc::clone(self), request)
    }

    /// Bytes this takes at most, its advertisements included.
    pub(crate) fn weight(&self) -> usize {
        // A line holds the id and name, twice for a tag; three advertisements may be made.
        let line = |r: &Ref| r.name.as_str().len() + 48;
        let text: usize = self.refs.iter().map(|r| line(r) * 7 + 24).sum();
        let kept: usize = self.kept.iter().map(|r| line(r) + 24).sum();
        let capacity = self.refs.capacity() + self.kept.capacity();
        text + kept + capacity * size_of::<Ref>() + 2048
    }

    pub(super) fn as_slice(&self) -> &[Ref] {
        &self.refs
    }

    /// Where the refs are whose names start with `prefix`.
    pub(super) fn below(&self, prefix: &[u8]) -> Range<usize> {
        let name = |r: &Ref| r.name.as_str().as_bytes() < prefix;
        let start = self.refs.partition_point(name);
        let len =
            self.refs[start..].partition_point(|r| r.name.as_str().as_bytes().starts_with(prefix));
        start..start + len
    }
}
