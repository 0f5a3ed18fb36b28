//! All repositories below one root.
//!
//! Methods that are not async block on the disk: call them where blocking is allowed. Changes to
//! one identifier are serialised here as well as by the caller, so that no caller can break a file.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use grip_tasks::fault;
use grip_types::{Identifier, Oid, RefEdit, RefName, RepoAddr};
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    bare::{self, Draft},
    change_log::{LoggedBy, LoggedChange, SetRef},
    disk,
    layout::{self, Layout},
    memory::{self, MemoryBudget, MemoryUse, Payer},
    packs::{CachedFrom, DamagedPack, Packs},
    process::{Finished, Git, GitMissing},
    refs::{self, MoveRecord, Ref, RefSnapshot, RefUpdateError},
    staged_uploads::{StagedUploads, StagingBudgets},
};

mod adopt;
mod apply;
mod archive;
mod cache;
mod collect;
mod discard;
mod disk_state;
mod former_tips;
mod free_space;
mod freeze;
mod hidden_tips;
mod objects;
mod prepare;
mod staged;
mod suspects;
mod tips;
mod withheld;

pub use adopt::AdoptError;
pub use apply::{Applied, FetchPackFile};
pub use archive::Archived;
pub use collect::{Garbage, GarbageRemoval};
pub use discard::Discarded;
pub use disk_state::StorePackFiles;
pub(crate) use free_space::free_bytes;
pub use free_space::{Disk, DiskFull, DiskUser};
pub use freeze::{FreezeProgress, Frozen, KeptObjects};
pub(crate) use objects::{Failure, list};
pub use prepare::Prepared;
pub use staged::{StageError, StagedTip};
pub(crate) use suspects::Suspects;
use withheld::WithheldSets;
pub use withheld::{NamedTips, WithheldTips};
pub(crate) use withheld::{ReadSeek, names_unshown};

/// How repositories are kept. All but `root` have a default.
#[derive(Clone, Debug)]
pub struct Options {
    pub root: PathBuf,
    /// The git program; default `git`, found through `PATH`.
    pub git: PathBuf,
    /// Largest pack taken; default 2 GiB.
    pub max_pack_bytes: u64,
    /// Largest body of a fetch request, inflated; default 64 MiB.
    pub max_request_bytes: u64,
    /// How long a client may send nothing; default 60 s.
    pub stall: Duration,
    /// How long git may work on a pack after its last byte came; default 15 min.
    pub work_limit: Duration,
    /// How long a fetch may go without a byte from git; default 120 s.
    pub upload_idle: Duration,
    /// Memory for refs, advertisements included; default 64 MiB.
    pub ref_cache_bytes: usize,
    /// Packs of one identifier beyond which maintenance rolls them up; default 20.
    pub max_packs: usize,
    /// Free bytes on disk below which no pack is taken; default 256 MiB.
    pub min_free_bytes: u64,
    /// The same for those who maintain nothing that is served here; default 1 GiB.
    pub stranger_min_free_bytes: u64,
    /// Other directories to whose disks this applies; default none.
    pub also_kept_free: Vec<PathBuf>,
    /// Bytes of uploads that no event names yet.
    pub staging: StagingBudgets,
    /// Memory for all git processes together; default half of what the machine has.
    pub memory_bytes: u64,
    /// Has every change of refs, repositories and packs logged before it is made; default none.
    pub log: LoggedBy,
    /// Where packs come from that are not on this disk; default nowhere.
    pub cached_from: CachedFrom,
}

impl Options {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            git: "git".into(),
            max_pack_bytes: 2 << 30,
            max_request_bytes: 64 << 20,
            stall: Duration::from_secs(60),
            work_limit: Duration::from_secs(15 * 60),
            upload_idle: Duration::from_secs(120),
            ref_cache_bytes: 64 << 20,
            max_packs: 20,
            min_free_bytes: 256 << 20,
            stranger_min_free_bytes: 1 << 30,
            also_kept_free: Vec::new(),
            staging: StagingBudgets::default(),
            memory_bytes: memory::default_limit(),
            log: LoggedBy::default(),
            cached_from: CachedFrom::default(),
        }
    }
}

