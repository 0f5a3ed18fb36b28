//! The right edge of a log: all that is needed to append to it.

use crate::{HEIGHT, Hash, Node, node_hash};

/// The roots of the complete subtrees of a log, the largest first: one for each bit of its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    roots: Vec<Hash>,
}

/// Why hashes are not the right edge of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a log of {size} records has {} complete subtrees, not {found}", size.count_ones())]
pub struct InvalidFrontier {
    size: u64,
    found: usize,
}

impl Default for Frontier {
    /// That of a log without records.
    fn default() -> Self {
        Self {
            size: 0,
            roots: Vec::new(),
        }
    }
}

impl Frontier {
    pub fn from_parts(size: u64, roots: Vec<Hash>) -> Result<Self, InvalidFrontier> {
        if roots.len() == size.count_ones() as usize {
            Ok(Self { size, roots })
        } else {
            let found = roots.len();
            Err(InvalidFrontier { size, found })
        }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn roots(&self) -> &[Hash] {
        &self.roots
    }

    /// Appends a record, and passes on the nodes that it completes and that tiles above the lowest
    /// consist of.
    pub fn append(&mut self, record: Hash, mut completed: impl FnMut(Node, Hash)) {
        let (mut hash, mut node) = (record, Node::record(self.size));
        while node.index % 2 == 1
            && let Some(left) = self.roots.pop()
        {
            hash = node_hash(left, hash);
            node = node.parent();
            if node.level.is_multiple_of(HEIGHT) {
                completed(node, hash);
            }
        }
        self.roots.push(hash);
        self.size += 1;
    }

    /// The hash of the whole tree.
    pub fn root(&self) -> Hash {
        let mut roots = self.roots.iter().rev().copied();
        match roots.next() {
            Some(last) => roots.fold(last, |right, left| node_hash(left, right)),
            None => Hash::empty(),
        }
    }
}
