//! The `.info` response of a version.

use bytes::Bytes;
use grip_go::Version;
use grip_types::{Oid, RefName};
use jiff::Timestamp;
use serde_json::json;

use super::{module_reader::ModuleCommit, upstream::ModuleFacts};
use crate::hosted::ModulePaths;

/// A version, when its commit was made, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    pub version: Version,
    /// When the commit was made, in milliseconds since 1970.
    pub committed_at_ms: i64,
    pub clone_url: String,
    /// The directory of the module in its repository; empty for the root.
    pub dir: String,
    pub commit: Oid,
    /// The tag or branch that leads to it, where one was named.
    pub reference: Option<RefName>,
}

impl Info {
    pub(super) fn of(at: ModuleCommit, module_paths: &ModulePaths) -> Self {
        Self {
            version: at.module.version,
            committed_at_ms: at.committed_at_ms,
            clone_url: module_paths.clone_url(&at.repo),
            dir: at.module.dir,
            commit: at.commit,
            reference: at.reference,
        }
    }

    /// The same of a module of another host; none for facts that were never written so.
    pub(super) fn of_fetched(
        facts: &ModuleFacts,
        clone_url: String,
        has_moved: bool,
    ) -> Option<Self> {
        let reference = RefName::parse(&format!("refs/tags/{}", facts.tag)).ok();
        Some(Self {
            version: Version::parse(&facts.version).ok()?,
            committed_at_ms: facts.committed_at_ms,
            clone_url,
            dir: facts.dir.clone(),
            commit: facts.commit.parse().ok()?,
            // Named only if it leads to what is served.
            reference: reference.filter(|_| !has_moved),
        })
    }

    /// The answer as go reads it.
    pub fn to_json(&self) -> Bytes {
        let time = Timestamp::from_second(self.committed_at_ms.div_euclid(1000));
        let mut origin = json!({
            "VCS": "git",
            "URL": self.clone_url,
            "Hash": self.commit.to_hex(),
        });
        if !self.dir.is_empty() {
            origin["Subdir"] = json!(self.dir);
        }
        if let Some(reference) = &self.reference {
            origin["Ref"] = json!(reference.as_str());
        }
        let info = json!({
            "Version": self.version.as_str(),
            "Time": time.unwrap_or_default().to_string(),
            "Origin": origin,
        });
        info.to_string().into()
    }
}
