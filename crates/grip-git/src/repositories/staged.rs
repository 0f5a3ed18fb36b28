//! Staged uploads on disk: kept for one repository, promoted, removed.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use grip_tasks::fault;
use grip_types::{Identifier, Oid, RefEdit, RefName, RepoAddr};

use crate::{
    change_log::{LoggedChange, SetRef, StagedPack},
    contributor_quotas::Quota,
    disk,
    memory::Payer,
    objects::{Objects, Reader},
    packs::{PACK_FILES, StoreSize, remove_pack},
    receive::{Quarantine, ReceiveError, blocking},
    refs::{self, Ref, RefSnapshot},
    staged_uploads::{self, Records, StagedTotals, StagedUpload, StagingFull},
    staging_shares::Sender,
};

use super::{Inner, RepoError, Repositories, read_snapshot, unreachable_repo};

/// Why an upload was not staged; nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    #[error(transparent)]
    Full(#[from] StagingFull),
    #[error(transparent)]
    Repository(#[from] RepoError),
}

impl Quarantine {
    /// Bytes of the pack and its index. Blocking.
    pub fn bytes(&self) -> io::Result<u64> {
        self.pack.as_ref().map_or(Ok(0), |pack| pack.bytes())
    }

    /// Keeps the objects for `repo` alone, until a ref of `tips` is promoted or the last of them is
    /// gone. They are the share of the network of `sender`, and of the identifier. Blocking;
    /// durable on return, but without a ref the next start removes them.
    ///
    /// The caller has the objects of the tips in `self` or in the store, and sets the refs next.
    pub fn stage(
        self,
        repo: &RepoAddr,
        tips: Vec<(RefName, Oid)>,
        sender: Sender,
    ) -> Result<(), StageError> {
        let Some(pack) = &self.pack else {
            return Ok(());
        };
        let failed = |source| StageError::Repository(unreachable_repo(repo, source));
        let inner = &self.repositories.inner;
        // Before the lock is taken: it may take a while. The refs that are set next name it.
        let stored = inner.options.log.store_pack(pack.files());
        stored.map_err(failed)?;
        let _turn = inner.lock(&repo.identifier);
        // What the store has rests on nothing that may go, and one upload is enough for a ref.
        let oids: Vec<Oid> = tips.iter().map(|(_, tip)| *tip).collect();
        let stored = inner.stored(repo, &oids).map_err(failed)?;
        let reader = pack.objects.reader();
        let rests_here = |(name, tip): &(RefName, Oid)| {
            reader.kind(tip).is_some() && inner.staged.find(repo, name, tip).is_none()
        };
        let tips = tips.into_iter().zip(stored);
        let tips = tips.filter_map(|(tip, stored)| (!stored).then_some(tip));
        let tips: Vec<_> = tips.filter(rests_here).collect();
        if tips.is_empty() {
            return Ok(());
        }
        let bytes = pack.bytes().map_err(failed)?;
        let mut upload = StagedUpload {
            pack: pack.name().to_owned(),
            bytes,
            sender: sender.network,
            tips,
        };
        let mut known = inner.staged.of(repo).into_iter();
        if let Some(known) = known.find(|known| known.pack == upload.pack) {
            // The same objects again: more refs rest on them, and nobody's bytes grow.
            let known_tips = known.tips.len();
            upload.tips.extend(known.tips);
            upload.tips.sort_unstable();
            upload.tips.dedup();
            upload.bytes = known.bytes;
            // Below /prs/ each ref is somebody's share: who adds one takes all of the upload over.
            let more = if repo.is_contributor() && upload.sender != known.sender {
                Quota {
                    bytes: upload.bytes,
                    refs: upload.tips.len() as u64,
                }
            } else {
                upload.sender = known.sender;
                Quota {
                    bytes: 0,
                    refs: upload.tips.len().saturating_sub(known_tips) as u64,
                }
            };
            let sender = Sender {
                network: upload.sender.clone(),
                is_maintainer: sender.is_maintainer,
            };
            let budgets = &inner.options.staging;
            inner.staged.check(repo, &sender, more, budgets)?;
            inner.records(repo).write(&upload).map_err(failed)?;
            inner.staged.replace(repo, upload);
            return Ok(());
        }
        let budgets = &inner.options.staging;
        inner
            .staged
            .add(repo, upload.clone(), sender.is_maintainer, budgets)?;
        let moved = inner.records(repo).write(&upload).and_then(|()| {
            fault::point("git.stage.recorded");
            if repo.is_contributor() {
                inner.create(repo, None).map_err(io::Error::other)?;
            }
            pack.move_to(&inner.own_packs(repo))
        });
        if let Err(error) = moved {
            inner.remove_upload(repo, &upload);
            if let Ok(refs) = inner.load(repo) {
                inner.remove_if_idle(repo, &refs);
            }
            return Err(failed(error));
        }
        fault::point("git.stage.done");
        Ok(())
    }
}

impl Repositories {
    /// The bytes that `sender` may still stage for `repo`, or the budget that is used up.
    pub fn staging_room(&self, repo: &RepoAddr, sender: &Sender) -> Result<u64, StagingFull> {
        let inner = &self.inner;
        inner.staged.room(repo, sender, &inner.options.staging)
    }

    /// The budget that so much more would not fit in.
    pub fn check_staging(
        &self,
        repo: &RepoAddr,
        sender: &Sender,
        bytes: u64,
        refs: usize,
    ) -> Result<(), StagingFull> {
        let inner = &self.inner;
        let more = Quota {
            bytes,
            refs: refs as u64,
        };
        inner
            .staged
            .check(repo, sender, more, &inner.options.staging)
    }

    /// The contributor repositories of an identifier that are on disk.
    pub fn contributors(&self, identifier: &Identifier) -> Vec<RepoAddr> {
        self.inner.staged.contributors(identifier)
    }

    /// Says whether there is any contributor repository on disk.
    pub fn has_contributors(&self) -> bool {
        self.inner.staged.has_contributors()
    }

    /// The identifiers that have a contributor repository on disk.
    pub fn contributed(&self) -> Vec<Identifier> {
        self.inner.staged.contributed()
    }

    /// Says whether `name` at `tip` rests on objects that no other repository can read.
    pub fn is_staged(&self, repo: &RepoAddr, name: &RefName, tip: &Oid) -> bool {
        self.inner.staged.find(repo, name, tip).is_some()
    }

    /// Removes what was staged in a repository and no ref rests on: a push that failed half-way.
    pub fn reclaim_staged(&self, repo: &RepoAddr) -> Result<(), RepoError> {
        let _turn = self.inner.lock(&repo.identifier);
        let refs = self.inner.load(repo)?;
        self.inner.reclaim(repo, &refs);
        self.inner.remove_if_idle(repo, &refs);
        Ok(())
    }

    /// What contributor repositories have.
    pub fn contributor_totals(&self) -> StagedTotals {
        self.inner.staged.totals_of(RepoAddr::is_contributor)
    }

    /// Bytes of what is staged in a repository.
    pub fn staged_bytes(&self, repo: &RepoAddr) -> u64 {
        self.inner
            .staged
            .of(repo)
            .iter()
            .map(|upload| upload.bytes)
            .sum()
    }

    pub fn staged_totals(&self) -> StagedTotals {
        self.inner.staged.totals()
    }

    /// What `name` at `tip` rests on, cut to what the tip needs and ready to be promoted; none if
    /// nothing of it is staged.
    ///
    /// Takes as long as git walks the objects, and no lock. Cancel safe: the upload stays staged.
    pub async fn prepare_staged(
        &self,
        repo: &RepoAddr,
        name: &RefName,
        tip: &Oid,
    ) -> Result<Option<StagedTip>, ReceiveError> {
        self.prepare_staged_for(&repo.identifier, repo, name, tip)
            .await
    }

    /// The same, to be promoted into the store of another identifier: what a contributor repository
    /// has may be meant for several.
    pub fn prepare_staged_for<'a>(
        &'a self,
        identifier: &'a Identifier,
        repo: &'a RepoAddr,
        name: &'a RefName,
        tip: &'a Oid,
    ) -> BoxFuture<'a, Result<Option<StagedTip>, ReceiveError>> {
        Box::pin(async move {
            let Some(upload) = self.inner.staged.find(repo, name, tip) else {
                return Ok(None);
            };
            let quarantine = self.reopen_staged(identifier, repo, &upload).await?;
            // Tips that are gone may have left objects in it that no event names.
            let quarantine = quarantine.prune_to(&[*tip]).await?.quarantine;
            Ok(Some(StagedTip {
                quarantine,
                repo: repo.clone(),
                pack: upload.pack,
                tip: *tip,
            }))
        })
    }

    /// The pack of an upload, in a quarantine of its own beside the staged one.
    async fn reopen_staged(
        &self,
        identifier: &Identifier,
        repo: &RepoAddr,
        upload: &StagedUpload,
    ) -> Result<Quarantine, ReceiveError> {
        let dir = self.quarantine_dir(identifier).await?;
        let (from, pack) = (self.inner.own_packs(repo), upload.pack.clone());
        let reopened = blocking(move || dir.link(&from, &pack)).await?;
        Ok(self.quarantine(identifier, false, Some(reopened), Payer::Unknown))
    }
}

