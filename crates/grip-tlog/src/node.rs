//! Nodes of the tree, and spans of records that several of them cover.

use std::ops::Range;

use crate::{Contents, HEIGHT, Hash, Tile, WIDTH, node_hash};

/// The root of the complete subtree over `2^level` records from `index * 2^level` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub level: u8,
    pub index: u64,
}

impl Node {
    /// The leaf of a record.
    pub fn record(index: u64) -> Self {
        Self { level: 0, index }
    }

    pub(crate) fn parent(self) -> Self {
        Self {
            level: self.level + 1,
            index: self.index / 2,
        }
    }

    /// The narrowest tile from whose hashes this node follows, and which of them.
    pub fn tile(self) -> (Tile, Range<usize>) {
        let within = self.level % HEIGHT;
        let first = self.index << within;
        let start = (first % WIDTH) as usize;
        let end = start + (1 << within);
        let tile = Tile {
            contents: Contents::Hashes(self.level / HEIGHT),
            index: first / WIDTH,
            width: end as u64,
        };
        (tile, start..end)
    }

    /// The complete subtrees that a span of records consists of, from left to right. The span
    /// begins where a tree of its size can begin.
    pub(crate) fn covering(span: &Range<u64>) -> Vec<Self> {
        let mut nodes = Vec::new();
        let mut at = span.start;
        while at < span.end {
            let level = (span.end - at).ilog2() as u8;
            nodes.push(Self {
                level,
                index: at >> level,
            });
            at += 1 << level;
        }
        nodes
    }
}

/// The hash of a span of records, from the tiles that it needs.
pub struct SpanHasher {
    nodes: Vec<Node>,
}

impl SpanHasher {
    pub fn new(span: &Range<u64>) -> Self {
        let nodes = Node::covering(span);
        Self { nodes }
    }

    pub fn tiles(&self) -> impl Iterator<Item = Tile> {
        self.nodes.iter().map(|node| node.tile().0)
    }

    /// The hash, from the hashes of each tile; none if a tile has too few.
    pub fn hash(&self, mut tile: impl FnMut(Tile) -> Option<Vec<Hash>>) -> Option<Hash> {
        let mut whole = None;
        for node in self.nodes.iter().rev() {
            let (of, within) = node.tile();
            let hash = subtree(tile(of)?.get(within)?);
            whole = Some(whole.map_or(hash, |right| node_hash(hash, right)));
        }
        whole
    }
}

/// The root over a number of hashes that is a power of two.
pub(crate) fn subtree(hashes: &[Hash]) -> Hash {
    match hashes {
        [] => Hash::empty(),
        [hash] => *hash,
        hashes => {
            let (left, right) = hashes.split_at(hashes.len() / 2);
            node_hash(subtree(left), subtree(right))
        }
    }
}
