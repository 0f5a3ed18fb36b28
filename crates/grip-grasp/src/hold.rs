//! The purgatory in memory and its journal, changed as one; events dropped from it, and what they leave.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use grip_db::{DbError, WritePermit};
use grip_nostr::EventId;
use grip_purgatory::{Change, Full, Purgatory, Waiting};
use grip_tasks::fault;
use grip_types::Identifier;

use crate::{
    commit::Written,
    error::GraspError,
    grasp::{Core, now},
};

/// Removals that may be on their way to the disk at once; beyond it the next one waits.
pub(crate) const MAX_FORGETTING: usize = 256;

impl Core {
    /// Changes the purgatory and makes the change durable.
    ///
    /// Changes reach the journal in the order in which they happened in memory: each is queued
    /// while the purgatory is locked, in a place taken before, and only the commit is waited for
    /// outside.
    pub(crate) async fn held<T>(
        &self,
        change: impl FnOnce(&mut Purgatory) -> (T, Vec<Change>),
    ) -> Result<T, GraspError> {
        let (value, journalled) = self.try_held(|purgatory| Ok(change(purgatory))).await?;
        journalled?;
        Ok(value)
    }

    /// As [`Core::held`] for a change that the purgatory may have no room for. The outer error
    /// says that nothing changed; the inner one that memory changed and the journal did not.
    pub(crate) async fn try_held<T>(
        &self,
        change: impl FnOnce(&mut Purgatory) -> Result<(T, Vec<Change>), Full>,
    ) -> Result<(T, Result<(), DbError>), Full> {
        let permit = self.commit.permit().await;
        let (value, written) = self.change(permit, change)?;
        Ok((value, written.await))
    }

    /// Drops what waits, or is wanted, and `goes`: each in the turns of its identifiers, in which they are
    /// settled too. Returns how many there were. A failure stops none of the others; the first is told.
    pub(crate) async fn drop_waiting_where(
        self: &Arc<Self>,
        goes: impl Fn(&Waiting<'_>) -> bool,
    ) -> Result<usize, GraspError> {
        let mut going = BTreeMap::<Vec<Identifier>, Vec<EventId>>::new();
        for waiting in self.purgatory.lock().waiting().filter(&goes) {
            let of_same = going.entry(waiting.identifiers().to_vec()).or_default();
            of_same.push(waiting.held().id());
        }
        let (mut count, mut failed) = (0, None);
        for (identifiers, ids) in going {
            match self.drop_of(identifiers, ids, &goes).await {
                Ok(dropped) => count += dropped,
                Err(GraspError::Stopped) => return Err(GraspError::Stopped),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(count), Err)
    }

    /// Drops those of one group that still `go`. Dropped and settled in one turn: nobody finds a repository
    /// whose announcement is gone.
    async fn drop_of(
        self: &Arc<Self>,
        identifiers: Vec<Identifier>,
        mut ids: Vec<EventId>,
        goes: impl Fn(&Waiting<'_>) -> bool,
    ) -> Result<usize, GraspError> {
        let _turns = self.turns(identifiers.clone()).await?;
        let dropped = self
            .held(|purgatory| {
                ids.retain(|id| purgatory.find_waiting(id).is_some_and(|it| goes(&it)));
                let drop_one = |id: &EventId| purgatory.drop_event(id, now());
                let changes = ids.iter().flat_map(drop_one).collect();
                (ids.len(), changes)
            })
            .await;
        // Memory has dropped them even where the journal could not be told: git has to follow.
        for identifier in &identifiers {
            self.settle(identifier).await;
        }
        dropped
    }

    /// Holds a state or pull request for its identifiers, in their turns. What could not be
    /// journalled is taken back: memory is as the journal has it.
    pub(crate) async fn hold(
        &self,
        id: EventId,
        identifiers: Vec<Identifier>,
        add: impl FnOnce(&mut Purgatory, Vec<Identifier>) -> Result<Vec<Change>, Full>,
    ) -> Result<(), GraspError> {
        let held = self.try_held(|purgatory| {
            let before = purgatory.before(&id, &identifiers);
            Ok((before, add(purgatory, identifiers)?))
        });
        let (before, journalled) = held.await?;
        if let Err(error) = journalled {
            self.purgatory.lock().undo(before);
            return Err(error.into());
        }
        fault::point("hold.journalled");
        Ok(())
    }

    /// Changes the purgatory and queues the change for the journal, in one step; wakes the sync if
    /// its next attempt has come forward. Without a permit only memory changes, and the future
    /// says why.
    fn change<T, E>(
        &self,
        permit: Result<WritePermit, DbError>,
        change: impl FnOnce(&mut Purgatory) -> Result<(T, Vec<Change>), E>,
    ) -> Result<(T, Written), E> {
        let due = |purgatory: &Purgatory| purgatory.next_sync();
        let mut purgatory = self.purgatory.lock();
        let before = due(&purgatory);
        let (value, changes) = change(&mut purgatory)?;
        let written = self.commit.held(permit, changes);
        let after = due(&purgatory);
        drop(purgatory);
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.sync_changes.send_modify(|count| *count += 1);
        }
        Ok((value, written))
    }

    /// Writes rows beside the purgatory.
    pub(crate) async fn write_held(&self, changes: Vec<Change>) -> Result<(), DbError> {
        let permit = self.commit.permit().await;
        self.commit.held(permit, changes).await
    }

    /// Removes held entries, at once in memory and soon from the journal: nobody waits for the
    /// disk. A row that outlives a crash is judged again by the start, which removes it for the
    /// same reason; so a failure is only reported.
    pub(crate) async fn forget(&self, change: impl FnOnce(&mut Purgatory) -> Vec<Change>) {
        let forgetting = Arc::clone(&self.forgetting).acquire_owned().await;
        let permit = self.commit.permit().await;
        let changed = self.change(permit, |purgatory| {
            Ok::<_, Infallible>(((), change(purgatory)))
        });
        let Ok(((), written)) = changed;
        self.group.spawn("grasp.forget", async move {
            if let Err(error) = written.await {
                GraspError::from(error).log("failed to remove a held entry from the journal");
            }
            fault::point("release.journal_removed");
            drop(forgetting);
        });
    }
}
