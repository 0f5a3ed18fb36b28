//! The free space on disk below which nothing is taken in.
//!
//! The disk is everybody's share: a stranger who fills it would stop the owner's next push in the
//! middle. So writes end while there is room for what is under way.

use std::{io, path::Path};

use super::Repositories;

/// A disk has less free space than the node wants to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the disk of this server is full: less than {} MiB are free; try again later", .floor >> 20)]
pub struct DiskFull {
    pub floor: u64,
}

impl Repositories {
    /// Free bytes of the disk that the repositories are on. Blocking.
    pub fn free_bytes(&self) -> io::Result<u64> {
        free_bytes(&self.inner.layout.root)
    }

    /// Says whether something may be written, by [`Options::min_free_bytes`]. Blocking, for a moment.
    ///
    /// A disk that does not say how full it is counts as one with room.
    ///
    /// [`Options::min_free_bytes`]: crate::Options::min_free_bytes
    pub fn check_free_space(&self) -> Result<(), DiskFull> {
        let options = &self.inner.options;
        let floor = options.min_free_bytes;
        let root = std::iter::once(&self.inner.layout.root);
        let mut places = root.chain(&options.also_kept_free);
        if places.any(|place| free_bytes(place).is_ok_and(|free| free < floor)) {
            return Err(DiskFull { floor });
        }
        Ok(())
    }
}

fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}
