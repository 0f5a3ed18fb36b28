//! Branches and commits: what they stand for, and the pseudo-versions of what no tag names.

use std::sync::Arc;

use grip_git::{CommitFacts, Ref, RefSnapshot};
use grip_go::{
    Version, pseudo,
    tag::{self, VersionTag},
};
use grip_types::{Oid, RefName};

use super::{ModuleCommit, ModuleReader};
use crate::{
    GoMod,
    proxy::{
        ProxyError,
        history::{History, WalkError},
    },
};

/// Digits of an abbreviated id that are enough to ask for it.
const MIN_PREFIX: usize = 7;

/// A branch, tag or commit id, resolved.
pub(crate) struct Revision {
    pub(crate) commit: CommitFacts,
    pub(crate) reference: Option<RefName>,
    /// The refs that lead to it.
    refs: Arc<RefSnapshot>,
}

impl ModuleReader<'_> {
    /// What a branch, a tag or the beginning of a commit's id stands for.
    pub(crate) fn resolve(&self, revision: &str) -> Result<Revision, ProxyError> {
        let what = self.at(revision);
        let refs = self.refs(&what)?;
        for kind in ["tags", "heads"] {
            let name = RefName::parse(&format!("refs/{kind}/{revision}")).ok();
            if let Some(found) = name.and_then(|name| refs.get(&name)) {
                return self.revision(&what, &refs, found);
            }
        }
        if revision == "HEAD" {
            return self.head();
        }
        let commit = self.expand(&what, &refs, revision)?;
        self.check_owner(&what, &refs, &commit.oid)?;
        Ok(Revision {
            commit,
            reference: None,
            refs,
        })
    }

    /// The default branch.
    pub(crate) fn head(&self) -> Result<Revision, ProxyError> {
        let what = self.at("HEAD");
        let refs = self.refs(&what)?;
        let head = refs.head_ref();
        let head = head.ok_or_else(|| {
            ProxyError::not_found(&what, "the repository's default branch does not exist")
        })?;
        self.revision(&what, &refs, head)
    }

    fn revision(
        &self,
        what: &str,
        refs: &Arc<RefSnapshot>,
        found: &Ref,
    ) -> Result<Revision, ProxyError> {
        Ok(Revision {
            commit: self.commit(what, &found.oid)?,
            reference: Some(found.name.clone()),
            refs: Arc::clone(refs),
        })
    }

    /// Says whether the default branch has the module; the error says why not.
    pub(crate) fn is_at_head(&self) -> Result<(), ProxyError> {
        let Revision { commit, .. } = self.head()?;
        let what = self.at("HEAD");
        let seconds = commit.committed_at_ms.div_euclid(1000);
        let version = pseudo::version(self.path, None, seconds, &commit.oid.to_hex());
        let version = version.map_err(|reason| ProxyError::not_found(&what, reason))?;
        let module = self.module(&what, &commit, &self.tag_for(&what, &version)?)?;
        self.check(&what, &module, &version)
    }

    /// The module at a commit that no version names: under its pseudo-version.
    pub(crate) fn untagged(&self, revision: Revision) -> Result<ModuleCommit, ProxyError> {
        let Revision {
            commit,
            reference,
            refs,
        } = revision;
        let what = self.at(commit.oid.short());
        let base = self.base(&what, &refs, &commit)?;
        let seconds = commit.committed_at_ms.div_euclid(1000);
        let version = pseudo::version(self.path, base.as_ref(), seconds, &commit.oid.to_hex());
        let version = version.map_err(|reason| ProxyError::not_found(&what, reason))?;
        let module = self.module(&what, &commit, &self.tag_for(&what, &version)?)?;
        self.check(&what, &module, &version)?;
        let at = self.found(module, commit, reference);
        // Go comes back for it at once, under its new name.
        self.pseudo_versions.keep(&refs, &at);
        Ok(at)
    }

    /// A commit by the beginning of its id; whose it is, is another question.
    ///
    /// Those that a ref names come first, so that nobody makes a name ambiguous by pushing
    /// something that begins the same to a repository of his own.
    pub(super) fn expand(
        &self,
        what: &str,
        refs: &RefSnapshot,
        prefix: &str,
    ) -> Result<CommitFacts, ProxyError> {
        let mut tips = tips(refs);
        tips.retain(|tip| prefix.len() >= MIN_PREFIX && tip.to_hex().starts_with(prefix));
        if let [tip] = tips[..] {
            return self.commit(what, &tip);
        }
        let oid = self.repositories.expand(&self.root.repo.identifier, prefix);
        let oid = oid.map_err(|error| ProxyError::of_repository(what, error))?;
        self.commit(what, &oid.ok_or_else(|| unknown(what))?)
    }

    /// Others push to the same store: what no branch or tag of this owner leads to is theirs.
    pub(super) fn check_owner(
        &self,
        what: &str,
        refs: &RefSnapshot,
        commit: &Oid,
    ) -> Result<(), ProxyError> {
        let is_own = self.history().reaches(tips(refs), commit);
        if is_own.map_err(|error| walked(what, error))? {
            Ok(())
        } else {
            Err(unknown(what))
        }
    }

    pub(super) fn history(&self) -> History<'_> {
        History {
            repositories: self.repositories,
            identifier: &self.root.repo.identifier,
            is_stopped: self.is_stopped,
        }
    }

    /// The highest version tagged in the history of a commit.
    fn base(
        &self,
        what: &str,
        refs: &RefSnapshot,
        commit: &CommitFacts,
    ) -> Result<Option<Version>, ProxyError> {
        let incompatible = self.may_be_incompatible(what, commit)?;
        let mut tagged: Vec<(Oid, Version)> = Vec::new();
        for found in refs.iter() {
            let name = found.name.as_str().strip_prefix("refs/tags/");
            let Some(tag) = name.and_then(tag::read) else {
                continue;
            };
            let version = self.version_of(tag, incompatible);
            tagged.extend(version.map(|version| (found.peeled.unwrap_or(found.oid), version)));
        }
        tagged.sort_unstable_by(|(_, a), (_, b)| b.cmp(a));
        let base = self.history().first_ancestor(&commit.oid, &tagged);
        Ok(base.map_err(|error| walked(what, error))?.cloned())
    }

    /// The version of this module that a tag stands for.
    fn version_of(&self, tag: VersionTag, incompatible: bool) -> Option<Version> {
        if tag.dir != self.root.dir {
            return None;
        }
        if tag.version.fits(self.path) {
            return Some(tag.version);
        }
        let marked = format!("{}+incompatible", tag.version);
        incompatible.then(|| Version::parse(&marked).ok()).flatten()
    }

    /// Only the root of a repository without go.mod has versions that its path does not allow.
    fn may_be_incompatible(&self, what: &str, commit: &CommitFacts) -> Result<bool, ProxyError> {
        if self.path != &self.root.location || !self.path.prefix_and_major().1.is_empty() {
            return Ok(false);
        }
        Ok(self.go_mod(what, &commit.oid, "")? == GoMod::Absent)
    }
}

fn unknown(what: &str) -> ProxyError {
    ProxyError::not_found(what, "no branch, tag or commit of that name here")
}

/// Where the owner's history begins, each once: strangers may propose changes under other names.
fn tips(refs: &RefSnapshot) -> Vec<Oid> {
    let own = refs.iter().filter(|r| r.name.is_state_ref());
    let mut tips: Vec<Oid> = own.map(|r| r.peeled.unwrap_or(r.oid)).collect();
    tips.sort_unstable();
    tips.dedup();
    tips
}

pub(super) fn walked(what: &str, error: WalkError) -> ProxyError {
    match error {
        WalkError::TooLong => ProxyError::not_found(what, error),
        WalkError::Stopped => ProxyError::cut_short(),
        WalkError::Repository(error) => ProxyError::of_repository(what, error),
    }
}
