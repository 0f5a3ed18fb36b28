//! The version list and the latest version of a module.

use std::{collections::HashMap, sync::Arc};

use grip_git::RefSnapshot;
use grip_go::{ModulePath, Version};
use grip_types::RefName;

use super::{
    Proxy, ProxyError,
    indexed_versions::{IndexedVersion, Pages},
};
use crate::hosted::Hosted;

/// Versions of one module that are listed; those beyond are left out.
const MAX_VERSIONS: usize = 200_000;

impl Proxy {
    /// The versions of a module that are here, in their order.
    pub(super) async fn versions(&self, path: &ModulePath) -> Result<Vec<Version>, ProxyError> {
        let mut versions = Vec::new();
        let mut pages = Pages::of(&self.inner.db, path);
        while let Some(page) = pages.next().await? {
            let reading = self.off_runtime(&self.inner.reads, move |hosted| Ok(here(hosted, page)));
            versions.extend(reading.await?);
            if versions.len() > MAX_VERSIONS {
                break;
            }
        }
        versions.sort_unstable();
        versions.dedup();
        Ok(versions)
    }

    /// The version that go would take if none is named: releases come before pre-releases, and
    /// versions without go.mod (`+incompatible`) count only if the last one before them has none.
    pub(super) async fn latest_of(
        &self,
        path: &ModulePath,
        versions: &[Version],
    ) -> Result<Option<Version>, ProxyError> {
        let highest = |wanted: &dyn Fn(&Version) -> bool| {
            let mut all = versions.iter().rev();
            let release = all.clone().find(|v| wanted(v) && !v.is_prerelease());
            release.or_else(|| all.find(|v| wanted(v))).cloned()
        };
        let compatible = highest(&|version| !version.is_incompatible());
        let any = highest(&|_| true);
        let Some(compatible) = compatible.filter(|compatible| Some(compatible) != any.as_ref())
        else {
            return Ok(any);
        };
        let has_go_mod = self.locate(path, &compatible).await?.module.has_go_mod;
        Ok(if has_go_mod { Some(compatible) } else { any })
    }
}

/// The claims whose tags are still where the index saw them. Blocks.
fn here(hosted: &Hosted, claims: Vec<IndexedVersion>) -> Vec<Version> {
    let mut known: HashMap<String, Option<Arc<RefSnapshot>>> = HashMap::new();
    let mut refs_of = |name: &str| {
        if let Some(refs) = known.get(name) {
            return refs.clone();
        }
        let repo = hosted.served_repository(name);
        let refs = repo.and_then(|repo| hosted.repositories().refs(&repo).ok());
        known.insert(name.to_owned(), refs.clone());
        refs
    };
    let mut is_here = |claim: &IndexedVersion| {
        let refs = refs_of(&claim.repo)?;
        let found = refs.get(&RefName::parse(&format!("refs/tags/{}", claim.tag)).ok()?)?;
        Some(found.peeled.unwrap_or(found.oid) == claim.commit)
    };
    let claims = claims.into_iter();
    let here = claims.filter(|claim| is_here(claim) == Some(true));
    here.map(|claim| claim.version).collect()
}
