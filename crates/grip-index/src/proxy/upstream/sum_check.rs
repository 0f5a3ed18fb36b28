//! Comparison of fetched modules with another checksum database, such as sum.golang.org.
//!
//! Paths are never told to it that not everybody may know of: those of restricted repositories, and
//! those that the operator excepts as with `GONOSUMDB`.
//!
//! A record counts if the signed head of the log has it, which is computed from tiles: what answers
//! at the URL cannot make a record up. It can hide one: there is no proof that a log does not have a
//! version, so what it says it does not know passes.

use std::{collections::HashMap, num::NonZeroUsize, str::FromStr};

use bytes::Bytes;
use grip_egress::{Egress, EgressError, Request, RequestPolicy};
use grip_go::{ModulePath, PathPattern, Version};
use grip_limits::Lane;
use grip_tlog::{
    Contents, Hash, SpanHasher, Tile, TreeHead, Verifier, WIDTH, node_hash, record_hash,
};
use http::{HeaderMap, Method};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use url::Url;

use super::{failure::FetchFailure, module_file::ModuleFacts};

/// The one that the go command asks unless it is told otherwise, as it knows it.
const DEFAULT: &str = "sum.golang.org";
const DEFAULT_KEY: &str = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8";
/// Longest response: a whole tile of records.
const MAX_BYTES: u64 = 1 << 20;
/// Whole tiles that are remembered, 8 KiB each.
const MAX_TILES: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The key and the place of a checksum database, as `GOSUMDB` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumDbKey {
    verifier: Verifier,
    url: Url,
}

/// Why a text is no value of `GOSUMDB`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is neither sum.golang.org nor a key with the URL of its checksum database behind it"
)]
pub struct InvalidSumDb(String);

impl FromStr for SumDbKey {
    type Err = InvalidSumDb;

    /// Reads `sum.golang.org`, a key, or a key and a URL.
    fn from_str(text: &str) -> Result<Self, InvalidSumDb> {
        let invalid = || InvalidSumDb(text.chars().take(300).collect());
        let (key, url) = match text.trim().split_once(' ') {
            Some((key, url)) => (key, Some(url.trim())),
            None => (text.trim(), None),
        };
        let key = if key == DEFAULT { DEFAULT_KEY } else { key };
        let verifier: Verifier = key.parse().map_err(|_| invalid())?;
        let named = format!("https://{}", verifier.name());
        let url = Url::parse(url.unwrap_or(&named)).map_err(|_| invalid())?;
        if !matches!(url.scheme(), "https" | "http") || !url.has_host() {
            return Err(invalid());
        }
        Ok(Self { verifier, url })
    }
}

impl SumDbKey {
    pub fn url(&self) -> &Url {
        &self.url
    }
}

/// What a [`SumCheck`] is made of.
pub struct SumCheckParts {
    pub key: SumDbKey,
    pub egress: Egress,
    /// Paths that it is not asked about.
    pub excepted: Vec<PathPattern>,
}

/// Compares modules with a checksum database.
pub struct SumCheck {
    parts: SumCheckParts,
    tiles: Mutex<LruCache<Tile, Vec<Hash>>>,
}

impl SumCheck {
    pub fn new(parts: SumCheckParts) -> Self {
        let tiles = Mutex::new(LruCache::new(MAX_TILES));
        Self { parts, tiles }
    }

    /// Refuses a module that the checksum database has with other sums. One that it does not have
    /// at all passes; where it does not answer, the module has to wait.
    pub(super) async fn check(&self, facts: &ModuleFacts) -> Result<(), FetchFailure> {
        let (Ok(path), Ok(version)) = (
            ModulePath::parse(&facts.path),
            Version::parse(&facts.version),
        ) else {
            return Ok(());
        };
        if self.parts.excepted.iter().any(|it| it.matches(&path)) {
            return Ok(());
        }
        let lookup = format!("lookup/{}@{}", path.escape(), version.escape());
        let Some(response) = self.get(&lookup).await? else {
            tracing::debug!(%path, %version, "the checksum database does not know the version");
            return Ok(());
        };
        let response = std::str::from_utf8(&response).map_err(|_| self.malformed())?;
        let (id, rest) = response.split_once('\n').ok_or_else(|| self.malformed())?;
        let id: u64 = id.parse().map_err(|_| self.malformed())?;
        let (record, note) = rest.split_once("\n\n").ok_or_else(|| self.malformed())?;
        let record = format!("{record}\n");
        let opened = self.parts.key.verifier.open(note);
        let head = opened.and_then(TreeHead::parse);
        let head = head.map_err(|error| FetchFailure::later(error.to_string()))?;
        self.check_inclusion(&record, id, head).await?;
        let ModuleFacts {
            zip_sum,
            go_mod_sum,
            ..
        } = facts;
        let expected = [
            format!("{path} {version} {zip_sum}"),
            format!("{path} {version}/go.mod {go_mod_sum}"),
        ];
        let has = |line: &String| record.lines().any(|it| it == line);
        if expected.iter().all(has) {
            return Ok(());
        }
        let name = self.parts.key.verifier.name();
        tracing::warn!(%path, %version, zip_sum, logged = record, "a fetched module is not what {name} has");
        Err(FetchFailure::Untrusted(format!(
            "the files that its tag leads to have the sum {zip_sum}, and {name} has logged another"
        )))
    }

