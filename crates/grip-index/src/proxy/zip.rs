//! Module zips: written while they are sent, or read from the cache of fetched modules.
//!
//! Invariant: in memory are a listing of bounded size, one file per zip, and a few chunks. Files
//! of more than a MiB take their share of [`MEMORY_MIB`], which all zips have together.

mod contents;
mod plan;

use std::{io, sync::Arc};

use grip_go::zip::WriteError;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::{
    Body, Proxy, ProxyError,
    body::{self, Writer},
    module_reader::ModuleCommit,
    upstream::FetchedModule,
};
use crate::{Sums, commit_files::StoredCommit};
pub(super) use plan::{ZipBounds, ZipPlan};

/// MiB of files in memory at once, over all zips.
pub(super) const MEMORY_MIB: usize = 256;
/// Largest file: it is put together in memory.
const MAX_FILE_BYTES: u64 = 128 << 20;

/// The zip of one version. Nothing is read before it is opened.
pub struct Zip {
    proxy: Proxy,
    from: ZipSource,
}

enum ZipSource {
    Commit(ModuleCommit),
    Cache(Arc<FetchedModule>),
}

impl Zip {
    pub(super) fn new(proxy: Proxy, at: ModuleCommit) -> Self {
        let from = ZipSource::Commit(at);
        Self { proxy, from }
    }

    pub(super) fn cached(proxy: Proxy, module: Arc<FetchedModule>) -> Self {
        let from = ZipSource::Cache(module);
        Self { proxy, from }
    }

    /// Distinguishes this zip from all others, without the quotes that HTTP puts around it: equal texts,
    /// equal bytes.
    pub fn etag(&self) -> String {
        let at = match &self.from {
            ZipSource::Commit(at) => at,
            ZipSource::Cache(module) => return module.etag(),
        };
        let module = &at.module;
        let commit = at.commit.to_hex();
        let parts = [
            module.path.as_str(),
            module.version.as_str(),
            &commit,
            &module.dir,
        ];
        // No part holds a newline. The number counts the ways in which zips were made.
        let digest = Sha256::digest(format!("1\n{}", parts.join("\n")));
        faster_hex::hex_string(&digest[..16])
    }

    /// Begins to make or read it; waits until it is sure that there is one.
    ///
    /// Cancel safe. What goes wrong later is an error of the stream.
    pub async fn open(self) -> Result<Body, ProxyError> {
        let inner = &self.proxy.inner;
        let permit = inner.zips.acquire().await?;
        let (mut writer, body) = body::channel(inner.options.stall);
        let (ready, is_ready) = oneshot::channel();
        let proxy = self.proxy.clone();
        let group = inner.hosted.group();
        // Not awaited: the stream says how it ended.
        drop(group.spawn_blocking("go-proxy-zip", move || {
            let _permit = permit;
            match &self.from {
                ZipSource::Commit(at) => make(&proxy, at, writer, ready),
                ZipSource::Cache(module) => {
                    // If nobody waits for it any more, the first write ends.
                    let _ = ready.send(Ok(()));
                    let copied = module.copy_zip_to(&mut writer);
                    if let Err(error) = &copied
                        && error.kind() == io::ErrorKind::InvalidData
                        && let Some(upstream) = &proxy.inner.upstream
                    {
                        upstream.forget(module);
                    }
                    writer.end(copied);
                }
            }
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
    let files = stored(proxy, at);
    let planned = ZipPlan::make(&files, &at.module, proxy.zip_bounds());
    let plan = match planned {
        Ok(plan) => plan,
        Err(error) => {
            // If nobody waits for it any more, nobody needs to know.
            let _ = ready.send(Err(error));
            return;
        }
    };
    if ready.send(Ok(())).is_err() {
        return;
    }
    let written = plan.write_to(&mut writer);
    if let Err(error) = &written {
        log(at, &writer, error);
    }
    writer.end(written.map(drop).map_err(io::Error::other));
}

/// The sums of a version, as go.sum has them. Blocks.
pub(super) fn sums(proxy: &Proxy, at: &ModuleCommit) -> Result<Sums, ProxyError> {
    let files = stored(proxy, at);
    ZipPlan::make(&files, &at.module, proxy.zip_bounds())?.sums()
}

fn stored<'a>(proxy: &'a Proxy, at: &'a ModuleCommit) -> StoredCommit<'a> {
    StoredCommit {
        repositories: proxy.inner.hosted.repositories(),
        identifier: &at.repo.identifier,
        commit: &at.commit,
    }
}

fn log(at: &ModuleCommit, writer: &Writer, error: &WriteError) {
    let (module, version) = (&at.module.path, &at.module.version);
    if writer.is_abandoned() || matches!(error, WriteError::Output(_)) {
        tracing::debug!(%module, %version, "a zip was not taken to its end");
    } else {
        tracing::warn!(%module, %version, %error, "a zip could not be made");
    }
}
