//! Compression by gzip.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};

/// Compresses fast rather than small: lines of JSON shrink to a tenth either way.
pub(super) fn compress(lines: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(lines.len() / 8), Compression::fast());
    let compressed = encoder.write_all(lines).and_then(|()| encoder.finish());
    compressed.expect("because memory takes all bytes").into()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn compressed_lines_are_read_again() {
        let lines = b"{\"Path\":\"a.example\"}\n".repeat(2000);
        let compressed = compress(&lines);
        assert!(compressed.len() * 10 < lines.len(), "{}", compressed.len());
        let mut plain = Vec::new();
        GzDecoder::new(&compressed[..])
            .read_to_end(&mut plain)
            .unwrap();
        assert_eq!(plain, lines);
    }
}
