//! The lines of a file, packed or plain, in bounded memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use flate2::bufread::MultiGzDecoder;

/// Longest line that is read; of a longer one only the beginning.
pub(super) const MAX_LINE: usize = 16 << 20;
/// So much of a line that is too long is kept.
const KEPT_OF_LONG: usize = 64 << 10;
/// A packed file may become so many times as large, or as large as the next line says. Events
/// become about ten times as large; what becomes much larger was made to fill memory or time.
const MOST_GROWTH: u64 = 200;
const MOST_SMALL: u64 = 256 << 20;
const BUFFER: usize = 256 << 10;

/// Why there are no more lines.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("it ends in the middle")]
    Truncated,
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error("it unpacks to more than {0} bytes")]
    Bomb(u64),
    #[error("it cannot be read")]
    Io(#[source] io::Error),
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole,
    /// Only the beginning is there, of so many bytes.
    TooLong(u64),
    /// The file ended, or was cut off, before the line did.
    Cut,
}

pub(super) struct Lines {
    reader: Box<dyn BufRead + Send>,
    /// Bytes of the file that were used so far.
    used: Arc<AtomicU64>,
    is_packed: bool,
    unpacked: u64,
    most: u64,
    max_line: usize,
    /// Why the last line was cut.
    ended: Option<ReadError>,
}

impl Lines {
    /// The lines of a file, which is packed if it begins so.
    pub(super) fn open(file: File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        Self::of(Box::new(file), bytes, MAX_LINE)
    }

    pub(super) fn of(
        source: Box<dyn Read + Send>,
        bytes: u64,
        max_line: usize,
    ) -> io::Result<Self> {
        let used = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            source,
            used: Arc::clone(&used),
        };
        let mut plain = BufReader::with_capacity(BUFFER, counted);
        let is_packed = plain.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead + Send> = if is_packed {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(plain)))
        } else {
            Box::new(plain)
        };
        Ok(Self {
            reader,
            used,
            is_packed,
            unpacked: 0,
            most: bytes.saturating_mul(MOST_GROWTH).max(MOST_SMALL),
            max_line,
            ended: None,
        })
    }

    /// Bytes of the file that were used so far.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Reads the next line into `line`, without its end; none at the end of the file.
    ///
    /// After [`Line::Cut`] the reason follows, if it is not just that the last line has no end.
    pub(super) fn next(&mut self, line: &mut Vec<u8>) -> Result<Option<Line>, ReadError> {
        line.clear();
        if let Some(why) = self.ended.take() {
            return Err(why);
        }
        let mut length: u64 = 0;
        loop {
            let piece = match self.reader.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    let why = self.why(error);
                    if length == 0 {
                        return Err(why);
                    }
                    self.ended = Some(why);
                    return Ok(Some(Line::Cut));
                }
            };
            if piece.is_empty() {
                // Whole, if it is: the last line of a file need not end.
                return Ok((length > 0).then(|| kind(length, self.max_line)));
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let part = &piece[..end.unwrap_or(piece.len())];
            let room = if length + part.len() as u64 > self.max_line as u64 {
                KEPT_OF_LONG.min(self.max_line)
            } else {
                self.max_line
            };
            line.truncate(room);
            line.extend_from_slice(&part[..part.len().min(room - line.len())]);
            length += part.len() as u64;
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            self.unpacked += used as u64;
            if self.is_packed && self.unpacked > self.most {
                return Err(ReadError::Bomb(self.most));
            }
            if end.is_some() {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(Some(kind(length, self.max_line)));
            }
        }
    }

    fn why(&self, error: io::Error) -> ReadError {
        match error.kind() {
            ErrorKind::UnexpectedEof if self.is_packed => ReadError::Truncated,
            ErrorKind::InvalidInput | ErrorKind::InvalidData if self.is_packed => {
                ReadError::Damaged(error.to_string())
            }
            _ => ReadError::Io(error),
        }
    }
}

fn kind(length: u64, max_line: usize) -> Line {
    if length > max_line as u64 {
        Line::TooLong(length)
    } else {
        Line::Whole
    }
}

/// Counts what is read.
struct Counted {
    source: Box<dyn Read + Send>,
    used: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.used.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn lines(bytes: Vec<u8>, max_line: usize) -> Lines {
        let length = bytes.len() as u64;
        Lines::of(Box::new(io::Cursor::new(bytes)), length, max_line).unwrap()
    }

    fn all(mut lines: Lines) -> (Vec<(Line, Vec<u8>)>, Option<ReadError>) {
        let mut found = Vec::new();
        let mut line = Vec::new();
        loop {
            match lines.next(&mut line) {
                Ok(Some(kind)) => found.push((kind, line.clone())),
                Ok(None) => return (found, None),
                Err(why) => return (found, Some(why)),
            }
        }
    }