/// Why the repositories cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error(transparent)]
    Git(#[from] GitMissing),
    #[error("the git data directory {} cannot be used", .root.display())]
    Root { root: PathBuf, source: io::Error },
}

/// Why a repository cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepoError {
    #[error("there is no repository {0}")]
    NotFound(RepoAddr),
    #[error("the repository {0} has refs")]
    NotEmpty(RepoAddr),
    #[error("the repository {repo} of another server cannot be taken over")]
    Adopt { repo: RepoAddr, source: AdoptError },
    #[error("the refs of {repo} cannot be read: {reason}")]
    Refs { repo: RepoAddr, reason: String },
    #[error("the repository {repo} cannot be reached")]
    Io { repo: RepoAddr, source: io::Error },
    /// It was not looked at to its end: nothing is known of it that was not known before.
    #[error("git could not read {repo} to its end: {reason}")]
    Unread { repo: RepoAddr, reason: String },
    #[error("the objects of {identifier} cannot be reached")]
    Objects {
        identifier: Identifier,
        source: io::Error,
    },
    /// They are in the object store of the cluster, which does not give them: worth another try.
    #[error("packs of {identifier} cannot be fetched")]
    NotFetched {
        identifier: Identifier,
        source: io::Error,
    },
    #[error("{identifier} lacks the object {oid}")]
    Missing { identifier: Identifier, oid: Oid },
    /// Damaged, malformed or larger than anybody makes them: to try again does not help.
    #[error("the object {oid} of {identifier} cannot be used: {reason}")]
    Unusable {
        identifier: Identifier,
        oid: Oid,
        reason: String,
    },
}

impl RepoError {
    /// Says whether what is in the place of the repository is none of this node's making. A disk that
    /// fails, or a right that is missing, tells nothing of the kind.
    pub fn is_foreign(&self) -> bool {
        match self {
            Self::Adopt { source, .. } => !matches!(source, AdoptError::Io(_)),
            // A symbolic link, or a file.
            Self::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::NotADirectory
            ),
            _ => false,
        }
    }
}

/// The repositories of this node. Clones share everything.
#[derive(Clone)]
pub struct Repositories {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) layout: Layout,
    pub(crate) git: Git,
    pub(crate) options: Options,
    pub(crate) packs: Arc<Packs>,
    pub(crate) memory: Arc<MemoryBudget>,
    staged: StagedUploads,
    pub(crate) suspects: Suspects,
    withheld: WithheldTips,
    withheld_sets: WithheldSets,
    snapshots: Mutex<Snapshots>,
    /// Repositories that were prepared and not needed, to be removed by the next who may block.
    unneeded: Mutex<Vec<PathBuf>>,
    /// When the tree for a backup was complete; none before that, and where there is none.
    frozen_at: Mutex<Option<SystemTime>>,
}

/// The refs used last, up to a weight in bytes.
struct Snapshots {
    entries: LruCache<RepoAddr, Arc<RefSnapshot>>,
    weight: usize,
    max_weight: usize,
}

impl Snapshots {
    fn new(max_weight: usize) -> Self {
        Self {
            entries: LruCache::unbounded(),
            weight: 0,
            max_weight,
        }
    }

    fn get(&mut self, repo: &RepoAddr) -> Option<Arc<RefSnapshot>> {
        self.entries.get(repo).map(Arc::clone)
    }

    /// Refs heavier than the whole bound are not kept at all.
    fn insert(&mut self, repo: &RepoAddr, snapshot: Arc<RefSnapshot>) {
        self.remove(repo);
        if snapshot.weight() > self.max_weight {
            return;
        }
        self.weight += snapshot.weight();
        self.entries.put(repo.clone(), snapshot);
        while self.weight > self.max_weight
            && let Some((_, oldest)) = self.entries.pop_lru()
        {
            self.weight -= oldest.weight();
        }
    }

    fn remove(&mut self, repo: &RepoAddr) {
        if let Some(removed) = self.entries.pop(repo) {
            self.weight -= removed.weight();
        }
    }
}

