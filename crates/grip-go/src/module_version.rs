//! The module and version that a tag releases, by cmd/go's rules.
//!
//! A tag speaks for the go.mod of its own directory, or, from v2 on, for the one in the directory
//! of the major version below that: `v2.0.0` for `go.mod` or `v2/go.mod`, `sub/v2.0.0` for
//! `sub/go.mod` or `sub/v2/go.mod`. [`candidates`] says where to look, [`module_version`] decides
//! from what was there.

use crate::{
    ModulePath, Version,
    go_mod::{self, Bad},
    path,
    tag::VersionTag,
};

/// Where a tag's go.mod can be: directories in the repository, "" for its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// The directory of the tag.
    pub own: String,
    /// The directory of the major version, from v2 on.
    pub major: Option<String>,
}

/// Says where to look for the go.mod that decides about a tag.
pub fn candidates(tag: &VersionTag) -> Candidates {
    let major = match tag.version.major() {
        "v0" | "v1" => None,
        major if tag.dir.is_empty() => Some(major.to_owned()),
        major => Some(format!("{}/{major}", tag.dir)),
    };
    Candidates {
        own: tag.dir.clone(),
        major,
    }
}

/// What was at one of the places. A symbolic link counts as a file with its target as text, and a
/// directory or a submodule of that name as none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    GoMod(&'a [u8]),
    /// A file above [`go_mod::MAX_BYTES`].
    TooLarge,
    None,
}

impl<'a> From<Option<&'a [u8]>> for Found<'a> {
    fn from(text: Option<&'a [u8]>) -> Self {
        text.map_or(Self::None, Self::GoMod)
    }
}

/// A version of a module that a tag releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    pub path: ModulePath,
    pub version: Version,
    /// Where its files are in the repository; "" for the root.
    pub dir: String,
    /// Whether there is a go.mod in that directory; [`implied_go_mod`] stands in for it if not.
    pub has_go_mod: bool,
}

/// Why Go finds no version of any module in a tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAModule {
    #[error("{} is missing, and only the root of a repository is a module without it", file(.dir))]
    NoGoMod { dir: String },
    #[error("{location} ends with a major version, so it is no module without a go.mod")]
    MajorWithoutGoMod { location: ModulePath },
    #[error("{} names no module: {cause}", file(.dir))]
    GoMod { dir: String, cause: Bad },
    #[error(
        "{} names {path}, which cannot have the version {version}: it allows only {}",
        file(.dir), allowed(.path)
    )]
    Major {
        dir: String,
        path: ModulePath,
        version: Version,
    },
    #[error("{location} cannot have the version {version}: it allows only {}", allowed(.location))]
    Location {
        location: ModulePath,
        version: Version,
    },
    #[error("{} and {} both name a module for {major}", file(.own), file(.below))]
    Ambiguous {
        own: String,
        below: String,
        major: String,
    },
    #[error("{} names {path}, which Go looks for in another directory", file(.dir))]
    Directory { dir: String, path: ModulePath },
    #[error("{path} has no versions, because gopkg.in makes none for paths that end in -unstable")]
    Unstable { path: ModulePath },
    #[error("the version would be longer than {} bytes", Version::MAX_BYTES)]
    TooLong,
}

fn file(dir: &str) -> String {
    match dir {
        "" => "go.mod".to_owned(),
        _ => format!("{dir}/go.mod"),
    }
}

fn allowed(path: &ModulePath) -> &str {
    path.major().unwrap_or("v0 and v1")
}

/// The go.mod of a module that has none.
pub fn implied_go_mod(path: &ModulePath) -> String {
    format!("module {path}\n")
}

