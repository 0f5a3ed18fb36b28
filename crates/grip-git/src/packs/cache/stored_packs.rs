//! Lists of packs beside a store: a line each, written one after the other.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use crate::{change_log::StoredPack, disk};

fn line(pack: &StoredPack) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(pack)?;
    line.push(b'\n');
    Ok(line)
}

/// The packs of a list, each once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::packs) struct StoredPacks(BTreeMap<String, StoredPack>);

impl StoredPacks {
    pub(in crate::packs) fn of(packs: impl Iterator<Item = StoredPack>) -> Self {
        Self(packs.map(|pack| (pack.name.clone(), pack)).collect())
    }

    /// Reads a list; one that is not there is empty. A last line that a crash cut short is of a change
    /// that is made again.
    pub(in crate::packs) fn read(path: &Path) -> io::Result<Self> {
        let text = disk::read(path)?.unwrap_or_default();
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let whole = lines.filter_map(|line| line.strip_suffix(b"\n"));
        let read = |line: &[u8]| {
            let pack: StoredPack = serde_json::from_slice(line)?;
            Ok((pack.name.clone(), pack))
        };
        whole.map(read).collect::<io::Result<_>>().map(Self)
    }

    /// Adds a pack to a list, which is made if need be; durable on return.
    pub(in crate::packs) fn append(path: &Path, pack: &StoredPack) -> io::Result<()> {
        let is_new = !path.exists();
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)?;
        let end = file.seek(SeekFrom::End(0))?;
        if end > 0 {
            file.seek(SeekFrom::Start(end - 1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                let text = disk::read(path)?.unwrap_or_default();
                let whole = text.iter().rposition(|byte| *byte == b'\n');
                file.set_len(whole.map_or(0, |at| at as u64 + 1))?;
            }
        }
        file.write_all(&line(pack)?)?;
        file.sync_data()?;
        if is_new {
            disk::sync_parent(path)?;
        }
        Ok(())
    }

    /// Replaces a list.
    pub(in crate::packs) fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = Vec::new();
        for pack in self.packs() {
            text.extend(line(pack)?);
        }
        disk::replace(path, &text)
    }

    pub(in crate::packs) fn packs(&self) -> impl Iterator<Item = &StoredPack> {
        self.0.values()
    }

    pub(in crate::packs) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::packs) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::packs) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Has `added` in the place of `removed`.
    pub(in crate::packs) fn replace(&mut self, removed: &[String], added: &[StoredPack]) {
        self.0.retain(|name, _| !removed.contains(name));
        let added = added.iter().cloned();
        self.0.extend(added.map(|pack| (pack.name.clone(), pack)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change_log::PackFile;

    fn pack(name: &str) -> StoredPack {
        let file = PackFile {
            extension: "pack".to_owned(),
            size_bytes: 3,
            digest: "aa".to_owned(),
            generation: 0,
        };
        StoredPack {
            name: name.to_owned(),
            files: vec![file],
        }
    }

    #[test]
    fn a_line_that_a_crash_cut_short_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        assert!(StoredPacks::read(&path).unwrap().is_empty());
        StoredPacks::append(&path, &pack("pack-1")).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let torn = [&whole[..], &whole[..7]].concat();
        std::fs::write(&path, torn).unwrap();
        let read = StoredPacks::read(&path).unwrap();
        assert_eq!(read.packs().collect::<Vec<_>>(), [&pack("pack-1")]);
        for name in ["pack-2", "pack-1", "pack-2"] {
            StoredPacks::append(&path, &pack(name)).unwrap();
        }
        let read = StoredPacks::read(&path).unwrap();
        let names: Vec<_> = read.packs().map(|pack| pack.name.as_str()).collect();
        assert_eq!(names, ["pack-1", "pack-2"]);
        std::fs::write(&path, "what is this\n").unwrap();
        assert!(StoredPacks::read(&path).is_err());
    }
}