/// The result of `git fsck`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fsck {
    pub is_clean: bool,
    /// Its output, cut to its first lines.
    pub report: String,
}

/// Complaints of git that ran out of something, or whose disk did not answer or let it: they say nothing of
/// what it was to read, which may be sound.
const CUT_SHORT: [&str; 13] = [
    "ut of memory",
    "died of signal",
    "annot allocate",
    "mmap failed",
    "unable to create thread",
    "annot fork",
    "oo many open files",
    "o space left",
    "nput/output error",
    "ermission denied",
    "peration not permitted",
    "tale file handle",
    "onnection timed out",
];

/// Says whether git ended before it could tell anything: killed, out of something, or without its disk.
fn is_cut_short(finished: &Finished) -> bool {
    let complains = |text: &&str| finished.stderr.contains(text);
    finished.status.code().is_none() || CUT_SHORT.iter().any(complains)
}

impl Repositories {
    /// Opens the root and makes it if it is not there.
    ///
    /// Empties the quarantine, finishes what a crash cut short, and takes over the repositories
    /// of another server. A repository that cannot be taken over is logged and left as it is.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Root {
            root: options.root.clone(),
            source,
        };
        fs::create_dir_all(&options.root).map_err(failed)?;
        let root = fs::canonicalize(&options.root).map_err(failed)?;
        let git = Git::find(&options.git, &root)?;
        let layout = Layout { root };
        let memory = MemoryBudget::new(options.memory_bytes);
        let inner = Inner {
            packs: Packs::new(
                layout.clone(),
                git.clone(),
                Arc::clone(&memory),
                (options.cached_from.clone(), options.min_free_bytes),
            ),
            memory,
            layout,
            git,
            staged: StagedUploads::default(),
            suspects: Suspects::default(),
            withheld: WithheldTips::default(),
            withheld_sets: WithheldSets::default(),
            snapshots: Mutex::new(Snapshots::new(options.ref_cache_bytes)),
            unneeded: Mutex::default(),
            frozen_at: Mutex::default(),
            options: options.clone(),
        };
        inner.prepare_root().map_err(failed)?;
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// How much memory git processes have at this moment.
    pub fn memory_use(&self) -> MemoryUse {
        self.inner.memory.usage()
    }

    /// Makes an empty repository; one that is there already stays as it is.
    pub fn create(&self, repo: &RepoAddr) -> Result<(), RepoError> {
        let _turn = self.inner.lock(&repo.identifier);
        self.inner.create(repo, None)
    }

    /// Says whether there is a repository; a symbolic link in its place does not count.
    pub fn exists(&self, repo: &RepoAddr) -> bool {
        self.inner.is_there(repo)
    }

    /// Every repository, by owner and name.
    pub fn list(&self) -> io::Result<Vec<RepoAddr>> {
        self.inner.list()
    }

    /// The refs as they are now; from memory if they were used recently. A contributor repository that
    /// is not there has none.
    pub fn refs(&self, repo: &RepoAddr) -> Result<Arc<RefSnapshot>, RepoError> {
        if let Some(known) = self.inner.snapshots.lock().get(repo) {
            return Ok(known);
        }
        let _turn = self.inner.lock(&repo.identifier);
        self.inner.load(repo)
    }

    /// Changes refs and, where `head` is given, what HEAD names.
    ///
    /// All edits or none, however many; durable on return. Staged uploads go with their last ref. HEAD is a file of its own and is
    /// written after the refs: a crash between the two leaves it where it was, and the same call
    /// made again sets it.
    pub fn update_refs(
        &self,
        repo: &RepoAddr,
        edits: &[RefEdit],
        head: Option<&RefName>,
    ) -> Result<Arc<RefSnapshot>, RefUpdateError> {
        self.change_refs(repo, edits, head, None, None)
    }

    /// The same, and keeps every tip that a branch or tag loses, in the same step.
    pub fn update_refs_recorded(
        &self,
        repo: &RepoAddr,
        edits: &[RefEdit],
        head: Option<&RefName>,
        record: &MoveRecord,
    ) -> Result<Arc<RefSnapshot>, RefUpdateError> {
        self.change_refs(repo, edits, head, Some(record), None)
    }

    /// `logged` are the refs as another copy had them, which are taken without a look at the objects if
    /// they say enough.
    fn change_refs(
        &self,
        repo: &RepoAddr,
        edits: &[RefEdit],
        head: Option<&RefName>,
        record: Option<&MoveRecord>,
        logged: Option<&[SetRef]>,
    ) -> Result<Arc<RefSnapshot>, RefUpdateError> {
        if let Some(head) = head.filter(|head| !head.is_head()) {
            return Err(RefUpdateError::Head(head.clone()));
        }
        let unreachable = |source| unreachable_objects(&repo.identifier, source);
        if logged.is_none() && !repo.is_contributor() {
            // Before the lock is taken: it may take a while.
            self.inner
                .packs
                .warm(&repo.identifier)
                .map_err(unreachable)?;
        }
        let _turn = self.inner.lock(&repo.identifier);
        let before = self.inner.load(repo)?;
        let mut all = edits.to_vec();
        all.extend(record.map_or_else(Vec::new, |record| {
            refs::record(before.kept(), edits, record)
        }));
        let after = match logged.and_then(peeled_tips) {
            Some(peeled) => refs::apply(&before, &all, |name, oid| {
                let peeled = peeled.get(name).copied().filter(|peeled| *peeled != oid);
                let name = name.clone();
                Ok(Ref { name, oid, peeled })
            })?,
            None => {
                let reader = if staged::touches_nostr(edits) || repo.is_contributor() {
                    self.inner.own_reader(repo)
                } else {
                    self.inner.packs.reader(&repo.identifier)
                };
                let reader = reader.map_err(unreachable)?;
                refs::apply(&before, &all, |name, oid| refs::resolve(name, oid, &reader))?
            }
        };
        let head = head.filter(|head| before.head() != Some(head));
        if after.is_none() && head.is_none() {
            return Ok(before);
        }
        let path = self.inner.layout.repository(repo);
        let staged = self.inner.staged_for(repo, edits)?;
        // A failed write may have gone through after all: nothing in memory is right until re-read.
        self.inner.snapshots.lock().remove(repo);
        let change = || {
            let all_before;
            let now = match &after {
                Some(after) => after,
                None => {
                    all_before = before.all();
                    &all_before
                }
            };
            LoggedChange::Refs {
                repo: repo.clone(),
                refs: all.iter().map(|edit| SetRef::of(edit, now)).collect(),
                head: head.cloned(),
                staged,
            }
        };
        self.inner.options.log.before(change, || {
            if let Some(after) = &after {
                self.inner
                    .note_former_tips(&repo.identifier, &before, edits);
                fault::point("git.refs.before");
                disk::replace(&path.join("packed-refs"), &refs::write(after))?;
                fault::point("git.refs.written");
            }
            if let Some(head) = head {
                disk::replace(&path.join("HEAD"), bare::head_file(head).as_bytes())?;
                fault::point("git.head.written");
            }
            Ok(())
        })?;
        let refs = after.unwrap_or_else(|| before.all());
        let head = head.or(before.head()).cloned();
        let after = self.inner.remember(repo, RefSnapshot::new(refs, head));
        if staged::touches_nostr(edits) {
            self.inner.reclaim(repo, &after);
        }
        self.inner.remove_if_idle(repo, &after);
        Ok(after)
    }

    /// Puts refs that cannot be read aside, and has none in their place. Blocking.
    pub fn reset_refs(&self, repo: &RepoAddr) -> Result<(), RepoError> {
        let _turn = self.inner.lock(&repo.identifier);
        self.inner.forget(repo);
        let path = self
            .inner
            .find(repo)?
            .ok_or_else(|| RepoError::NotFound(repo.clone()))?;
        let aside = self.inner.layout.damaged(&repo.identifier);
        let name = format!("{}-{}.packed-refs", repo.npub(), disk::unique());
        let change = || LoggedChange::ClearRefs { repo: repo.clone() };
        let moved = self.inner.options.log.before(change, || {
            disk::make_dirs(&self.inner.layout.root, &aside)
                .and_then(|()| fs::rename(path.join("packed-refs"), aside.join(name)))
                .and_then(|()| disk::replace(&path.join("packed-refs"), &refs::write(&[])))
        });
        moved.map_err(|source| unreachable_repo(repo, source))
    }

    /// Puts a repository that cannot be read aside as it is, so that another can be made in its place.
    /// Its objects in the store stay. Blocking.
    pub fn set_repository_aside(&self, repo: &RepoAddr) -> Result<(), RepoError> {
        let _turn = self.inner.lock(&repo.identifier);
        self.inner.forget(repo);
        let path = self.inner.layout.repository(repo);
        let aside = self.inner.layout.damaged(&repo.identifier);
        let name = format!("{}-{}.git", repo.npub(), disk::unique());
        // Behind a link it would be somebody else's.
        let owner = disk::is_real_dir(&self.inner.layout.owner_of(repo));
        owner.map_err(|source| unreachable_repo(repo, source))?;
        let change = || LoggedChange::Remove { repo: repo.clone() };
        let moved = self.inner.options.log.before(change, || {
            disk::make_dirs(&self.inner.layout.root, &aside)?;
            fs::rename(&path, aside.join(name))?;
            disk::sync_dir_if_there(&self.inner.layout.owner_of(repo))
        });
        moved.map_err(|source| unreachable_repo(repo, source))
    }

    /// Has the refs of a repository read from disk again, where somebody else may have changed them.
    /// Blocking.
    pub fn read_again(&self, repo: &RepoAddr) {
        let _turn = self.inner.lock(&repo.identifier);
        self.inner.forget(repo);
    }

    /// Runs `git fsck` over a repository and the objects it can read.
    ///
    /// [`RepoError::Unread`] if git could not go through all of them, for lack of memory for example:
    /// that is no damage.
    pub async fn fsck(&self, repo: &RepoAddr) -> Result<Fsck, RepoError> {
        self.refs(repo)?;
        let _in_use = self.inner.packs.borrow(&repo.identifier);
        self.warm_later(&repo.identifier).await?;
        let mut command =
            self.inner
                .git
                .command(["fsck", "--full", "--no-dangling", "--no-progress"]);
        command.env("GIT_DIR", self.inner.layout.repository(repo));
        let unread = |reason: &dyn std::fmt::Display| RepoError::Unread {
            repo: repo.clone(),
            reason: reason.to_string(),
        };
        let size = self.inner.size(repo);
        let size = size.map_err(|source| unreachable_repo(repo, source))?;
        let memory =
            self.inner
                .memory
                .acquire(Payer::Maintenance, &repo.identifier, size.memory_to_read());
        let memory = memory.await.map_err(|error| unread(&error))?;
        let running = self.inner.git.run(command, &memory);
        let finished = running.await.map_err(|error| unread(&error))?;
        if is_cut_short(&finished) {
            let fatal = finished.stderr.lines().last();
            return Err(match fatal {
                Some(line) => unread(&line),
                None => unread(&finished.status),
            });
        }
        let report = format!("{}{}", finished.stdout, finished.stderr);
        Ok(Fsck {
            is_clean: finished.status.success(),
            report,
        })
    }

    /// Reads every pack of an identifier to its end, and says which cannot be used.
    pub async fn verify_packs(
        &self,
        identifier: &Identifier,
    ) -> Result<Vec<DamagedPack>, RepoError> {
        let failed = |source| unreachable_objects(identifier, source);
        let packs = {
            let _turn = self.inner.lock(identifier);
            self.inner.packs.files(identifier).map_err(failed)?
        };
        let size = self.inner.packs.size(identifier).map_err(failed)?;
        let memory =
            self.inner
                .memory
                .acquire(Payer::Maintenance, identifier, size.memory_to_read());
        let memory = memory.await.map_err(io::Error::other).map_err(failed)?;
        let mut damaged = Vec::new();
        for pack in packs {
            let mut command = self.inner.git.command(["verify-pack"]);
            command.arg(&pack);
            let finished = self.inner.git.run(command, &memory).await.map_err(failed)?;
            // A repack may have taken it away meanwhile.
            if finished.status.success() || !pack.exists() {
                continue;
            }
            if is_cut_short(&finished) {
                let (pack, complaint) = (pack.display(), &finished.stderr);
                tracing::warn!(%identifier, %pack, complaint, "failed to read a pack to its end");
                continue;
            }
            let name = pack.file_stem().unwrap_or_default().to_string_lossy();
            let reason = finished
                .stderr
                .lines()
                .next()
                .unwrap_or("it cannot be read");
            damaged.push(DamagedPack {
                name: name.into_owned(),
                reason: reason.to_owned(),
            });
        }
        Ok(damaged)
    }
}

