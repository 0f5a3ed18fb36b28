//! All that is on disk as changes that another copy can make. Blocking.

use std::{io, path::PathBuf};

use super::{Repositories, read_snapshot};
use crate::{
    change_log::{LoggedChange, LoggedState, PackFile, SetRef, StagedPack, StoredPack},
    packs::PACK_FILES,
    refs::RefSnapshot,
};

/// Stores the files of a pack where every copy finds them.
pub type StorePackFiles<'a> = dyn FnMut(Vec<PathBuf>) -> io::Result<Vec<PackFile>> + 'a;

impl Repositories {
    /// Reads everything and stores every pack; nobody may change anything meanwhile. Contributor
    /// repositories are refused: nobody replicates them.
    pub fn logged_state(&self, store: &mut StorePackFiles<'_>) -> io::Result<LoggedState> {
        let inner = &self.inner;
        if inner.staged.has_contributors() {
            return Err(io::Error::other(
                "contributor repositories (/prs/) are not replicated",
            ));
        }
        if let Some(identifier) = self.cold().first() {
            let text = format!("packs of {identifier} are not on this disk");
            return Err(io::Error::other(text));
        }
        let mut state = LoggedState::default();
        for identifier in self.stores()? {
            let mut stored = Vec::new();
            for (name, files) in inner.packs.packs_of(&identifier)? {
                let files = store(files)?;
                stored.push(StoredPack { name, files });
            }
            // What a cluster that it was part of before had stored is not what this one has.
            inner
                .packs
                .set_stored(&identifier, stored.iter().cloned())?;
            for pack in stored {
                state.apply(LoggedChange::Pack {
                    identifier: identifier.clone(),
                    pack,
                });
            }
        }
        let (archives, unknown) = self.archives()?;
        if unknown > 0 {
            let text = format!("{unknown} archived repositories cannot be read");
            return Err(io::Error::other(text));
        }
        for archived in archives {
            let (repo, stamp) = (archived.repo, archived.stamp);
            let path = inner.archived(&repo, stamp);
            let refs = read_snapshot(&repo, &path).map_err(io::Error::other)?;
            state.apply(LoggedChange::Create { repo: repo.clone() });
            state.apply(as_change(&repo, &refs, Vec::new()));
            state.apply(LoggedChange::Archive { repo, stamp });
        }
        for repo in self.list()? {
            let refs = self.refs(&repo).map_err(io::Error::other)?;
            let packs = inner.own_packs(&repo);
            let staged = inner.staged.of(&repo).into_iter().map(|upload| {
                let files =
                    PACK_FILES.map(|extension| packs.join(format!("{}.{extension}", upload.pack)));
                let files = store(files.to_vec())?;
                Ok(StagedPack { upload, files })
            });
            let staged = staged.collect::<io::Result<Vec<StagedPack>>>()?;
            state.apply(LoggedChange::Create { repo: repo.clone() });
            state.apply(as_change(&repo, &refs, staged));
        }
        Ok(state)
    }
}

fn as_change(
    repo: &grip_types::RepoAddr,
    refs: &RefSnapshot,
    staged: Vec<StagedPack>,
) -> LoggedChange {
    let all = refs.all().into_iter().map(|found| SetRef {
        name: found.name,
        oid: Some(found.oid),
        peeled: Some(found.peeled.unwrap_or(found.oid)),
    });
    LoggedChange::Refs {
        repo: repo.clone(),
        refs: all.collect(),
        head: refs.head().cloned(),
        staged,
    }
}
