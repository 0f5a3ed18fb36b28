//! Reader of the tar archives that ngit-grasp keeps removed repositories in.
//!
//! Of the format only what its writer makes is known: plain files, long names as GNU tar and POSIX
//! write them. Links and devices are passed over, names that lead elsewhere are refused.

use std::{
    fs,
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use flate2::read::GzDecoder;

const BLOCK: u64 = 512;
/// Longest name, and longest list of attributes, of an entry.
const MAX_ATTRIBUTES: u64 = 64 << 10;
/// The entries of a repository that are taken over; the others are created.
const PARTS: [&str; 5] = ["HEAD", "config", "objects", "packed-refs", "refs"];

/// Unpacks the repository below `root` in the compressed archive `file` to `to`. Fails if there is none.
pub(super) fn unpack(file: &Path, root: &str, to: &Path) -> anyhow::Result<()> {
    let opened = fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let taken = read(GzDecoder::new(io::BufReader::new(opened)), root, to)?;
    ensure!(taken > 0, "{root} is not in {}", file.display());
    Ok(())
}

/// Unpacks what lies below `root`; says how many files that were.
fn read(mut archive: impl Read, root: &str, to: &Path) -> anyhow::Result<u64> {
    let (mut taken, mut long_name) = (0, None);
    loop {
        let mut header = [0; BLOCK as usize];
        let read = archive.read_exact(&mut header);
        read.context("the archive is cut short")?;
        if header.iter().all(|byte| *byte == 0) {
            return Ok(taken);
        }
        let header = Header(&header);
        header.check()?;
        let size = header.size()?;
        let mut content = archive.by_ref().take(size);
        match header.0[156] {
            b'L' => {
                let name = text(&mut content, size)?;
                long_name = Some(name.trim_end_matches('\0').to_owned());
            }
            b'x' => long_name = path_attribute(&text(&mut content, size)?).or(long_name),
            b'g' => {}
            kind => {
                let name = long_name.take().unwrap_or_else(|| header.name());
                if matches!(kind, 0 | b'0')
                    && let Some(below) = below(&name, root)?
                {
                    write(&mut content, size, &to.join(below))?;
                    taken += 1;
                }
            }
        }
        let rest = content.limit() + (BLOCK - size % BLOCK) % BLOCK;
        let skipped = io::copy(&mut archive.by_ref().take(rest), &mut io::sink())?;
        ensure!(skipped == rest, "the archive is cut short");
    }
}

struct Header<'a>(&'a [u8; BLOCK as usize]);

impl Header<'_> {
    fn check(&self) -> anyhow::Result<()> {
        let sum = |(at, byte): (usize, &u8)| match at {
            // The sum itself counts as blanks.
            148..156 => u64::from(b' '),
            _ => u64::from(*byte),
        };
        let sum: u64 = self.0.iter().enumerate().map(sum).sum();
        ensure!(
            octal(&self.0[148..156]) == Some(sum),
            "it is no tar archive"
        );
        Ok(())
    }

    fn size(&self) -> anyhow::Result<u64> {
        let field = &self.0[124..136];
        // Of more than eight GiB: a number in base 256.
        let size = if field[0] & 0x80 == 0 {
            octal(field)
        } else {
            field.last_chunk().copied().map(u64::from_be_bytes)
        };
        let size = size.filter(|size| *size < u64::MAX - BLOCK);
        size.context("an entry of the archive has no size")
    }

    fn name(&self) -> String {
        let field = |bytes: &[u8]| {
            let end = bytes.iter().position(|byte| *byte == 0);
            String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
        };
        let name = field(&self.0[..100]);
        let prefix = field(&self.0[345..500]);
        // GNU tar has other things there.
        if &self.0[257..263] == b"ustar\0" && !prefix.is_empty() {
            return format!("{prefix}/{name}");
        }
        name
    }
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    let text = text.trim_matches([' ', '\0']);
    u64::from_str_radix(text, 8).ok()
}

fn text(content: &mut impl Read, size: u64) -> anyhow::Result<String> {
    ensure!(
        size <= MAX_ATTRIBUTES,
        "an entry of the archive has too long a name"
    );
    let mut text = String::new();
    content.read_to_string(&mut text)?;
    Ok(text)
}