    #[test]
    fn plain_and_packed_lines_are_read_alike_also_from_several_pieces() {
        let text = b"one\r\n\ntwo\nthree";
        let expected = ["one", "", "two", "three"].map(|text| (Line::Whole, text.into()));
        let several = [packed(b"one\r\n\ntw"), packed(b""), packed(b"o\nthree")].concat();
        for bytes in [text.to_vec(), packed(text), several] {
            let (found, why) = all(lines(bytes, MAX_LINE));
            assert_eq!(found, expected);
            assert!(why.is_none());
        }
        assert!(all(lines(Vec::new(), MAX_LINE)).0.is_empty());
    }

    #[test]
    fn of_a_line_that_is_too_long_the_beginning_is_kept_and_the_next_line_is_read() {
        let long = "x".repeat(3_000_000);
        let text = format!("a\n{long}\nb\n");
        let (found, why) = all(lines(packed(text.as_bytes()), 1_000_000));
        assert!(why.is_none());
        assert_eq!(found[0], (Line::Whole, b"a".to_vec()));
        assert_eq!(found[1].0, Line::TooLong(3_000_000));
        assert_eq!(found[1].1.len(), KEPT_OF_LONG);
        assert_eq!(found[2], (Line::Whole, b"b".to_vec()));
        let exact = format!("{}\n", "x".repeat(50));
        assert_eq!(all(lines(exact.into(), 50)).0[0].0, Line::Whole);
    }

    #[test]
    fn a_packed_file_that_ends_in_the_middle_gives_all_whole_lines_first() {
        let mut noise = 1_u64;
        let mut text = String::new();
        for _ in 0..2_000 {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            text.push_str(&format!("{noise:x}\n"));
        }
        let bytes = packed(text.as_bytes());
        let (found, why) = all(lines(bytes[..bytes.len() / 2].to_vec(), MAX_LINE));
        assert!(matches!(why, Some(ReadError::Truncated)), "{why:?}");
        assert_eq!(found.last().unwrap().0, Line::Cut);
        let whole = found.len() - 1;
        assert!(whole > 500, "{whole}");
        let expected: Vec<_> = text.lines().take(whole).collect();
        assert!(found.iter().zip(expected).all(|(f, e)| f.1 == e.as_bytes()));
    }

    #[test]
    fn a_damaged_file_is_told_from_a_short_one() {
        let mut bytes = packed("some text that is packed\n".repeat(1_000).as_bytes());
        let last = bytes.len() - 5;
        bytes[last] ^= 0xff;
        let (_, why) = all(lines(bytes, MAX_LINE));
        assert!(matches!(why, Some(ReadError::Damaged(_))), "{why:?}");
        let (_, why) = all(lines([packed(b"a\n"), b"junk".to_vec()].concat(), MAX_LINE));
        assert!(why.is_some());
    }

    #[test]
    fn a_file_that_unpacks_to_far_too_much_is_left() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let zeros = vec![b'0'; 1 << 20];
        for _ in 0..=(MOST_SMALL >> 20) {
            encoder.write_all(&zeros).unwrap();
        }
        let bytes = encoder.finish().unwrap();
        assert!((bytes.len() as u64) < MOST_SMALL / MOST_GROWTH);
        let mut lines = lines(bytes, MAX_LINE);
        let mut line = Vec::new();
        let why = lines.next(&mut line).unwrap_err();
        assert!(matches!(why, ReadError::Bomb(MOST_SMALL)), "{why:?}");
        assert!(line.capacity() <= 2 * MAX_LINE);
    }

    proptest! {
        #[test]
        fn whatever_a_file_holds_its_lines_are_those_between_line_ends(
            parts in proptest::collection::vec("[a-z]{0,40}", 0..40),
        ) {
            let text = parts.join("\n");
            let expected: Vec<_> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
            for bytes in [text.clone().into_bytes(), packed(text.as_bytes())] {
                let (found, why) = all(lines(bytes, MAX_LINE));
                prop_assert!(why.is_none());
                let found: Vec<_> = found.into_iter().map(|(_, line)| line).collect();
                prop_assert_eq!(&found, &expected);
            }
        }

        #[test]
        fn no_bytes_at_all_make_it_fall_over(mut bytes: Vec<u8>, is_packed: bool) {
            if is_packed {
                bytes.splice(0..0, [0x1f, 0x8b, 8, 0]);
            }
            let (found, _) = all(lines(bytes, 100));
            prop_assert!(found.iter().all(|(_, line)| line.len() <= 100));
        }
    }
}
