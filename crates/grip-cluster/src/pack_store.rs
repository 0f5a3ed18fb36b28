//! Packs in the object store that all nodes share: a directory or an S3 bucket, each file once under the
//! digest of its content.
//!
//! Nothing depends on who writes first: two files of one name are the same. Small files are put
//! create-only, so that what is there is never written again.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use futures_util::{Stream, TryStreamExt as _, future};
use grip_bucket::{CheckError, OpenError};
use grip_git::{CacheCounter, CacheUse, PackFile};
use grip_tasks::JoinHandle;
use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, WriteMultipart, path::Path,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufWriter};

/// Where files are, and where each cluster that has some there says so.
const FILES: &str = "packs";
const MARKS: &str = "clusters";

/// Bytes of a file that are in memory at once; a file of no more is put whole.
const PIECE: usize = 8 << 20;
/// Pieces of one upload that are under way.
const MAX_PIECES: usize = 4;

/// Bytes of a fetched file that are handed to the disk at once.
const WRITTEN_AT_ONCE: usize = 1 << 20;
/// Bytes of it that are synced together, while further ones come: a reader that needs it whole on disk waits for
/// the last of them alone.
const SYNCED_AT_ONCE: u64 = 16 << 20;

/// Files by their digests. Cheap to clone.
#[derive(Clone)]
pub struct PackStore {
    store: Arc<dyn ObjectStore>,
    /// Requests for packs of it: goes on when a follower begins to lead.
    pub(crate) requests: CacheCounter,
}

impl PackStore {
    /// Opens the store at a directory, which is made if need be, or at `s3://bucket/prefix`; see
    /// [`grip_bucket::open`].
    pub fn open(place: &str) -> Result<Self, OpenError> {
        let store = grip_bucket::open(place)?;
        Ok(Self {
            store,
            requests: CacheCounter::default(),
        })
    }

    /// How often requests of clients found all packs on the disk of this node, since its start.
    pub(crate) fn cache_use(&self) -> CacheUse {
        self.requests.read()
    }

    /// Sees that the store keeps what it acknowledges, and lets nobody overwrite it.
    pub async fn check(&self) -> Result<(), CheckError> {
        grip_bucket::check(&*self.store).await
    }

    /// Why the store does not answer; none where it does. It is asked for an object that nobody puts.
    pub async fn failure(&self) -> Option<String> {
        let looked = self.has(&Path::from("check/look"), 0).await;
        looked.err().map(|error| grip_bucket::in_words(&error))
    }

    /// Puts a file there, unless it is there in this generation; durable on return.
    pub(crate) async fn put(&self, path: &FilePath, generation: u64) -> io::Result<PackFile> {
        let (digest, size_bytes) = digest_of(path.to_owned()).await?;
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let stored = PackFile {
            extension: extension.into_owned(),
            size_bytes,
            digest,
            generation,
        };
        let place = place_of(&stored)?;
        let put = if size_bytes > PIECE as u64 {
            self.put_pieces(&place, path, size_bytes).await
        } else {
            self.put_whole(&place, tokio::fs::read(path).await?).await
        };
        put.map_err(|error| not_stored(path, error))?;
        Ok(stored)
    }

