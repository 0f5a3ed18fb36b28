//! Reading of one module from its repository. All of it blocks.
//!
//! Invariant: whatever the index says, a module is only served from a commit whose `go.mod` names
//! it, or from the root of a repository without one.

mod pseudo;
mod revisions;

use std::{fmt::Display, sync::Arc};

use grip_git::{CommitFacts, RefSnapshot, Repositories};
use grip_go::{
    Found, Module, ModulePath, NotAModule, Version, candidates, module_version,
    tag::{self, VersionTag},
};
use grip_types::{Oid, RefName, RepoAddr};

use super::{
    ProxyError, indexed_versions::IndexedVersion, pseudo_version_cache::PseudoVersionCache,
};
use crate::{
    GoMod,
    commit_files::{CommitFiles, StoredCommit},
};

/// The root of a module: a repository, and the directory that its tags name.
#[derive(Clone, Debug)]
pub(super) struct ModuleRoot {
    pub(super) repo: RepoAddr,
    /// The path of the repository's root.
    pub(super) location: ModulePath,
    pub(super) dir: String,
}

impl ModuleRoot {
    /// The root of a module in the repository that its path leads to.
    pub(super) fn by_path(repo: RepoAddr, location: ModulePath, path: &ModulePath) -> Option<Self> {
        let dir = if path == &location {
            ""
        } else {
            let (prefix, _) = path.prefix_and_major();
            let below = prefix.strip_prefix(location.as_str())?;
            match below {
                "" => "",
                below => below.strip_prefix('/')?,
            }
        };
        let dir = dir.to_owned();
        Some(Self {
            repo,
            location,
            dir,
        })
    }
}

/// A module at one commit.
#[derive(Clone, Debug)]
pub(super) struct ModuleCommit {
    pub(super) module: Module,
    pub(super) repo: RepoAddr,
    pub(super) commit: Oid,
    pub(super) committed_at_ms: i64,
    /// The ref that was asked for.
    pub(super) reference: Option<RefName>,
}

/// Reads one module at its versions, branches and commits.
pub(super) struct ModuleReader<'a> {
    pub(super) repositories: &'a Repositories,
    pub(super) root: &'a ModuleRoot,
    pub(super) path: &'a ModulePath,
    pub(super) pseudo_versions: &'a PseudoVersionCache,
    pub(super) is_stopped: &'a dyn Fn() -> bool,
}

