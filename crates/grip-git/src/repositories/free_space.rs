//! The free space on disk below which nothing is taken in.
//!
//! The disk is everybody's share: a stranger who fills it would stop the owner's next push in the
//! middle. So writes end while there is room for what is under way, and those of strangers while there is
//! room for maintainers: with patience strangers reach their own floor, and never that of all.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use super::Repositories;

/// Whose bytes are to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskUser {
    /// Somebody who maintains something that is served here.
    Maintainer,
    Stranger,
}

/// A disk has less free space than the node wants to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct DiskFull {
    pub floor: u64,
    /// Whose floor it is; that of maintainers is that of all.
    pub disk_user: DiskUser,
}

impl DiskFull {
    fn sentence(&self) -> String {
        let floor = self.floor >> 20;
        match self.disk_user {
            DiskUser::Maintainer => format!(
                "the disk of this server is full: less than {floor} MiB are free; try again later"
            ),
            DiskUser::Stranger => format!(
                "the disk of this server is nearly full: the last {floor} MiB are kept for those who \
                 maintain a repository here; try again later"
            ),
        }
    }
}

/// A disk that is kept from filling up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The last part of each path that lies on it.
    pub holds: String,
    pub free_bytes: u64,
    pub total_bytes: u64,
}

impl Repositories {
    /// The disks of all directories that [`Options::min_free_bytes`] applies to, each once; those
    /// that do not say how full they are left out. Blocking.
    ///
    /// [`Options::min_free_bytes`]: crate::Options::min_free_bytes
    pub fn disks(&self) -> Vec<Disk> {
        let root = std::iter::once(&self.inner.layout.root);
        let mut disks: Vec<(u64, Disk)> = Vec::new();
        for place in root.chain(&self.inner.options.also_kept_free) {
            let (Ok(disk), Ok(metadata)) = (rustix::fs::statvfs(place), fs::metadata(place)) else {
                continue;
            };
            let name = place
                .file_name()
                .unwrap_or(place.as_os_str())
                .to_string_lossy();
            let device = metadata.dev();
            if let Some((_, known)) = disks.iter_mut().find(|(known, _)| *known == device) {
                known.holds = format!("{}, {name}", known.holds);
                continue;
            }
            let disk = Disk {
                holds: name.into_owned(),
                free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
                total_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
            };
            disks.push((device, disk));
        }
        disks.into_iter().map(|(_, disk)| disk).collect()
    }

    /// Free bytes of the disk that the repositories are on. Blocking.
    pub fn free_bytes(&self) -> io::Result<u64> {
        free_bytes(&self.inner.layout.root)
    }

    /// Says whether something may be written, by [`Options::min_free_bytes`] and, for a stranger,
    /// [`Options::stranger_min_free_bytes`]. Blocking, for a moment.
    ///
    /// A disk that does not say how full it is counts as one with room.
    ///
    /// [`Options::min_free_bytes`]: crate::Options::min_free_bytes
    /// [`Options::stranger_min_free_bytes`]: crate::Options::stranger_min_free_bytes
    pub fn check_free_space(&self, disk_user: DiskUser) -> Result<(), DiskFull> {
        self.check_room(disk_user, 0)
    }

    /// As [`Self::check_free_space`], of so many bytes that are known beforehand.
    pub fn check_room(&self, disk_user: DiskUser, bytes: u64) -> Result<(), DiskFull> {
        let options = &self.inner.options;
        let root = std::iter::once(&self.inner.layout.root);
        let places = root.chain(&options.also_kept_free);
        let free = places.filter_map(|place| free_bytes(place).ok()).min();
        let floors = [
            (DiskUser::Maintainer, options.min_free_bytes),
            (DiskUser::Stranger, options.stranger_min_free_bytes),
        ];
        let floors = floors
            .into_iter()
            .filter(|(whose, _)| *whose == DiskUser::Maintainer || disk_user == DiskUser::Stranger);
        for (disk_user, floor) in floors {
            if free.is_some_and(|free| free < floor.saturating_add(bytes)) {
                return Err(DiskFull { floor, disk_user });
            }
        }
        Ok(())
    }
}

/// Free bytes of the disk that a path is on.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}
