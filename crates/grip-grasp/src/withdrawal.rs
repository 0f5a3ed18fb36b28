//! Repositories whose owner has left: readable for a while, then archived (G01-15a 6).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use grip_db::DbError;
use grip_nostr::{Event, RepoAddr};
use grip_purgatory::{Change, Millis, Row};
use grip_tasks::fault;
use parking_lot::Mutex;

use crate::{
    error::GraspError,
    grasp::{Core, now},
};

/// How long such a repository can still be read: as long as a hidden announcement is kept.
const GRACE: Duration = grip_purgatory::HIDDEN_LIFETIME;
/// The class of its rows in the journal.
const CLASS: &str = "withdrawal";

/// The repositories that are on their way out. Bounded by the repositories hosted.
#[derive(Default)]
pub(crate) struct Withdrawals {
    until: Mutex<BTreeMap<RepoAddr, Millis>>,
}

impl Withdrawals {
    /// Takes its rows from those of the journal and leaves the others.
    pub(crate) fn restore(rows: &mut Vec<Row>) -> Self {
        let mut until = BTreeMap::new();
        rows.retain(|row| {
            let ours = row.class == CLASS;
            let addr = row.key.split_once('/').filter(|_| ours);
            if let Some(addr) = addr.and_then(|(npub, name)| RepoAddr::from_segments(npub, name)) {
                until.insert(addr, Millis::new(row.expires_at));
            }
            !ours
        });
        Self {
            until: Mutex::new(until),
        }
    }

    /// Until when the repository is read-only, if it is on its way out.
    pub(crate) fn until(&self, addr: &RepoAddr) -> Option<Millis> {
        self.until.lock().get(addr).copied()
    }

    pub(crate) fn due(&self, now: Millis) -> Vec<RepoAddr> {
        let until = self.until.lock();
        let due = until.iter().filter(|(_, end)| **end <= now);
        due.map(|(addr, _)| addr.clone()).collect()
    }
}

impl Core {
    /// Ends some of those repositories at once, which nobody reads for the rest of their day.
    pub(crate) async fn end_withdrawals(
        self: &Arc<Self>,
        which: impl Fn(&RepoAddr) -> bool,
    ) -> Result<(), GraspError> {
        let mut leaving: Vec<RepoAddr> = self.withdrawals.until.lock().keys().cloned().collect();
        leaving.retain(|addr| which(addr));
        for addr in leaving {
            let _turns = self.turns(vec![addr.identifier.clone()]).await?;
            self.end_withdrawal(&addr).await?;
            self.settle(&addr.identifier).await;
        }
        Ok(())
    }

    /// Makes a repository read-only and sets its end, and remembers by which announcement its owner left, in
    /// one write: one without the other would bring the owner back, or keep what they left. A second
    /// withdrawal changes no end.
    pub(crate) async fn withdraw(&self, addr: &RepoAddr, by: &Event) -> Result<(), GraspError> {
        let left = self.note_departure(addr, by);
        let mut changes: Vec<Change> = left.iter().flat_map(|it| it.changes.clone()).collect();
        let is_here = self.hosted.status(addr).is_some() && self.withdrawals.until(addr).is_none();
        let end = is_here.then(|| now() + GRACE);
        changes.extend(end.map(|end| {
            Change::Put(Row {
                class: CLASS.to_owned(),
                key: addr.path(),
                identifier: addr.identifier.as_str().to_owned(),
                payload: "{}".to_owned(),
                expires_at: end.get(),
            })
        }));
        if changes.is_empty() {
            return Ok(());
        }
        self.write_held(changes).await?;
        fault::point("withdraw.journalled");
        self.departures.remember(left);
        if let Some(end) = end {
            self.withdrawals.until.lock().insert(addr.clone(), end);
        }
        Ok(())
    }

    /// The owner is back, or the repository is gone.
    pub(crate) async fn end_withdrawal(&self, addr: &RepoAddr) -> Result<(), DbError> {
        if self.withdrawals.until(addr).is_none() {
            return Ok(());
        }
        let row = Change::Remove {
            class: CLASS.to_owned(),
            key: addr.path(),
        };
        // A row that outlives its entry would archive, after a restart, who has come back.
        self.write_held(vec![row]).await?;
        self.withdrawals.until.lock().remove(addr);
        Ok(())
    }
}
