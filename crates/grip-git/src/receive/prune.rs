//! Pruning of a received pack to what was asked for.
//!
//! What is asked for, with all it links to, is walked in quarantine. A link that leaves the pack
//! leads into the store, where everything is complete already: there the walk stops. Small packs are
//! walked in process, which costs a push nothing that could be measured; the others by git, which
//! stops at the objects that refs reach. If the pack has objects that the walk did not meet and the
//! store does not have, those it met are packed again, into a quarantine of their own, and the first
//! pack is removed. If the store has all that the walk met, nothing of the pack is kept.

use grip_types::{Identifier, Oid};
use tokio::time;

use crate::{
    packs::{MEMORY_PER_OBJECT, Marked, QuarantinedPack},
    process::Finished,
    repositories::{DiskUser, RepoError, Repositories},
};

use super::{ReceiveError, RestsOn, blocking, git_error, quarantine::Quarantine};

/// Tips that the walk is told to stop at; without the others it is longer, but right.
const MAX_TIPS: usize = 1000;
/// Ids looked up at a time.
const BATCH: usize = 1024;
/// Objects of a pack that is walked in process.
const MAX_SMALL_OBJECTS: u32 = 4096;

/// Memory to walk or write a pack, beside that for each of its objects: what the tips of the store
/// reach is looked at too.
const MEMORY_TO_WALK: u64 = 128 << 20;

/// What a pack that is cut may take in any case; else four times what came.
const MIN_REPACK_BYTES: u64 = 64 << 20;

/// What [`Quarantine::prune_to`] leaves.
#[must_use = "a quarantine that is not promoted is removed"]
pub struct Pruned {
    pub quarantine: Quarantine,
    /// The wanted objects that came with the pack, each once, in the order they were asked for.
    pub arrived: Vec<Oid>,
}

impl Quarantine {
    /// Drops all that is neither wanted nor linked to, however far, by what is wanted.
    ///
    /// Wanted objects that did not come are no error. If none came, or the store has all of them,
    /// the quarantine is empty. Packs that bring nothing else stay as they are. Takes as long as git walks the new objects, twice
    /// [`Options::work_limit`] at most. Cancel safe: git is killed and the quarantine removed.
    ///
    /// [`Options::work_limit`]: crate::Options::work_limit
    pub async fn prune_to(self, wanted: &[Oid]) -> Result<Pruned, ReceiveError> {
        let Some(pack) = &self.pack else {
            return Ok(self.pruned(Vec::new()));
        };
        let index = pack.index();
        let marked = blocking(move || Marked::open(index)).await?;
        let arrived = marked.distinct_of(wanted);
        if arrived.is_empty() {
            return self.emptied(arrived).await;
        }
        let marked = self.walk(pack, &arrived, marked).await?;
        let (marked, compared) = self.compare(marked).await?;
        if !compared.has_new {
            return self.emptied(arrived).await;
        }
        if !compared.has_extra {
            return Ok(self.pruned(arrived));
        }
        let smaller = self.repack(pack, &marked).await?;
        self.replaced(smaller, arrived).await
    }

    /// Divides the pack between the store and one repository: what `signed` tips need, and what
    /// `staged` ones need beside that. All else is dropped, as [`Self::prune_to`] drops it.
    ///
    /// The second is complete once the first is promoted.
    pub async fn split(self, signed: &[Oid], staged: &[Oid]) -> Result<(Self, Self), ReceiveError> {
        let nothing = self.nothing();
        if staged.is_empty() {
            return Ok((self.prune_to(signed).await?.quarantine, nothing));
        }
        if signed.is_empty() {
            return Ok((nothing, self.prune_to(staged).await?.quarantine));
        }
        let Some(pack) = &self.pack else {
            return Ok((self, nothing));
        };
        let signed = self.needed(pack, signed).await?;
        let mut staged = self.needed(pack, staged).await?;
        staged.unmark(&signed);
        let signed = self.new_of(pack, signed).await?;
        let staged = self.new_of(pack, staged).await?;
        blocking(move || {
            drop(self);
            Ok(())
        })
        .await?;
        Ok((signed, staged))
    }

