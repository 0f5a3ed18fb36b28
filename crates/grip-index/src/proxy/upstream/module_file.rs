//! The file of one fetched module: its zip, its go.mod, and what is known of both.
//!
//! ```text
//! zip | go.mod | facts (JSON) | length of the facts (8 bytes) | SHA-256 of the facts
//! ```
//!
//! Invariant: no byte of the zip or of the go.mod leaves that is not what was written: the facts
//! have the digests of the go.mod and of every chunk of the zip, and a digest of their own.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use bytes::Bytes;
use faster_hex::hex_string;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Sums;

/// Bytes of the zip that are read and checked at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Length of the facts and their digest.
const TRAILER_BYTES: u64 = 8 + 32;
/// Most bytes of facts: a digest for each chunk of the largest zip that go takes, many times over.
const MAX_FACTS_BYTES: u64 = 1 << 20;

/// What is known of a fetched module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::proxy) struct ModuleFacts {
    pub(in crate::proxy) path: String,
    pub(in crate::proxy) version: String,
    /// Its repository, by its name in the index.
    pub(in crate::proxy) repo: String,
    /// Whether everybody could see it when it was fetched.
    pub(super) is_public: bool,
    pub(in crate::proxy) tag: String,
    pub(in crate::proxy) commit: String,
    pub(in crate::proxy) dir: String,
    pub(in crate::proxy) committed_at_ms: i64,
    pub(in crate::proxy) has_go_mod: bool,
    pub(in crate::proxy) zip_sum: String,
    pub(in crate::proxy) go_mod_sum: String,
    pub(super) zip_bytes: u64,
    pub(super) go_mod_bytes: u64,
    pub(super) go_mod_digest: String,
    pub(super) chunk_digests: Vec<String>,
}

/// A fetched module in its file, which stays readable when the cache has removed it.
pub(in crate::proxy) struct FetchedModule {
    pub(in crate::proxy) facts: ModuleFacts,
    pub(in crate::proxy) go_mod: Bytes,
    digest: [u8; 32],
    file: File,
}

impl FetchedModule {
    /// Opens a file and reads it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::read(File::open(path)?)
    }

    /// Checks all of a file but the zip; an error of the kind `InvalidData` means that it is damaged.
    pub(super) fn read(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let trailer_at = length.checked_sub(TRAILER_BYTES).ok_or_else(damaged)?;
        let mut trailer = [0; TRAILER_BYTES as usize];
        file.read_exact_at(&mut trailer, trailer_at)?;
        let (facts_bytes, digest) = trailer.split_at(8);
        let facts_bytes = u64::from_be_bytes(facts_bytes.try_into().map_err(io::Error::other)?);
        let digest: [u8; 32] = digest.try_into().map_err(io::Error::other)?;
        if facts_bytes > MAX_FACTS_BYTES {
            return Err(damaged());
        }
        let facts_at = trailer_at.checked_sub(facts_bytes).ok_or_else(damaged)?;
        let facts = read_at(&file, facts_at, facts_bytes)?;
        if <[u8; 32]>::from(Sha256::digest(&facts)) != digest {
            return Err(damaged());
        }
        let facts: ModuleFacts = serde_json::from_slice(&facts).map_err(|_| damaged())?;
        if facts.zip_bytes.checked_add(facts.go_mod_bytes) != Some(facts_at) {
            return Err(damaged());
        }
        let go_mod = read_at(&file, facts.zip_bytes, facts.go_mod_bytes)?;
        if hex_string(&Sha256::digest(&go_mod)) != facts.go_mod_digest {
            return Err(damaged());
        }
        Ok(Self {
            facts,
            go_mod: go_mod.into(),
            digest,
            file,
        })
    }

    /// Equal texts, equal zips.
    pub(in crate::proxy) fn etag(&self) -> String {
        hex_string(&self.digest[..16])
    }

    pub(in crate::proxy) fn sums(&self) -> Sums {
        Sums {
            zip: self.facts.zip_sum.clone(),
            go_mod: self.facts.go_mod_sum.clone(),
        }
    }

    /// Copies the zip, each chunk checked before it leaves. Blocks.
    pub(in crate::proxy) fn copy_zip_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut left = self.facts.zip_bytes;
        let mut at = 0;
        for expected in &self.facts.chunk_digests {
            let chunk = read_at(&self.file, at, left.min(CHUNK_BYTES as u64))?;
            if hex_string(&Sha256::digest(&chunk)) != *expected {
                return Err(damaged());
            }
            out.write_all(&chunk)?;
            at += chunk.len() as u64;
            left -= chunk.len() as u64;
        }
        if left > 0 {
            return Err(damaged());
        }
        Ok(())
    }

    /// Has the cache know after a restart when it was used last.
    pub(super) fn touch(&self) {
        let now = fs::FileTimes::new().set_modified(SystemTime::now());
        // Only the order of what goes first depends on it.
        let _ = self.file.set_times(now);
    }
}

