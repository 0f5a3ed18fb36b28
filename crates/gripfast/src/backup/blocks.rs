//! Blocks of files, stored once by their content.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Read},
    path::PathBuf,
    str::FromStr,
};

use serde::{Deserialize, Serialize, de};

/// The most bytes of one block.
pub(super) const BLOCK: usize = 4 << 20;

/// The BLAKE3 digest of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&faster_hex::hex_string(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = faster_hex::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() {
            return Err(faster_hex::Error::InvalidLength(text.len()));
        }
        faster_hex::hex_decode(text.as_bytes(), &mut bytes)?;
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| de::Error::custom("no digest"))
    }
}

/// The directory of blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    root: PathBuf,
}

impl Blocks {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.root.join(&name[..2]).join(name)
    }

    /// Stores a block unless it is there; returns whether it was written. `is_trusted` says that a
    /// complete backup names it; any other one is read first, since a crash may have cut it.
    pub(super) fn put(&self, digest: &Digest, bytes: &[u8], is_trusted: bool) -> io::Result<bool> {
        let path = self.path(digest);
        match fs::metadata(&path) {
            Ok(found) if found.len() == bytes.len() as u64 => {
                if is_trusted || fs::read(&path)? == bytes {
                    return Ok(false);
                }
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
            }
            Err(error) => return Err(error),
        }
        let half = path.with_extension("half");
        fs::write(&half, bytes)?;
        fs::rename(half, path)?;
        Ok(true)
    }

    /// Whether a block is there, at its length; its content is not looked at.
    pub(super) fn has(&self, digest: &Digest, length: u64) -> bool {
        fs::metadata(self.path(digest)).is_ok_and(|found| found.len() == length)
    }

    /// Reads a block and checks it.
    pub(super) fn get(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        let path = self.path(digest);
        let named = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("the block {}: {error}", path.display()),
            )
        };
        let bytes = fs::read(&path).map_err(named)?;
        if Digest::of(&bytes) != *digest {
            let error = io::Error::new(io::ErrorKind::InvalidData, "it is damaged");
            return Err(named(error));
        }
        Ok(bytes)
    }

    /// Removes all blocks that are not needed.
    pub(super) fn retain(&self, is_needed: impl Fn(&Digest) -> bool) -> io::Result<()> {
        for directory in fs::read_dir(&self.root)? {
            for block in fs::read_dir(directory?.path())? {
                let path = block?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if !name.parse().is_ok_and(|digest| is_needed(&digest)) {
                    fs::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }
}

/// Reads the next block of a file; empty at its end.
pub(super) fn next(file: &mut File, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    file.take(BLOCK as u64).read_to_end(buffer)?;
    Ok(())
}