/// A staged tip that an event names, on its way into the store.
#[must_use = "what is not promoted stays staged"]
pub struct StagedTip {
    quarantine: Quarantine,
    repo: RepoAddr,
    pack: String,
    tip: Oid,
}

impl StagedTip {
    /// The repository it was pushed to, and the commit.
    pub fn is_at(&self, repo: &RepoAddr, tip: &Oid) -> bool {
        self.repo == *repo && self.tip == *tip
    }

    /// Says whether it is for the store of this identifier.
    pub fn is_for(&self, identifier: &Identifier) -> bool {
        self.quarantine.identifier() == identifier
    }

    /// Makes it part of the identifier's store. Blocking; durable on return. A contributor repository
    /// keeps what it has.
    pub fn promote(self) -> io::Result<()> {
        let repositories = self.quarantine.repositories.clone();
        self.quarantine.promote()?;
        fault::point("git.stage.promoted");
        if self.repo.is_contributor() {
            return Ok(());
        }
        let inner = &repositories.inner;
        inner.forget_tip(&self.repo, &self.pack, &self.tip)
    }
}

impl Inner {
    fn records(&self, repo: &RepoAddr) -> Records {
        Records::new(&self.layout.root, repo)
    }

    pub(super) fn own_packs(&self, repo: &RepoAddr) -> PathBuf {
        self.layout.repository(repo).join("objects/pack")
    }

