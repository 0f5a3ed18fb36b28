//! The one place where a change of an identifier becomes durable.
//!
//! ```text
//!      events · pushes · release · expiry · start      decide, in the identifier's turn
//!                          │
//!                          ▼
//! ┌───────────────────── Commit ──────────────────────┐
//! │ objects ─▶ refs ─▶ events, subscribers ─▶ held    │  this order; each durable on return
//! └────┬────────┬───────────────┬───────────────┬─────┘
//!      ▼        ▼               ▼               ▼
//!    packs    packed-refs    relay writer    journal rows,
//!    (disk)   (disk)         (LMDB)          one transaction (SQL)
//! ```
//!
//! The code above says what has changed and does not know which store keeps it. What a crash
//! between two steps leaves, and who finishes it: see [`crate::release`].

mod journal;

use std::{path::Path, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use grip_db::{Db, DbError, WritePermit};
use grip_git::{
    Archived, DamagedPack, Discarded, MoveRecord, Prepared, Quarantine, RepoError, Repositories,
};
use grip_nostr::{Address, Event, EventId, PublicKey, RepoAddr, Timestamp};
use grip_purgatory::{Change, Row};
use grip_relay::Writer;
use grip_store::{Aged, Kept, Put, Retention, StoreError, Vanished, WriteView};
use grip_tasks::fault;
use grip_types::{Identifier, Oid, RefEdit, RefName};
use parking_lot::Mutex;

use crate::{RequestTimes, departures::Departure, error::GraspError};

pub(crate) use self::journal::Journal;

/// Writes to disk, event store and database.
pub(crate) struct Commit {
    repositories: Repositories,
    writer: Writer,
    journal: Journal,
}

/// A change of held entries on its way to the disk.
pub(crate) type Written = BoxFuture<'static, Result<(), DbError>>;

impl Commit {
    pub(crate) fn new(repositories: Repositories, writer: Writer, db: Db) -> Self {
        Self {
            repositories,
            writer,
            journal: Journal::new(db),
        }
    }

    /// Makes received objects part of their identifier's store. Blocks.
    pub(crate) fn objects(&self, quarantine: Quarantine) -> Result<(), GraspError> {
        let identifier = quarantine.identifier().clone();
        let promoted = quarantine.promote();
        promoted.map_err(|source| GraspError::Objects { identifier, source })?;
        fault::point("push.promoted");
        Ok(())
    }

    /// Removes the objects of an identifier, unless a repository of it is on disk. Blocks.
    pub(crate) fn remove_objects(&self, identifier: &Identifier) -> Result<bool, GraspError> {
        let removed = self.repositories.remove_store(identifier);
        removed.map_err(|error| GraspError::Stores(Box::new(error)))
    }

    /// Has a store for the objects of an identifier. Blocks.
    pub(crate) fn ensure_objects(&self, identifier: &Identifier) -> Result<(), GraspError> {
        let made = self.repositories.ensure_store(identifier);
        made.map_err(|error| GraspError::Stores(Box::new(error)))
    }

    /// Moves damaged packs out of the store: their objects count as missing. Blocks.
    pub(crate) fn set_packs_aside(
        &self,
        identifier: &Identifier,
        packs: &[DamagedPack],
    ) -> Result<(), RepoError> {
        self.repositories.set_aside(identifier, packs)
    }

    /// Makes the edits in one step, if the refs are still where they were. Blocks.
    pub(crate) fn refs(
        &self,
        addr: &RepoAddr,
        edits: &[RefEdit],
        head: Option<&RefName>,
    ) -> Result<(), GraspError> {
        let changed = self.repositories.update_refs(addr, edits, head);
        changed.map(drop).map_err(GraspError::refs(addr))
    }

    /// The same, and keeps the tips that are lost. Blocks.
    pub(crate) fn refs_recorded(
        &self,
        addr: &RepoAddr,
        edits: &[RefEdit],
        head: Option<&RefName>,
        record: &MoveRecord,
    ) -> Result<(), GraspError> {
        let repositories = &self.repositories;
        let changed = repositories.update_refs_recorded(addr, edits, head, record);
        changed.map(drop).map_err(GraspError::refs(addr))
    }

    /// Puts no refs in the place of refs that cannot be read. Blocks.
    pub(crate) fn reset_refs(&self, addr: &RepoAddr) -> Result<(), GraspError> {
        let reset = self.repositories.reset_refs(addr);
        reset.map_err(GraspError::repository(addr))
    }

    /// Puts a repository that cannot be read aside as it is. Blocks.
    pub(crate) fn set_repository_aside(&self, addr: &RepoAddr) -> Result<(), GraspError> {
        let moved = self.repositories.set_repository_aside(addr);
        moved.map_err(GraspError::repository(addr))
    }

    /// Hides the tip of a pull request that is held, from a time on, and says where it was. Blocks.
    pub(crate) fn hide_tip(
        &self,
        addr: &RepoAddr,
        name: &RefName,
        at: u64,
    ) -> Result<Option<Oid>, GraspError> {
        let hidden = self.repositories.hide_tip(addr, name, at);
        hidden.map_err(GraspError::refs(addr))
    }

    /// Shows a hidden tip again. Blocks.
    pub(crate) fn show_tip(&self, addr: &RepoAddr, name: &RefName) -> Result<(), GraspError> {
        let shown = self.repositories.show_tip(addr, name);
        shown.map_err(GraspError::refs(addr))
    }

    /// Removes a hidden tip and what rests on it alone. Blocks.
    pub(crate) fn drop_hidden_tip(
        &self,
        addr: &RepoAddr,
        name: &RefName,
    ) -> Result<(), GraspError> {
        let removed = self.repositories.drop_hidden_tip(addr, name);
        removed.map_err(GraspError::refs(addr))
    }

    /// Has a repository: the one archived under this name, or an empty one, which may be `prepared`. Says
    /// whether it came out of the archive. Blocks.
    pub(crate) fn create_repository(
        &self,
        addr: &RepoAddr,
        prepared: Option<Prepared>,
    ) -> Result<bool, GraspError> {
        if self.repositories.exists(addr) {
            return Ok(false);
        }
        let restored = self.repositories.restore(addr);
        if restored.map_err(GraspError::repository(addr))? {
            return Ok(true);
        }
        let created = match prepared {
            Some(prepared) => self.repositories.create_prepared(prepared),
            None => self.repositories.create(addr),
        };
        created
            .map(|()| false)
            .map_err(GraspError::repository(addr))
    }

    /// Puts an empty repository in the place of one, which is archived. Blocks.
    pub(crate) fn empty_repository(&self, addr: &RepoAddr, stamp: u64) -> Result<(), GraspError> {
        self.archive_repository(addr, stamp)?;
        let created = self.repositories.create(addr);
        created.map_err(GraspError::repository(addr))
    }

    /// Blocks.
    pub(crate) fn archive_repository(&self, addr: &RepoAddr, stamp: u64) -> Result<(), GraspError> {
        let archived = self.repositories.archive(addr, stamp);
        archived.map_err(GraspError::repository(addr))
    }

    /// Takes over a repository that another server has archived; says whether it is new here. Blocks.
    pub(crate) fn adopt_archive(
        &self,
        archived: &Archived,
        from: &Path,
    ) -> Result<bool, GraspError> {
        let taken = self.repositories.adopt_archived(archived, from);
        taken.map_err(GraspError::repository(&archived.repo))
    }

    /// Removes an archived repository for good. Blocks.
    pub(crate) fn destroy_archive(&self, archived: &Archived) -> Result<(), GraspError> {
        let removed = self.repositories.remove_archive(archived);
        removed.map_err(GraspError::repository(&archived.repo))
    }

    /// Takes a repository without refs out of its place. Blocks.
    pub(crate) fn take_repository(&self, addr: &RepoAddr) -> Result<Option<Discarded>, RepoError> {
        self.repositories.take_empty(addr)
    }

    /// Stores events and tells subscribers of them.
    pub(crate) async fn events(&self, events: Vec<Event>) -> Result<Vec<Put>, GraspError> {
        Ok(self.writer.save(events).await?)
    }

    pub(crate) async fn remove_events(&self, ids: Vec<EventId>) -> Result<(), GraspError> {
        Ok(self.writer.remove(ids).await?)
    }

    /// Stores a deletion request; what it names goes, and with it `hanging`. At the addresses of `left` no
    /// version comes back of before their owners left.
    pub(crate) async fn delete(
        &self,
        request: Event,
        hanging: Vec<EventId>,
        left: Vec<(Address, Departure)>,
    ) -> Result<Vec<Put>, GraspError> {
        let change = move |events: &[Event], view: &mut WriteView<'_>, now| {
            for (address, Departure { id, created_at }) in &left {
                view.forget_history(address, *created_at, id)?;
            }
            let put = view.put(&events[0], now)?;
            if matches!(put, Put::Stored { .. }) {
                for id in &hanging {
                    view.remove(id)?;
                }
            }
            Ok(vec![put])
        };
        let changed = self.writer.change(vec![request], Box::new(change));
        let put = changed.await?;
        fault::point("delete.events_removed");
        Ok(put)
    }

    /// Stores a request to vanish: nothing older of its author is taken any more.
    pub(crate) async fn vanish(&self, request: Event) -> Result<Vec<Put>, GraspError> {
        let change = |events: &[Event], view: &mut WriteView<'_>, now| {
            Ok(vec![view.put_vanish(&events[0], now)?])
        };
        let changed = self.writer.change(vec![request], Box::new(change));
        let put = changed.await?;
        fault::point("vanish.stored");
        Ok(put)
    }

    /// A request to vanish is carried out.
    pub(crate) async fn end_vanishing(&self, vanished: Vanished) -> Result<(), GraspError> {
        self.change(move |view, _| view.end_vanishing(&vanished))
            .await
    }

    /// Takes an event out, and serves the version before it.
    pub(crate) async fn roll_back(&self, id: EventId) -> Result<(), GraspError> {
        self.change(move |view, now| view.roll_back(&id, now).map(drop))
            .await
    }

    pub(crate) async fn use_requests(&self, ids: Vec<EventId>) -> Result<(), GraspError> {
        self.change(move |view, now| view.use_requests(&ids, now))
            .await
    }

    pub(crate) async fn age_requests(
        &self,
        ids: Vec<EventId>,
        now: Timestamp,
        retention: Retention,
    ) -> Result<Aged, GraspError> {
        self.change(move |view, _| view.age_requests(&ids, now, &retention))
            .await
    }

    /// Keeps versions of announcements and states that another server had replaced.
    pub(crate) async fn keep_versions(
        &self,
        versions: Vec<Event>,
    ) -> Result<Vec<Kept>, GraspError> {
        self.change(move |view, _| versions.iter().map(|it| view.keep_version(it)).collect())
            .await
    }

    /// Gives requests the times that another server knows of; says of how many they changed.
    pub(crate) async fn backdate_requests(
        &self,
        times: Vec<RequestTimes>,
    ) -> Result<usize, GraspError> {
        self.change(move |view, _| {
            let mut changed = 0;
            for times in &times {
                let RequestTimes {
                    request,
                    first_seen,
                    last_used,
                } = times;
                let dated = view.backdate_request(request, *first_seen, *last_used)?;
                changed += usize::from(dated);
            }
            Ok(changed)
        })
        .await
    }

    /// Forgets the history and the deletion requests of an author up to a time.
    pub(crate) async fn forget_author(
        &self,
        author: PublicKey,
        until: Timestamp,
    ) -> Result<(), GraspError> {
        self.change(move |view, _| view.forget_author(&author, until))
            .await
    }

    /// Forgets versions of addresses that are not served any more. Says how many.
    pub(crate) async fn forget_stale_history(&self, max: usize) -> Result<usize, GraspError> {
        self.change(move |view, _| view.forget_stale_history(max))
            .await
    }

    async fn change<T: Clone + Default + Send + 'static>(
        &self,
        work: impl Fn(&mut WriteView<'_>, Timestamp) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> Result<T, GraspError> {
        // The last try counts.
        let result = Arc::new(Mutex::new(T::default()));
        let done = Arc::clone(&result);
        let change = move |_: &[Event], view: &mut WriteView<'_>, now| {
            *done.lock() = work(view, now)?;
            Ok(Vec::new())
        };
        self.writer.change(Vec::new(), Box::new(change)).await?;
        let value = result.lock().clone();
        Ok(value)
    }

    /// Removes a repository for good. Blocks.
    pub(crate) fn destroy_repository(&self, addr: &RepoAddr) -> Result<(), GraspError> {
        let removed = self.repositories.remove(addr);
        removed.map_err(GraspError::repository(addr))
    }

    /// A place in the queue of changes of held entries; to be taken before the purgatory is
    /// locked, since it may have to be waited for.
    pub(crate) async fn permit(&self) -> Result<WritePermit, DbError> {
        self.journal.db().write_permit().await
    }

    /// Queues changes of held entries, which are made in the order of these calls; the future
    /// waits until they are on the disk. The rows of one call change together.
    pub(crate) fn held(
        &self,
        permit: Result<WritePermit, DbError>,
        changes: Vec<Change>,
    ) -> Written {
        if changes.is_empty() {
            return std::future::ready(Ok(())).boxed();
        }
        match permit {
            Ok(permit) => {
                let journal = self.journal.clone();
                let written = permit
                    .write(|mut db| Box::pin(async move { journal.write(&mut db, changes).await }));
                written.boxed()
            }
            Err(error) => std::future::ready(Err(error)).boxed(),
        }
    }

    /// Every held entry that was made durable.
    pub(crate) async fn load_held(&self) -> Result<Vec<Row>, DbError> {
        self.journal.load().await
    }
}
