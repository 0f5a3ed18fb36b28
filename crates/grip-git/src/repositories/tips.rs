//! Tips: the commits that the refs of all owners of an identifier point at.

use std::{
    collections::{BTreeSet, HashSet},
    io,
    sync::Arc,
};

use grip_types::{Identifier, Oid};

use crate::{
    packs::{RepackError, Repacked},
    refs::{Ref, RefSnapshot},
};

use super::{RepoError, Repositories, unreachable_objects};

impl Repositories {
    /// What the refs of all owners point at, tags followed: at most `max`, each once.
    ///
    /// Default branches come first, then other branches, then the rest: what another server most
    /// likely has too. Blocking.
    pub fn known_tips(&self, identifier: &Identifier, max: usize) -> Result<Vec<Oid>, RepoError> {
        let all = self.refs_of_all(identifier);
        let all = all.map_err(|source| unreachable_objects(identifier, source))?;
        let of_kind = |is_wanted: fn(&RefSnapshot, &Ref) -> bool| {
            let refs = all
                .iter()
                .flat_map(|refs| refs.iter().map(move |r| (refs, r)));
            refs.filter(move |(refs, r)| is_wanted(refs, r))
        };
        let is_default = |refs: &RefSnapshot, r: &Ref| refs.head() == Some(&r.name);
        let tips = of_kind(is_default)
            .chain(of_kind(|_, r| r.name.is_head()))
            .chain(of_kind(|_, r| !r.name.is_head()));
        let mut seen = HashSet::new();
        Ok(tips
            .map(|(_, r)| r.peeled.unwrap_or(r.oid))
            .filter(|oid| seen.insert(*oid))
            .take(max)
            .collect())
    }

    /// Rolls packs up if there are more than [`Options::max_packs`], and keeps the bitmap that makes
    /// clones quick; other copies are told of packs that took the place of many. Idempotent and cancel
    /// safe.
    ///
    /// [`Options::max_packs`]: crate::Options::max_packs
    pub async fn repack(&self, identifier: &Identifier) -> Result<Repacked, RepackError> {
        let tips = || {
            let all = self.refs_of_all(identifier)?;
            let tips = all.iter().flat_map(|refs| refs.iter());
            let tips: BTreeSet<Oid> = tips.map(|r| r.peeled.unwrap_or(r.oid)).collect();
            Ok(tips.into_iter().collect())
        };
        let packs = &self.inner.packs;
        let (max_packs, log) = (self.inner.options.max_packs, &self.inner.options.log);
        let repacked = packs.repack(identifier, max_packs, tips).await;
        let repacked = self.heard(identifier, repacked)?;
        if log.is_some() {
            let published = packs.publish(identifier, max_packs, log).await;
            self.heard(identifier, published)?;
        }
        Ok(repacked)
    }

    /// The refs of every repository that shares the store; those that cannot be read are left out,
    /// and those that rest on staged objects, which the store does not have.
    fn refs_of_all(&self, identifier: &Identifier) -> io::Result<Vec<Arc<RefSnapshot>>> {
        let mut all = Vec::new();
        for repo in self.inner.holders(identifier)? {
            match self.refs(&repo) {
                Ok(refs) => all.push(self.inner.without_staged(&repo, refs)),
                Err(error) => tracing::warn!(%repo, %error, "failed to read refs, left out"),
            }
        }
        Ok(all)
    }
}