    /// The packs that a fetch from `repo` reads. Blocking.
    pub(crate) fn size(&self, repo: &RepoAddr) -> io::Result<StoreSize> {
        if repo.is_contributor() {
            return StoreSize::of(&self.own_packs(repo));
        }
        self.packs.size(&repo.identifier)
    }

    /// Reads what `repo` can read: the shared store, and what is staged there.
    pub(super) fn own_reader(&self, repo: &RepoAddr) -> io::Result<Reader> {
        match self.own_objects(repo)? {
            Some(objects) => Ok(objects.patient_reader()),
            None => self.packs.reader(&repo.identifier),
        }
    }

    /// Says of each object whether `repo` can read it. Those that are nowhere cost no look at a directory.
    pub(super) fn can_read(&self, repo: &RepoAddr, oids: &[Oid]) -> io::Result<Vec<bool>> {
        let own = self.own_objects(repo)?.map(|objects| objects.reader());
        let is_own = |oid: &Oid| own.as_ref().is_some_and(|own| own.kind(oid).is_some());
        let are_own: Vec<bool> = oids.iter().map(is_own).collect();
        // After what is staged: it may be promoted at this moment.
        let stored = self.stored(repo, oids)?;
        let both = are_own.into_iter().zip(stored);
        Ok(both
            .map(|(is_own, is_stored)| is_own || is_stored)
            .collect())
    }

