//! Tiles and proofs of the log.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use grip_tlog::{Contents, Hash, SpanHasher, Tile, consistency_spans};

use super::{Record, SumDb, SumDbError, hashes, signed, sql::sql};

impl SumDb {
    /// A tile; none if the log is not as long yet.
    pub async fn tile(&self, tile: Tile) -> Result<Option<Bytes>, SumDbError> {
        let (Some(first), size) = (tile.first(), self.head().await?.size) else {
            return Ok(None);
        };
        if !tile.is_within(size) {
            return Ok(None);
        }
        match tile.contents {
            Contents::Records => {
                let asked = [signed(first).into(), signed(first + tile.width).into()];
                let records: Vec<Record> = self.inner.db.fetch_all(&sql::RECORDS, &asked).await?;
                let text: String = records.iter().map(Record::numbered).collect();
                Ok(Some(text.into()))
            }
            Contents::Hashes(level) if tile.is_whole() => self.whole(tile, level).await.map(Some),
            Contents::Hashes(level) => {
                let hashes = self.hashes(level, first, tile.width).await?;
                Ok(Some(concat(&hashes).into()))
            }
        }
    }

    /// The proof that the log of `new` records begins with that of `old`; none if there is no such
    /// proof, or the log is not as long.
    pub async fn consistency(&self, old: u64, new: u64) -> Result<Option<Vec<Hash>>, SumDbError> {
        if new > self.head().await?.size {
            return Ok(None);
        }
        let Ok(spans) = consistency_spans(old, new) else {
            return Ok(None);
        };
        let mut proof = Vec::with_capacity(spans.len());
        for span in spans {
            let hash = self.span_hash(&SpanHasher::new(&span)).await?;
            proof.push(hash.ok_or_else(|| incomplete("a proof"))?);
        }
        Ok(Some(proof))
    }

    /// The hash of a span of records that the log has.
    pub(super) async fn span_hash(&self, span: &SpanHasher) -> Result<Option<Hash>, SumDbError> {
        let mut read = HashMap::new();
        for tile in span.tiles() {
            if let (Contents::Hashes(level), Some(first)) = (tile.contents, tile.first()) {
                read.insert(tile, self.hashes(level, first, tile.width).await?);
            }
        }
        Ok(span.hash(|tile| read.get(&tile).cloned()))
    }

    /// A whole tile, from its file if that fits the node above it.
    async fn whole(&self, tile: Tile, level: u8) -> Result<Bytes, SumDbError> {
        let root = self.hashes(level + 1, tile.index, 1).await?;
        let root = *root.first().ok_or_else(|| incomplete("a node"))?;
        let inner = Arc::clone(&self.inner);
        let reading = self
            .inner
            .group
            .spawn_blocking("sumdb.tile", move || inner.tiles.read(tile, root));
        if let Ok(Some(bytes)) = reading.await {
            return Ok(bytes.into());
        }
        let first = tile.first().ok_or_else(|| incomplete("a tile"))?;
        let hashes = self.hashes(level, first, tile.width).await?;
        if Tile::root(&hashes) != Some(root) {
            return Err(SumDbError::Damaged(format!(
                "the hashes of tile {tile} do not add up to the node above them"
            )));
        }
        let bytes = concat(&hashes);
        let (inner, copy) = (Arc::clone(&self.inner), bytes.clone());
        let writing = self
            .inner
            .group
            .spawn_blocking("sumdb.tile", move || inner.tiles.write(tile, &copy));
        if let Ok(Err(error)) = writing.await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, %tile, "failed to keep a tile of the checksum database");
        }
        Ok(bytes.into())
    }

    /// So many hashes at a level of tiles.
    pub(super) async fn hashes(
        &self,
        level: u8,
        first: u64,
        count: u64,
    ) -> Result<Vec<Hash>, SumDbError> {
        let db = &self.inner.db;
        let (from, to) = (signed(first), signed(first + count));
        let read = match level {
            0 => {
                let asked = [from.into(), to.into()];
                db.fetch_all(&sql::RECORD_HASHES, &asked).await?
            }
            level => {
                let asked = [i64::from(level).into(), from.into(), to.into()];
                db.fetch_all(&sql::NODES, &asked).await?
            }
        };
        let hashes = hashes(read)?;
        if hashes.len() as u64 == count {
            Ok(hashes)
        } else {
            Err(incomplete("a tile"))
        }
    }
}

fn concat(hashes: &[Hash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

fn incomplete(what: &str) -> SumDbError {
    SumDbError::Damaged(format!("hashes of {what} are missing"))
}
