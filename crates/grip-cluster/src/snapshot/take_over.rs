//! A snapshot that an empty copy begins with.

use std::{fs, path::Path, sync::Arc};

use grip_tasks::fault;

use super::{Snapshot, file::Reader};
use crate::{FollowError, Follower, cluster::Record, follower::Shared};

/// The name of the file while it is read, in the data directory.
const FILE: &str = "snapshot.taken";

impl Follower {
    /// Makes an empty copy what a snapshot says. One that was cut short takes the same snapshot over again.
    pub async fn take_over(&self, snapshot: &Snapshot) -> Result<(), FollowError> {
        let shared = &self.shared;
        let _applying = shared.applying.lock().await;
        let path = shared.position.directory().join(FILE);
        let unreadable = |source| FollowError::Snapshot {
            seq: snapshot.tip().seq,
            source,
        };
        let fetched = shared.packs.get(&snapshot.file(), &path).await;
        fetched.map_err(unreadable)?;
        let (copy, wanted, file) = (Arc::clone(shared), snapshot.clone(), path.clone());
        let taking = shared
            .group
            .spawn_blocking("cluster.apply", move || copy.take_over(&file, &wanted));
        taking.await.map_err(|_| FollowError::Stopped)??;
        // Best effort: the next one is written over it.
        let _ = fs::remove_file(path);
        Ok(())
    }
}

impl Shared {
    fn take_over(&self, path: &Path, snapshot: &Snapshot) -> Result<(), FollowError> {
        let tip = snapshot.tip();
        let seq = tip.seq;
        let unreadable = |source| FollowError::Snapshot { seq, source };
        let (reader, found) = Reader::open(path).map_err(unreadable)?;
        if found != tip {
            let source = std::io::ErrorKind::InvalidData.into();
            return Err(FollowError::Snapshot { seq, source });
        }
        for change in reader {
            let (kind, payload) = change.map_err(unreadable)?;
            let record = Record {
                seq: snapshot.seq,
                kind: kind.to_owned(),
                payload,
                digest: String::new(),
            };
            self.apply(seq, &record)?;
            fault::point("cluster.snapshot_applied");
        }
        self.position.write(&tip)?;
        self.applied.send_replace(tip);
        Ok(())
    }
}
