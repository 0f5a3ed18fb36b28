//! The size of a store, and the memory that git takes to read it.

use std::{fs, io, path::Path};

use grip_types::Identifier;

use crate::disk;

use super::{Packs, pack_dir};

/// Bytes of an index of packs for each object, and beside these.
const INDEX_BYTES_PER_OBJECT: u64 = 28;
const INDEX_HEADER_BYTES: u64 = 8 + 1024 + 40;

/// Memory for each object that git lists, walks or packs.
pub(crate) const MEMORY_PER_OBJECT: u64 = 256;
/// Memory of any process, and of the windows in which objects are compared; a small store does not
/// fill them.
const BASE_MEMORY: u64 = 48 << 20;
const MAX_WINDOWS: u64 = 192 << 20;

/// The packs of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreSize {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

impl Packs {
    /// Adds up the packs of a store; nothing if there is none. Blocking.
    pub(crate) fn size(&self, identifier: &Identifier) -> io::Result<StoreSize> {
        StoreSize::of(&pack_dir(&self.objects(identifier)))
    }
}

impl StoreSize {
    /// Adds up the packs of a directory. Blocking.
    pub(crate) fn of(dir: &Path) -> io::Result<Self> {
        let mut size = StoreSize::default();
        for (name, _) in disk::entries(dir)? {
            // It may have been repacked since the directory was read.
            let len = fs::metadata(dir.join(&name)).map_or(0, |found| found.len());
            if name.ends_with(".idx") {
                size.objects += objects_in(len);
            } else if name.ends_with(".pack") {
                size.bytes += len;
            }
        }
        Ok(size)
    }
}

/// How many objects an index of `len` bytes lists, near enough.
pub(crate) fn objects_in(len: u64) -> u64 {
    len.saturating_sub(INDEX_HEADER_BYTES) / INDEX_BYTES_PER_OBJECT
}

impl StoreSize {
    /// Memory to answer a fetch, or to check the store.
    pub(crate) fn memory_to_read(&self) -> u64 {
        let windows = self.bytes.saturating_mul(4).min(MAX_WINDOWS);
        let objects = self.objects.saturating_mul(MEMORY_PER_OBJECT);
        BASE_MEMORY.saturating_add(windows).saturating_add(objects)
    }

    /// Memory to write the packs again, or an index with bitmaps over them.
    pub(crate) fn memory_to_repack(&self) -> u64 {
        let bitmaps = self.objects.saturating_mul(MEMORY_PER_OBJECT);
        self.memory_to_read().saturating_add(bitmaps)
    }
}