/// A file that is being written. Dropping it removes it.
pub(super) struct Draft {
    path: PathBuf,
    file: File,
    chunk: Sha256,
    in_chunk: usize,
    chunk_digests: Vec<String>,
    zip_bytes: u64,
}

impl Draft {
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        let file = File::create_new(&path)?;
        Ok(Self {
            path,
            file,
            chunk: Sha256::new(),
            in_chunk: 0,
            chunk_digests: Vec::new(),
            zip_bytes: 0,
        })
    }

    /// Writes what follows the zip, and makes all of it durable. `facts` are those that the zip and
    /// the go.mod do not tell.
    pub(super) fn finish(mut self, facts: ModuleFacts, go_mod: &[u8]) -> io::Result<Finished> {
        if self.in_chunk > 0 {
            self.end_chunk();
        }
        let facts = ModuleFacts {
            zip_bytes: self.zip_bytes,
            go_mod_bytes: go_mod.len() as u64,
            go_mod_digest: hex_string(&Sha256::digest(go_mod)),
            chunk_digests: std::mem::take(&mut self.chunk_digests),
            ..facts
        };
        let text = serde_json::to_vec(&facts).map_err(io::Error::other)?;
        self.file.write_all(go_mod)?;
        self.file.write_all(&text)?;
        self.file.write_all(&(text.len() as u64).to_be_bytes())?;
        self.file.write_all(&Sha256::digest(&text))?;
        self.file.sync_all()?;
        let bytes = self.file.metadata()?.len();
        Ok(Finished { draft: self, bytes })
    }

    fn end_chunk(&mut self) {
        let digest = std::mem::take(&mut self.chunk).finalize();
        self.chunk_digests.push(hex_string(&digest));
        self.in_chunk = 0;
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(CHUNK_BYTES - self.in_chunk)];
        let written = self.file.write(bytes)?;
        self.chunk.update(&bytes[..written]);
        self.in_chunk += written;
        self.zip_bytes += written as u64;
        if self.in_chunk == CHUNK_BYTES {
            self.end_chunk();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Renamed drafts are not there any more.
        let _ = fs::remove_file(&self.path);
    }
}

/// A whole and durable file that is not part of the cache yet. Dropping it removes it.
pub(super) struct Finished {
    draft: Draft,
    pub(super) bytes: u64,
}

impl Finished {
    pub(super) fn open(&self) -> io::Result<FetchedModule> {
        FetchedModule::open(&self.draft.path)
    }

    /// Makes the file part of the cache in one step.
    pub(super) fn keep_as(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.draft.path, path)
    }
}

fn read_at(file: &File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let end = file.metadata()?.len();
    if at.checked_add(length).is_none_or(|last| last > end) {
        return Err(damaged());
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the cached module is damaged")
}

#[cfg(test)]
pub(super) mod tests;