impl Inner {
    /// See [`Packs::lock`].
    pub(crate) fn lock(&self, identifier: &Identifier) -> MutexGuard<'_, ()> {
        self.packs.lock(identifier)
    }

    /// Makes a repository that is not there, of `draft` if there is one; the caller holds the lock.
    fn create(&self, repo: &RepoAddr, draft: Option<&Draft>) -> Result<(), RepoError> {
        if self.find(repo)?.is_some() {
            return self.load(repo).map(drop);
        }
        let target = self.layout.repository(repo);
        let store = if repo.is_contributor() {
            Ok(())
        } else {
            self.packs.ensure(&repo.identifier)
        };
        let make = || match draft {
            Some(draft) => draft.put(&target),
            None => self.draft(repo)?.put(&target),
        };
        let change = || LoggedChange::Create { repo: repo.clone() };
        let made = store.and_then(|()| {
            let log = &self.options.log;
            log.before(change, || self.in_owner_directory(repo, make))
        });
        made.map_err(|source| unreachable_repo(repo, source))
    }

    /// An empty repository that has no place yet.
    fn draft(&self, repo: &RepoAddr) -> io::Result<Draft> {
        let alternates = (!repo.is_contributor()).then(|| layout::alternates(&repo.identifier));
        Draft::make(&self.layout.quarantines(), alternates.as_deref())
    }

    /// Puts something into the directory of an owner, which is made if it is not there.
    fn in_owner_directory(
        &self,
        repo: &RepoAddr,
        mut put: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut try_put = || {
            disk::make_dirs(&self.layout.root, &self.layout.owner_of(repo))?;
            put()
        };
        match try_put() {
            // Another repository of the owner was the last, and took their directory along.
            Err(error) if disk::is_absent(&error) => try_put(),
            put => put,
        }
    }

    /// The directory of a repository; an error if a symbolic link is in the way.
    pub(crate) fn find(&self, repo: &RepoAddr) -> Result<Option<PathBuf>, RepoError> {
        let path = self.layout.repository(repo);
        let is_there = disk::is_real_dir(&self.layout.owner_of(repo))
            .and_then(|owner| Ok(owner && disk::is_real_dir(&path)?));
        match is_there {
            Ok(is_there) => Ok(is_there.then_some(path)),
            Err(source) => Err(unreachable_repo(repo, source)),
        }
    }

    fn is_there(&self, repo: &RepoAddr) -> bool {
        matches!(self.find(repo), Ok(Some(_)))
    }

    /// Reads the refs; the caller holds the lock.
    fn load(&self, repo: &RepoAddr) -> Result<Arc<RefSnapshot>, RepoError> {
        if let Some(known) = self.snapshots.lock().get(repo) {
            return Ok(known);
        }
        let Some(path) = self.find(repo)? else {
            // Every contributor repository can be read, and is empty until something is in it. That is
            // not remembered: anyone can name as many as he likes.
            return if repo.is_contributor() {
                Ok(Arc::default())
            } else {
                Err(RepoError::NotFound(repo.clone()))
            };
        };
        if !repo.is_contributor() {
            self.adopt(repo, &path).map_err(|source| RepoError::Adopt {
                repo: repo.clone(),
                source,
            })?;
        }
        let snapshot = read_snapshot(repo, &path)?;
        Ok(self.remember(repo, snapshot))
    }

    fn remember(&self, repo: &RepoAddr, snapshot: RefSnapshot) -> Arc<RefSnapshot> {
        let snapshot = Arc::new(snapshot);
        self.snapshots.lock().insert(repo, Arc::clone(&snapshot));
        snapshot
    }

    pub(crate) fn forget(&self, repo: &RepoAddr) {
        self.snapshots.lock().remove(repo);
    }

    pub(crate) fn list(&self) -> io::Result<Vec<RepoAddr>> {
        let mut repositories = Vec::new();
        for (npub, kind) in disk::entries(&self.layout.root)? {
            if !kind.is_dir() || !layout::is_npub(&npub) {
                continue;
            }
            let Some(owner) = RepoAddr::parse_npub(&npub) else {
                tracing::warn!(directory = %npub, "not named by an npub: left as it is");
                continue;
            };
            for (name, kind) in disk::entries(&self.layout.owner(&npub))? {
                let identifier = layout::identifier_of(&name)
                    .filter(|identifier| kind.is_dir() && layout::directory(identifier) == name);
                if let Some(identifier) = identifier {
                    repositories.push(RepoAddr::new(owner, identifier));
                }
            }
        }
        Ok(repositories)
    }

    /// The repositories that share the store of an identifier.
    pub(crate) fn holders(&self, identifier: &Identifier) -> io::Result<Vec<RepoAddr>> {
        let mut holders = Vec::new();
        for (npub, kind) in disk::entries(&self.layout.root)? {
            let owner = RepoAddr::parse_npub(&npub).filter(|_| kind.is_dir());
            let repo = owner.map(|owner| RepoAddr::new(owner, identifier.clone()));
            holders.extend(repo.filter(|repo| self.is_there(repo)));
        }
        Ok(holders)
    }
}

