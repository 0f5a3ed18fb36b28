//! Comparison of the packs on a leader's disk with the listed ones whose place they are to take.
//!
//! A disk may lose a pack, or bits of one, and a repack writes what is left. So every object of a pack that
//! is to leave the list is looked for in the packs that stay or come, by the index that was stored with it,
//! and packs that no copy has yet are read to their ends. Where something is missing the list stays as it
//! is: it names all of it, and this copy fetches it again.

use std::{fs, io, path::PathBuf};

use gix_pack::index;
use grip_types::Identifier;

use super::StoredPacks;
use crate::{
    change_log::{PackFile, StoredPack},
    disk,
    packs::{DamagedPack, Packs, RepackError, pack_dir},
};

/// What the packs of this disk are, beside those in the list.
pub(super) enum Comparison {
    /// They have every object of these, which are in the list and not here.
    Whole(Vec<String>),
    Incomplete {
        damaged: Vec<DamagedPack>,
        reason: String,
    },
}

impl Packs {
    /// Compares the packs `local` with the list. Blocks, for as long as it takes to fetch the indexes of
    /// the packs that would leave it. The caller keeps the packs where they are.
    pub(super) fn compare(
        &self,
        identifier: &Identifier,
        local: &[String],
        listed: &StoredPacks,
    ) -> io::Result<Comparison> {
        let unlisted: Vec<&String> = local.iter().filter(|name| !listed.has(name)).collect();
        let mut damaged = self.find_damaged(identifier)?;
        if damaged.is_empty() {
            damaged = self.damaged_of(identifier, &unlisted)?;
        }
        if let Some(DamagedPack { name, reason }) = damaged.first() {
            let reason = format!("{name}: {reason}");
            return Ok(Comparison::Incomplete { damaged, reason });
        }
        let is_leaving = |pack: &&StoredPack| !local.contains(&pack.name);
        let leaving: Vec<&StoredPack> = listed.packs().filter(is_leaving).collect();
        let lacking = self.lacking(identifier, local, &leaving)?;
        Ok(match lacking {
            Some(reason) => Comparison::Incomplete { damaged, reason },
            None => {
                let names = leaving.iter().map(|pack| pack.name.clone());
                Comparison::Whole(names.collect())
            }
        })
    }

    /// Says which object of the packs `leaving` is in none of `local`, if one is.
    fn lacking(
        &self,
        identifier: &Identifier,
        local: &[String],
        leaving: &[&StoredPack],
    ) -> io::Result<Option<String>> {
        let dir = pack_dir(&self.objects(identifier));
        let open = |path| index::File::at(path, gix_hash::Kind::Sha1).map_err(io::Error::other);
        let path = |name: &String| dir.join(format!("{name}.idx"));
        let here: Vec<_> = local.iter().map(path).map(open).collect::<Result<_, _>>()?;
        let room = self.layout.quarantines().join(disk::unique());
        fs::create_dir(&room)?;
        let look = || {
            for (pack, path) in self.fetch_indexes(leaving, &room)? {
                let stored = open(path)?;
                let mut oids = (0..stored.num_objects()).map(|at| stored.oid_at_index(at));
                let lost = oids.find(|oid| here.iter().all(|index| index.lookup(oid).is_none()));
                if let Some(oid) = lost {
                    let reason = format!("object {oid} of {} is in no pack", pack.name);
                    return Ok(Some(reason));
                }
            }
            Ok(None)
        };
        let lacking = look();
        // Best effort: the next start empties the quarantine.
        let _ = fs::remove_dir_all(&room);
        lacking
    }

    fn fetch_indexes<'p>(
        &self,
        packs: &[&'p StoredPack],
        room: &std::path::Path,
    ) -> io::Result<Vec<(&'p StoredPack, PathBuf)>> {
        let source = self.cache.from.source.as_ref();
        let source = source.ok_or_else(|| io::Error::other("no packs can be fetched"))?;
        let (mut files, mut indexes): (Vec<(PackFile, PathBuf)>, _) = (Vec::new(), Vec::new());
        for pack in packs {
            let index = pack.files.iter().find(|file| file.extension == "idx");
            let index = index.ok_or_else(|| {
                let reason = format!("{} was stored without an index", pack.name);
                io::Error::new(io::ErrorKind::InvalidData, reason)
            })?;
            let path = room.join(format!("{}.idx", pack.name));
            files.push((index.clone(), path.clone()));
            indexes.push((*pack, path));
        }
        source.fetch(files)?;
        Ok(indexes)
    }

    /// Has a store whose packs are not whole fetched again as it is in the list, where there is one, with
    /// damaged packs out of the way. Takes the lock.
    pub(in crate::packs) fn fetch_again(
        &self,
        identifier: &Identifier,
        damaged: &[DamagedPack],
        reason: String,
    ) -> RepackError {
        if self.is_cached() {
            let _turn = self.lock(identifier);
            if let Err(error) = self.set_aside(identifier, damaged) {
                return error.into();
            }
        }
        RepackError::Incomplete {
            identifier: identifier.clone(),
            reason,
        }
    }
}
