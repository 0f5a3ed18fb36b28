use std::io;

use super::*;
use crate::{
    Module, ModulePath, Version,
    zip::{Entry, Kind},
};

fn select(files: &[(&str, u64)]) -> Selection {
    let listing: Vec<_> = files
        .iter()
        .map(|&(path, size)| Entry {
            path: path.as_bytes(),
            kind: Kind::File,
            size,
        })
        .collect();
    let module = Module {
        path: ModulePath::parse("x.y/m").unwrap(),
        version: Version::parse("v1.0.0").unwrap(),
        dir: String::new(),
        has_go_mod: false,
    };
    Selection::check(&module, b"", &listing).unwrap()
}

fn write(files: &[(&str, u64)], content: &[&[u8]]) -> Result<Vec<u8>, WriteError> {
    let mut zip = Vec::new();
    let written = select(files).write_to(&mut zip, |file| Ok(content[file.entry]))?;
    assert_eq!(written, zip.len() as u64);
    Ok(zip)
}

#[test]
fn the_same_files_make_the_same_zip() {
    let write = || write(&[("a", 3), ("b", 0)], &[b"abc", b""]).unwrap();
    assert_eq!(write(), write());
}

#[test]
fn a_file_of_another_length_than_listed_is_an_error() {
    let longer = write(&[("a", 3)], &[b"abcd"]).unwrap_err();
    assert_eq!(
        longer.to_string(),
        "\"a\" has more than the 3 bytes that were listed"
    );
    let shorter = write(&[("a", 3)], &[b"ab"]).unwrap_err();
    assert_eq!(
        shorter.to_string(),
        "\"a\" has 2 bytes, not the 3 that were listed"
    );
}

#[test]
fn a_file_without_end_is_given_up_at_once() {
    let mut out = io::sink();
    let error = select(&[("a", 3)])
        .write_to(&mut out, |_| Ok(io::repeat(b'x')))
        .unwrap_err();
    assert!(matches!(error, WriteError::Longer { .. }));
}

#[test]
fn what_cannot_be_read_or_written_is_named() {
    let error = select(&[("dir/a", 3)])
        .write_to(io::sink(), |_| {
            Err::<&[u8], _>(io::Error::other("no such blob"))
        })
        .unwrap_err();
    assert_eq!(error.to_string(), "\"dir/a\" cannot be read");
    let mut full = [0_u8; 10];
    let error = select(&[("a", 1)])
        .write_to(&mut full[..], |_| Ok(&b"x"[..]))
        .unwrap_err();
    assert!(matches!(error, WriteError::Output(_)));
}

/// Counts and forgets.
struct Counted(u64);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes that do not compress.
struct Noise(u64);

impl Read for Noise {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for eight in buffer.chunks_mut(8) {
            self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            eight.copy_from_slice(&mixed.to_be_bytes()[..eight.len()]);
        }
        Ok(buffer.len())
    }
}

#[test]
fn a_zip_above_the_limit_stops_there() {
    const MAX: u64 = 1 << 20;
    let write = |size| {
        let mut out = Counted(0);
        let written =
            select(&[("a", size)]).write_within(MAX, &mut out, |file| Ok(Noise(7).take(file.size)));
        assert!(out.0 <= MAX);
        written
    };
    assert!(write(MAX / 2).unwrap() > MAX / 2);
    let error = write(MAX).unwrap_err();
    assert!(matches!(error, WriteError::TooLarge), "{error}");
}