/// Decides which version of which module a tag releases.
///
/// `location` is the path of the repository's root by the place it is at. It is the module's path
/// if there is no go.mod; a go.mod may name any other (a vanity path, or where a fork comes from),
/// and whether to believe that is for the caller to decide.
pub fn module_version(
    tag: &VersionTag,
    location: &ModulePath,
    own: Found<'_>,
    major: Found<'_>,
) -> Result<Module, NotAModule> {
    let places = candidates(tag);
    let own = read(own);
    let below = places.major.zip(read(major));
    let decision = Decision { tag, location };
    match (own, below) {
        // For these two Go looks at no other place, even if the go.mod there would do.
        (Some(Ok(path)), _)
            if tag.version.fits(&path) && (path == *location || is_dotted(&path)) =>
        {
            decision.accept(path, places.own)
        }
        (own, Some((dir, Ok(path)))) => {
            let both = own
                .and_then(Result::ok)
                .is_some_and(|own| tag.version.fits(&own));
            if both && tag.version.fits(&path) {
                return Err(NotAModule::Ambiguous {
                    own: places.own,
                    below: dir,
                    major: tag.version.major().to_owned(),
                });
            }
            decision.accept(path, dir)
        }
        (_, Some((dir, Err(cause)))) => Err(NotAModule::GoMod { dir, cause }),
        (Some(Ok(path)), None) => decision.accept(path, places.own),
        (Some(Err(cause)), None) => Err(NotAModule::GoMod {
            dir: places.own,
            cause,
        }),
        (None, None) => decision.without_go_mod(),
    }
}

fn read(found: Found<'_>) -> Option<Result<ModulePath, Bad>> {
    match found {
        Found::GoMod(text) => Some(go_mod::module_path(text)),
        Found::TooLarge => Some(Err(Bad::TooLarge)),
        Found::None => None,
    }
}

/// Whether the path has its major version behind a dot, as on gopkg.in.
fn is_dotted(path: &ModulePath) -> bool {
    path.prefix_and_major().1.starts_with('.')
}

fn is_unstable(path: &ModulePath) -> bool {
    path.prefix_and_major().1.ends_with("-unstable")
}

struct Decision<'a> {
    tag: &'a VersionTag,
    location: &'a ModulePath,
}

impl Decision<'_> {
    /// Takes the path that a go.mod names, if Go would come to this tag and directory for it.
    fn accept(&self, path: ModulePath, dir: String) -> Result<Module, NotAModule> {
        let version = self.tag.version.clone();
        if is_unstable(&path) {
            return Err(NotAModule::Unstable { path });
        }
        if !version.fits(&path) {
            return Err(NotAModule::Major { dir, path, version });
        }
        if !self.is_in_its_place(&path) {
            return Err(NotAModule::Directory { dir, path });
        }
        Ok(Module {
            path,
            version,
            dir,
            has_go_mod: true,
        })
    }

    /// Whether the tag's directory is the one that Go concludes from the path.
    fn is_in_its_place(&self, path: &ModulePath) -> bool {
        let dir = self.tag.dir.as_str();
        let (prefix, _) = path.prefix_and_major();
        if path == self.location || is_dotted(path) {
            return dir.is_empty();
        }
        if let Some(rest) = path::below(prefix, self.location.as_str()) {
            return rest == dir;
        }
        // Where its repository begins is not known, so all that ends with the directory may be it.
        dir.is_empty()
            || prefix
                .strip_suffix(dir)
                .is_some_and(|root| root.ends_with('/'))
    }

    /// The root of a repository is a module even so.
    fn without_go_mod(&self) -> Result<Module, NotAModule> {
        let path = self.location.clone();
        let dir = self.tag.dir.clone();
        let version = self.tag.version.clone();
        if !dir.is_empty() {
            return Err(NotAModule::NoGoMod { dir });
        }
        if is_unstable(&path) {
            return Err(NotAModule::Unstable { path });
        }
        if path.major().is_some() && !is_dotted(&path) {
            return Err(NotAModule::MajorWithoutGoMod { location: path });
        }
        let version = if version.fits(&path) {
            version
        } else if is_dotted(&path) {
            let location = path;
            return Err(NotAModule::Location { location, version });
        } else {
            version
                .with_incompatible()
                .map_err(|_| NotAModule::TooLong)?
        };
        Ok(Module {
            path,
            version,
            dir,
            has_go_mod: false,
        })
    }
}

#[cfg(test)]
mod tests;