    /// Puts a small file there in one request, unless it is.
    async fn put_whole(&self, place: &Path, content: Vec<u8>) -> Result<(), Error> {
        let (size_bytes, content) = (content.len() as u64, bytes::Bytes::from(content));
        let create = PutOptions::from(PutMode::Create);
        let created = self.store.put_opts(place, content.clone().into(), create);
        match created.await {
            Ok(_) => return Ok(()),
            Err(Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
        if !self.has(place, size_bytes).await? {
            // What is there is not what it should be.
            self.store.put(place, content.into()).await?;
        }
        Ok(())
    }

    /// Puts a large file there, a piece at a time, unless it is.
    async fn put_pieces(
        &self,
        place: &Path,
        path: &FilePath,
        size_bytes: u64,
    ) -> Result<(), Error> {
        if self.has(place, size_bytes).await? {
            return Ok(());
        }
        let upload = self.store.put_multipart(place).await?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PIECE);
        match send_pieces(&mut upload, path).await {
            Ok(()) => upload.finish().await.map(drop),
            Err(error) => {
                // Best effort: what is left of it is for the store's own rules to remove.
                let _ = upload.abort().await;
                Err(error)
            }
        }
    }

    /// Says whether an object of this size is there.
    async fn has(&self, place: &Path, size_bytes: u64) -> Result<bool, Error> {
        match self.store.head(place).await {
            Ok(found) => Ok(found.size == size_bytes),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts the mark of a cluster there, unless it is; durable on return.
    pub(crate) async fn put_mark(&self, mark: &str, cluster: &str) -> io::Result<()> {
        let place = Path::from(format!("{MARKS}/{mark}"));
        let create = PutOptions::from(PutMode::Create);
        let content = cluster.to_owned().into_bytes();
        match self.store.put_opts(&place, content.into(), create).await {
            Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// The marks of all clusters that have files there.
    pub(crate) async fn marks(&self) -> io::Result<Vec<String>> {
        let found = self.store.list(Some(&Path::from(MARKS)));
        let marks = found.map_err(io::Error::from).try_filter_map(|found| {
            let mark = found.location.filename().map(str::to_owned);
            future::ready(Ok(mark))
        });
        marks.try_collect().await
    }

    /// Every file, with its size.
    pub(crate) fn list(&self) -> impl Stream<Item = io::Result<(FileName, u64)>> {
        let found = self.store.list(Some(&Path::from(FILES)));
        found.map_err(io::Error::from).try_filter_map(|found| {
            let name = found.location.filename().and_then(FileName::parse);
            future::ready(Ok(name.map(|name| (name, found.size))))
        })
    }

    /// Removes a file that nobody needs any more.
    pub(crate) async fn remove(&self, file: &FileName) -> io::Result<()> {
        match self.store.delete(&file.place()).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Writes a file of the store to `to`, and checks that it is what it was. The end of it is not durable on
    /// return: who keeps the file syncs it.
    pub(crate) async fn get(&self, wanted: &PackFile, to: &FilePath) -> io::Result<()> {
        let found = self.store.get(&place_of(wanted)?).await?;
        let mut chunks = found.into_stream();
        let file = tokio::fs::File::create(to).await?;
        let mut file = BufWriter::with_capacity(WRITTEN_AT_ONCE, file);
        let (mut hasher, mut size) = (blake3::Hasher::new(), 0);
        let (mut synced, mut syncing) = (0, None);
        while let Some(chunk) = chunks.try_next().await? {
            size += chunk.len() as u64;
            if size > wanted.size_bytes {
                break;
            }
            hasher.update(&chunk);
            file.write_all(&chunk).await?;
            if size - synced >= SYNCED_AT_ONCE {
                synced = size;
                file.flush().await?;
                if let Some(before) = syncing.replace(sync(file.get_ref()).await?) {
                    before.await.map_err(io::Error::other)??;
                }
            }
        }
        file.flush().await?;
        if let Some(last) = syncing {
            last.await.map_err(io::Error::other)??;
        }
        if size == wanted.size_bytes && hasher.finalize().to_hex().as_str() == wanted.digest {
            Ok(())
        } else {
            let text = format!("{} is not what it was in the store of packs", wanted.digest);
            Err(io::Error::new(io::ErrorKind::InvalidData, text))
        }
    }
}

/// Begins to sync what was written to a file.
async fn sync(file: &tokio::fs::File) -> io::Result<JoinHandle<io::Result<()>>> {
    let file = file.try_clone().await?.into_std().await;
    Ok(grip_tasks::spawn_blocking(move || file.sync_data()))
}

async fn send_pieces(upload: &mut WriteMultipart, path: &FilePath) -> Result<(), Error> {
    let unread = |error| Error::Generic {
        store: "file",
        source: Box::new(error),
    };
    let mut file = tokio::fs::File::open(path).await.map_err(unread)?;
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece).await.map_err(unread)?;
        if read == 0 {
            return Ok(());
        }
        upload.wait_for_capacity(MAX_PIECES).await?;
        upload.write(&piece[..read]);
    }
}

/// What a pusher is told; the log has the cause.
fn not_stored(path: &FilePath, error: Error) -> io::Error {
    let file = path.file_name().unwrap_or_default().display();
    let error = grip_bucket::in_words(&error);
    tracing::warn!(%file, error, "failed to store a pack for the cluster");
    io::Error::other(
        "the object store of the cluster does not take packs at the moment: push again later",
    )
}

async fn digest_of(path: PathBuf) -> io::Result<(String, u64)> {
    let digesting = grip_tasks::spawn_blocking(move || {
        let mut file = File::open(path)?;
        let (mut hasher, mut size) = (blake3::Hasher::new(), 0);
        let mut piece = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut piece)?;
            if read == 0 {
                return Ok((hasher.finalize().to_hex().to_string(), size));
            }
            hasher.update(&piece[..read]);
            size += read as u64;
        }
    });
    digesting.await.map_err(io::Error::other)?
}

/// The name of a file in the store: the digest of its content, and the generation in which it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileName {
    digest: blake3::Hash,
    pub(crate) generation: u64,
}

impl FileName {
    pub(crate) fn of(file: &PackFile) -> Option<Self> {
        Some(Self {
            digest: blake3::Hash::from_hex(&file.digest).ok()?,
            generation: file.generation,
        })
    }