fn unreachable_repo(repo: &RepoAddr, source: io::Error) -> RepoError {
    RepoError::Io {
        repo: repo.clone(),
        source,
    }
}

pub(crate) fn unreachable_objects(identifier: &Identifier, source: io::Error) -> RepoError {
    RepoError::Objects {
        identifier: identifier.clone(),
        source,
    }
}

/// What each ref leads to, if all that are set say so.
fn peeled_tips(refs: &[SetRef]) -> Option<HashMap<&RefName, Oid>> {
    let set = refs.iter().filter(|set| set.oid.is_some());
    set.map(|set| Some((&set.name, set.peeled?))).collect()
}

fn read_snapshot(repo: &RepoAddr, path: &Path) -> Result<RefSnapshot, RepoError> {
    let read = |name: &str| {
        let contents = disk::read(&path.join(name));
        contents.map_err(|source| unreachable_repo(repo, source))
    };
    let packed = read("packed-refs")?.unwrap_or_default();
    let refs = refs::parse(&packed).map_err(|invalid| RepoError::Refs {
        repo: repo.clone(),
        reason: invalid.to_string(),
    })?;
    let head = read("HEAD")?.and_then(|head| bare::parse_head(&head));
    Ok(RefSnapshot::new(refs, head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(name: &str) -> RepoAddr {
        let npub = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
        RepoAddr::from_segments(npub, &format!("{name}.git")).expect("valid")
    }

    #[test]
    fn least_recently_used_refs_are_dropped_and_their_weight_with_them() {
        let snapshot = || Arc::new(RefSnapshot::default());
        let weight = snapshot().weight();
        let [a, b, c] = ["a", "b", "c"].map(repo);
        let mut cache = Snapshots::new(2 * weight);
        for repo in [&a, &b, &b] {
            cache.insert(repo, snapshot());
        }
        assert!(cache.get(&a).is_some());
        cache.insert(&c, snapshot());
        let held = [&a, &b, &c].map(|repo| cache.get(repo).is_some());
        assert_eq!(held, [true, false, true]);
        cache.remove(&a);
        cache.remove(&c);
        assert_eq!(cache.weight, 0);
        let mut small = Snapshots::new(weight - 1);
        small.insert(&a, snapshot());
        assert!(small.get(&a).is_none());
    }
}