/// The name in a list of attributes as POSIX has them: `<length> path=<name>\n`.
fn path_attribute(attributes: &str) -> Option<String> {
    let mut rest = attributes;
    while let Some((length, _)) = rest.split_once(' ') {
        let length: usize = length.parse().ok()?;
        let record = rest.get(..length)?;
        if let Some((_, value)) = record.split_once(" path=") {
            return Some(value.trim_end_matches('\n').to_owned());
        }
        rest = &rest[length..];
    }
    None
}

/// Where an entry belongs in the repository; none if it is no part of it.
fn below(name: &str, root: &str) -> anyhow::Result<Option<PathBuf>> {
    let Ok(path) = Path::new(name).strip_prefix(root) else {
        return Ok(None);
    };
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !path.components().all(is_plain) {
        bail!("the archive names {name}, which lies elsewhere");
    }
    let is_part = PARTS.iter().any(|part| path.starts_with(part));
    let is_taken = is_part && path != Path::new("objects/info/alternates");
    Ok(is_taken.then(|| path.to_owned()))
}

fn write(content: &mut impl Read, size: u64, place: &Path) -> anyhow::Result<()> {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    let written = io::copy(content, &mut fs::File::create(place)?)?;
    ensure!(written == size, "the archive is cut short");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut header = [0; 512];
        header[..name.len().min(100)].copy_from_slice(&name.as_bytes()[..name.len().min(100)]);
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = kind;
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let padding = vec![0; (512 - content.len() % 512) % 512];
        [&header[..], content, &padding].concat()
    }

    fn unpacked(entries: &[Vec<u8>]) -> anyhow::Result<Vec<(String, String)>> {
        let dir = tempfile::tempdir()?;
        let archive = [entries.concat(), vec![0; 1024]].concat();
        read(&archive[..], "x.git", dir.path())?;
        let mut found = Vec::new();
        let mut open = vec![dir.path().to_owned()];
        while let Some(path) = open.pop() {
            for entry in fs::read_dir(path)? {
                let path = entry?.path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let name = path.strip_prefix(dir.path())?.display().to_string();
                    found.push((name, fs::read_to_string(path)?));
                }
            }
        }
        found.sort();
        Ok(found)
    }

    #[test]
    fn parts_of_the_repository_are_unpacked_and_nothing_else() {
        let long = format!("x.git/refs/heads/{}", "a".repeat(120));
        let entries = [
            entry("x.git/", b'5', b""),
            entry("x.git/HEAD", b'0', b"ref: refs/heads/main\n"),
            entry("x.git/hooks/post-update", b'0', b"#!/bin/sh"),
            entry("x.git/objects/info/alternates", b'0', b"/elsewhere"),
            entry("x.git/refs/heads/link", b'2', b""),
            entry("y.git/HEAD", b'0', b"another"),
            entry("././@LongLink", b'L', format!("{long}\0").as_bytes()),
            entry("x.git/refs/heads/aaa", b'0', b"tip"),
            entry("pax", b'x', b"26 path=x.git/refs/tags/v\n"),
            entry("cut", b'0', b"tag"),
        ];
        let found = unpacked(&entries).unwrap();
        let long = long.trim_start_matches("x.git/").to_owned();
        let expected = [
            ("HEAD".to_owned(), "ref: refs/heads/main\n".to_owned()),
            (long, "tip".to_owned()),
            ("refs/tags/v".to_owned(), "tag".to_owned()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn names_that_lead_elsewhere_and_broken_archives_are_refused() {
        assert!(unpacked(&[entry("x.git/refs/../../../etc/passwd", b'0', b"x")]).is_err());
        let mut damaged = entry("x.git/HEAD", b'0', b"ref");
        damaged[0] = b'y';
        assert!(unpacked(&[damaged]).is_err());
        let dir = tempfile::tempdir().unwrap();
        let cut = &entry("x.git/HEAD", b'0', &[7; 600])[..700];
        assert!(read(cut, "x.git", dir.path()).is_err());
    }
}
