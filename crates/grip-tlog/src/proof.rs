//! Consistency proofs (RFC 6962 §2.1.2): a later log begins with all of an earlier one.

use std::ops::Range;

use crate::{Hash, node_hash};

/// Why a proof does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProof {
    #[error("there is no proof between logs of {old} and {new} records")]
    Sizes { old: u64, new: u64 },
    #[error("the proof has not the hashes that its sizes need")]
    Length,
    #[error("the later log does not begin with the earlier one")]
    Mismatch,
}

/// The spans of records whose hashes prove that the log of `new` records begins with that of `old`.
pub fn consistency_spans(old: u64, new: u64) -> Result<Vec<Range<u64>>, InvalidProof> {
    if old == 0 || old > new || new > 1 << 62 {
        return Err(InvalidProof::Sizes { old, new });
    }
    let mut spans = Vec::new();
    let mut rest = 0..new;
    // The parts beside the way down to the end of the old log; the lowest comes first in a proof.
    while rest.end != old {
        let middle = split(&rest);
        if old <= middle {
            spans.push(middle..rest.end);
            rest.end = middle;
        } else {
            spans.push(rest.start..middle);
            rest.start = middle;
        }
    }
    if rest.start > 0 {
        spans.push(rest);
    }
    spans.reverse();
    Ok(spans)
}

/// Checks that the log of `new.0` records with the hash `new.1` begins with all of the old one.
pub fn check_consistency(
    proof: &[Hash],
    old: (u64, Hash),
    new: (u64, Hash),
) -> Result<(), InvalidProof> {
    let spans = consistency_spans(old.0, new.0)?;
    if spans.len() != proof.len() {
        return Err(InvalidProof::Length);
    }
    let mut parts = spans.iter().zip(proof).peekable();
    let (mut before, mut after) = (old.1, old.1);
    let mut known = 0..old.0;
    // Where the old log is no complete subtree, the proof begins with its last one.
    if let Some((span, hash)) = parts.next_if(|(span, _)| span.end == old.0) {
        (before, after) = (*hash, *hash);
        known = span.clone();
    }
    for (span, hash) in parts {
        if span.start == known.end {
            after = node_hash(after, *hash);
            known.end = span.end;
        } else {
            before = node_hash(*hash, before);
            after = node_hash(*hash, after);
            known.start = span.start;
        }
    }
    if before == old.1 && after == new.1 {
        Ok(())
    } else {
        Err(InvalidProof::Mismatch)
    }
}

/// Where the tree over a span of at least two records divides.
fn split(span: &Range<u64>) -> u64 {
    let length = span.end - span.start;
    span.start + (1 << (length - 1).ilog2())
}

#[cfg(test)]
mod tests;
