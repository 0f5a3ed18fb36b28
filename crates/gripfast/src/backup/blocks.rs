//! Blocks of files, stored once by their content.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Read, Seek as _},
    path::PathBuf,
    str::FromStr,
};

use serde::{Deserialize, Serialize, de};

/// The most bytes of one block.
pub(super) const BLOCK: usize = 4 << 20;

/// Bytes of a block of lines: at least, at most, and between lines that may end one.
const LINES_MIN: usize = 64 << 10;
const LINES_MAX: usize = 1 << 20;
const LINES_MEAN: u64 = 256 << 10;

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

/// Where a file is parted into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Every 4 MiB.
    Even,
    /// Behind lines that say so by their content: what comes before and behind a new line is parted as
    /// it was.
    Lines,
}

impl Cut {
    /// Reads the next block of a file; empty at its end.
    pub(super) fn next(self, file: &mut File, buffer: &mut Vec<u8>) -> io::Result<()> {
        let longest = match self {
            Self::Even => BLOCK,
            Self::Lines => LINES_MAX,
        };
        buffer.clear();
        file.take(longest as u64).read_to_end(buffer)?;
        if self == Self::Lines {
            let end = lines_end(buffer);
            let rest = buffer.len() - end;
            buffer.truncate(end);
            file.seek_relative(-(rest as i64))?;
        }
        Ok(())
    }
}

/// The end of the first block of lines: each byte of a line is as likely as any other to end one.
fn lines_end(bytes: &[u8]) -> usize {
    let mut end = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        end += line.len();
        let draw: [u8; 8] = blake3::hash(line).as_bytes()[..8]
            .try_into()
            .expect("a digest is longer");
        let share = (u64::MAX / LINES_MEAN).saturating_mul(line.len() as u64);
        if end >= LINES_MIN && line.ends_with(b"\n") && u64::from_le_bytes(draw) < share {
            return end;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of lines in blocks.
    fn parted(lines: &[String]) -> Vec<Digest> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        fs::write(&path, lines.concat()).unwrap();
        let (mut file, mut buffer) = (File::open(&path).unwrap(), Vec::new());
        let (mut digests, mut read) = (Vec::new(), Vec::new());
        loop {
            Cut::Lines.next(&mut file, &mut buffer).unwrap();
            if buffer.is_empty() {
                assert_eq!(read, lines.concat().as_bytes());
                return digests;
            }
            assert!(buffer.len() <= LINES_MAX);
            digests.push(Digest::of(&buffer));
            read.extend_from_slice(&buffer);
        }
    }

    #[test]
    fn a_line_more_or_less_changes_the_blocks_beside_it_alone() {
        for length in [20, 3000] {
            let line = |n: usize| format!("{n:0length$}\n");
            let lines: Vec<String> = (0..(8 << 20) / length).map(line).collect();
            let before = parted(&lines);
            assert!((10..=60).contains(&before.len()), "{}", before.len());
            let (mut one_more, mut one_less) = (lines.clone(), lines.clone());
            one_more.insert(lines.len() / 3, "one more\n".to_owned());
            one_less.remove(lines.len() / 2);
            for changed in [one_more, one_less] {
                let after = parted(&changed);
                let new = after.iter().filter(|digest| !before.contains(digest));
                assert!((1..=3).contains(&new.count()));
            }
        }
    }

    #[test]
    fn a_line_longer_than_a_block_is_in_several() {
        let long = format!("{}\n", "x".repeat(5 * LINES_MAX / 2));
        assert_eq!(parted(&[long.clone(), "short\n".to_owned(), long]).len(), 6);
    }
}
