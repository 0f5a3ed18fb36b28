//! Keys that all nodes of a cluster have: whichever leads, it is the same service.

use std::path::Path;

use anyhow::Context as _;
use grip_cluster::Cluster;

use crate::private_file;

/// The files of a data directory that make a node who it is.
const FILES: [&str; 4] = ["admin.token", "relay.key", "node.key", "sumdb.key"];

/// Has the keys of the cluster in this data directory.
pub(super) async fn take(cluster: &Cluster, data_dir: &Path) -> anyhow::Result<()> {
    for (file, key) in cluster.keys().await? {
        let path = data_dir.join(&file);
        let is_known = FILES.contains(&file.as_str());
        let is_there = private_file::read(&path).is_ok_and(|own| own == key);
        if is_known && !is_there {
            let put = private_file::put(&path, &key);
            put.with_context(|| format!("cannot keep a key in {}", path.display()))?;
        }
    }
    Ok(())
}

/// Makes the keys of this data directory those of the cluster, where it has none.
pub(super) async fn give(cluster: &Cluster, data_dir: &Path) -> anyhow::Result<()> {
    for file in FILES {
        if let Ok(key) = private_file::read(&data_dir.join(file)) {
            cluster.keep_key(file, &key).await?;
        }
    }
    Ok(())
}
