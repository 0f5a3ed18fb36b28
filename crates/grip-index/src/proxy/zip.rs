//! Module zips, written while they are sent.
//!
//! Invariant: in memory are a listing of bounded size, one file per zip, and a few chunks. Files
//! of more than a MiB take their share of [`MEMORY_MIB`], which all zips have together.

mod contents;

use std::io;

use grip_go::{
    implied_go_mod, sum,
    zip::{Entry, Kind, Selection, WriteError},
};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::{
    Body, Proxy, ProxyError,
    body::{self, Writer},
    module_reader::ModuleCommit,
};
use crate::Sums;
use contents::Contents;

/// MiB of files in memory at once, over all zips.
pub(super) const MEMORY_MIB: usize = 256;
/// Largest file: it is put together in memory.
const MAX_FILE_BYTES: u64 = 128 << 20;

/// The zip of one version. Nothing is read before it is opened.
pub struct Zip {
    proxy: Proxy,
    at: ModuleCommit,
}

impl Zip {
    pub(super) fn new(proxy: Proxy, at: ModuleCommit) -> Self {
        Self { proxy, at }
    }

    /// Distinguishes this zip from all others, without the quotes that HTTP puts around it: equal texts,
    /// equal bytes.
    pub fn etag(&self) -> String {
        let module = &self.at.module;
        let commit = self.at.commit.to_hex();
        let parts = [
            module.path.as_str(),
            module.version.as_str(),
            &commit,
            &module.dir,
        ];
        // No part holds a newline. The number counts the ways in which zips were made.
        let digest = Sha256::digest(format!("1\n{}", parts.join("\n")));
        digest
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Begins to make it; waits until it is sure that it can be made.
    ///
    /// Cancel safe. What goes wrong later is an error of the stream.
    pub async fn open(self) -> Result<Body, ProxyError> {
        let inner = &self.proxy.inner;
        let permit = inner.zips.acquire().await?;
        let (writer, body) = body::channel(inner.options.stall);
        let (ready, is_ready) = oneshot::channel();
        let proxy = self.proxy.clone();
        let group = inner.hosted.group();
        // Not awaited: the stream says how it ended.
        drop(group.spawn_blocking("go-proxy-zip", move || {
            let _permit = permit;
            make(&proxy, &self.at, writer, ready);
        }));
        is_ready.await.map_err(|_| ProxyError::cut_short())??;
        Ok(body)
    }
}

/// Plans and writes a zip. Blocks.
fn make(
    proxy: &Proxy,
    at: &ModuleCommit,
    mut writer: Writer,
    ready: oneshot::Sender<Result<(), ProxyError>>,
) {
    let planned = Contents::list(proxy, at).and_then(|contents| {
        let selection = select(proxy, at, &contents)?;
        Ok((contents, selection))
    });
    let (contents, selection) = match planned {
        Ok(planned) => planned,
        Err(error) => {
            // If nobody waits for it any more, nobody needs to know.
            let _ = ready.send(Err(error));
            return;
        }
    };
    if ready.send(Ok(())).is_err() {
        return;
    }
    let written = selection.write_to(&mut writer, |file| contents.open(file.entry));
    if let Err(error) = &written {
        log(at, &writer, error);
    }
    writer.end(written.map(drop).map_err(io::Error::other));
}

/// The sums of a version, as go.sum has them. Blocks.
pub(super) fn sums(proxy: &Proxy, at: &ModuleCommit) -> Result<Sums, ProxyError> {
    let contents = Contents::list(proxy, at)?;
    let selection = select(proxy, at, &contents)?;
    let zip = selection.sum(|file| contents.open(file.entry));
    let zip = zip.map_err(|error| {
        let (module, version) = (&at.module.path, &at.module.version);
        tracing::warn!(%module, %version, %error, "failed to sum a module");
        ProxyError::cut_short()
    })?;
    let go_mod = if at.module.has_go_mod {
        sum::of_go_mod(&contents.go_mod)
    } else {
        sum::of_go_mod(implied_go_mod(&at.module.path).as_bytes())
    };
    Ok(Sums { zip, go_mod })
}

fn log(at: &ModuleCommit, writer: &Writer, error: &WriteError) {
    let (module, version) = (&at.module.path, &at.module.version);
    if writer.is_abandoned() || matches!(error, WriteError::Output(_)) {
        tracing::debug!(%module, %version, "a zip was not taken to its end");
    } else {
        tracing::warn!(%module, %version, %error, "a zip could not be made");
    }
}

fn select(
    proxy: &Proxy,
    at: &ModuleCommit,
    contents: &Contents<'_>,
) -> Result<Selection, ProxyError> {
    let what = format!("{}@{}", at.module.path, at.module.version);
    let listing: Vec<Entry<'_>> = contents.entries().collect();
    // The listing begins at the module's directory.
    let mut module = at.module.clone();
    module.dir.clear();
    let selection = Selection::check(&module, &contents.go_mod, &listing);
    let selection = selection.map_err(|reason| ProxyError::not_found(&what, reason))?;
    let max = proxy.inner.options.max_zip_bytes;
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
