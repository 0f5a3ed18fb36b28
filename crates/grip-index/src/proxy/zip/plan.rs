//! The plan of a module zip: which files of a commit are in it, and their sums.

use std::{io::Write, sync::Arc};

use bytes::Bytes;
use grip_go::{
    Module, implied_go_mod, sum,
    zip::{Entry, Kind, Selection, WriteError},
};
use tokio::sync::Semaphore;

use super::{MAX_FILE_BYTES, contents::Contents};
use crate::{Sums, commit_files::CommitFiles, proxy::ProxyError};

/// What zips may take.
#[derive(Clone, Copy)]
pub(in crate::proxy) struct ZipBounds<'a> {
    /// Most bytes of all files together.
    pub(in crate::proxy) max_bytes: u64,
    /// MiB of file contents in memory, over all zips.
    pub(in crate::proxy) memory: &'a Arc<Semaphore>,
}

/// The files of one module, chosen and checked. All of it blocks.
pub(in crate::proxy) struct ZipPlan<'a> {
    module: &'a Module,
    contents: Contents<'a>,
    selection: Selection,
}

impl<'a> ZipPlan<'a> {
    pub(in crate::proxy) fn make(
        files: &'a dyn CommitFiles,
        module: &'a Module,
        bounds: ZipBounds<'a>,
    ) -> Result<Self, ProxyError> {
        let contents = Contents::list(files, module, bounds.memory)?;
        let selection = select(module, &contents, bounds.max_bytes)?;
        Ok(Self {
            module,
            contents,
            selection,
        })
    }

    /// The go.mod as the proxy serves it, made up where the module has none.
    pub(in crate::proxy) fn go_mod(&self) -> Bytes {
        if self.module.has_go_mod {
            self.contents.go_mod.clone()
        } else {
            implied_go_mod(&self.module.path).into()
        }
    }

    /// Writes the zip and returns its length.
    pub(in crate::proxy) fn write_to(&self, out: &mut impl Write) -> Result<u64, WriteError> {
        let contents = &self.contents;
        self.selection
            .write_to(out, |file| contents.open(file.entry))
    }

    /// The sums of the zip and of the go.mod, as go.sum has them.
    pub(in crate::proxy) fn sums(&self) -> Result<Sums, ProxyError> {
        let zip = self.selection.sum(|file| self.contents.open(file.entry));
        let zip = zip.map_err(|error| {
            let (module, version) = (&self.module.path, &self.module.version);
            tracing::warn!(%module, %version, %error, "failed to sum a module");
            ProxyError::cut_short()
        })?;
        let go_mod = sum::of_go_mod(&self.go_mod());
        Ok(Sums { zip, go_mod })
    }
}

fn select(module: &Module, contents: &Contents<'_>, max: u64) -> Result<Selection, ProxyError> {
    let what = format!("{}@{}", module.path, module.version);
    let listing: Vec<Entry<'_>> = contents.entries().collect();
    // The listing begins at the module's directory.
    let mut module = module.clone();
    module.dir.clear();
    let selection = Selection::check(&module, &contents.go_mod, &listing);
    let selection = selection.map_err(|reason| ProxyError::not_found(&what, reason))?;
    if selection.total_bytes() > max {
        let reason = format!("its files have more than the {max} bytes that this server sends");
        return Err(ProxyError::not_found(what, reason));
    }
    let large = selection
        .files()
        .iter()
        .find(|file| file.size > MAX_FILE_BYTES);
    if let Some(file) = large {
        let (path, max) = (&file.path, MAX_FILE_BYTES >> 20);
        let reason =
            format!("{path:?} is larger than {max} MiB, the most this server puts together");
        return Err(ProxyError::not_found(what, reason));
    }
    debug_assert!(
        listing
            .iter()
            .all(|entry| entry.kind != Kind::Other || entry.size == 0)
    );
    Ok(selection)
}
