//! Damaged packs: noticed by their ends, without reading what is in between, and set aside.
//!
//! A pack ends with its checksum, which its index repeats. A file that was cut, lost or mixed up shows
//! there; a flipped bit in the middle shows to who reads all of it: `git fsck`, and [`Packs::damaged_of`]
//! before a pack is stored for other copies.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use grip_types::Identifier;

use super::{PACK_FILES, Packs, pack_dir, repack::graph_file};
use crate::disk;

const CHECKSUM: usize = 20;
/// Magic, version, count and checksum.
const SMALLEST_PACK: u64 = 32;
/// Magic, version, fan-out and two checksums.
const SMALLEST_INDEX: u64 = 1072;

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// A pack that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedPack {
    /// The name of its files, without their extensions.
    pub name: String,
    pub reason: String,
}

impl Packs {
    /// The damaged packs of an identifier; none if it has no store, or while it is repacked. The
    /// caller holds the lock.
    pub(crate) fn damaged(&self, identifier: &Identifier) -> io::Result<Vec<DamagedPack>> {
        match self.find_damaged(identifier) {
            Err(error) if !disk::is_absent(&error) => Err(error),
            Ok(damaged) if self.repacking.held(identifier) == 0 => Ok(damaged),
            _ => Ok(Vec::new()),
        }
    }

    /// Those of the packs `names` whose bytes are not what their checksums say. Reads all of them, and
    /// takes no lock: the caller keeps them where they are.
    pub(crate) fn damaged_of(
        &self,
        identifier: &Identifier,
        names: &[&String],
    ) -> io::Result<Vec<DamagedPack>> {
        let dir = pack_dir(&self.objects(identifier));
        let mut damaged = Vec::new();
        for name in names {
            for extension in PACK_FILES {
                let file = dir.join(format!("{name}.{extension}"));
                if !ends_with_its_checksum(&file)? {
                    damaged.push(DamagedPack {
                        name: (*name).clone(),
                        reason: format!("the checksum of its .{extension} file does not match"),
                    });
                    break;
                }
            }
        }
        Ok(damaged)
    }

    pub(super) fn find_damaged(&self, identifier: &Identifier) -> io::Result<Vec<DamagedPack>> {
        let dir = pack_dir(&self.objects(identifier));
        let mut damaged = Vec::new();
        if !disk::is_real_dir(&dir)? {
            return Ok(damaged);
        }
        for (file, _) in disk::entries(&dir)? {
            let reason = match file.rsplit_once('.') {
                Some((name, "pack")) => fault(&dir, name)?,
                Some((name, "idx")) if !dir.join(format!("{name}.pack")).exists() => {
                    Some((name, "its pack is missing".to_owned()))
                }
                _ => None,
            };
            damaged.extend(reason.map(|(name, reason)| DamagedPack {
                name: name.to_owned(),
                reason,
            }));
        }
        Ok(damaged)
    }

    /// The pack files of an identifier; none if it has no store. The caller holds the lock.
    pub(crate) fn files(&self, identifier: &Identifier) -> io::Result<Vec<PathBuf>> {
        let dir = pack_dir(&self.objects(identifier));
        if !disk::is_real_dir(&dir)? {
            return Ok(Vec::new());
        }
        let files = disk::entries(&dir)?.into_iter();
        let packs = files.filter(|(file, _)| file.ends_with(".pack"));
        Ok(packs.map(|(file, _)| dir.join(file)).collect())
    }

    /// Moves damaged packs out of the store, where a person can look at them. What they held is
    /// missing from now on, and can be fetched again.
    pub(crate) fn set_aside(
        &self,
        identifier: &Identifier,
        packs: &[DamagedPack],
    ) -> io::Result<()> {
        self.lose(identifier, || self.move_aside(identifier, packs))
    }

    fn move_aside(&self, identifier: &Identifier, packs: &[DamagedPack]) -> io::Result<()> {
        let dir = pack_dir(&self.objects(identifier));
        let aside = self.layout.damaged(identifier);
        if !packs.is_empty() {
            disk::make_dirs(&self.layout.root, &aside)?;
        }
        for (file, _) in disk::entries(&dir)? {
            let stem = file.split_once('.').map_or(&*file, |(stem, _)| stem);
            let is_damaged = packs.iter().any(|pack| pack.name == stem);
            // It names packs that are gone.
            let is_index_of_all =
                stem == "multi-pack-index" || file.starts_with("multi-pack-index");
            if is_damaged {
                fs::rename(dir.join(&file), aside.join(&file))?;
            } else if is_index_of_all {
                fs::remove_file(dir.join(&file))?;
            }
        }
        // It names commits that are gone.
        disk::remove_file(&graph_file(&self.objects(identifier)))?;
        disk::sync_dir(&dir)?;
        self.changed(identifier);
        Ok(())
    }
}

/// What is wrong with a pack or its index.
fn fault<'a>(dir: &Path, name: &'a str) -> io::Result<Option<(&'a str, String)>> {
    let (pack, index) = (
        dir.join(format!("{name}.pack")),
        dir.join(format!("{name}.idx")),
    );
    let says = |reason: &str| Ok(Some((name, reason.to_owned())));
    let is_file = |path: &Path| fs::metadata(path).map(|it| it.is_file());
    if !is_file(&pack)? {
        return says("it is no file");
    }
    let Some((head, trailer)) = ends(&pack, SMALLEST_PACK, CHECKSUM)? else {
        return says("it is cut short");
    };
    if head != *b"PACK" {
        return says("it is no pack");
    }
    if !index.exists() {
        return says("its index is missing");
    }
    if !is_file(&index)? {
        return says("its index is no file");
    }
    let Some((head, trailers)) = ends(&index, SMALLEST_INDEX, 2 * CHECKSUM)? else {
        return says("its index is cut short");
    };
    if head != *b"\xfftOc" {
        return says("its index is of another format");
    }
    if trailers[..CHECKSUM] != trailer {
        return says("its index belongs to another pack");
    }
    Ok(None)
}

/// Says whether the last bytes of a file are the checksum of all others, as git writes packs and indexes.
fn ends_with_its_checksum(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let Some(content) = file.metadata()?.len().checked_sub(CHECKSUM as u64) else {
        return Ok(false);
    };
    let mut reader = (&mut file).take(content);
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    let mut piece = vec![0; PIECE];
    loop {
        let read = reader.read(&mut piece)?;
        if read == 0 {
            break;
        }
        hasher.update(&piece[..read]);
    }
    let mut trailer = [0; CHECKSUM];
    file.read_exact(&mut trailer)?;
    let checksum = hasher.try_finalize().map_err(io::Error::other)?;
    Ok(checksum.as_slice() == trailer)
}

/// The first four bytes and the last `count` of a file; none if it is smaller than `least`.
fn ends(path: &PathBuf, least: u64, count: usize) -> io::Result<Option<([u8; 4], Vec<u8>)>> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() < least {
        return Ok(None);
    }
    let (mut head, mut tail) = ([0; 4], vec![0; count]);
    file.read_exact(&mut head)?;
    file.seek(SeekFrom::End(-(count as i64)))?;
    file.read_exact(&mut tail)?;
    Ok(Some((head, tail)))
}
