//! Selection of the files that belong into a module's zip.

use super::{
    Entry, Kind, MAX_BYTES, MAX_GO_MOD_BYTES, MAX_LICENSE_BYTES, MAX_PATH_BYTES, ZipError, archive,
    names::{Directories, Names},
    vendored,
};
use crate::{
    Flaw, Module,
    display_text::shown,
    go_mod::{self, Language},
    path::element,
};

/// The files of a module's zip, in the order of the listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    prefix: String,
    files: Vec<File>,
    total_bytes: u64,
}

/// A file of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its place in the listing.
    pub entry: usize,
    /// From the root of the module.
    pub path: String,
    pub size: u64,
}

impl Selection {
    /// Decides from a listing of the whole repository, or of the module's directory and the
    /// LICENSE at the root, whose bytes stand in if the module has none of its own.
    ///
    /// `go_mod` is the text of the module's go.mod, empty if there is none: what Go leaves out
    /// depends on the language it names.
    pub fn check(module: &Module, go_mod: &[u8], listing: &[Entry<'_>]) -> Result<Self, ZipError> {
        let Module { path, version, .. } = module;
        if !version.fits(path) {
            return Err(ZipError::Version {
                path: path.clone(),
                version: version.clone(),
            });
        }
        let mut check = Check {
            language: go_mod::language(go_mod),
            nested: nested_modules(&module.dir, listing)?,
            names: Names::default(),
            selection: Self {
                prefix: format!("{path}@{version}/"),
                files: Vec::new(),
                total_bytes: 0,
            },
            archive_bytes: 0,
        };
        let mut has_license = module.dir.is_empty();
        for (index, entry, path) in in_module(&module.dir, listing) {
            has_license |= path == b"LICENSE";
            check.consider(index, path, entry)?;
        }
        if !has_license && let Some((index, entry)) = root_license(listing) {
            check.consider(index, b"LICENSE", &entry)?;
        }
        Ok(check.selection)
    }

    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// What all files have together.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// What the name of every file in the zip begins with: `<module>@<version>/`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// The files below the module's directory, with their paths from there.
fn in_module<'l, 'a>(
    dir: &str,
    listing: &'l [Entry<'a>],
) -> impl Iterator<Item = (usize, &'l Entry<'a>, &'a [u8])> {
    listing
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.kind != Kind::Other)
        .filter_map(move |(index, entry)| {
            let path = match dir {
                "" => Some(entry.path),
                _ => entry
                    .path
                    .strip_prefix(dir.as_bytes())
                    .and_then(|rest| rest.strip_prefix(b"/")),
            };
            path.map(|path| (index, entry, path))
        })
}

/// The directories in the module that are modules of their own.
fn nested_modules(dir: &str, listing: &[Entry<'_>]) -> Result<Directories, ZipError> {
    let mut nested = Directories::default();
    for (_, entry, path) in in_module(dir, listing) {
        let Some(slash) = path.iter().rposition(|&byte| byte == b'/') else {
            continue;
        };
        if entry.kind == Kind::File && path[slash + 1..].eq_ignore_ascii_case(b"go.mod") {
            nested.insert(&path[..slash])?;
        }
    }
    Ok(nested)
}

/// The LICENSE of the repository. Go reads a symbolic link as the text of its target here.
fn root_license<'a>(listing: &[Entry<'a>]) -> Option<(usize, Entry<'a>)> {
    let index = listing
        .iter()
        .position(|entry| entry.kind != Kind::Other && entry.path == b"LICENSE")?;
    let kind = Kind::File;
    Some((
        index,
        Entry {
            kind,
            ..listing[index]
        },
    ))
}

struct Check {
    language: Option<Language>,
    nested: Directories,
    names: Names,
    selection: Selection,
    /// What the zip has at least.
    archive_bytes: u64,
}

impl Check {
    /// Takes one file in, leaves it out, or finds that there can be no zip.
    fn consider(&mut self, index: usize, path: &[u8], entry: &Entry<'_>) -> Result<(), ZipError> {
        if !is_clean(path) {
            let path = shown(path);
            return Err(ZipError::NotClean { path });
        }
        let omitted = vendored::is_vendored(path, self.language)
            || self.nested.hold(path)
            || path == b".hg_archival.txt";
        if omitted {
            return Ok(());
        }
        let path = check_path(path)?;
        self.names.add(path)?;
        if entry.kind != Kind::File {
            return Ok(());
        }
        self.count(path, entry.size)?;
        self.selection.files.push(File {
            entry: index,
            path: path.to_owned(),
            size: entry.size,
        });
        Ok(())
    }

    fn count(&mut self, path: &str, size: u64) -> Result<(), ZipError> {
        let max_bytes = match path {
            "go.mod" => MAX_GO_MOD_BYTES,
            "LICENSE" => MAX_LICENSE_BYTES,
            _ => MAX_BYTES,
        };
        let total = self.selection.total_bytes.saturating_add(size);
        if total > MAX_BYTES {
            return Err(ZipError::TooLarge);
        }
        if size > max_bytes {
            let path = shown(path.as_bytes());
            return Err(ZipError::FileTooLarge { path, max_bytes });
        }
        self.selection.total_bytes = total;
        self.archive_bytes += archive::overhead(self.selection.prefix.len() + path.len());
        if self.archive_bytes > MAX_BYTES {
            return Err(ZipError::TooLarge);
        }
        Ok(())
    }
}

fn is_clean(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/')
        .all(|element| !matches!(element, b"" | b"." | b".."))
}

fn check_path(path: &[u8]) -> Result<&str, ZipError> {
    let flawed = |flaw| ZipError::Path {
        path: shown(path),
        flaw,
    };
    if path.len() > MAX_PATH_BYTES {
        let max = MAX_PATH_BYTES;
        return Err(flawed(Flaw::TooLong { max }));
    }
    let text = std::str::from_utf8(path).map_err(|_| flawed(Flaw::NotUtf8))?;
    element::check_all(text, element::Kind::File).map_err(flawed)?;
    if text != "go.mod" && text.eq_ignore_ascii_case("go.mod") {
        let path = shown(path);
        return Err(ZipError::GoModCase { path });
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
