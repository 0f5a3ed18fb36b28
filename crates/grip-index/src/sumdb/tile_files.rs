//! Whole tiles of hashes as files, under the paths that they are asked for by.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use grip_tlog::{Hash, Tile};

/// A directory of tiles. All of it blocks.
pub(super) struct TileFiles {
    directory: PathBuf,
    /// Keeps apart what is written at the same time.
    written: AtomicU64,
}

impl TileFiles {
    pub(super) fn below(directory: PathBuf) -> Self {
        let written = AtomicU64::new(0);
        Self { directory, written }
    }

    /// The hashes of a tile, if a file has them and they add up to `root`.
    pub(super) fn read(&self, tile: Tile, root: Hash) -> Option<Vec<u8>> {
        let bytes = fs::read(self.path(tile)).ok()?;
        let hashes = tile.hashes(&bytes)?;
        (Tile::root(&hashes) == Some(root)).then_some(bytes)
    }

    pub(super) fn write(&self, tile: Tile, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(tile);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let beside = path.with_added_extension(format!("{number}.new"));
        fs::write(&beside, bytes)?;
        fs::rename(beside, path)
    }

    /// The path of a tile is digits and slashes alone.
    fn path(&self, tile: Tile) -> PathBuf {
        self.directory.join(tile.to_string())
    }
}