    /// Marks what the tips among the objects of the pack need.
    pub(super) async fn needed(
        &self,
        pack: &QuarantinedPack,
        tips: &[Oid],
    ) -> Result<Marked, ReceiveError> {
        let index = pack.index();
        let marked = blocking(move || Marked::open(index)).await?;
        let arrived = marked.distinct_of(tips);
        if arrived.is_empty() {
            return Ok(marked);
        }
        self.walk(pack, &arrived, marked).await
    }

    /// A pack of the marked objects, unless the store has all of them.
    async fn new_of(&self, pack: &QuarantinedPack, marked: Marked) -> Result<Self, ReceiveError> {
        let (marked, compared) = self.compare(marked).await?;
        if compared.has_new {
            self.repack(pack, &marked).await
        } else {
            Ok(self.nothing())
        }
    }

    /// One of the same kind without a pack.
    fn nothing(&self) -> Self {
        let repositories = &self.repositories;
        repositories.quarantine(&self.identifier, self.is_apart, None, self.payer)
    }

    fn pruned(self, arrived: Vec<Oid>) -> Pruned {
        Pruned {
            quarantine: self,
            arrived,
        }
    }

    async fn emptied(self, arrived: Vec<Oid>) -> Result<Pruned, ReceiveError> {
        let nothing = self.nothing();
        self.replaced(nothing, arrived).await
    }

    async fn replaced(self, by: Self, arrived: Vec<Oid>) -> Result<Pruned, ReceiveError> {
        blocking(move || {
            drop(self);
            Ok(())
        })
        .await?;
        Ok(by.pruned(arrived))
    }

    /// Marks the objects of the pack that the wanted ones need.
    async fn walk(
        &self,
        pack: &QuarantinedPack,
        wanted: &[Oid],
        marked: Marked,
    ) -> Result<Marked, ReceiveError> {
        if marked.len() > MAX_SMALL_OBJECTS {
            return self.walk_by_git(pack, wanted, marked).await;
        }
        let (objects, start) = (pack.objects.clone(), wanted.to_vec());
        let (marked, is_done) =
            blocking(move || Ok(marked.walked(&objects.reader(), start))).await?;
        if is_done {
            return Ok(marked);
        }
        self.walk_by_git(pack, wanted, marked).await
    }

    async fn walk_by_git(
        &self,
        pack: &QuarantinedPack,
        wanted: &[Oid],
        mut marked: Marked,
    ) -> Result<Marked, ReceiveError> {
        let (repositories, identifier) = (self.repositories.clone(), self.identifier.clone());
        let tips = if self.is_apart {
            Vec::new()
        } else {
            blocking(move || Ok(tips(&repositories, &identifier))).await??
        };
        self.list_into(pack, wanted, &tips, &mut marked).await?;
        Ok(marked)
    }

    /// Has git list what `wanted` objects lead to, but for what `tips` do, and marks what the pack has of
    /// it. Half of it is marked if that fails.
    pub(super) async fn list_into(
        &self,
        pack: &QuarantinedPack,
        wanted: &[Oid],
        tips: &[Oid],
        marked: &mut Marked,
    ) -> Result<(), ReceiveError> {
        let wanted = wanted.iter().map(|oid| format!("{oid}\n"));
        let tips = tips.iter().map(|oid| format!("^{oid}\n"));
        let input: String = wanted.chain(tips).collect();
        let arguments = ["rev-list", "--objects", "--no-object-names", "--stdin"];
        let mut command = self.repositories.inner.git.command(arguments);
        pack.confine(&mut command);
        let input = std::iter::once(input.into_bytes());
        let objects = marked.len();
        let output = |bytes: &[u8]| marked.read(bytes);
        // It writes no file.
        self.run(command, objects, input, output, 0).await
    }

    /// Says what the pack has for the store.
    pub(super) async fn compare(&self, marked: Marked) -> Result<(Marked, Compared), ReceiveError> {
        if self.is_apart {
            let compared = Compared {
                has_new: marked.all(true).next().is_some(),
                has_extra: marked.all(false).next().is_some(),
            };
            return Ok((marked, compared));
        }
        let (repositories, identifier) = (self.repositories.clone(), self.identifier.clone());
        let compare = move || Ok((marked.compare(&repositories, &identifier), marked));
        let (compared, marked) = blocking(compare).await?;
        Ok((marked, compared?))
    }

