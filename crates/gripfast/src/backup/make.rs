//! A new backup.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;

use super::{
    Directory, FileEntry, Snapshot,
    blocks::{BLOCK, Digest},
    cut,
    sources::{SourceFile, Sources},
};
use crate::commands::{progress::Progress, version::VERSION};

/// What a backup did.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// Bytes of files that no earlier backup is known to have whole.
    pub(crate) read_bytes: u64,
    /// Bytes that no earlier backup had.
    pub(crate) new_bytes: u64,
}

/// Stores what is new and then the list of all.
pub(crate) fn make(directory: &Directory, sources: &Sources, url: &str) -> anyhow::Result<Made> {
    let mut trusted = HashSet::new();
    let mut earlier = HashMap::new();
    for name in directory.names()? {
        let snapshot = directory.read(&name)?;
        trusted.extend(snapshot.digests().copied());
        let packs = snapshot
            .files
            .into_iter()
            .filter(|file| is_immutable(&file.path));
        earlier.extend(packs.map(|file| (file.path.clone(), file)));
    }
    let mut making = Making {
        directory,
        trusted,
        read_bytes: 0,
        new_bytes: 0,
        progress: Progress::bytes("backup", sources.bytes()),
        buffer: Vec::with_capacity(BLOCK),
    };
    let mut files = Vec::with_capacity(sources.files.len());
    for source in &sources.files {
        let known = earlier
            .get(&source.name)
            .filter(|known| known.size == source.size);
        let known = known.filter(|known| making.has_all(known));
        let entry = if let Some(known) = known {
            making.progress.add(known.size);
            known.clone()
        } else {
            let stored = making.store(source);
            stored.with_context(|| format!("cannot back up {}", source.path.display()))?
        };
        files.push(entry);
    }
    let empty = sources.empty_directories.iter().map(|path| FileEntry {
        path: path.clone(),
        mode: 0o750,
        size: 0,
        blocks: None,
    });
    files.extend(empty);
    let (read_bytes, new_bytes) = (making.read_bytes, making.new_bytes);
    making.progress.finish();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let snapshot = Snapshot {
        made_at: now.as_secs(),
        gripfast: VERSION.to_owned(),
        url: url.to_owned(),
        is_without_database: false,
        files,
    };
    let name = directory
        .write(&snapshot)
        .context("cannot write the list of the backup")?;
    Ok(Made {
        name,
        files: snapshot.files.len(),
        bytes: snapshot.bytes(),
        read_bytes,
        new_bytes,
    })
}

/// Whether a file of this path has always the same content.
fn is_immutable(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_part = [".pack", ".idx", ".rev"]
        .iter()
        .any(|end| name.ends_with(end));
    path.starts_with("git/") && name.starts_with("pack-") && is_part
}

struct Making<'a> {
    directory: &'a Directory,
    /// Blocks that complete backups name.
    trusted: HashSet<Digest>,
    read_bytes: u64,
    new_bytes: u64,
    progress: Progress,
    buffer: Vec<u8>,
}

impl Making<'_> {
    fn has_all(&self, file: &FileEntry) -> bool {
        let mut rest = file.size;
        file.blocks.iter().flatten().all(|digest| {
            let length = rest.min(BLOCK as u64);
            rest -= length;
            self.directory.blocks.has(digest, length)
        }) && rest == 0
    }

    fn store(&mut self, source: &SourceFile) -> std::io::Result<FileEntry> {
        let mut file = File::open(&source.path)?;
        let (cut, mut blocks, mut size) = (cut(&source.name), Vec::new(), 0);
        loop {
            cut.next(&mut file, &mut self.buffer)?;
            if self.buffer.is_empty() {
                break;
            }
            self.read_bytes += self.buffer.len() as u64;
            let digest = Digest::of(&self.buffer);
            let is_trusted = self.trusted.contains(&digest);
            if self
                .directory
                .blocks
                .put(&digest, &self.buffer, is_trusted)?
            {
                self.new_bytes += self.buffer.len() as u64;
            }
            grip_tasks::fault::point("backup.block");
            blocks.push(digest);
            size += self.buffer.len() as u64;
            self.progress.add(self.buffer.len() as u64);
        }
        Ok(FileEntry {
            path: source.name.clone(),
            mode: source.mode,
            size,
            blocks: Some(blocks),
        })
    }
}
