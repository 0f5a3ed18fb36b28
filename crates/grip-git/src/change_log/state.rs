//! State that logged changes lead to, without a disk.
//!
//! A log is made short by it: the changes that [`LoggedState::into_changes`] returns lead an empty copy
//! to where the whole log leads one.

use std::collections::{BTreeMap, btree_map::Entry};

use grip_types::{Identifier, Oid, RefName, RepoAddr};

use super::{LoggedChange, SetRef, StagedPack, StoredPack};

/// Repositories, archives and packs after some changes. Bounded by what the copies have on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedState {
    /// In the order in which they came.
    packs: BTreeMap<Identifier, Vec<StoredPack>>,
    repositories: BTreeMap<RepoAddr, Repository>,
    archives: BTreeMap<(RepoAddr, u64), Repository>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Repository {
    refs: BTreeMap<RefName, Target>,
    /// As it was last set; none if never.
    head: Option<RefName>,
    staged: Vec<StagedPack>,
}

/// What a ref is at, as [`SetRef`] says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    oid: Oid,
    peeled: Option<Oid>,
}

impl LoggedState {
    /// Follows one change, as [`Repositories::apply_logged`](crate::Repositories::apply_logged) does
    /// on disk.
    pub fn apply(&mut self, change: LoggedChange) {
        match change {
            LoggedChange::Pack { identifier, pack } => {
                add(self.packs.entry(identifier).or_default(), pack);
            }
            LoggedChange::ReplacePacks {
                identifier,
                added,
                removed,
                ..
            } => {
                let packs = self.packs.entry(identifier).or_default();
                packs.retain(|known| !removed.contains(&known.name));
                added.into_iter().for_each(|pack| add(packs, pack));
            }
            LoggedChange::RemoveStore { identifier } => {
                self.packs.remove(&identifier);
            }
            LoggedChange::Create { repo } => {
                self.repositories.entry(repo).or_default();
            }
            LoggedChange::Refs {
                repo,
                refs,
                head,
                staged,
            } => {
                if let Some(known) = self.repositories.get_mut(&repo) {
                    known.set(refs, head, staged);
                }
            }
            LoggedChange::ClearRefs { repo } => {
                if let Some(known) = self.repositories.get_mut(&repo) {
                    known.refs.clear();
                    known.staged.clear();
                }
            }
            LoggedChange::Archive { repo, stamp } => {
                if let Some(known) = self.repositories.remove(&repo)
                    && let Entry::Vacant(free) = self.archives.entry((repo, stamp))
                {
                    free.insert(known);
                }
            }
            LoggedChange::Restore { repo, stamp } => {
                if let Some(archived) = self.archives.remove(&(repo.clone(), stamp)) {
                    self.repositories.insert(repo, archived);
                }
            }
            LoggedChange::Remove { repo } => {
                self.repositories.remove(&repo);
            }
            LoggedChange::RemoveArchive { repo, stamp } => {
                self.archives.remove(&(repo, stamp));
            }
        }
    }

    /// The fewest changes that lead to this: objects first, since refs need them.
    pub fn into_changes(self) -> impl Iterator<Item = LoggedChange> {
        let packs = self.packs.into_iter().flat_map(|(identifier, packs)| {
            packs.into_iter().map(move |pack| LoggedChange::Pack {
                identifier: identifier.clone(),
                pack,
            })
        });
        // Before those in their places.
        let archives = self
            .archives
            .into_iter()
            .flat_map(|((repo, stamp), known)| {
                let archive = LoggedChange::Archive {
                    repo: repo.clone(),
                    stamp,
                };
                known.into_changes(repo).into_iter().chain([archive])
            });
        let repositories = self.repositories.into_iter();
        let repositories = repositories.flat_map(|(repo, known)| known.into_changes(repo));
        packs.chain(archives).chain(repositories)
    }
}

/// Two packs of one name have the same content; the later one was stored later, too.
fn add(packs: &mut Vec<StoredPack>, pack: StoredPack) {
    packs.retain(|known| known.name != pack.name);
    packs.push(pack);
}

impl Repository {
    fn set(&mut self, refs: Vec<SetRef>, head: Option<RefName>, staged: Vec<StagedPack>) {
        for SetRef { name, oid, peeled } in refs {
            match oid {
                Some(oid) => self.refs.insert(name, Target { oid, peeled }),
                None => self.refs.remove(&name),
            };
        }
        if head.is_some() {
            self.head = head;
        }
        for pack in staged {
            self.staged
                .retain(|known| known.upload.pack != pack.upload.pack);
            self.staged.push(pack);
        }
        // A pack goes with the last ref that rests on it.
        let refs = &self.refs;
        self.staged.retain(|pack| {
            let mut tips = pack.upload.tips.iter();
            tips.any(|(name, tip)| refs.get(name).is_some_and(|at| at.oid == *tip))
        });
    }

    fn into_changes(self, repo: RepoAddr) -> [LoggedChange; 2] {
        let refs = self.refs.into_iter().map(|(name, at)| SetRef {
            name,
            oid: Some(at.oid),
            peeled: at.peeled,
        });
        let refs = LoggedChange::Refs {
            repo: repo.clone(),
            refs: refs.collect(),
            head: self.head,
            staged: self.staged,
        };
        [LoggedChange::Create { repo }, refs]
    }
}