    /// Computes the head from the record and the tiles beside it.
    async fn check_inclusion(
        &self,
        record: &str,
        id: u64,
        head: TreeHead,
    ) -> Result<(), FetchFailure> {
        if id >= head.size {
            return Err(self.malformed());
        }
        let (mut low, mut high) = (0, head.size);
        let mut beside = Vec::new();
        while high - low > 1 {
            // The largest power of two below the number of records.
            let middle = low + (1 << (high - low - 1).ilog2());
            if id < middle {
                beside.push((false, middle..high));
                high = middle;
            } else {
                beside.push((true, low..middle));
                low = middle;
            }
        }
        let mut hash = record_hash(record.as_bytes());
        for (is_left, span) in beside.into_iter().rev() {
            let span = SpanHasher::new(&span);
            let mut tiles = HashMap::new();
            for tile in span.tiles() {
                tiles.insert(tile, self.tile(tile, head.size).await?);
            }
            let other = span.hash(|tile| tiles.get(&tile).cloned());
            let other = other.ok_or_else(|| self.malformed())?;
            hash = if is_left {
                node_hash(other, hash)
            } else {
                node_hash(hash, other)
            };
        }
        if hash == head.hash {
            return Ok(());
        }
        // One of them may be why.
        self.tiles.lock().clear();
        Err(self.malformed())
    }

    /// The hashes of a tile, as wide as it is in a log of that size.
    async fn tile(&self, tile: Tile, size: u64) -> Result<Vec<Hash>, FetchFailure> {
        let Contents::Hashes(level) = tile.contents else {
            return Err(self.malformed());
        };
        let below = u32::from(level) * 8;
        let there = size.checked_shr(below).unwrap_or(0);
        let width = there.saturating_sub(tile.index.saturating_mul(WIDTH));
        let whole = Tile {
            width: width.min(WIDTH),
            ..tile
        };
        if let Some(known) = self.tiles.lock().get(&whole) {
            return Ok(known.clone());
        }
        let bytes = self.get(&format!("tile/{whole}")).await?;
        let bytes = bytes.ok_or_else(|| self.malformed())?;
        let hashes = whole.hashes(&bytes).ok_or_else(|| self.malformed())?;
        if whole.is_whole() {
            self.tiles.lock().put(whole, hashes.clone());
        }
        Ok(hashes)
    }

    /// A file of the checksum database; none for what it does not have.
    async fn get(&self, path: &str) -> Result<Option<Bytes>, FetchFailure> {
        let SumCheckParts { key, egress, .. } = &self.parts;
        let mut url = key.url.clone();
        url.set_path(&format!("{}/{path}", key.url.path().trim_end_matches('/')));
        let name = key.verifier.name();
        let later = |error: &EgressError| FetchFailure::of_egress(name, error).into_later();
        let domain = egress.check(&url);
        let domain = domain.map_err(|error| FetchFailure::later(error.to_string()))?;
        let permit = super::fetch::permit(egress, &domain, Lane::Api, None).await?;
        let request = Request {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            max_bytes: MAX_BYTES,
        };
        let policy = RequestPolicy::default();
        let mut reply = match egress.send_with(&policy, request, permit).await {
            Ok(reply) => reply,
            Err(EgressError::Status { status, .. }) if matches!(status.as_u16(), 404 | 410) => {
                return Ok(None);
            }
            Err(error) => return Err(later(&error)),
        };
        let mut body = Vec::new();
        let read = reply.body.read_to_end(&mut body).await;
        read.map_err(|error| FetchFailure::later(format!("{name}: {error}")))?;
        Ok(Some(body.into()))
    }

    fn malformed(&self) -> FetchFailure {
        let name = self.parts.key.verifier.name();
        FetchFailure::later(format!("the log of {name} does not add up"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_gosumdb() {
        let known: SumDbKey = "sum.golang.org".parse().unwrap();
        assert_eq!(known.url.as_str(), "https://sum.golang.org/");
        let same: SumDbKey = DEFAULT_KEY.parse().unwrap();
        assert_eq!(known, same);
        let elsewhere = format!("{DEFAULT_KEY} https://mirror.example/sumdb/sum.golang.org");
        let elsewhere: SumDbKey = elsewhere.parse().unwrap();
        assert_eq!(elsewhere.url.host_str(), Some("mirror.example"));
        for text in [
            "",
            "off",
            "sum.example.org",
            "sum.golang.org ftp://a",
            "a+b+c",
        ] {
            assert!(text.parse::<SumDbKey>().is_err(), "{text}");
        }
    }
}
