//! Commits that stories push, made once.

use anyhow::Result;

use crate::{WorkTree, wire};

/// Commits, each on the one before, with the pack of all that each reaches.
#[derive(Debug)]
pub struct Fixture {
    tree: WorkTree,
    commits: Vec<String>,
    packs: Vec<Vec<u8>>,
}

impl Fixture {
    pub async fn new(commits: usize) -> Result<Self> {
        let tree = WorkTree::with_commit()?;
        let mut ids = vec![tree.tip("HEAD")?];
        while ids.len() < commits {
            ids.push(tree.commit("a", &ids.len().to_string())?);
        }
        let mut packs = Vec::new();
        for id in &ids {
            packs.push(wire::pack(&tree, id, None).await?);
        }
        Ok(Self {
            tree,
            commits: ids,
            packs,
        })
    }

    /// Where the commits are.
    pub fn tree(&self) -> &WorkTree {
        &self.tree
    }

    pub(super) fn commit(&self, number: usize) -> &str {
        &self.commits[number]
    }

    /// The pack of all that these commits reach; nothing for none.
    pub fn pack<'a>(&self, tips: impl IntoIterator<Item = &'a str>) -> &[u8] {
        let tips = tips.into_iter();
        let numbers = tips.filter_map(|tip| self.commits.iter().position(|it| it == tip));
        numbers.max().map_or(&[], |last| &self.packs[last])
    }
}
