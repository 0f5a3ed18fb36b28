//! The purgatory in memory and its journal, changed as one.

use std::task::{Context, Poll, Waker};

use grip_db::{Change as Step, JournalError, Row};
use grip_purgatory::{Change, Full, Purgatory};

use crate::{grasp::Core, trouble::Trouble};

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
    ) -> Result<(T, Result<(), JournalError>), Full> {
        let (value, first, writing) = {
            let mut purgatory = self.purgatory.lock();
            let (value, changes) = change(&mut purgatory)?;
            let mut writing = Box::pin(self.write(changes));
            let first = writing
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
            (value, first, writing)
        };
        let outcome = match first {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => writing.await,
        };
        Ok((value, outcome))
    }

    /// Writes to the journal. Outside the budget of tasks, so that the first poll always reaches
    /// the queue.
    pub(crate) fn write(
        &self,
        changes: Vec<Change>,
    ) -> impl Future<Output = Result<(), JournalError>> + Send + use<> {
        let journal = self.journal.clone();
        let steps: Vec<Step> = changes.into_iter().map(step).collect();
        tokio::task::unconstrained(async move { journal.apply(&steps).await })
    }

    /// Removes held entries. If the journal fails the rows come back at the next start, where
    /// the same judgement removes them again: so this is only reported.
    pub(crate) async fn forget(&self, change: impl FnOnce(&mut Purgatory) -> Vec<Change>) {
        if let Err(trouble) = self.held(|purgatory| ((), change(purgatory))).await {
            trouble.log("a held entry could not be removed from the journal");
        }
    }
}

/// The same change in the words of the database.
fn step(change: Change) -> Step {
    match change {
        Change::Put(row) => Step::Put(Row {
            class: row.class,
            key: row.key,
            identifier: row.identifier,
            payload: row.payload,
            expires_at: row.expires_at,
        }),
        Change::Remove { class, key } => Step::Remove { class, key },
    }
}
