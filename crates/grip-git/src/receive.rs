//! Receiving a pack: streamed into the quarantine, checked there by git, then promoted.

use std::{io, process::Stdio, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use grip_tasks::UploadProgress;
use grip_types::{Identifier, Oid};
use rustix::process::Pid;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::ChildStdin,
    time,
};

use crate::{
    memory::{MemoryFull, MemoryPermit, Payer},
    packs::{MEMORY_PER_OBJECT, QuarantineDir, QuarantinedPack},
    process::{limit_memory_of, read_bounded},
    remote::RemoteError,
    repositories::{DiskFull, DiskUser, RepoError, Repositories},
};

mod fetched;
mod git_error;
mod prune;
mod quarantine;
mod restored;
mod snapshot;

pub use fetched::hang_up;
pub use prune::Pruned;
pub use quarantine::Quarantine;
pub use snapshot::Snapshot;

/// Faults of old histories that hosting services let pass. Anything about paths stays an error:
/// names such as `.git` and `..` attack those who check the commit out.
const LENIENT: &str = "--strict=badDate=ignore,badDateOverflow=ignore,badEmail=ignore,\
    badName=ignore,badTimezone=ignore,missingEmail=ignore,missingNameBeforeEmail=ignore,\
    missingSpaceBeforeDate=ignore,missingSpaceBeforeEmail=ignore,missingTaggerEntry=ignore,\
    badTagName=ignore,multipleAuthors=ignore,nulInCommit=ignore,zeroPaddedDate=ignore,\
    zeroPaddedFilemode=ignore";

/// Bytes moved at a time, and asked for as the size of the pipe.
pub(crate) const CHUNK: usize = 256 << 10;

/// Memory to take a pack in, beside that for each of its objects.
const MEMORY_TO_TAKE_IN: u64 = 64 << 20;
/// Memory to apply its deltas, beside some for each of its bytes: they are held whole, and a few bytes
/// can stand for gigabytes.
const MEMORY_FOR_DELTAS: u64 = 256 << 20;
const MEMORY_PER_BYTE: u64 = 8;

/// The end of a pack. Git applies the deltas as soon as it has seen it; until then the upload holds no
/// memory for that, however slow it is.
const TRAILER: usize = 20;
/// After so long without a byte that may have been the end.
const PAUSE: Duration = Duration::from_secs(1);

