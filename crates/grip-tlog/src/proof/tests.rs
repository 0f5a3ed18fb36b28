use proptest::prelude::*;

use super::*;
use crate::{Frontier, SpanHasher, Tile, record_hash};

/// A log with all its hashes in memory, level by level of tiles.
struct Log {
    levels: Vec<Vec<Hash>>,
    heads: Vec<Hash>,
}

impl Log {
    fn of(size: u64) -> Self {
        let mut log = Self {
            levels: vec![Vec::new()],
            heads: vec![Hash::empty()],
        };
        let mut frontier = Frontier::default();
        for number in 0..size {
            let record = record_hash(format!("record {number}").as_bytes());
            log.levels[0].push(record);
            let levels = &mut log.levels;
            frontier.append(record, |node, hash| {
                let level = usize::from(node.level / crate::HEIGHT);
                levels.resize_with(levels.len().max(level + 1), Vec::new);
                assert_eq!(levels[level].len() as u64, node.index);
                levels[level].push(hash);
            });
            log.heads.push(frontier.root());
        }
        log
    }

    fn tile(&self, tile: Tile) -> Option<Vec<Hash>> {
        let crate::Contents::Hashes(level) = tile.contents else {
            return None;
        };
        let first = usize::try_from(tile.first()?).ok()?;
        let end = first + usize::try_from(tile.width).ok()?;
        Some(
            self.levels
                .get(usize::from(level))?
                .get(first..end)?
                .to_vec(),
        )
    }

    fn hash(&self, span: &Range<u64>) -> Hash {
        SpanHasher::new(span)
            .hash(|tile| self.tile(tile))
            .expect("the log has every tile of a span within it")
    }

    fn prove(&self, old: u64, new: u64) -> Vec<Hash> {
        let spans = consistency_spans(old, new).expect("sizes of this log");
        spans.iter().map(|span| self.hash(span)).collect()
    }
}

#[test]
fn the_hash_of_a_log_is_that_of_its_tiles() {
    let log = Log::of(70_000);
    for size in [
        1, 2, 3, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 70_000,
    ] {
        assert_eq!(log.hash(&(0..size)), log.heads[size as usize], "{size}");
    }
    assert_eq!(
        log.heads[0].to_string(),
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    );
}

#[test]
fn every_pair_of_sizes_of_a_small_log_is_proven() {
    let log = Log::of(70);
    for new in 1..=70_u64 {
        for old in 1..=new {
            let heads = (log.heads[old as usize], log.heads[new as usize]);
            let proof = log.prove(old, new);
            let checked = check_consistency(&proof, (old, heads.0), (new, heads.1));
            assert_eq!(checked, Ok(()), "{old} {new}");
        }
    }
}

proptest! {
    // Each makes a log of its own.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_proof_holds_for_its_own_heads_alone(new in 2_u64..3_000, part in 0.0..1.0, flipped in 0_usize..64) {
        let log = Log::of(new);
        let old = (((new - 1) as f64) * part) as u64 + 1;
        let heads = ((old, log.heads[old as usize]), (new, log.heads[new as usize]));
        let mut proof = log.prove(old, new);
        prop_assert_eq!(check_consistency(&proof, heads.0, heads.1), Ok(()));
        let other = (old, log.heads[old as usize - 1]);
        prop_assert!(check_consistency(&proof, other, heads.1).is_err());
        if !proof.is_empty() {
            let at = flipped % proof.len();
            proof[at].0[0] ^= 1;
            prop_assert!(check_consistency(&proof, heads.0, heads.1).is_err());
            proof.pop();
            let short = check_consistency(&proof, heads.0, heads.1);
            prop_assert_eq!(short, Err(InvalidProof::Length));
        }
    }
}

#[test]
fn sizes_without_a_proof_are_refused() {
    for (old, new) in [(0, 1), (2, 1), (1, u64::MAX)] {
        assert_eq!(
            consistency_spans(old, new),
            Err(InvalidProof::Sizes { old, new })
        );
    }
}
