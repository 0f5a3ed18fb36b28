//! Module paths of served repositories: `<host>/<npub>/<identifier>`.

use grip_go::{InvalidPath, ModulePath};
use grip_types::{Identifier, RepoAddr, Service};
use url::Url;

/// Maps repositories to the module paths of their clone URLs, and back.
#[derive(Clone, Debug)]
pub struct ModulePaths {
    /// Host without port, and the path below which everything is served: Go allows no colon.
    root: String,
    clone_root: String,
}

impl ModulePaths {
    pub fn of(service: &Service) -> Self {
        let clone_root = service.http_url();
        let url = Url::parse(&clone_root).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let root = match service.base() {
            "" => host.to_owned(),
            base => format!("{host}/{base}"),
        };
        Self { root, clone_root }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// The host that all of them begin with.
    pub fn host(&self) -> &str {
        self.root.split('/').next().unwrap_or_default()
    }

    /// The module path of a repository's root.
    ///
    /// Identifiers may hold much that Go does not take (`naïve repo`, `a+b`), and a host may have
    /// no dot in it (`localhost`): such a repository has no path.
    pub fn location(&self, repo: &RepoAddr) -> Result<ModulePath, InvalidPath> {
        ModulePath::parse(&format!("{}/{repo}", self.root))
    }

    /// The repository whose clone URL a module path names.
    pub fn repository(&self, path: &ModulePath) -> Option<RepoAddr> {
        let below = path.as_str().strip_prefix(self.root.as_str())?;
        let mut elements = below.strip_prefix('/')?.split('/');
        let owner = RepoAddr::parse_npub(elements.next()?)?;
        let identifier = Identifier::parse(elements.next()?).ok()?;
        Some(RepoAddr::new(owner, identifier))
    }

    /// Where git clones it from.
    pub fn clone_url(&self, repo: &RepoAddr) -> String {
        format!("{}/{}", self.clone_root, repo.path())
    }
}
