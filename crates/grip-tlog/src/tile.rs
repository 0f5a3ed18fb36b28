//! Tiles: up to 256 hashes, or records, under a path that never changes its contents.

use std::fmt;

use crate::{Hash, node::subtree};

/// The levels of the tree that one tile spans; Go's client asks for no others.
pub const HEIGHT: u8 = 8;
/// The hashes, or records, of a whole tile.
pub const WIDTH: u64 = 1 << HEIGHT;

/// Longest path: that of the last tile of the longest log has fewer bytes.
const MAX_PATH_BYTES: usize = 64;
/// Levels of tiles that a log of 2^63 records has.
const LEVELS: u8 = 64 / HEIGHT;

/// What a tile consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contents {
    /// Hashes at this level of tiles.
    Hashes(u8),
    /// The records themselves.
    Records,
}

/// A tile by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    pub contents: Contents,
    pub index: u64,
    /// Its hashes or records: at least 1, [`WIDTH`] if it is whole.
    pub width: u64,
}

/// Why a path names no tile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path names no tile")]
pub struct InvalidTile;

impl Tile {
    /// Parses a path such as `8/0/x001/234.p/5`, which follows `tile/`.
    pub fn parse(path: &str) -> Result<Self, InvalidTile> {
        let tile = Self::read(path).ok_or(InvalidTile)?;
        // One tile, one path: no zeros or signs that another reader takes for something else.
        if tile.to_string() == path {
            Ok(tile)
        } else {
            Err(InvalidTile)
        }
    }

    fn read(path: &str) -> Option<Self> {
        if path.len() > MAX_PATH_BYTES {
            return None;
        }
        let rest = path.strip_prefix("8/")?;
        let (level, rest) = rest.split_once('/')?;
        let contents = match level {
            "data" => Contents::Records,
            level => Contents::Hashes(level.parse().ok().filter(|level| *level < LEVELS)?),
        };
        let (number, width) = match rest.split_once(".p/") {
            Some((number, width)) => (number, width.parse().ok()?),
            None => (rest, WIDTH),
        };
        if !(1..=WIDTH).contains(&width) {
            return None;
        }
        let mut index: u64 = 0;
        for digits in number.split('/') {
            let digits: u64 = digits.strip_prefix('x').unwrap_or(digits).parse().ok()?;
            index = index.checked_mul(1000)?.checked_add(digits)?;
        }
        Some(Self {
            contents,
            index,
            width,
        })
    }

    pub fn is_whole(&self) -> bool {
        self.width == WIDTH
    }

    /// The place of its first hash at its level, or of its first record; none beyond any log.
    pub fn first(&self) -> Option<u64> {
        self.index.checked_mul(WIDTH)
    }

    /// Whether a log of this size has all of it.
    pub fn is_within(&self, size: u64) -> bool {
        let level = match self.contents {
            Contents::Hashes(level) => u32::from(level) * u32::from(HEIGHT),
            Contents::Records => 0,
        };
        let there = size.checked_shr(level).unwrap_or(0);
        let end = self.first().and_then(|first| first.checked_add(self.width));
        end.is_some_and(|end| end <= there)
    }

    /// All tiles of hashes of a log, as wide as its size makes them, the lowest level first.
    pub fn all(size: u64) -> impl Iterator<Item = Self> {
        let levels = (0..LEVELS).map(move |level| (level, size >> (level * HEIGHT)));
        let levels = levels.take_while(|(_, hashes)| *hashes > 0);
        levels.flat_map(|(level, hashes)| {
            (0..hashes.div_ceil(WIDTH)).map(move |index| Self {
                contents: Contents::Hashes(level),
                index,
                width: WIDTH.min(hashes - index * WIDTH),
            })
        })
    }

    /// Reads the hashes of a tile; none if they are not as many as it is wide.
    pub fn hashes(&self, bytes: &[u8]) -> Option<Vec<Hash>> {
        let (hashes, rest) = bytes.as_chunks::<{ Hash::BYTES }>();
        let fits = rest.is_empty() && hashes.len() as u64 == self.width;
        fits.then(|| hashes.iter().copied().map(Hash).collect())
    }

    /// The node above a whole tile.
    pub fn root(hashes: &[Hash]) -> Option<Hash> {
        (hashes.len() as u64 == WIDTH).then(|| subtree(hashes))
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.contents {
            Contents::Hashes(level) => write!(f, "{HEIGHT}/{level}/")?,
            Contents::Records => write!(f, "{HEIGHT}/data/")?,
        }
        let mut groups = vec![self.index % 1000];
        let mut rest = self.index / 1000;
        while rest > 0 {
            groups.push(rest % 1000);
            rest /= 1000;
        }
        for group in groups.iter().skip(1).rev() {
            write!(f, "x{group:03}/")?;
        }
        write!(f, "{:03}", groups[0])?;
        if self.is_whole() {
            Ok(())
        } else {
            write!(f, ".p/{}", self.width)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_those_of_go() {
        let tile = |contents, index, width| Tile {
            contents,
            index,
            width,
        };
        for (path, expected) in [
            ("8/0/000", tile(Contents::Hashes(0), 0, 256)),
            ("8/0/x001/234.p/5", tile(Contents::Hashes(0), 1234, 5)),
            (
                "8/data/x001/x234/067",
                tile(Contents::Records, 1_234_067, 256),
            ),
            ("8/3/007.p/1", tile(Contents::Hashes(3), 7, 1)),
        ] {
            assert_eq!(Tile::parse(path), Ok(expected), "{path}");
        }
    }

    #[test]
    fn paths_that_name_no_tile_are_refused() {
        for path in [
            "",
            "8",
            "8/0",
            "8/0/",
            "7/0/000",
            "8/8/000",
            "8/64/000",
            "8/255/000",
            "8/-1/000",
            "8/0/0",
            "8/0/00",
            "8/0/1000",
            "8/0/x000/001",
            "8/0/001/002",
            "8/0/+01",
            "8/0/000.p/0",
            "8/0/000.p/256",
            "8/0/000.p/05",
            "8/0/000.p/",
            "8/0/000/",
            "8/0/x018/x446/x744/x073/x709/x551/616",
            "8/data/../000",
        ] {
            assert_eq!(Tile::parse(path), Err(InvalidTile), "{path}");
        }
    }

    #[test]
    fn a_tile_is_there_once_its_last_hash_is() {
        let tile = Tile::parse("8/1/000.p/2").unwrap();
        assert!(!tile.is_within(511));
        assert!(tile.is_within(512));
        assert!(!Tile::parse("8/7/000.p/1").unwrap().is_within(1 << 55));
        assert!(Tile::parse("8/7/000.p/1").unwrap().is_within(1 << 56));
        let last = Tile::parse("8/0/x018/x446/x744/x073/x709/x551/615").unwrap();
        assert!(!last.is_within(u64::MAX));
    }

    proptest! {
        #[test]
        fn no_path_makes_the_parser_panic(path in "(8/)?(data|[0-9]{1,3})/[x0-9./p]{0,40}") {
            if let Ok(tile) = Tile::parse(&path) {
                prop_assert_eq!(tile.to_string(), path);
            }
        }

        #[test]
        fn every_tile_of_a_log_is_within_it(size in 1_u64..1_000_000) {
            for tile in Tile::all(size) {
                prop_assert!(tile.is_within(size));
                prop_assert_eq!(Tile::parse(&tile.to_string()), Ok(tile));
            }
        }
    }
}
