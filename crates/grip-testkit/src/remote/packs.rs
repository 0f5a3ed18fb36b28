//! Packs and their framing, for hosts that do not answer what they were asked.

use bytes::Bytes;

use super::backend::Speaks;
use crate::wire::packet;

/// The most pack bytes that one packet of the side band carries.
const BAND: usize = 65_515;

/// Frames `pack` as the answer to a fetch; without `end` more may follow.
pub(crate) fn framed(pack: &[u8], speaks: Speaks, end: bool) -> Bytes {
    let mut answer = match speaks {
        Speaks::V2 => packet(b"packfile\n"),
        Speaks::V0 => packet(b"NAK\n"),
    };
    answer.extend(banded(pack));
    if end {
        answer.extend(b"0000");
    }
    answer.into()
}

/// `data` as packets of the band that carries the pack.
pub(super) fn banded(data: &[u8]) -> Vec<u8> {
    let one = |piece: &[u8]| packet(&[&[1], piece].concat());
    data.chunks(BAND).flat_map(one).collect()
}

/// The head of a pack of so many objects.
pub fn head(objects: u32) -> Vec<u8> {
    [*b"PACK", 2_u32.to_be_bytes(), objects.to_be_bytes()].concat()
}

/// A blob as an entry of a pack, stored without compression.
pub fn stored_blob(content: &[u8]) -> Vec<u8> {
    let mut entry = entry_head(3, content.len());
    entry.extend([0x78, 0x01]);
    let mut pieces = content.chunks(0xffff).peekable();
    while let Some(piece) = pieces.next() {
        let length = u16::try_from(piece.len()).expect("pieces are cut to fit");
        entry.push(u8::from(pieces.peek().is_none()));
        entry.extend(length.to_le_bytes());
        entry.extend((!length).to_le_bytes());
        entry.extend(piece);
    }
    entry.extend(adler32(content).to_be_bytes());
    entry
}

/// The type and inflated size that begin every entry of a pack.
pub fn entry_head(kind: u8, size: usize) -> Vec<u8> {
    let low = |bits: usize| u8::try_from(bits).expect("masked to less than a byte");
    let mut byte = (kind << 4) | low(size & 0x0f);
    let mut rest = size >> 4;
    let mut head = Vec::new();
    while rest > 0 {
        head.push(byte | 0x80);
        byte = low(rest & 0x7f);
        rest >>= 7;
    }
    head.push(byte);
    head
}

fn adler32(data: &[u8]) -> u32 {
    let (a, b) = data.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    (b << 16) | a
}