    /// Reads what [`fmt::Display`] writes; none for anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (digest, generation) = match text.split_once('.') {
            Some((digest, generation)) => (digest, generation.parse().ok()?),
            None => (text, 0),
        };
        let name = Self {
            digest: blake3::Hash::from_hex(digest).ok()?,
            generation,
        };
        (name.to_string() == text).then_some(name)
    }

    pub(crate) fn digest(&self) -> String {
        self.digest.to_hex().to_string()
    }

    /// A directory has a few hundred others in it, and each of them a share of the files.
    fn place(&self) -> Path {
        let first = &self.digest.to_hex()[..2];
        Path::from(format!("{FILES}/{first}/{self}"))
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.digest.to_hex())?;
        match self.generation {
            0 => Ok(()),
            generation => write!(f, ".{generation}"),
        }
    }
}

fn place_of(file: &PackFile) -> io::Result<Path> {
    let name = FileName::of(file);
    let name = name.ok_or_else(|| io::Error::other("a record names a file by no digest"))?;
    Ok(name.place())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one piece and a bit, and of as many as are synced while others come.
    #[tokio::test]
    async fn a_file_is_given_back_as_it_was_or_not_at_all() {
        for size in [PIECE + 3, 2 * SYNCED_AT_ONCE as usize + 3] {
            let dir = tempfile::tempdir().unwrap();
            let store = PackStore::open(dir.path().join("store").to_str().unwrap()).unwrap();
            store.check().await.unwrap();
            let file = dir.path().join("pack-1.pack");
            let content: Vec<u8> = (0..size).map(|at| (at / 1_000) as u8).collect();
            std::fs::write(&file, &content).unwrap();
            let put = store.put(&file, 3).await.unwrap();
            assert_eq!(
                (put.extension.as_str(), put.size_bytes),
                ("pack", size as u64)
            );
            assert_eq!(store.put(&file, 3).await.unwrap(), put);
            let copy = dir.path().join("copy");
            store.get(&put, &copy).await.unwrap();
            assert!(std::fs::read(&copy).unwrap() == content);

            let stored = place_of(&put).unwrap().to_string();
            let stored = dir.path().join("store").join(stored);
            let mut corrupted = content.clone();
            corrupted[size - 1] ^= 1;
            let too_long = [&*content, &[7; 5]].concat();
            for other in [&*corrupted, &too_long, &content[..size - 1]] {
                std::fs::write(&stored, other).unwrap();
                let error = store.get(&put, &copy).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            }
        }
    }
}