    /// Packs the marked objects into a quarantine of their own; deltas are taken over as they are.
    pub(super) async fn repack(
        &self,
        pack: &QuarantinedPack,
        marked: &Marked,
    ) -> Result<Self, ReceiveError> {
        let repositories = &self.repositories;
        // Both are on the disk until the first is removed.
        let came = pack.bytes()?;
        repositories.has_room(DiskUser::Maintainer, came).await?;
        let rests = if self.is_apart {
            RestsOn::Nothing
        } else {
            RestsOn::Store
        };
        let dir = repositories.new_quarantine(&self.identifier, rests);
        let dir = dir.await?;
        let mut command = repositories.inner.git.command([
            "-c",
            "core.fsync=none",
            "-c",
            "pack.writeReverseIndex=false",
            "pack-objects",
            "--quiet",
            "--delta-base-offset",
            "--window=0",
        ]);
        command.arg(dir.pack_prefix());
        dir.confine(&mut command, Some(pack));
        let mut said = Vec::new();
        let output = |bytes: &[u8]| said.extend_from_slice(bytes);
        // A delta whose base is left out is written whole, and a small pack may have many of them.
        let most = came.saturating_mul(4).max(MIN_REPACK_BYTES);
        let most = most.min(repositories.inner.options.max_pack_bytes);
        let objects = marked.len();
        self.run(command, objects, marked.lines(), output, most)
            .await?;
        let hash = String::from_utf8_lossy(&said);
        self.nothing().seal(dir, &hash).await
    }

    /// Runs git over a pack of so many objects.
    async fn run(
        &self,
        command: std::process::Command,
        objects: u32,
        input: impl Iterator<Item = Vec<u8>>,
        output: impl FnMut(&[u8]),
        max_file_bytes: u64,
    ) -> Result<(), ReceiveError> {
        let inner = &self.repositories.inner;
        let limit = inner.options.work_limit;
        let bytes = MEMORY_TO_WALK + u64::from(objects) * MEMORY_PER_OBJECT;
        let memory = inner.memory.acquire(self.payer, &self.identifier, bytes);
        let memory = memory.await?;
        let running = inner
            .git
            .run_with(command, &memory, input, output, max_file_bytes);
        let finished = time::timeout(limit, running).await;
        let Finished { status, stderr, .. } =
            finished.map_err(|_| ReceiveError::TooSlow(limit))??;
        if !status.success() {
            return Err(git_error::from_complaint(status, &stderr));
        }
        Ok(())
    }
}

/// Where the walk may stop. A ref whose object is lost must not stop it altogether.
fn tips(repositories: &Repositories, identifier: &Identifier) -> Result<Vec<Oid>, RepoError> {
    let mut tips = repositories.known_tips(identifier, MAX_TIPS)?;
    let mut kinds = repositories.kinds(identifier, &tips)?.into_iter();
    tips.retain(|_| kinds.next().flatten().is_some());
    Ok(tips)
}

/// What the store would get from a pack.
#[derive(Clone, Copy)]
pub(super) struct Compared {
    /// Something that is marked.
    pub(super) has_new: bool,
    /// Something that is not.
    pub(super) has_extra: bool,
}

impl Marked {
    /// Looks which objects the store lacks. Blocking.
    ///
    /// What it has already and is not marked are the bases of deltas, which came without and were
    /// added.
    fn compare(
        &self,
        repositories: &Repositories,
        identifier: &Identifier,
    ) -> Result<Compared, RepoError> {
        let lacks_one = |marked| {
            let mut rest = self.all(marked);
            loop {
                let batch: Vec<Oid> = rest.by_ref().take(BATCH).collect();
                if batch.is_empty() {
                    return Ok(false);
                }
                let kinds = repositories.kinds(identifier, &batch)?;
                if kinds.iter().any(Option::is_none) {
                    return Ok(true);
                }
            }
        };
        Ok(Compared {
            has_new: lacks_one(true)?,
            has_extra: lacks_one(false)?,
        })
    }
}