impl ModuleReader<'_> {
    /// The module as a live version has it.
    pub(super) fn indexed(&self, indexed: &IndexedVersion) -> Result<ModuleCommit, ProxyError> {
        let what = self.at(&indexed.version);
        let refs = self.refs(&what)?;
        let reference = RefName::parse(&format!("refs/tags/{}", indexed.tag)).ok();
        let tagged = reference.as_ref().and_then(|name| refs.get(name));
        let now = tagged.map(|found| found.peeled.unwrap_or(found.oid));
        if now != Some(indexed.commit) {
            let reason = "the tag has just been moved or removed, and the index will soon know; \
                          ask again in a moment";
            return Err(ProxyError::not_found(what, reason));
        }
        self.tagged(&what, indexed, reference)
    }

    /// The module as a version was logged, if its tag is there at all, wherever it leads.
    pub(super) fn logged(&self, logged: &IndexedVersion) -> Result<ModuleCommit, ProxyError> {
        let what = self.at(&logged.version);
        let reference = RefName::parse(&format!("refs/tags/{}", logged.tag)).ok();
        let refs = self.refs(&what)?;
        let found = reference.as_ref().and_then(|name| refs.get(name));
        let Some(found) = found else {
            let reason = "the tag has just been removed, and the index will soon know";
            return Err(ProxyError::not_found(what, reason));
        };
        // `.info` names a ref only if it leads to what is served.
        let is_there = found.peeled.unwrap_or(found.oid) == logged.commit;
        self.tagged(&what, logged, reference.filter(|_| is_there))
    }

    /// The module as a version was logged, whether its tag is there or not.
    pub(super) fn recorded(&self, recorded: &IndexedVersion) -> Result<ModuleCommit, ProxyError> {
        self.tagged(&self.at(&recorded.version), recorded, None)
    }

    /// The module that this tag releases at this commit.
    fn tagged(
        &self,
        what: &str,
        tagged: &IndexedVersion,
        reference: Option<RefName>,
    ) -> Result<ModuleCommit, ProxyError> {
        let commit = self.commit(what, &tagged.commit)?;
        let tag = tag::read(&tagged.tag)
            .ok_or_else(|| ProxyError::not_found(what, "the tag names no version"))?;
        let module = self.module(what, &commit, &tag)?;
        self.check(what, &module, &tagged.version)?;
        Ok(self.found(module, commit, reference))
    }

    /// The tag that a version has, or would have.
    fn tag_for(&self, what: &str, version: &Version) -> Result<VersionTag, ProxyError> {
        let version = Version::parse(version.in_tag());
        let version = version.map_err(|invalid| ProxyError::not_found(what, invalid))?;
        let dir = self.root.dir.clone();
        Ok(VersionTag { dir, version })
    }

    /// The module that a tag at this commit releases.
    fn module(
        &self,
        what: &str,
        commit: &CommitFacts,
        tag: &VersionTag,
    ) -> Result<Module, ProxyError> {
        module_of(&self.files(&commit.oid), what, tag, &self.root.location)
    }

    fn check(&self, what: &str, module: &Module, version: &Version) -> Result<(), ProxyError> {
        check(what, module, self.path, version)
    }

    fn go_mod(&self, what: &str, commit: &Oid, dir: &str) -> Result<GoMod, ProxyError> {
        let found = self.files(commit).go_mod(dir);
        found.map_err(|error| ProxyError::of_repository(what, error))
    }

    fn files<'a>(&'a self, commit: &'a Oid) -> StoredCommit<'a> {
        StoredCommit {
            repositories: self.repositories,
            identifier: &self.root.repo.identifier,
            commit,
        }
    }

    fn commit(&self, what: &str, oid: &Oid) -> Result<CommitFacts, ProxyError> {
        let identifier = &self.root.repo.identifier;
        let commit = self.repositories.commit(identifier, oid);
        let commit = commit.map_err(|error| ProxyError::of_repository(what, error))?;
        commit.ok_or_else(|| ProxyError::not_found(what, "it leads to no commit"))
    }

    fn refs(&self, what: &str) -> Result<Arc<RefSnapshot>, ProxyError> {
        let refs = self.repositories.refs(&self.root.repo);
        refs.map_err(|error| ProxyError::of_repository(what, error))
    }

    fn found(
        &self,
        module: Module,
        commit: CommitFacts,
        reference: Option<RefName>,
    ) -> ModuleCommit {
        ModuleCommit {
            module,
            repo: self.root.repo.clone(),
            commit: commit.oid,
            committed_at_ms: commit.committed_at_ms,
            reference,
        }
    }

    fn at(&self, revision: impl Display) -> String {
        format!("{}@{revision}", self.path)
    }
}

/// The module that a tag releases at a commit with these files, in a repository at this place.
pub(super) fn module_of(
    files: &dyn CommitFiles,
    what: &str,
    tag: &VersionTag,
    location: &ModulePath,
) -> Result<Module, ProxyError> {
    let go_mod = |dir: &str| {
        let found = files.go_mod(dir);
        found.map_err(|error| ProxyError::of_repository(what, error))
    };
    let places = candidates(tag);
    let own = go_mod(&places.own)?;
    let major = match &places.major {
        Some(dir) => go_mod(dir)?,
        None => GoMod::Absent,
    };
    let module = module_version(tag, location, found(&own), found(&major));
    module.map_err(|reason: NotAModule| ProxyError::not_found(what, reason))
}

/// Refuses a module that is another than the one asked for.
pub(super) fn check(
    what: &str,
    module: &Module,
    path: &ModulePath,
    version: &Version,
) -> Result<(), ProxyError> {
    if &module.path != path {
        let reason = format!("the module there is {}", module.path);
        return Err(ProxyError::not_found(what, reason));
    }
    if &module.version != version {
        let reason = format!("the version there is {}", module.version);
        return Err(ProxyError::not_found(what, reason));
    }
    Ok(())
}

fn found(go_mod: &GoMod) -> Found<'_> {
    match go_mod {
        GoMod::Text(text) => Found::GoMod(text),
        GoMod::TooLarge => Found::TooLarge,
        GoMod::Absent => Found::None,
    }
}