    /// The objects of a repository that has some beside those of the shared store.
    fn own_objects(&self, repo: &RepoAddr) -> io::Result<Option<Objects>> {
        if !self.staged.has(repo) && !repo.is_contributor() {
            return Ok(None);
        }
        if !repo.is_contributor() {
            self.packs.warm(&repo.identifier)?;
        }
        let objects = self.layout.repository(repo).join("objects");
        Objects::open(objects).map(Some)
    }

    /// The refs that rest on the shared store alone.
    pub(super) fn without_staged(
        &self,
        repo: &RepoAddr,
        refs: Arc<RefSnapshot>,
    ) -> Arc<RefSnapshot> {
        let staged = self.staged.tips(repo);
        if staged.is_empty() {
            return refs;
        }
        let is_stored = |r: &&Ref| !staged.contains(&(r.name.clone(), r.oid));
        let stored = refs.iter().filter(is_stored).cloned().collect();
        Arc::new(RefSnapshot::new(stored, refs.head().cloned()))
    }

    /// Says which of the objects are in the store that `repo` borrows from.
    fn stored(&self, repo: &RepoAddr, oids: &[Oid]) -> io::Result<Vec<bool>> {
        if repo.is_contributor() {
            return Ok(vec![false; oids.len()]);
        }
        let kinds = self.packs.kinds(&repo.identifier, oids)?;
        Ok(kinds.iter().map(Option::is_some).collect())
    }

    /// Removes a contributor repository that has no refs, which can be read all the same; the caller
    /// holds the lock. A failure leaves it to the next change, or the next start.
    pub(super) fn remove_if_idle(&self, repo: &RepoAddr, refs: &RefSnapshot) {
        if !repo.is_contributor() || !refs.is_blank() || self.staged.has(repo) {
            return;
        }
        self.forget(repo);
        let path = self.layout.repository(repo);
        let removed = disk::move_away(&path, &self.layout.quarantines()).and_then(|away| {
            fault::point("git.contributor.moved_away");
            // Another repository of the contributor may be there.
            let _ = fs::remove_dir(self.layout.owner_of(repo));
            fs::remove_dir_all(away)
        });
        if let Err(error) = removed
            && !disk::is_absent(&error)
        {
            tracing::warn!(%repo, %error, "failed to remove an idle contributor repository");
        }
    }

    /// The contributor repositories that have a directory.
    pub(super) fn contributors_on_disk(&self) -> io::Result<Vec<RepoAddr>> {
        let root = self.layout.contributors();
        let mut found = Vec::new();
        for (npub, _) in disk::entries(&root)? {
            for (name, kind) in disk::entries(&root.join(&npub))? {
                let repo = RepoAddr::contributor_from_segments(&npub, &name);
                found.extend(repo.filter(|_| kind.is_dir()));
            }
        }
        Ok(found)
    }

    /// Removes contributor repositories that a crash left without refs; only for the start.
    pub(super) fn remove_idle(&self) -> io::Result<()> {
        for repo in self.contributors_on_disk()? {
            let path = self.layout.repository(&repo);
            disk::remove_files(&path, |name| {
                name.starts_with('.') && name.ends_with(".new")
            })?;
            match self.load(&repo) {
                Ok(refs) => self.remove_if_idle(&repo, &refs),
                Err(error) => {
                    tracing::warn!(%repo, %error, "failed to read refs; left as it is");
                }
            }
        }
        Ok(())
    }

    /// Removes the staged packs that no ref of `repo` rests on any more; the caller holds the lock.
    ///
    /// A failure leaves them to the next change of such a ref, or the next start.
    pub(super) fn reclaim(&self, repo: &RepoAddr, refs: &RefSnapshot) {
        for upload in self.staged.of(repo) {
            let is_live = |(name, tip): &(RefName, Oid)| refs.has_tip(name, tip);
            let live: Vec<_> = upload.tips.iter().filter(|tip| is_live(tip)).collect();
            if live.is_empty() {
                self.remove_upload(repo, &upload);
            } else if repo.is_contributor() && live.len() < upload.tips.len() {
                // Each ref is somebody's share.
                let tips = live.into_iter().cloned().collect();
                let kept = StagedUpload {
                    tips,
                    ..upload.clone()
                };
                self.keep_tips(repo, kept);
            }
        }
    }

