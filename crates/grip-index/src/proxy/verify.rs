//! Verification of the checksum database against the repositories.

use grip_go::{ModulePath, Version};
use grip_types::ErrorChain;

use super::{Proxy, ProxyError, indexed_versions::IndexedVersion, module_reader::ModuleCommit};
use crate::{Audience, Finding, Record, Sums, Verified};

impl Proxy {
    /// Verifies one page of the log: its tiles, and the sums of every record whose files are here.
    pub async fn verify(&self, page: u64) -> Result<Verified, ProxyError> {
        let Some(sumdb) = self.sumdb() else {
            return Err(ProxyError::not_found(
                "sumdb",
                "this node logs no checksums",
            ));
        };
        let (records, mut verified) = sumdb.verify_page(page).await?;
        for record in records {
            let what = format!("{}@{}", record.path, record.version);
            match self.sums_now(&record).await {
                Ok(sums) if record.has(&sums) => verified.matched += 1,
                Ok(sums) => {
                    let why = format!("its files have the sums {} and {}", sums.zip, sums.go_mod);
                    verified.wrong.push(Finding::new(what, why));
                }
                Err(ProxyError::NotFound { reason, .. }) => {
                    verified.not_here.push(Finding::new(what, reason));
                }
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => verified.wrong.push(Finding::new(what, ErrorChain(&error))),
            }
        }
        Ok(verified)
    }

    /// The sums of the files that a record was made of.
    async fn sums_now(&self, record: &Record) -> Result<Sums, ProxyError> {
        let at = self.recorded(record).await?;
        self.sums(&self.inner.recording, &at).await
    }

    /// The commit of a record, whether or not anything lists it still.
    async fn recorded(&self, record: &Record) -> Result<ModuleCommit, ProxyError> {
        let gone = |reason: &str| ProxyError::not_found(&record.path, reason);
        let path = ModulePath::parse(&record.path).map_err(|_| gone("no module path"))?;
        let version = Version::parse(&record.version).map_err(|_| gone("no version"))?;
        let Some(tag) = record.tag.clone() else {
            return self.locate(&path, &version).await;
        };
        let commit = record.commit.parse();
        let recorded = IndexedVersion {
            version,
            repo: record.repo.clone(),
            tag,
            commit: commit.map_err(|_| gone("no commit"))?,
            audience: Audience::Anybody,
        };
        let root = self.root_of(&path, &recorded);
        let root = root.ok_or_else(|| gone("its repository is not served here"))?;
        self.read_module(&self.inner.reads, root, &path, move |reader| {
            reader.recorded(&recorded)
        })
        .await
    }
}
