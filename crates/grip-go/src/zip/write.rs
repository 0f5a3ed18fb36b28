//! Writes the zip of a module.

use std::io::{self, Read, Write};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use super::{
    File, MAX_BYTES, Selection,
    archive::{self, Member, Output},
};
use crate::{Shown, display_text::shown};

const BUFFER_BYTES: usize = 32 << 10;
/// What nothing is compressed to. Modules have many empty files, and no work is due for them.
const NOTHING: [u8; 2] = [0x03, 0x00];

/// Why the zip was not written to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    #[error("{path} cannot be read")]
    Read { path: Shown, source: io::Error },
    #[error("{path} has more than the {promised} bytes that were listed")]
    Longer { path: Shown, promised: u64 },
    #[error("{path} has {bytes} bytes, not the {promised} that were listed")]
    Shorter {
        path: Shown,
        promised: u64,
        bytes: u64,
    },
    #[error("the zip is larger than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    #[error("the zip cannot be written")]
    Output(#[source] io::Error),
}

impl Selection {
    /// Writes the zip and returns its length. `open` is asked for the bytes of one file after
    /// another, in the order of [`files`](Self::files).
    ///
    /// After an error, what was written is no zip.
    pub fn write_to<W: Write, R: Read>(
        &self,
        out: W,
        open: impl FnMut(&File) -> io::Result<R>,
    ) -> Result<u64, WriteError> {
        self.write_within(MAX_BYTES, out, open)
    }

    fn write_within<W: Write, R: Read>(
        &self,
        max: u64,
        out: W,
        mut open: impl FnMut(&File) -> io::Result<R>,
    ) -> Result<u64, WriteError> {
        let mut writer = Writer::new(Output::new(out, max));
        let mut members = Vec::with_capacity(self.files().len());
        for file in self.files() {
            let content = open(file).map_err(|source| unreadable(file, source))?;
            let name = format!("{}{}", self.prefix(), file.path);
            members.push(writer.file(&name, file, content)?);
        }
        let mut out = writer.out;
        let start = out.offset();
        for (file, member) in self.files().iter().zip(&members) {
            let name = format!("{}{}", self.prefix(), file.path);
            out.write(&archive::central_header(&name, member))?;
        }
        let end = out.offset();
        out.write(&archive::end(members.len(), start, end))?;
        out.finish().map_err(WriteError::Output)
    }
}

fn unreadable(file: &File, source: io::Error) -> WriteError {
    let path = shown(file.path.as_bytes());
    WriteError::Read { path, source }
}

/// Two buffers and the state of the compression, used for all files.
struct Writer<W> {
    out: Output<W>,
    compress: Compress,
    plain: Box<[u8]>,
    packed: Box<[u8]>,
}

impl<W: Write> Writer<W> {
    fn new(out: Output<W>) -> Self {
        Self {
            out,
            compress: Compress::new(Compression::default(), false),
            plain: vec![0; BUFFER_BYTES].into(),
            packed: vec![0; BUFFER_BYTES].into(),
        }
    }

    fn file(
        &mut self,
        name: &str,
        file: &File,
        mut content: impl Read,
    ) -> Result<Member, WriteError> {
        let offset = self.out.offset();
        self.out.write(&archive::local_header(name))?;
        let start = self.out.offset();
        let mut crc = Crc::new();
        let mut bytes = 0;
        loop {
            let count = read_some(&mut content, &mut self.plain)
                .map_err(|source| unreadable(file, source))?;
            bytes += count as u64;
            check_length(file, bytes, count == 0)?;
            crc.update(&self.plain[..count]);
            match count {
                0 if bytes == 0 => self.out.write(&NOTHING)?,
                _ => self.pack(count)?,
            }
            if count == 0 {
                break;
            }
        }
        if bytes > 0 {
            self.compress.reset();
        }
        let member = Member {
            offset,
            crc: crc.sum(),
            compressed: self.out.offset() - start,
            size: crc.amount(),
        };
        self.out.write(&archive::descriptor(&member))?;
        Ok(member)
    }

    /// Compresses the first `count` bytes of the buffer; none of them is the end of the file.
    fn pack(&mut self, count: usize) -> Result<(), WriteError> {
        let flush = match count {
            0 => FlushCompress::Finish,
            _ => FlushCompress::None,
        };
        let mut taken = 0;
        loop {
            let (before, made) = (self.compress.total_in(), self.compress.total_out());
            let status = self
                .compress
                .compress(&self.plain[taken..count], &mut self.packed, flush)
                .map_err(|error| WriteError::Output(io::Error::other(error)))?;
            let step = |total: u64, before: u64| usize::try_from(total - before).unwrap_or(0);
            taken += step(self.compress.total_in(), before);
            let made = step(self.compress.total_out(), made);
            self.out.write(&self.packed[..made])?;
            let full = made == self.packed.len();
            let done = match flush {
                FlushCompress::Finish => status == Status::StreamEnd,
                _ => taken == count && !full,
            };
            if done {
                return Ok(());
            }
        }
    }
}

fn check_length(file: &File, bytes: u64, at_end: bool) -> Result<(), WriteError> {
    let path = || shown(file.path.as_bytes());
    let promised = file.size;
    if bytes > promised {
        return Err(WriteError::Longer {
            path: path(),
            promised,
        });
    }
    if at_end && bytes < promised {
        return Err(WriteError::Shorter {
            path: path(),
            promised,
            bytes,
        });
    }
    Ok(())
}

fn read_some(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests;
