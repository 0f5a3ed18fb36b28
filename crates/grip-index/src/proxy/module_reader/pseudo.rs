//! Pseudo-versions: names of commits that somebody made elsewhere, to be checked.

use std::fmt::Display;

use grip_git::{CommitFacts, RefSnapshot};
use grip_go::{Version, pseudo};
use grip_types::RefName;

use super::{ModuleCommit, ModuleReader, revisions::walked};
use crate::proxy::ProxyError;

impl ModuleReader<'_> {
    /// The module that a pseudo-version names, checked as go itself checks it.
    pub(crate) fn pseudo(&self, version: &Version) -> Result<ModuleCommit, ProxyError> {
        let what = self.at(version);
        let not_found = |reason: &dyn Display| ProxyError::not_found(&what, reason);
        let parts = pseudo::parts(version);
        let parts = parts.ok_or_else(|| not_found(&"it is no pseudo-version"))?;
        if parts.revision.len() != 12 {
            return Err(not_found(
                &"a pseudo-version has 12 digits of the commit's id",
            ));
        }
        let refs = self.refs(&what)?;
        if let Some(at) = self
            .pseudo_versions
            .get(&refs, &self.root.repo, self.path, version)
        {
            return Ok(at);
        }
        let commit = self.expand(&what, &refs, parts.revision)?;
        if parts.unix_seconds() != Some(commit.committed_at_ms.div_euclid(1000)) {
            return Err(not_found(&"the commit was made at another time"));
        }
        let module = self.module(&what, &commit, &self.tag_for(&what, version)?)?;
        self.check(&what, &module, version)?;
        // Last, because these two may go through the whole history.
        self.check_owner(&what, &refs, &commit.oid)?;
        let base = parts.base().map_err(|reason| not_found(&reason))?;
        if let Some(base) = base {
            self.check_base(&what, &refs, &commit, &base)?;
        }
        let at = self.found(module, commit, None);
        self.pseudo_versions.keep(&refs, &at);
        Ok(at)
    }

    fn check_base(
        &self,
        what: &str,
        refs: &RefSnapshot,
        commit: &CommitFacts,
        base: &Version,
    ) -> Result<(), ProxyError> {
        let tag = self.tag_for(what, base)?.name();
        let name = RefName::parse(&format!("refs/tags/{tag}")).ok();
        let tagged = name.and_then(|name| refs.get(&name));
        let Some(tagged) = tagged.map(|found| found.peeled.unwrap_or(found.oid)) else {
            let reason = format!("it follows {base}, and there is no tag {tag}");
            return Err(ProxyError::not_found(what, reason));
        };
        let follows = self.history().reaches([commit.oid], &tagged);
        if !follows.map_err(|error| walked(what, error))? {
            let reason = format!("the commit does not come after the tag {tag}");
            return Err(ProxyError::not_found(what, reason));
        }
        Ok(())
    }
}