    fn keep_tips(&self, repo: &RepoAddr, upload: StagedUpload) {
        match self.records(repo).write(&upload) {
            Ok(()) => self.staged.set_tips(repo, &upload.pack, upload.tips),
            Err(error) => {
                tracing::warn!(%repo, pack = upload.pack, %error, "failed to write the record of a staged upload");
            }
        }
    }

    /// One ref less rests on an upload.
    fn forget_tip(&self, repo: &RepoAddr, pack: &str, tip: &Oid) -> io::Result<()> {
        let _turn = self.lock(&repo.identifier);
        let mut known = self.staged.of(repo).into_iter();
        let Some(mut upload) = known.find(|upload| upload.pack == pack) else {
            return Ok(());
        };
        upload.tips.retain(|(_, other)| other != tip);
        if upload.tips.is_empty() {
            self.remove_upload(repo, &upload);
            return Ok(());
        }
        self.records(repo).write(&upload)?;
        self.staged.set_tips(repo, pack, upload.tips);
        Ok(())
    }

    fn remove_upload(&self, repo: &RepoAddr, upload: &StagedUpload) {
        let packs = self.own_packs(repo);
        let removed = remove_pack(&packs, &upload.pack)
            .and_then(|()| self.records(repo).remove(&upload.pack));
        match removed {
            Ok(()) => self.staged.remove(repo, &upload.pack),
            Err(error) => {
                tracing::warn!(%repo, pack = upload.pack, %error, "failed to remove staged upload");
            }
        }
    }

    /// What the refs that `edits` set rest on, stored for all copies; nothing where there are none. The
    /// caller holds the lock.
    pub(super) fn staged_for(
        &self,
        repo: &RepoAddr,
        edits: &[RefEdit],
    ) -> io::Result<Vec<StagedPack>> {
        if !self.options.log.is_some() || !touches_nostr(edits) {
            return Ok(Vec::new());
        }
        let mut uploads: Vec<StagedUpload> = Vec::new();
        for edit in edits {
            let upload = edit
                .new
                .and_then(|tip| self.staged.find(repo, &edit.name, &tip));
            let is_known = |known: &StagedUpload| {
                upload
                    .as_ref()
                    .is_some_and(|upload| upload.pack == known.pack)
            };
            if !uploads.iter().any(is_known) {
                uploads.extend(upload);
            }
        }
        let packs = self.own_packs(repo);
        let stored = |upload: StagedUpload| {
            let files = PACK_FILES.map(|extension| file(&packs, &upload.pack, extension));
            let files = self.options.log.store_pack(files)?;
            Ok(StagedPack { upload, files })
        };
        uploads.into_iter().map(stored).collect()
    }

    /// Has a staged upload of another copy; the caller holds the lock, and sets the refs next. What a
    /// restart leaves without its ref goes, and comes again.
    pub(super) fn take_over_staged(
        &self,
        repo: &RepoAddr,
        staged: &StagedPack,
        from: Option<&Path>,
    ) -> io::Result<()> {
        let (packs, upload) = (self.own_packs(repo), &staged.upload);
        self.records(repo).write(upload)?;
        if let Some(from) = from {
            for extension in PACK_FILES {
                let here = file(from, &upload.pack, extension);
                fs::rename(here, file(&packs, &upload.pack, extension))?;
            }
            disk::sync_dir(&packs)?;
        }
        self.staged.remove(repo, &upload.pack);
        self.staged.restore(repo, upload.clone());
        Ok(())
    }

    /// Says whether a staged pack of this name is in the repository.
    pub(super) fn has_staged(&self, repo: &RepoAddr, pack: &str) -> bool {
        file(&self.own_packs(repo), pack, "idx").exists()
    }

