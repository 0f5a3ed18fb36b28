//! The zip format, as much of it as a stream of compressed files needs.
//!
//! Sizes and checksums follow each file in a data descriptor, because they are not known before.
//! No size or offset needs more than 32 bits, because a zip is at most [`MAX_BYTES`] long.

use std::io::{self, Write};

use super::{MAX_BYTES, WriteError};

const LOCAL_HEADER: u32 = 0x0403_4b50;
const DESCRIPTOR: u32 = 0x0807_4b50;
const CENTRAL_HEADER: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
const END_64_LOCATOR: u32 = 0x0706_4b50;

/// The version of the format that a reader must know, and the one for more than 65 534 files.
const VERSION: u16 = 20;
const VERSION_64: u16 = 45;
/// A data descriptor follows; the name is UTF-8.
const FLAGS: u16 = 0x0808;
const DEFLATED: u16 = 8;
/// The first day that the format can say, at midnight: Go looks at no times.
const TIME: u16 = 0;
const DATE: u16 = 0x0021;

/// The least that a file with a name of this length adds to a zip.
pub(super) fn overhead(name_bytes: usize) -> u64 {
    const LOCAL: u64 = 30;
    const AFTER: u64 = 16;
    const CENTRAL: u64 = 46;
    LOCAL + AFTER + CENTRAL + 2 * name_bytes as u64
}

/// Where the zip goes; no more gets through than a zip may have.
pub(super) struct Output<W> {
    to: W,
    written: u64,
    max: u64,
}

impl<W: Write> Output<W> {
    /// `max` is at most [`MAX_BYTES`].
    pub(super) fn new(to: W, max: u64) -> Self {
        let written = 0;
        let max = max.min(MAX_BYTES);
        Self { to, written, max }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let written = self.written + bytes.len() as u64;
        if written > self.max {
            return Err(WriteError::TooLarge);
        }
        self.to.write_all(bytes).map_err(WriteError::Output)?;
        self.written = written;
        Ok(())
    }

    /// The place of the next byte.
    pub(super) fn offset(&self) -> u32 {
        u32::try_from(self.written).expect("because no more than MAX_BYTES are written")
    }

    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.to.flush()?;
        Ok(self.written)
    }
}

/// What is known of a file once it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) offset: u32,
    pub(super) crc: u32,
    pub(super) compressed: u32,
    pub(super) size: u32,
}

pub(super) fn local_header(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(30 + name.len());
    put32(&mut bytes, LOCAL_HEADER);
    put16(&mut bytes, VERSION);
    about(&mut bytes);
    // Checksum and both sizes: see the descriptor.
    bytes.extend([0; 12]);
    put16(&mut bytes, name_len(name));
    put16(&mut bytes, 0);
    bytes.extend(name.as_bytes());
    bytes
}

pub(super) fn descriptor(member: &Member) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16);
    put32(&mut bytes, DESCRIPTOR);
    sizes(&mut bytes, member);
    bytes
}

pub(super) fn central_header(name: &str, member: &Member) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(46 + name.len());
    put32(&mut bytes, CENTRAL_HEADER);
    put16(&mut bytes, VERSION);
    put16(&mut bytes, VERSION);
    about(&mut bytes);
    sizes(&mut bytes, member);
    put16(&mut bytes, name_len(name));
    // No extra field, no comment, first disk, no attributes of either kind.
    bytes.extend([0; 12]);
    put32(&mut bytes, member.offset);
    bytes.extend(name.as_bytes());
    bytes
}

/// The end of a zip with a directory of `members` entries that starts and ends at these offsets.
pub(super) fn end(members: usize, start: u32, end: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let count = u16::try_from(members).unwrap_or(u16::MAX);
    if count == u16::MAX {
        end_64(&mut bytes, members as u64, start, end);
    }
    put32(&mut bytes, END);
    bytes.extend([0; 4]);
    put16(&mut bytes, count);
    put16(&mut bytes, count);
    put32(&mut bytes, end - start);
    put32(&mut bytes, start);
    put16(&mut bytes, 0);
    bytes
}

/// The larger form, for counts that need more than 16 bits.
fn end_64(bytes: &mut Vec<u8>, members: u64, start: u32, end: u32) {
    const REST: u64 = 44;
    put32(bytes, END_64);
    put64(bytes, REST);
    put16(bytes, VERSION_64);
    put16(bytes, VERSION_64);
    bytes.extend([0; 8]);
    put64(bytes, members);
    put64(bytes, members);
    put64(bytes, u64::from(end - start));
    put64(bytes, u64::from(start));
    put32(bytes, END_64_LOCATOR);
    put32(bytes, 0);
    put64(bytes, u64::from(end));
    put32(bytes, 1);
}

fn about(bytes: &mut Vec<u8>) {
    for field in [FLAGS, DEFLATED, TIME, DATE] {
        put16(bytes, field);
    }
}

fn sizes(bytes: &mut Vec<u8>, member: &Member) {
    for field in [member.crc, member.compressed, member.size] {
        put32(bytes, field);
    }
}

fn name_len(name: &str) -> u16 {
    u16::try_from(name.len()).expect("because module, version and path are far shorter")
}

fn put16(bytes: &mut Vec<u8>, number: u16) {
    bytes.extend(number.to_le_bytes());
}

fn put32(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend(number.to_le_bytes());
}

fn put64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_le_bytes());
}
