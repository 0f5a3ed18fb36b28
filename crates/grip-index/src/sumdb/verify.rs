//! Verification of the log against itself: records, tiles and head.

use grip_tlog::{Contents, Hash, SpanHasher, Tile, WIDTH};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Record, SumDb, SumDbError, signed, sql::sql};

/// What was found out about some records of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Verified {
    /// Records that were looked at.
    pub records: u64,
    /// Records whose sums are those of the files here.
    pub matched: u64,
    /// Records whose files are not here, and why.
    pub not_here: Vec<Finding>,
    /// Whatever should not be so.
    pub wrong: Vec<Finding>,
    /// The number of the next page; none after the last.
    pub next: Option<u64>,
}

/// One thing that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Finding {
    /// `<module>@<version>`, or a tile.
    pub what: String,
    pub why: String,
}

impl Finding {
    pub(crate) fn new(what: impl ToString, why: impl ToString) -> Self {
        Self {
            what: what.to_string(),
            why: why.to_string(),
        }
    }
}

impl SumDb {
    /// Verifies the records of one tile, and after the last also the tiles above and the head.
    /// Returns the records, whose files are for the caller to compare.
    pub(crate) async fn verify_page(
        &self,
        page: u64,
    ) -> Result<(Vec<Record>, Verified), SumDbError> {
        let head = self.head().await?;
        let first = page.saturating_mul(WIDTH);
        let width = head.size.saturating_sub(first).min(WIDTH);
        let mut verified = Verified::default();
        if width == 0 {
            return Ok((Vec::new(), verified));
        }
        let asked = [signed(first).into(), signed(first + width).into()];
        let records: Vec<Record> = self.inner.db.fetch_all(&sql::RECORDS, &asked).await?;
        verified.records = records.len() as u64;
        let numbers = records.iter().map(|record| record.id);
        if !numbers.eq(signed(first)..signed(first + width)) {
            let why = format!("not all of its {width} records are there");
            verified
                .wrong
                .push(Finding::new(format!("page {page}"), why));
        }
        let hashes: Vec<Hash> = records.iter().map(Record::hash).collect();
        let tile = Tile {
            contents: Contents::Hashes(0),
            index: page,
            width,
        };
        self.verify_tile(tile, &hashes, &mut verified).await?;
        if first + width < head.size {
            verified.next = Some(page + 1);
            return Ok((records, verified));
        }
        for tile in Tile::all(head.size).filter(|tile| tile.contents != Contents::Hashes(0)) {
            let below = self.below(tile).await?;
            self.verify_tile(tile, &below, &mut verified).await?;
        }
        let whole = self.span_hash(&SpanHasher::new(&(0..head.size))).await?;
        if whole != Some(head.hash) {
            let why = "its hash is not that of its tiles";
            verified.wrong.push(Finding::new("the head", why));
        }
        Ok((records, verified))
    }

    /// Compares a tile, as it is served, with the hashes it should have.
    async fn verify_tile(
        &self,
        tile: Tile,
        expected: &[Hash],
        verified: &mut Verified,
    ) -> Result<(), SumDbError> {
        let served = match self.tile(tile).await {
            Ok(served) => served,
            Err(SumDbError::Damaged(why)) => {
                verified
                    .wrong
                    .push(Finding::new(format!("tile {tile}"), why));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let hashes = served.and_then(|bytes| tile.hashes(&bytes));
        if hashes.as_deref() != Some(expected) {
            let why = "its hashes are not those of what is below it";
            verified
                .wrong
                .push(Finding::new(format!("tile {tile}"), why));
        }
        Ok(())
    }

    /// The roots of the tiles below a tile.
    async fn below(&self, tile: Tile) -> Result<Vec<Hash>, SumDbError> {
        let (Contents::Hashes(level @ 1..), Some(first)) = (tile.contents, tile.first()) else {
            return Ok(Vec::new());
        };
        let mut roots = Vec::new();
        for index in first..first + tile.width {
            let first = index.saturating_mul(WIDTH);
            let hashes = self.hashes(level - 1, first, WIDTH).await?;
            roots.extend(Tile::root(&hashes));
        }
        Ok(roots)
    }
}
