//! pkt-line framing and side bands.

use bytes::{BufMut, Bytes};

/// Longest packet, its four length digits included.
pub const MAX_PACKET: usize = 65520;
/// Most data one packet carries.
pub const MAX_DATA: usize = MAX_PACKET - 4;
/// Most payload one `side-band-64k` packet carries, after its band byte.
pub const MAX_BAND: usize = MAX_DATA - 1;

pub const FLUSH: &[u8] = b"0000";
pub const DELIM: &[u8] = b"0001";

/// One packet of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    Data(&'a [u8]),
    Flush,
    Delim,
    ResponseEnd,
}

/// Why bytes are no pkt-line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is not framed in pkt-lines")]
pub struct Malformed;

/// Reads the packet at the start of `input`, and says how many bytes it takes.
///
/// `None` means that more bytes are needed. Nothing is copied.
pub fn decode(input: &[u8]) -> Result<Option<(Packet<'_>, usize)>, Malformed> {
    let digits = &input[..input.len().min(4)];
    if !faster_hex::hex_check(digits) {
        return Err(Malformed);
    }
    let mut len = [0; 2];
    if digits.len() < 4 || faster_hex::hex_decode(digits, &mut len).is_err() {
        return Ok(None);
    }
    match usize::from(u16::from_be_bytes(len)) {
        0 => Ok(Some((Packet::Flush, 4))),
        1 => Ok(Some((Packet::Delim, 4))),
        2 => Ok(Some((Packet::ResponseEnd, 4))),
        3 => Err(Malformed),
        len if len > MAX_PACKET => Err(Malformed),
        len => Ok(input.get(4..len).map(|data| (Packet::Data(data), len))),
    }
}

/// Takes one trailing line feed off: clients may send it or leave it out.
pub fn strip_lf(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Appends one packet; data beyond [`MAX_DATA`] is cut off.
pub fn put(out: &mut impl BufMut, data: &[u8]) {
    put_parts(out, &[data]);
}

/// Appends one packet made of several parts; data beyond [`MAX_DATA`] is cut off.
pub fn put_parts(out: &mut impl BufMut, parts: &[&[u8]]) {
    let wanted: usize = parts.iter().map(|part| part.len()).sum();
    let mut left = wanted.min(MAX_DATA);
    put_len(out, left + 4);
    for part in parts {
        let part = &part[..part.len().min(left)];
        out.put_slice(part);
        left -= part.len();
    }
}

fn put_len(out: &mut impl BufMut, len: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |shift: u32| DIGITS[(len >> shift) & 15];
    out.put_slice(&[digit(12), digit(8), digit(4), digit(0)]);
}

/// What a side-band packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    Payload = 1,
    Progress = 2,
    Fatal = 3,
}

/// Appends `data` in as many side-band packets as it takes.
pub fn put_band(out: &mut impl BufMut, band: Band, data: &[u8]) {
    for chunk in data.chunks(MAX_BAND) {
        put_parts(out, &[&[band as u8], chunk]);
    }
}

/// The packet that ends a request with a message for the person.
pub fn error(reason: &str) -> Bytes {
    let mut out = Vec::with_capacity(reason.len() + 9);
    put_parts(&mut out, &[b"ERR ", reason.as_bytes(), b"\n"]);
    out.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_special_packets_are_told_apart() {
        assert_eq!(decode(b"0000x"), Ok(Some((Packet::Flush, 4))));
        assert_eq!(decode(b"0001"), Ok(Some((Packet::Delim, 4))));
        assert_eq!(decode(b"0002"), Ok(Some((Packet::ResponseEnd, 4))));
        assert_eq!(decode(b"0003"), Err(Malformed));
        assert_eq!(decode(b"0004"), Ok(Some((Packet::Data(b""), 4))));
        assert_eq!(
            decode(b"000Ahello\n"),
            Ok(Some((Packet::Data(b"hello\n"), 10)))
        );
        assert_eq!(decode(b"fff1"), Err(Malformed));
        assert_eq!(decode(b"PACK"), Err(Malformed));
        assert_eq!(decode(b"00"), Ok(None));
        assert_eq!(decode(b"0g"), Err(Malformed));
        assert_eq!(decode(b"0008abc"), Ok(None));
    }

    #[test]
    fn too_much_data_for_a_packet_is_cut_and_a_band_is_split() {
        let mut out = Vec::new();
        put(&mut out, &vec![b'x'; MAX_DATA + 1]);
        assert_eq!(out.len(), MAX_PACKET);
        let mut out = Vec::new();
        put_band(&mut out, Band::Payload, &vec![b'x'; MAX_BAND + 1]);
        let (_, first) = decode(&out).unwrap().unwrap();
        assert_eq!(first, MAX_PACKET);
        assert_eq!(decode(&out[first..]), Ok(Some((Packet::Data(b"\x01x"), 6))));
    }

    proptest! {
        #[test]
        fn what_was_put_is_decoded(lines in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..300), 0..20)) {
            let mut out = Vec::new();
            for line in &lines {
                put(&mut out, line);
            }
            let mut at = 0;
            for line in &lines {
                let (packet, taken) = decode(&out[at..]).unwrap().unwrap();
                prop_assert_eq!(packet, Packet::Data(line));
                at += taken;
            }
            prop_assert_eq!(at, out.len());
        }

        #[test]
        fn arbitrary_bytes_are_decoded_refused_or_awaited(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(Some((_, taken))) = decode(&bytes) {
                prop_assert!(taken <= bytes.len());
            }
        }

        #[test]
        fn a_shorter_input_never_contradicts_a_longer_one(line in proptest::collection::vec(any::<u8>(), 0..50)) {
            let mut out = Vec::new();
            put(&mut out, &line);
            for end in 0..out.len() {
                prop_assert_eq!(decode(&out[..end]), Ok(None));
            }
        }
    }
}
