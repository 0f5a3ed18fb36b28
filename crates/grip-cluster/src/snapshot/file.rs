//! Files of snapshots: a head, and pieces of two kinds, each with its length before it.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read as _, Write as _},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{
    Tip,
    log::{GIT, STORE},
};

/// Rises with every change of what follows the head.
const FORMAT: u32 = 1;
/// Longest piece that is read: those that are written are far shorter, or one event more.
const MAX_PIECE: u32 = 256 << 20;

const HEAD_MARK: u8 = b'h';
const STORE_MARK: u8 = b's';
const GIT_MARK: u8 = b'g';
const END_MARK: u8 = b'.';

#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    #[serde(flatten)]
    tip: Tip,
}

/// A file that is being written.
pub(super) struct Writer {
    file: BufWriter<File>,
}

impl Writer {
    pub(super) fn create(path: &Path, tip: &Tip) -> io::Result<Self> {
        let mut writer = Self {
            file: BufWriter::new(File::create(path)?),
        };
        let head = Head {
            format: FORMAT,
            tip: tip.clone(),
        };
        writer.put(HEAD_MARK, &serde_json::to_vec(&head)?)?;
        Ok(writer)
    }

    /// Changes of the event store.
    pub(super) fn store(&mut self, changes: &[u8]) -> io::Result<()> {
        self.put(STORE_MARK, changes)
    }

    /// A change of repositories or packs.
    pub(super) fn git(&mut self, change: &[u8]) -> io::Result<()> {
        self.put(GIT_MARK, change)
    }

    /// Durable on return.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.put(END_MARK, &[])?;
        let file = self.file.into_inner().map_err(|error| error.into_error())?;
        file.sync_all()
    }

    fn put(&mut self, mark: u8, piece: &[u8]) -> io::Result<()> {
        let length = u32::try_from(piece.len()).map_err(io::Error::other)?;
        if length > MAX_PIECE {
            return Err(io::Error::other("a change is too large for a snapshot"));
        }
        self.file.write_all(&[mark])?;
        self.file.write_all(&length.to_be_bytes())?;
        self.file.write_all(piece)
    }
}

/// A file that is being read.
pub(crate) struct Reader {
    file: BufReader<File>,
    has_ended: bool,
}

impl Reader {
    /// Opens a snapshot and says where the log had led.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Tip)> {
        let mut reader = Self {
            file: BufReader::new(File::open(path)?),
            has_ended: false,
        };
        let (mark, piece) = reader.piece()?;
        let head: Head = serde_json::from_slice(&piece)?;
        if mark != HEAD_MARK || head.format != FORMAT {
            return Err(malformed("the snapshot is of another version of gripfast"));
        }
        Ok((reader, head.tip))
    }

    fn piece(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let (mut mark, mut length) = ([0], [0; 4]);
        self.file.read_exact(&mut mark)?;
        self.file.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if length > MAX_PIECE {
            return Err(malformed("a piece of the snapshot is too long"));
        }
        let mut piece = vec![0; length as usize];
        self.file.read_exact(&mut piece)?;
        Ok((mark[0], piece))
    }

    fn next_change(&mut self) -> io::Result<Option<(&'static str, Vec<u8>)>> {
        match self.piece()? {
            (STORE_MARK, piece) => Ok(Some((STORE, piece))),
            (GIT_MARK, piece) => Ok(Some((GIT, piece))),
            (END_MARK, _) => Ok(None),
            _ => Err(malformed("the snapshot holds something unknown")),
        }
    }
}

/// The changes, each with the kind of its record; a file that was cut short ends with an error.
impl Iterator for Reader {
    type Item = io::Result<(&'static str, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.next_change();
        self.has_ended = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_back_to_its_end_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snapshot");
        let tip = Tip {
            seq: 7,
            digest: "aa".to_owned(),
        };
        let mut writer = Writer::create(&path, &tip).unwrap();
        writer.git(b"one").unwrap();
        writer.store(b"").unwrap();
        writer.end().unwrap();
        let read = || {
            let (reader, tip) = Reader::open(&path)?;
            let changes: Vec<_> = reader.collect::<io::Result<_>>()?;
            io::Result::Ok((tip, changes))
        };
        let expected = vec![(GIT, b"one".to_vec()), (STORE, Vec::new())];
        assert_eq!(read().unwrap(), (tip, expected));
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(read().is_err(), "cut at {length}");
        }
    }
}
