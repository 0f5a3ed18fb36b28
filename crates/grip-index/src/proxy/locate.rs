//! Location of a module: from its path and version to a commit.

use std::sync::Arc;

use grip_go::{ModulePath, Version, tag};

use super::{
    Info, Proxy, ProxyError,
    indexed_versions::{self, IndexedVersion, Pages},
    module_reader::{ModuleCommit, ModuleReader, ModuleRoot},
    permits::Permits,
};
use crate::{Source as _, Trust, hosted::Hosted};

impl Proxy {
    /// The module at a version.
    pub(super) async fn locate(
        &self,
        path: &ModulePath,
        version: &Version,
    ) -> Result<ModuleCommit, ProxyError> {
        if version.is_pseudo() {
            let (root, version) = (self.root(path).await?, version.clone());
            let reading = self.read_module(&self.inner.walks, root, path, move |reader| {
                reader.pseudo(&version)
            });
            return reading.await;
        }
        let claims = indexed_versions::version(&self.inner.db, path, version).await?;
        self.locate_among(path, version, claims).await
    }

    /// The module at a version, from the tags that claim it.
    pub(super) async fn locate_among(
        &self,
        path: &ModulePath,
        version: &Version,
        claims: Vec<IndexedVersion>,
    ) -> Result<ModuleCommit, ProxyError> {
        if let Some(sumdb) = &self.inner.sumdb
            && !claims.is_empty()
            && let Some(record) = sumdb.find(path, version).await?
        {
            return self.locate_logged(path, version, &claims, record).await;
        }
        let mut last = None;
        for claim in claims {
            match self.locate_indexed(path, claim).await {
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
    pub(super) async fn locate_indexed(
        &self,
        path: &ModulePath,
        claim: IndexedVersion,
    ) -> Option<Result<ModuleCommit, ProxyError>> {
        let root = self.root_of(path, &claim)?;
        let reading = self.read_module(&self.inner.reads, root, path, move |reader| {
            reader.indexed(&claim)
        });
        Some(reading.await)
    }

    /// The module at a branch, tag or commit: under a version that has a tag there, or under the
    /// pseudo-version of the commit.
    pub(super) async fn locate_revision(
        &self,
        path: &ModulePath,
        revision: &str,
    ) -> Result<ModuleCommit, ProxyError> {
        let (root, name) = (self.root(path).await?, revision.to_owned());
        let resolving = self.read_module(&self.inner.walks, root.clone(), path, move |reader| {
            reader.resolve(&name)
        });
        let revision = resolving.await?;
        let mut tagged =
            indexed_versions::at_commit(&self.inner.db, path, &revision.commit.oid).await?;
        tagged.sort_unstable_by(|a, b| b.version.cmp(&a.version));
        for claim in tagged {
            if let Some(Ok(at)) = self.locate_indexed(path, claim).await {
                return Ok(at);
            }
        }
        self.read_module(&self.inner.walks, root, path, move |reader| {
            reader.untagged(revision)
        })
        .await
    }

    /// The root of a module, for any version: by its path, or because versions of it are indexed.
    pub(super) async fn root(&self, path: &ModulePath) -> Result<ModuleRoot, ProxyError> {
        if let Some(root) = self.root_by_path(path) {
            return Ok(root);
        }
        let mut pages = Pages::of(&self.inner.db, path);
        while let Some(page) = pages.next().await? {
            if let Some(root) = page.iter().find_map(|claim| self.root_of(path, claim)) {
                return Ok(root);
            }
        }
        Err(ProxyError::not_found(path, "there is no such module here"))
    }

    fn root_by_path(&self, path: &ModulePath) -> Option<ModuleRoot> {
        let hosted = &self.inner.hosted;
        let repo = hosted.module_paths().repository(path)?;
        let location = hosted.module_paths().location(&repo).ok()?;
        let served = hosted.is_served(&repo);
        served.then(|| ModuleRoot::by_path(repo, location, path))?
    }

    /// The root of an indexed version; none if it is not here, or may not be any more.
    pub(super) fn root_of(&self, path: &ModulePath, claim: &IndexedVersion) -> Option<ModuleRoot> {
        let hosted = &self.inner.hosted;
        let repo = hosted.served_repository(&claim.repo)?;
        if hosted.trusts(&claim.repo, path) == Trust::Refused {
            return None;
        }
        let dir = tag::read(&claim.tag)?.dir;
        let location = hosted.module_paths().location(&repo).ok();
        // Without a path of its own it can still hold a module with another one.
        let location = location.or_else(|| ModulePath::parse("nowhere.invalid").ok())?;
        Some(ModuleRoot {
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
        let root = self.root(path).await?;
        let name = self.inner.hosted.name_of(&root.repo);
        let tag = match root.dir.as_str() {
            "" => version.in_tag().to_owned(),
            dir => format!("{dir}/{}", version.in_tag()),
        };
        let why = indexed_versions::why(&self.inner.db, &name, &tag).await?;
        let reason = why.unwrap_or_else(|| format!("no tag {tag} is listed here"));
        Ok(ProxyError::not_found(format!("{path}@{version}"), reason))
    }

    pub(super) fn info_of(&self, at: ModuleCommit) -> Info {
        Info::of(at, self.inner.hosted.module_paths())
    }

    /// Reads a module on a thread where that may block; cancelled when nobody waits any more.
    pub(super) async fn read_module<T: Send + 'static>(
        &self,
        permits: &Permits,
        root: ModuleRoot,
        path: &ModulePath,
        work: impl FnOnce(&ModuleReader<'_>) -> Result<T, ProxyError> + Send + 'static,
    ) -> Result<T, ProxyError> {
        let stop = self.inner.hosted.group().token().child_token();
        let _ends_it = stop.clone().drop_guard();
        let (path, inner) = (path.clone(), Arc::clone(&self.inner));
        self.off_runtime(permits, move |hosted| {
            work(&ModuleReader {
                repositories: hosted.repositories(),
                root: &root,
                path: &path,
                pseudo_versions: &inner.pseudo_versions,
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
        let permit = permits.acquire().await?;
        let hosted = self.inner.hosted.clone();
        let working = hosted
            .group()
            .clone()
            .spawn_blocking("go-proxy-look", move || {
                let _permit = permit;
                work(&hosted)
            });
        working.await.map_err(|_| ProxyError::cut_short())?
    }
}