/// Bytes of an upload after which the free space on disk is looked at again.
pub(crate) const BYTES_PER_LOOK: u64 = 16 << 20;
/// How often that is done while git writes: bases of deltas that came without are no bytes of the upload.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a pack was not taken; nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    #[error("the pack is larger than the {limit} bytes allowed here")]
    TooBig { limit: u64 },
    #[error("no byte of the pack arrived for {} s", .0.as_secs())]
    Stalled(Duration),
    #[error("the connection broke while the pack was sent")]
    Client(#[source] io::Error),
    #[error("the upload ended before the pack was complete")]
    Truncated,
    #[error("the pack is corrupt: {0}")]
    Corrupt(String),
    #[error("the pack needs object {0}, which is neither in it nor here")]
    MissingObject(String),
    #[error("the pack holds deltas against objects that are neither in it nor here")]
    MissingBase,
    #[error("the pack holds a malformed or dangerous object: {0}")]
    Forbidden(String),
    #[error("the pack inflates to more than can be checked here")]
    Bomb,
    #[error("checking the pack took longer than {} s", .0.as_secs())]
    TooSlow(Duration),
    #[error("git did not take the pack: {0}")]
    Refused(String),
    /// It comes from another server, whose answer holds no pack.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Repository(#[from] RepoError),
    #[error(transparent)]
    DiskFull(#[from] DiskFull),
    #[error(transparent)]
    MemoryFull(#[from] MemoryFull),
    #[error("the pack could not be stored")]
    Io(#[from] io::Error),
}

impl ReceiveError {
    /// Says whether the fault is ours, and the same push may succeed later.
    pub fn is_ours(&self) -> bool {
        matches!(
            self,
            Self::TooSlow(_)
                | Self::Repository(_)
                | Self::DiskFull(_)
                | Self::MemoryFull(_)
                | Self::Io(_)
        )
    }

    /// Says whether this node failed whatever had been sent. A pack can be made to take too long, or too
    /// much memory or disk: that is no such failure.
    pub fn is_node_fault(&self) -> bool {
        matches!(self, Self::Repository(_) | Self::Io(_))
    }

    /// What a remote server did, if the pack came from one and that is why.
    pub fn remote(&self) -> Option<&RemoteError> {
        match self {
            Self::Remote(error) => Some(error),
            Self::Client(error) => RemoteError::inside(error),
            _ => None,
        }
    }
}

/// Where objects may be that a received pack links to and does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestsOn {
    /// In the store of its identifier.
    Store,
    Nothing,
    /// Nowhere, but the parents of this commit count as none.
    NothingBelow(Oid),
}

/// What one pack may cost.
#[derive(Clone)]
pub struct Caps {
    pub max_pack_bytes: u64,
    /// How long no byte of the pack may come.
    pub stall: Duration,
    /// Whose share of the memory it takes to check it.
    pub payer: Payer,
    /// That of the upload it comes with, which makes room where others wait for memory.
    pub progress: Option<Arc<UploadProgress>>,
    /// Whose bytes they are on the disk.
    pub disk_user: DiskUser,
}

impl Repositories {
    /// Streams a pack into quarantine and checks it there, links to objects we have included.
    ///
    /// `pack` is read to its end, or to the end of the pack. Memory does not grow with the pack:
    /// git indexes it in a process of its own, which is killed when the future is dropped.
    pub async fn receive<R>(
        &self,
        identifier: &Identifier,
        pack: R,
    ) -> Result<Quarantine, ReceiveError>
    where
        R: AsyncRead + Send + Unpin,
    {
        let options = &self.inner.options;
        let caps = Caps {
            max_pack_bytes: options.max_pack_bytes,
            stall: options.stall,
            payer: Payer::Unknown,
            progress: None,
            disk_user: DiskUser::Maintainer,
        };
        self.receive_within(identifier, pack, caps).await
    }

    /// As [`Self::receive`], with limits of its own.
    pub async fn receive_within<R>(
        &self,
        identifier: &Identifier,
        mut pack: R,
        caps: Caps,
    ) -> Result<Quarantine, ReceiveError>
    where
        R: AsyncRead + Send + Unpin,
    {
        let rests = RestsOn::Store;
        self.receive_into(identifier, rests, &mut pack, caps).await
    }

    /// As [`Self::receive_within`], for a contributor repository: the pack has to be complete in
    /// itself, and nothing that is here counts for it.
    pub async fn receive_apart<R>(
        &self,
        identifier: &Identifier,
        mut pack: R,
        caps: Caps,
    ) -> Result<Quarantine, ReceiveError>
    where
        R: AsyncRead + Send + Unpin,
    {
        let rests = RestsOn::Nothing;
        self.receive_into(identifier, rests, &mut pack, caps).await
    }

    fn receive_into<'a>(
        &'a self,
        identifier: &'a Identifier,
        rests: RestsOn,
        pack: &'a mut (dyn AsyncRead + Send + Unpin),
        caps: Caps,
    ) -> BoxFuture<'a, Result<Quarantine, ReceiveError>> {
        Box::pin(async move {
            let options = &self.inner.options;
            self.has_free_space(caps.disk_user).await?;
            let budget = &self.inner.memory;
            let memory = budget.acquire(caps.payer, identifier, MEMORY_TO_TAKE_IN);
            let mut memory = memory.await?;
            if let Some(progress) = &caps.progress {
                memory.may_make_room(progress.clone());
            }
            let dir = self.new_quarantine(identifier, rests).await?;
            let command = self.index_pack(&dir, rests);
            let mut running = self.inner.git.start(command, &memory).await?;
            // Bases that came without are added to the pack.
            running.limit_file_size(caps.max_pack_bytes.saturating_mul(2));
            let mut memory = GrowingMemory {
                permit: memory,
                process: running.id(),
            };
            let feed = self.feed(pack, running.stdin(), &mut memory, &caps);
            let (stdout, stderr) = (running.stdout(), running.stderr());
            let finish = async {
                tokio::try_join!(read_bounded(stdout), read_bounded(stderr), running.wait())
            };
            let disk_full = self.disk_full(caps.disk_user);
            tokio::pin!(finish, disk_full);
            let (said, complaint, status) = tokio::select! {
                // Git may find the fault, or the end of the pack, before the client has sent all.
                finished = &mut finish => finished?,
                full = &mut disk_full => return Err(full),
                fed = feed => {
                    fed?;
                    tokio::select! {
                        finished = time::timeout(options.work_limit, finish) => {
                            finished.map_err(|_| ReceiveError::TooSlow(options.work_limit))??
                        }
                        full = disk_full => return Err(full),
                    }
                }
            };
            if !status.success() {
                return Err(git_error::from_complaint(status, &complaint));
            }
            let hash = said.trim().strip_prefix("pack\t").unwrap_or_default();
            let is_apart = rests != RestsOn::Store;
            let whole = self.quarantine(identifier, is_apart, None, caps.payer);
            whole.seal(dir, hash).await
        })
    }

    /// What a push that only deletes refs has instead of a pack.
    pub fn no_pack(&self, identifier: &Identifier) -> Quarantine {
        self.quarantine(identifier, false, None, Payer::Unknown)
    }

    /// The same for a contributor repository.
    pub fn no_pack_apart(&self, identifier: &Identifier) -> Quarantine {
        self.quarantine(identifier, true, None, Payer::Unknown)
    }

    pub(crate) fn quarantine(
        &self,
        identifier: &Identifier,
        is_apart: bool,
        pack: Option<QuarantinedPack>,
        payer: Payer,
    ) -> Quarantine {
        Quarantine {
            repositories: self.clone(),
            identifier: identifier.clone(),
            is_apart,
            pack,
            payer,
            _receiving: self.inner.packs.receive(identifier),
        }
    }

    async fn new_quarantine(
        &self,
        identifier: &Identifier,
        rests: RestsOn,
    ) -> Result<QuarantineDir, ReceiveError> {
        if rests == RestsOn::Store {
            self.inner.packs.count_request(identifier);
            return self.quarantine_dir(identifier).await;
        }
        let (inner, identifier) = (self.inner.clone(), identifier.clone());
        blocking(move || {
            let dir = inner.packs.quarantine_dir_apart(&identifier)?;
            if let RestsOn::NothingBelow(commit) = rests {
                dir.write_shallow(&commit)?;
            }
            Ok(dir)
        })
        .await
    }

    pub(crate) async fn quarantine_dir(
        &self,
        identifier: &Identifier,
    ) -> Result<QuarantineDir, ReceiveError> {
        let (inner, identifier) = (self.inner.clone(), identifier.clone());
        blocking(move || {
            let turn = inner.lock(&identifier);
            inner.packs.ensure(&identifier)?;
            let in_use = inner.packs.borrow(&identifier);
            let receiving = inner.packs.receive(&identifier);
            drop(turn);
            let packs = &inner.packs;
            packs.warm(&identifier)?;
            packs.quarantine_dir(&identifier, in_use, Some(receiving))
        })
        .await
    }

    async fn has_free_space(&self, disk_user: DiskUser) -> Result<(), ReceiveError> {
        self.has_room(disk_user, 0).await
    }

    pub(crate) async fn has_room(
        &self,
        disk_user: DiskUser,
        bytes: u64,
    ) -> Result<(), ReceiveError> {
        let repositories = self.clone();
        let checked = blocking(move || Ok(repositories.check_room(disk_user, bytes))).await?;
        Ok(checked?)
    }

    /// Resolves when there is too little free space. Cancel safe.
    async fn disk_full(&self, disk_user: DiskUser) -> ReceiveError {
        loop {
            time::sleep(LOOK_EVERY).await;
            if let Err(full) = self.has_free_space(disk_user).await {
                return full;
            }
        }
    }

    /// Passes the client's bytes on to git, within the limits. The last few are held back until the
    /// pack seems whole and there is memory for its deltas.
    async fn feed(
        &self,
        pack: &mut (dyn AsyncRead + Send + Unpin),
        stdin: Option<ChildStdin>,
        memory: &mut GrowingMemory,
        caps: &Caps,
    ) -> Result<(), ReceiveError> {
        let &Caps {
            max_pack_bytes: limit,
            stall,
            ..
        } = caps;
        let mut stdin = stdin.ok_or_else(|| io::Error::other("git has no standard input"))?;
        enlarge_pipe(&stdin);
        let mut chunk = vec![0; CHUNK + TRAILER];
        let (mut total, mut held, mut next_look) = (0, 0, BYTES_PER_LOOK);
        let mut header = PackHeader::default();
        loop {
            let patience = if held > 0 { PAUSE.min(stall) } else { stall };
            let read = time::timeout(patience, pack.read(&mut chunk[held..])).await;
            if read.is_err() && held > 0 {
                // It may have been the end, though the line is kept open.
                memory.grow_for_deltas(total, limit).await?;
                if is_end_of_input(stdin.write_all(&chunk[..held]).await)? {
                    return Ok(());
                }
                held = 0;
                continue;
            }
            let read = read
                .map_err(|_| ReceiveError::Stalled(stall))?
                .map_err(ReceiveError::Client)?;
            total += read as u64;
            if total > limit {
                return Err(ReceiveError::TooBig { limit });
            }
            if let Some(objects) = header.read(&chunk[held..held + read]) {
                memory.grow_for_objects(objects).await?;
            }
            if total > next_look {
                self.has_free_space(caps.disk_user).await?;
                next_look = total + BYTES_PER_LOOK;
            }
            let there = held + read;
            held = if read == 0 { 0 } else { there.min(TRAILER) };
            if read == 0 {
                memory.grow_for_deltas(total, limit).await?;
            }
            let is_over = is_end_of_input(stdin.write_all(&chunk[..there - held]).await)?;
            if is_over || read == 0 {
                return Ok(());
            }
            chunk.copy_within(there - held..there, 0);
        }
    }

    fn index_pack(&self, dir: &QuarantineDir, rests: RestsOn) -> std::process::Command {
        // We sync ourselves, both files at once; reverse indexes come with a repack.
        let mut command = self.inner.git.command([
            "-c",
            "core.fsync=none",
            "-c",
            "pack.writeReverseIndex=false",
            "index-pack",
            "--stdin",
            "--fix-thin",
            LENIENT,
        ]);
        dir.confine(&mut command, None);
        if let RestsOn::NothingBelow(_) = rests {
            command.env("GIT_SHALLOW_FILE", dir.shallow());
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

impl Quarantine {
    /// Makes what git wrote durable, before the identifier's turn is taken for it.
    async fn seal(mut self, dir: QuarantineDir, hash: &str) -> Result<Self, ReceiveError> {
        let hash: Oid = hash
            .trim()
            .parse()
            .map_err(|_| ReceiveError::Refused("it did not name the pack".to_owned()))?;
        self.pack = blocking(move || dir.seal(&hash)).await?;
        Ok(self)
    }
}

/// Git has seen enough: its exit status says whether of good or of bad.
fn is_end_of_input(written: io::Result<()>) -> io::Result<bool> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        written => written.map(|()| false),
    }
}

/// The memory of a process that takes a pack in, which gets more as the pack turns out larger.
struct GrowingMemory {
    permit: MemoryPermit,
    /// Not reaped while the pack is fed to it.
    process: Option<Pid>,
}

impl GrowingMemory {
    async fn grow_for_objects(&mut self, objects: u32) -> Result<(), MemoryFull> {
        let objects = u64::from(objects).saturating_mul(MEMORY_PER_OBJECT);
        let bytes = MEMORY_TO_TAKE_IN.saturating_add(objects);
        self.grow(bytes, bytes).await
    }

    /// Some for each byte of the pack, as far as it may be large at most; more only if it is free, since
    /// few packs have deltas that stand for much.
    async fn grow_for_deltas(&mut self, bytes: u64, limit: u64) -> Result<(), MemoryFull> {
        if bytes < TRAILER as u64 {
            return Ok(());
        }
        let of_pack = bytes.saturating_mul(MEMORY_PER_BYTE).min(limit);
        let least = MEMORY_TO_TAKE_IN.saturating_add(of_pack);
        let wanted = MEMORY_FOR_DELTAS.saturating_add(of_pack);
        self.grow(least, wanted).await
    }

    async fn grow(&mut self, least: u64, wanted: u64) -> Result<(), MemoryFull> {
        self.permit.grow(least, wanted).await?;
        if let Some(process) = self.process {
            limit_memory_of(process, &self.permit);
        }
        Ok(())
    }
}

/// The first bytes of a pack, which say how many objects it has.
#[derive(Default)]
struct PackHeader {
    bytes: Vec<u8>,
}

impl PackHeader {
    const LEN: usize = 12;

    /// The number of objects, once, when the header is whole.
    fn read(&mut self, next: &[u8]) -> Option<u32> {
        let lacks = Self::LEN - self.bytes.len();
        if lacks == 0 {
            return None;
        }
        self.bytes.extend_from_slice(&next[..lacks.min(next.len())]);
        let count = self.bytes.get(8..Self::LEN)?;
        Some(u32::from_be_bytes(count.try_into().expect("four bytes")))
    }
}

pub(crate) async fn blocking<T, F>(work: F) -> Result<T, ReceiveError>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    let done = grip_tasks::spawn_blocking(work).await;
    Ok(done.map_err(io::Error::other)??)
}

/// Fewer switches between the processes; without it the transfer is only slower.
pub(crate) fn enlarge_pipe(pipe: &impl std::os::fd::AsFd) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, CHUNK);
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}
