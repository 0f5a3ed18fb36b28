//! Location of a module: from its path and version to a commit.

use std::sync::Arc;

use grip_go::{ModulePath, Version, tag};

use super::{
    Info, Proxy, ProxyError,
    listed::{self, Listed, Pages},
    look::{At, Look, Place},
    permits::Permits,
};
use crate::{Source as _, Trust, hosted::Hosted};

impl Proxy {
    /// The module at a version.
    pub(super) async fn find(
        &self,
        path: &ModulePath,
        version: &Version,
    ) -> Result<At, ProxyError> {
        if version.is_pseudo() {
            let (place, version) = (self.place(path).await?, version.clone());
            let looking = self.look_at(&self.inner.walks, place, path, move |look| {
                look.pseudo(&version)
            });
            return looking.await;
        }
        let claims = listed::version(&self.inner.db, path, version).await?;
        let mut last = None;
        for claim in claims {
            match self.find_listed(path, claim).await {
                Some(Ok(at)) => return Ok(at),
                Some(Err(error)) => last = Some(error),
                None => {}
            }
        }
        match last {
            Some(error) => Err(error),
            None => Err(self.explain(path, version).await?),
        }
    }

    /// The module as one claim has it; none if the claim is not one of this node.
    async fn find_listed(
        &self,
        path: &ModulePath,
        claim: Listed,
    ) -> Option<Result<At, ProxyError>> {
        let place = self.place_of(path, &claim)?;
        let looking = self.look_at(&self.inner.looks, place, path, move |look| {
            look.listed(&claim)
        });
        Some(looking.await)
    }

    /// The module at a branch, tag or commit: under a version that has a tag there, or under the
    /// pseudo-version of the commit.
    pub(super) async fn find_revision(
        &self,
        path: &ModulePath,
        revision: &str,
    ) -> Result<At, ProxyError> {
        let (place, name) = (self.place(path).await?, revision.to_owned());
        let resolving = self.look_at(&self.inner.walks, place.clone(), path, move |look| {
            look.resolve(&name)
        });
        let revision = resolving.await?;
        let mut tagged = listed::at_commit(&self.inner.db, path, &revision.commit.oid).await?;
        tagged.sort_unstable_by(|a, b| b.version.cmp(&a.version));
        for claim in tagged {
            if let Some(Ok(at)) = self.find_listed(path, claim).await {
                return Ok(at);
            }
        }
        self.look_at(&self.inner.walks, place, path, move |look| {
            look.untagged(revision)
        })
        .await
    }

    /// Where a module is, whichever version: by its place, or because versions of it are listed.
    pub(super) async fn place(&self, path: &ModulePath) -> Result<Place, ProxyError> {
        if let Some(place) = self.place_by_path(path) {
            return Ok(place);
        }
        let mut pages = Pages::of(&self.inner.db, path);
        while let Some(page) = pages.next().await? {
            if let Some(place) = page.iter().find_map(|claim| self.place_of(path, claim)) {
                return Ok(place);
            }
        }
        Err(ProxyError::not_found(path, "there is no such module here"))
    }

    fn place_by_path(&self, path: &ModulePath) -> Option<Place> {
        let hosted = &self.inner.hosted;
        let repo = hosted.places().repository(path)?;
        let location = hosted.places().location(&repo).ok()?;
        let served = hosted.is_served(&repo);
        served.then(|| Place::by_path(repo, location, path))?
    }

    /// Where a listed version is; none if it is not here, or may not be any more.
    fn place_of(&self, path: &ModulePath, claim: &Listed) -> Option<Place> {
        let hosted = &self.inner.hosted;
        let repo = hosted.served_repository(&claim.repo)?;
        if hosted.trusts(&claim.repo, path) == Trust::Refused {
            return None;
        }
        let dir = tag::read(&claim.tag)?.dir;
        let location = hosted.places().location(&repo).ok();
        // Without a path of its own it can still hold a module with another one.
        let location = location.or_else(|| ModulePath::parse("nowhere.invalid").ok())?;
        Some(Place {
            repo,
            location,
            dir,
        })
    }

    /// Says why a version is not here.
    async fn explain(
        &self,
        path: &ModulePath,
        version: &Version,
    ) -> Result<ProxyError, ProxyError> {
        let place = self.place(path).await?;
        let name = self.inner.hosted.name_of(&place.repo);
        let tag = match place.dir.as_str() {
            "" => version.in_tag().to_owned(),
            dir => format!("{dir}/{}", version.in_tag()),
        };
        let why = listed::why(&self.inner.db, &name, &tag).await?;
        let reason = why.unwrap_or_else(|| format!("no tag {tag} is listed here"));
        Ok(ProxyError::not_found(format!("{path}@{version}"), reason))
    }

    pub(super) fn info_of(&self, at: At) -> Info {
        Info::of(at, self.inner.hosted.places())
    }

    /// Looks for a module where it may block; the work is told to end if nobody waits any more.
    pub(super) async fn look_at<T: Send + 'static>(
        &self,
        permits: &Permits,
        place: Place,
        path: &ModulePath,
        work: impl FnOnce(&Look<'_>) -> Result<T, ProxyError> + Send + 'static,
    ) -> Result<T, ProxyError> {
        let stop = self.inner.hosted.group().token().child_token();
        let _ends_it = stop.clone().drop_guard();
        let (path, inner) = (path.clone(), Arc::clone(&self.inner));
        self.off_runtime(permits, move |hosted| {
            work(&Look {
                repositories: hosted.repositories(),
                place: &place,
                path: &path,
                known: &inner.known,
                is_stopped: &|| stop.is_cancelled(),
            })
        })
        .await
    }

    pub(super) async fn off_runtime<T: Send + 'static>(
        &self,
        permits: &Permits,
        work: impl FnOnce(&Hosted) -> Result<T, ProxyError> + Send + 'static,
    ) -> Result<T, ProxyError> {
        let slot = permits.enter().await?;
        let hosted = self.inner.hosted.clone();
        let working = hosted
            .group()
            .clone()
            .spawn_blocking("go-proxy-look", move || {
                let _slot = slot;
                work(&hosted)
            });
        working.await.map_err(|_| ProxyError::cut_short())?
    }
}