    /// Removes all that is staged in a repository together with the refs that rest on it; the caller
    /// holds the lock.
    pub(super) fn drop_staged(&self, repo: &RepoAddr) -> Result<(), RepoError> {
        let staged = self.staged.tips(repo);
        if staged.is_empty() {
            return Ok(());
        }
        let before = self.load(repo)?;
        let is_staged = |r: &&Ref| staged.contains(&(r.name.clone(), r.oid));
        let kept: Vec<Ref> = before.iter().filter(|r| !is_staged(r)).cloned().collect();
        self.forget(repo);
        let packed_refs = self.layout.repository(repo).join("packed-refs");
        let dropped = before.iter().filter(is_staged);
        let change = || LoggedChange::Refs {
            repo: repo.clone(),
            refs: dropped.map(|found| SetRef::none(&found.name)).collect(),
            head: None,
            staged: Vec::new(),
        };
        let log = &self.options.log;
        let written = log.before(change, || disk::replace(&packed_refs, &refs::write(&kept)));
        written.map_err(|source| unreachable_repo(repo, source))?;
        let after = self.load(repo)?;
        self.reclaim(repo, &after);
        self.forget(repo);
        Ok(())
    }

    /// Counts what is staged and removes what a crash left; only for the start.
    pub(super) fn restore_staged(&self) -> io::Result<()> {
        for repo in staged_uploads::recorded(&self.layout.root)? {
            let records = self.records(&repo);
            records.clean()?;
            for pack in records.packs()? {
                let restored = records.read(&pack).and_then(|upload| {
                    let upload = upload.ok_or(io::ErrorKind::InvalidData)?;
                    self.restore_upload(&repo, upload)
                });
                // One repository that cannot be read must not keep the others from being served.
                if let Err(error) = restored {
                    tracing::warn!(%repo, pack, %error, "failed to restore a staged upload; its data is kept");
                }
            }
        }
        Ok(())
    }

    fn restore_upload(&self, repo: &RepoAddr, mut upload: StagedUpload) -> io::Result<()> {
        let path = self.layout.repository(repo);
        let refs = if disk::is_real_dir(&path)? {
            read_snapshot(repo, &path).map_err(io::Error::other)?
        } else {
            RefSnapshot::default()
        };
        // A tip that the store has was promoted a moment before the crash.
        let tips: Vec<Oid> = upload.tips.iter().map(|(_, tip)| *tip).collect();
        let mut stored = self.stored(repo, &tips)?.into_iter();
        let recorded = upload.tips.len();
        upload.tips.retain(|(name, tip)| {
            let is_stored = stored.next().unwrap_or(false);
            !is_stored && refs.has_tip(name, tip)
        });
        let size = pack_bytes(&self.own_packs(repo), &upload.pack);
        match size {
            Ok(bytes) if !upload.tips.is_empty() => {
                if upload.tips.len() < recorded {
                    self.records(repo).write(&upload)?;
                }
                upload.bytes = bytes;
                self.staged.restore(repo, upload);
            }
            _ => {
                tracing::info!(%repo, pack = upload.pack, "removing what is left of a staged upload");
                self.remove_upload(repo, &upload);
            }
        }
        Ok(())
    }

    /// The packs of a repository that must stay its own.
    pub(super) fn staged_packs(&self, repo: &RepoAddr) -> io::Result<HashSet<String>> {
        Ok(self.records(repo).packs()?.into_iter().collect())
    }
}

pub(super) fn touches_nostr(edits: &[RefEdit]) -> bool {
    edits.iter().any(|edit| edit.name.is_under_nostr())
}

fn pack_bytes(dir: &Path, pack: &str) -> io::Result<u64> {
    let len = |extension| Ok::<_, io::Error>(fs::metadata(file(dir, pack, extension))?.len());
    Ok(len("pack")? + len("idx")?)
}

fn file(dir: &Path, pack: &str, extension: &str) -> PathBuf {
    dir.join(format!("{pack}.{extension}"))
}
