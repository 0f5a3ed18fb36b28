//! The version list and the latest version of a module.

use std::{collections::HashMap, sync::Arc};

use grip_git::RefSnapshot;
use grip_go::{ModulePath, Version};
use grip_types::RefName;

use super::{
    Caller, Proxy, ProxyError,
    indexed_versions::{IndexedVersion, Pages},
};
use crate::{Reader, hosted::Hosted};

/// Versions of one module that are listed; those beyond are left out.
const MAX_VERSIONS: usize = 200_000;

impl Proxy {
    /// The versions of a module that are here or can be fetched, in their order.
    pub(super) async fn versions(
        &self,
        path: &ModulePath,
        reader: Reader,
    ) -> Result<Vec<Version>, ProxyError> {
        let mut versions = Vec::new();
        let mut pages = Pages::of(&self.inner.db, path);
        while let Some(page) = pages.next().await? {
            let is_elsewhere = |claim: &IndexedVersion| {
                let upstream = self.inner.upstream.as_ref();
                let is_covered = upstream.is_some_and(|upstream| upstream.covers(&claim.repo));
                is_covered && reader.sees(claim.audience)
            };
            let (elsewhere, page): (Vec<_>, Vec<_>) = page.into_iter().partition(is_elsewhere);
            versions.extend(elsewhere.into_iter().map(|claim| claim.version));
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
        caller: Caller,
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
        let located = self.locate_for(path, &compatible, caller).await?;
        Ok(if located.has_go_mod() {
            Some(compatible)
        } else {
            any
        })
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
