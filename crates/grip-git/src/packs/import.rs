//! Objects that another server left in a repository, and files that a crash left in a store.

use std::{
    collections::{BTreeSet, HashSet},
    fs, io,
    path::Path,
};

use grip_types::Identifier;

use crate::{disk, layout};

use super::{Packs, collect, pack_dir};

impl Packs {
    /// Moves the packs, but for those named in `but`, and loose objects of a directory into the
    /// store; durable on return. Can be repeated. The caller holds the lock.
    pub(crate) fn import(
        &self,
        identifier: &Identifier,
        from: &Path,
        but: &HashSet<String>,
    ) -> io::Result<()> {
        let to = self.objects(identifier);
        move_packs(&pack_dir(from), &pack_dir(&to), but)?;
        move_loose(from, &to)?;
        disk::sync_file_system(&self.layout.root)?;
        self.changed(identifier);
        Ok(())
    }

    /// Removes what a killed repack, collection or promotion left behind; only for the start.
    ///
    /// Half of a pack is the first step of a promotion or of an import; the latter is finished by
    /// now, unless a repository could not be imported.
    pub(crate) fn clean(&self, all_imported: bool) -> io::Result<()> {
        for (name, kind) in disk::entries(&self.layout.stores())? {
            if kind.is_dir() {
                let store = self.layout.stores().join(&name);
                collect::finish(&store)?;
                if let Some(identifier) = layout::identifier_of(&name) {
                    self.recall(&identifier);
                }
                clean_packs(&pack_dir(&store.join("objects")), all_imported)?;
            }
        }
        Ok(())
    }
}

/// Moves packs, each index last: a pack is seen when its index is.
fn move_packs(from: &Path, to: &Path, but: &HashSet<String>) -> io::Result<()> {
    let files: BTreeSet<String> = disk::entries(from)?
        .into_iter()
        .filter_map(|(name, kind)| kind.is_file().then_some(name))
        .collect();
    let stems = files.iter().filter_map(|name| name.strip_suffix(".idx"));
    for stem in stems.filter(|stem| stem.starts_with("pack-") && !but.contains(*stem)) {
        let file = |extension: &str| format!("{stem}.{extension}");
        let is_there = to.join(file("idx")).exists() && to.join(file("pack")).exists();
        for name in ["pack", "rev", "idx"].map(file) {
            if is_there {
                disk::remove_file(&from.join(&name))?;
            } else if files.contains(&name) {
                fs::rename(from.join(&name), to.join(&name))?;
            }
        }
    }
    // Helpers of packs that are gone: a bitmap or list of packs would now be wrong.
    for (name, _) in disk::entries(from)? {
        let stale = [".bitmap", ".keep", ".mtimes", ".promisor"];
        if name.starts_with("multi-pack-index") || stale.iter().any(|end| name.ends_with(end)) {
            disk::remove_file(&from.join(name))?;
        }
    }
    Ok(())
}

fn move_loose(from: &Path, to: &Path) -> io::Result<()> {
    for (fan_out, kind) in disk::entries(from)? {
        let is_hex = |name: &str| name.bytes().all(|b| b.is_ascii_hexdigit());
        if fan_out.len() != 2 || !is_hex(&fan_out) || !kind.is_dir() {
            continue;
        }
        let (source, target) = (from.join(&fan_out), to.join(&fan_out));
        for (name, kind) in disk::entries(&source)? {
            if name.len() != 38 || !is_hex(&name) || !kind.is_file() {
                continue;
            }
            fs::create_dir_all(&target)?;
            fs::rename(source.join(&name), target.join(&name))?;
        }
        // Fails if something else is in there, which then stays.
        let _ = fs::remove_dir(&source);
    }
    disk::remove_file(&from.join("info/commit-graph"))
}

fn clean_packs(packs: &Path, all_imported: bool) -> io::Result<()> {
    let lacks = |name: &str, own: &str, other: &str| {
        let stem = name
            .strip_suffix(own)
            .filter(|stem| stem.starts_with("pack-"));
        stem.is_some_and(|stem| !packs.join(format!("{stem}{other}")).exists())
    };
    disk::remove_files(packs, |name| {
        let is_half = lacks(name, ".pack", ".idx")
            || lacks(name, ".rev", ".idx")
            || lacks(name, ".idx", ".pack");
        name.starts_with("tmp_") || name.starts_with(".tmp-") || (is_half && all_imported)
    })
}
