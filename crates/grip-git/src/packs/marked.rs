//! Marks on the objects of a pack: what a walk has met.

use std::{io, path::PathBuf};

use gix_pack::index;
use grip_types::Oid;

use crate::objects::{Reader, gix_id};

/// Ids handed to git at a time.
const BATCH: usize = 1024;
/// Bytes of commits, trees and tags read in a walk: a few bytes of a pack may stand for many.
const MAX_SMALL_BYTES: u64 = 32 << 20;

/// The objects of a pack, some of them marked: a bit for each.
pub(crate) struct Marked {
    index: index::File,
    bits: Vec<u64>,
    /// The start of a line that is not yet whole.
    partial: Vec<u8>,
}

impl Marked {
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let index = index::File::at(path, gix_hash::Kind::Sha1).map_err(io::Error::other)?;
        let words = (index.num_objects() as usize).div_ceil(64);
        Ok(Self {
            index,
            bits: vec![0; words],
            partial: Vec::new(),
        })
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> u32 {
        self.index.num_objects()
    }

    /// Says whether an object is here, and not marked.
    pub(crate) fn lacks_mark(&self, oid: &Oid) -> bool {
        let at = gix_id(oid).and_then(|id| self.index.lookup(id));
        at.is_some_and(|at| !self.is_marked(at))
    }

    /// Bytes that the unmarked objects take in a pack of `bytes`.
    pub(crate) fn unmarked_bytes(&self, bytes: u64) -> u64 {
        let all = 0..self.index.num_objects();
        let at = |n| (self.index.pack_offset_at_index(n), self.is_marked(n));
        let mut offsets: Vec<(u64, bool)> = all.map(at).collect();
        offsets.sort_unstable();
        let ends = offsets.iter().skip(1).map(|(start, _)| *start);
        let ends = ends.chain(std::iter::once(bytes));
        let sizes = offsets.iter().zip(ends);
        let unmarked = sizes.filter(|((_, is_marked), _)| !is_marked);
        unmarked
            .map(|((start, _), end)| end.saturating_sub(*start))
            .sum()
    }

    /// Those of the ids that are in the pack, each once.
    pub(crate) fn distinct_of(&self, oids: &[Oid]) -> Vec<Oid> {
        let mut seen = std::collections::HashSet::new();
        let is_here = |oid: &Oid| gix_id(oid).is_some_and(|id| self.index.lookup(id).is_some());
        let here = oids.iter().filter(|oid| is_here(oid));
        here.filter(|oid| seen.insert(**oid)).copied().collect()
    }

    /// Marks what `start` needs, within the pack alone; false if that is for git to do. Blocking.
    ///
    /// An object that the store has is complete there, so nothing behind it is missed.
    pub(crate) fn walked(mut self, reader: &Reader, start: Vec<Oid>) -> (Self, bool) {
        let mut pending = start;
        let mut bytes = 0;
        while let Some(oid) = pending.pop() {
            let at = gix_id(&oid).and_then(|id| self.index.lookup(id));
            if at.is_none_or(|at| self.is_marked(at)) {
                continue;
            }
            // Whatever is unusual about an object, git knows it.
            let Ok((links, read)) = reader.links(&oid) else {
                return (self, false);
            };
            bytes += read;
            if bytes > MAX_SMALL_BYTES {
                return (self, false);
            }
            self.mark(Some(oid));
            pending.extend(links);
        }
        (self, true)
    }

    /// Marks what git lists, one id a line, in pieces of any size.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if let Some(line) = self.partial.strip_suffix(b"\n") {
                let oid = Oid::from_hex(line).ok();
                self.mark(oid);
                self.partial.clear();
            }
        }
    }

    pub(crate) fn mark(&mut self, oid: Option<Oid>) {
        let id = oid.as_ref().and_then(gix_id);
        if let Some(at) = id.and_then(|id| self.index.lookup(id)) {
            self.bits[at as usize / 64] |= 1 << (at % 64);
        }
    }

    /// Takes away the marks that `others` has, of the same pack.
    pub(crate) fn unmark(&mut self, others: &Self) {
        for (bits, others) in self.bits.iter_mut().zip(&others.bits) {
            *bits &= !others;
        }
    }

    fn is_marked(&self, at: u32) -> bool {
        self.bits[at as usize / 64] & (1 << (at % 64)) != 0
    }

    pub(crate) fn all(&self, marked: bool) -> impl Iterator<Item = Oid> {
        let all = 0..self.index.num_objects();
        all.filter(move |at| self.is_marked(*at) == marked)
            .filter_map(|at| Oid::from_bytes(self.index.oid_at_index(at).as_bytes()).ok())
    }

    /// The marked ids, one a line, many lines at a time.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Vec<u8>> {
        let mut oids = self.all(true);
        std::iter::from_fn(move || {
            let batch: String = oids
                .by_ref()
                .take(BATCH)
                .map(|oid| oid.to_hex() + "\n")
                .collect();
            (!batch.is_empty()).then(|| batch.into_bytes())
        })
    }
}
