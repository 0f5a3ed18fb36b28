//! Hosts and bounds of fetched modules.

use std::{path::PathBuf, time::Duration};

use grip_egress::{Bearer, Egress};
use grip_git::Repositories;
use grip_tasks::TaskGroup;
use url::Url;

use super::SumCheck;

/// A host with repositories that the index lists.
pub struct UpstreamHost {
    /// What the names of its repositories in the index begin with.
    pub name: String,
    /// What their clone URLs begin with.
    pub url: Url,
    pub egress: Egress,
    /// For repositories that not everybody may see.
    pub credentials: Vec<Bearer>,
}

/// How much is fetched and kept.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// Most bytes of cached modules; default 2 GiB.
    pub cache_bytes: u64,
    /// Bytes that one network may have fetched in an hour; default 256 MiB.
    pub bytes_per_hour: u64,
    /// Most bytes of a commit with all its files, as git sends it; default 1 GiB.
    pub max_pack_bytes: u64,
    /// Most bytes of all files of a module; default 500 MiB, which is also go's limit.
    pub max_zip_bytes: u64,
    /// How long a host may send nothing; default 60 s.
    pub stall: Duration,
    /// How long a failure is believed; default 15 s.
    pub failure_for: Duration,
}

impl Default for UpstreamOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 2 << 30,
            bytes_per_hour: 256 << 20,
            max_pack_bytes: 1 << 30,
            max_zip_bytes: grip_go::zip::MAX_BYTES,
            stall: Duration::from_secs(60),
            failure_for: Duration::from_secs(15),
        }
    }
}

/// What an [`Upstream`](super::Upstream) is made of.
pub struct UpstreamParts {
    pub hosts: Vec<UpstreamHost>,
    pub repositories: Repositories,
    /// The directory of the cache.
    pub directory: PathBuf,
    pub options: UpstreamOptions,
    /// Another checksum database that public modules are checked against.
    pub checker: Option<SumCheck>,
    pub group: TaskGroup,
}
