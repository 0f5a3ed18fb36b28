//! One commit of another server with all its files and without its history.

use grip_types::{Identifier, Oid};
use tokio::io::AsyncRead;

use super::{Caps, Quarantine, ReceiveError, RestsOn, blocking, hang_up};
use crate::{
    objects::{CommitFacts, FileAt, ReadError, Reader, TreeBounds, TreeEntry, TreeError},
    remote::{RemoteError, Version, open_pack},
    repositories::{Failure, RepoError, Repositories, list},
};

/// A commit with all its files, in no store. Dropping it removes it. All reading blocks.
#[must_use = "dropping the snapshot removes its files"]
pub struct Snapshot {
    quarantine: Quarantine,
    commit: Oid,
}

impl Repositories {
    /// Takes the response to [`fetch_snapshot_v2`](crate::remote::fetch_snapshot_v2). What it holds
    /// is checked as a push is, and has nothing to do with what is here: `identifier` says whose
    /// share of the memory that takes.
    pub async fn receive_snapshot<R>(
        &self,
        identifier: &Identifier,
        mut body: R,
        commit: Oid,
        caps: Caps,
    ) -> Result<Snapshot, ReceiveError>
    where
        R: AsyncRead + Send + Unpin,
    {
        let rests = RestsOn::NothingBelow(commit);
        let received = match open_pack(&mut body, Version::V2).await {
            Ok(mut pack) => self.receive_into(identifier, rests, &mut pack, caps).await,
            Err(error) => Err(error.into()),
        };
        hang_up(&mut body).await;
        drop(body);
        let snapshot = Snapshot {
            quarantine: received?,
            commit,
        };
        let (found, snapshot) = blocking(move || Ok((snapshot.facts(), snapshot))).await?;
        match found? {
            Some(facts) if facts.oid == commit => Ok(snapshot),
            _ => Err(RemoteError::NotOurRef(commit).into()),
        }
    }
}

impl Snapshot {
    /// The commit; `None` if it is not in what was sent.
    fn facts(&self) -> Result<Option<CommitFacts>, RepoError> {
        match self.read(|reader| reader.commit(&self.commit)) {
            Err(RepoError::Missing { oid, .. }) if oid == self.commit => Ok(None),
            found => found,
        }
    }

    /// What the commit says.
    pub fn commit(&self) -> Result<CommitFacts, RepoError> {
        let identifier = self.quarantine.identifier().clone();
        let oid = self.commit;
        self.facts()?.ok_or(RepoError::Missing { identifier, oid })
    }

    /// As [`Repositories::file`].
    pub fn file(&self, path: &str, max_bytes: u64) -> Result<FileAt, RepoError> {
        self.read(|reader| reader.file(&reader.tree_of(&self.commit)?, path, max_bytes))
    }

    /// As [`Repositories::blob`].
    pub fn blob(&self, oid: &Oid, max_bytes: u64) -> Result<FileAt, RepoError> {
        self.read(|reader| reader.blob(oid, max_bytes))
    }

    /// As [`Repositories::tree`].
    pub fn tree(&self, dir: &str, bounds: TreeBounds) -> Result<Vec<TreeEntry>, TreeError> {
        self.read(|reader| list(reader, &self.commit, dir, bounds))?
    }

    fn read<T>(&self, read: impl Fn(&Reader) -> Result<T, ReadError>) -> Result<T, RepoError> {
        let missing = || Err(ReadError::Missing(self.commit));
        let pack = self.quarantine.pack.as_ref();
        let found = pack.map_or_else(missing, |pack| read(&pack.objects.reader()));
        found.map_err(|error| Failure::Object(error).into_error(self.quarantine.identifier()))
    }
}
