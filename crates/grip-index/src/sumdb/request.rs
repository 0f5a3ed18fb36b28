//! Parsing of requests for the checksum database.

use grip_go::{ModulePath, Version};
use grip_tlog::Tile;
use grip_types::percent_decode;

/// Longest path looked at, as for modules.
const MAX_BYTES: usize = 8 << 10;

/// One question to a checksum database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SumDbRequest {
    /// `supported`: whether this proxy has it.
    Supported,
    /// `latest`
    Latest,
    /// `lookup/<module>@<version>`
    Lookup(ModulePath, Version),
    /// `tile/8/<level>/<number>`
    Tile(Tile),
    /// `consistency/<old>/<new>`: not Go's, which proves by tiles.
    Consistency(u64, u64),
}

impl SumDbRequest {
    /// Reads a path behind the name of the database, percent-encoded as it came.
    pub fn parse(path: &str) -> Option<Self> {
        if path.len() > MAX_BYTES {
            return None;
        }
        let path = String::from_utf8(percent_decode(path)?).ok()?;
        let path = path.as_str();
        match path {
            "supported" => return Some(Self::Supported),
            "latest" => return Some(Self::Latest),
            _ => {}
        }
        let (kind, rest) = path.split_once('/')?;
        match kind {
            "lookup" => {
                let (module, version) = rest.rsplit_once('@')?;
                let module = ModulePath::unescape(module).ok()?;
                let version = Version::unescape(version).ok()?;
                Some(Self::Lookup(module, version))
            }
            "tile" => Tile::parse(rest).ok().map(Self::Tile),
            "consistency" => {
                let (old, new) = rest.split_once('/')?;
                Some(Self::Consistency(old.parse().ok()?, new.parse().ok()?))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_asks_is_understood() {
        assert_eq!(
            SumDbRequest::parse("supported"),
            Some(SumDbRequest::Supported)
        );
        assert_eq!(SumDbRequest::parse("latest"), Some(SumDbRequest::Latest));
        let path = ModulePath::parse("example.com/Big").unwrap();
        let version = Version::parse("v1.0.0").unwrap();
        let lookup = SumDbRequest::Lookup(path, version);
        for written in [
            "lookup/example.com/!big@v1.0.0",
            "lookup/example.com/%21big%40v1.0.0",
        ] {
            assert_eq!(SumDbRequest::parse(written), Some(lookup.clone()));
        }
        let tile = Tile::parse("8/0/x001/000.p/3").unwrap();
        let asked = SumDbRequest::parse("tile/8/0/x001/000.p/3");
        assert_eq!(asked, Some(SumDbRequest::Tile(tile)));
        let asked = SumDbRequest::parse("consistency/3/70");
        assert_eq!(asked, Some(SumDbRequest::Consistency(3, 70)));
    }

    #[test]
    fn what_nobody_understands_is_nothing() {
        for path in [
            "",
            "/",
            "lookup",
            "lookup/",
            "lookup/example.com/a",
            "lookup/example.com/a@latest",
            "lookup/example.com/Big@v1.0.0",
            "lookup/../a@v1.0.0",
            "tile/8/0/../000",
            "tile/8/0/000.p/0",
            "consistency/1",
            "consistency/-1/2",
            "%ff",
        ] {
            assert_eq!(SumDbRequest::parse(path), None, "{path}");
        }
        assert_eq!(SumDbRequest::parse(&"a".repeat(9_000)), None);
    }
}
