//! The purgatory in memory and its journal, changed as one.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::future::BoxFuture;
use grip_db::{Change as Step, DbError, Row};
use grip_purgatory::{Change, Full, Purgatory};
use grip_tasks::fault;

use crate::{grasp::Core, trouble::Trouble, wanted::Wishes};

/// Removals that may be on their way to the disk at once; beyond it the next one waits.
pub(crate) const MAX_FORGETTING: usize = 256;

impl Core {
    /// Changes the purgatory and makes the change durable.
    ///
    /// Steps reach the journal in the order in which they happened in memory, whoever makes them:
    /// each is queued while the purgatory is locked, and only the commit is waited for outside.
    pub(crate) async fn held<T>(
        &self,
        change: impl FnOnce(&mut Purgatory) -> (T, Vec<Change>),
    ) -> Result<T, Trouble> {
        let result = self.try_held(|purgatory| Ok(change(purgatory))).await;
        result.map(|(value, journalled)| journalled.map(|()| value).map_err(Trouble::from))?
    }

    /// As [`Core::held`] for a change that the purgatory may have no room for. The outer error
    /// says that nothing changed; the inner one that memory changed and the journal did not.
    pub(crate) async fn try_held<T>(
        &self,
        change: impl FnOnce(&mut Purgatory) -> Result<(T, Vec<Change>), Full>,
    ) -> Result<(T, Result<(), DbError>), Full> {
        let (value, queued) = self.change(change)?;
        Ok((value, queued.done().await))
    }

    /// Changes the purgatory and queues the change for the journal, in one step; tells the sync if
    /// its next attempt has come forward.
    fn change<T, E>(
        &self,
        change: impl FnOnce(&mut Purgatory) -> Result<(T, Vec<Change>), E>,
    ) -> Result<(T, Queued), E> {
        let due = |purgatory: &Purgatory| purgatory.next_sync().map(|(at, _)| at);
        let mut purgatory = self.purgatory.lock();
        let before = due(&purgatory);
        let (value, changes) = change(&mut purgatory)?;
        let queued = self.queue(changes);
        let after = due(&purgatory);
        drop(purgatory);
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.sync_changes.send_modify(|count| *count += 1);
        }
        Ok((value, queued))
    }

    /// Puts changes into the journal's queue; to be called while the purgatory is locked.
    fn queue(&self, changes: Vec<Change>) -> Queued {
        let mut writing: BoxFuture<'static, _> = Box::pin(self.write(changes));
        let mut nobody = Context::from_waker(Waker::noop());
        match writing.as_mut().poll(&mut nobody) {
            Poll::Ready(outcome) => Queued::Done(outcome),
            Poll::Pending => Queued::Writing(writing),
        }
    }

    /// Writes to the journal. Outside the budget of tasks, so that the first poll always reaches
    /// the queue.
    pub(crate) fn write(
        &self,
        changes: Vec<Change>,
    ) -> impl Future<Output = Result<(), DbError>> + Send + use<> {
        let (journal, rows) = (self.journal.clone(), Arc::clone(&self.wanted));
        let (mut steps, mut wishes) = (Vec::new(), Wishes::default());
        for change in changes {
            match change {
                Change::Put(row) => steps.push(put(row)),
                Change::Remove { class, key } => steps.push(Step::Remove { class, key }),
                Change::Want(identifier) => wishes.begin(identifier),
                Change::Unwant(identifier) => wishes.end(identifier),
            }
        }
        tokio::task::unconstrained(async move {
            match wishes.is_empty() {
                true => journal.apply(&steps).await,
                false => rows.write(&journal, steps, wishes).await,
            }
        })
    }

    /// Removes held entries, at once in memory and soon from the journal: nobody waits for the
    /// disk. A row that outlives a crash is judged again by the start, which removes it for the
    /// same reason; so a failure is only reported.
    pub(crate) async fn forget(&self, change: impl FnOnce(&mut Purgatory) -> Vec<Change>) {
        let place = Arc::clone(&self.forgetting).acquire_owned().await;
        let changed = self.change(|purgatory| Ok::<_, Infallible>(((), change(purgatory))));
        let Ok(((), queued)) = changed;
        self.group.spawn("grasp.forget", async move {
            if let Err(error) = queued.done().await {
                Trouble::from(error).log("a held entry could not be removed from the journal");
            }
            fault::point("release.journal_removed");
            drop(place);
        });
    }
}

/// Changes on their way to the disk.
enum Queued {
    Done(Result<(), DbError>),
    Writing(BoxFuture<'static, Result<(), DbError>>),
}

impl Queued {
    async fn done(self) -> Result<(), DbError> {
        match self {
            Self::Done(outcome) => outcome,
            Self::Writing(writing) => writing.await,
        }
    }
}

/// The same row in the words of the database.
fn put(row: grip_purgatory::Row) -> Step {
    Step::Put(Row {
        class: row.class,
        key: row.key,
        identifier: row.identifier,
        payload: row.payload,
        expires_at: row.expires_at,
    })
}
