//! The audit of everything, page by page, for the operator.

use std::{ops::Bound, sync::Arc, time::Duration};

use grip_nostr::RepoAddr;
use grip_types::{ErrorChain, Identifier};
use tokio::time::{Instant, timeout};

use super::{Disagreement, Fault};
use crate::{Grasp, LookError, error::GraspError, grasp::Core};

/// How long a look at what does not agree waits for the sweep under way.
const SWEEP_PATIENCE: Duration = Duration::from_secs(2);

/// A page of the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// How many identifiers were looked at.
    pub identifiers: usize,
    /// How many there are on all pages.
    pub total: usize,
    /// The last of them, unless it was the last of all.
    pub next: Option<Identifier>,
    pub found: Vec<Disagreement>,
    /// Of a repair, what it could not settle yet.
    pub left: Vec<Disagreement>,
}

/// The identifiers that one page may have.
#[derive(Clone, Debug)]
pub struct CheckRange {
    /// The first ones, or those after this one.
    pub after: Option<Identifier>,
    pub limit: usize,
    /// None is begun after this time; one always is.
    pub time: Duration,
}

/// How a check goes about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Read every object too.
    pub full: bool,
    /// Settle what is found.
    pub repair: bool,
}

impl Grasp {
    /// Audits the identifiers of one page; the last one also tells what is on disk and belongs to
    /// nobody.
    pub async fn check(
        &self,
        range: CheckRange,
        options: CheckOptions,
    ) -> Result<Checked, LookError> {
        let (all, began) = (self.identifiers(), Instant::now());
        let from = range.after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut checked = Checked {
            total: all.len(),
            ..Checked::default()
        };
        let mut rest = all.range((from, Bound::Unbounded)).peekable();
        while let Some(identifier) = rest.next() {
            checked.identifiers += 1;
            let mut looked = self.core.look_at(identifier).await;
            if looked.as_ref().is_ok_and(|found| !found.is_empty()) {
                // A sweep ends entries in memory before it has the turn in which git follows. One that reads
                // damaged repositories takes long, and what is found meanwhile is shown.
                let _at_rest = timeout(SWEEP_PATIENCE, self.core.sweeping.lock()).await;
                looked = self.core.look_at(identifier).await;
            }
            let mut found = match looked {
                Err(error) if !matches!(error, GraspError::Stopped) => {
                    let reason = ErrorChain(&error).to_string();
                    vec![Disagreement {
                        identifier: identifier.clone(),
                        repository: None,
                        fault: Fault::Unread { reason },
                    }]
                }
                looked => looked?,
            };
            if options.full {
                found.extend(self.core.fsck_all(identifier).await?);
            }
            if options.repair && !found.is_empty() {
                if options.full {
                    self.core.set_unreadable_packs_aside(identifier).await?;
                }
                let mut left = self.settle(identifier).await;
                if options.full && left.is_empty() {
                    left.extend(self.core.fsck_all(identifier).await?);
                }
                checked.left.extend(left);
            }
            checked.found.extend(found);
            let is_full = checked.identifiers >= range.limit || began.elapsed() >= range.time;
            if is_full && rest.peek().is_some() {
                checked.next = Some(identifier.clone());
                return Ok(checked);
            }
        }
        if options.repair {
            self.core.remove_unused_stores().await?;
        }
        let stray = self.core.blocking("grasp.audit", Core::stray);
        let stray = stray.await??;
        if options.repair {
            checked.left.extend(stray.iter().cloned());
        }
        checked.found.extend(stray);
        Ok(checked)
    }
}

impl Core {
    async fn look_at(
        self: &Arc<Self>,
        identifier: &Identifier,
    ) -> Result<Vec<Disagreement>, GraspError> {
        self.read_again(identifier).await?;
        self.audit(identifier).await
    }

    /// Lets nothing that is remembered of the repositories of an identifier hide what is on disk.
    async fn read_again(self: &Arc<Self>, identifier: &Identifier) -> Result<(), GraspError> {
        let _turns = self.turns(vec![identifier.clone()]).await?;
        let identifier = identifier.clone();
        let forget = move |core: &Self| {
            for owner in core.hosted.owners(&identifier).into_keys() {
                let addr = RepoAddr::new(owner, identifier.clone());
                core.repositories.read_again(&addr);
            }
            for addr in core.repositories.contributors(&identifier) {
                core.repositories.read_again(&addr);
            }
        };
        self.blocking("git.refs", forget).await
    }

    pub(super) async fn fsck_all(
        self: &Arc<Self>,
        identifier: &Identifier,
    ) -> Result<Vec<Disagreement>, GraspError> {
        let mut found = Vec::new();
        let mut note = |addr: RepoAddr, read: Result<Option<String>, GraspError>| {
            let fault = match read {
                Ok(reason) => reason.map(|reason| Fault::Damaged { reason }),
                // Of anything else that is wrong with it the audit has told.
                Err(error) => error.unread().map(|reason| Fault::Unread { reason }),
            };
            found.extend(fault.map(|fault| Disagreement {
                identifier: identifier.clone(),
                repository: Some(addr),
                fault,
            }));
        };
        for owner in self.hosted.owners(identifier).into_keys() {
            let addr = RepoAddr::new(owner, identifier.clone());
            let read = self.fsck(&addr).await;
            note(addr, read);
        }
        if self.repositories.contributors(identifier).is_empty() {
            return Ok(found);
        }
        // Their packs go with their events: not while they are read.
        let _turns = self.turns(vec![identifier.clone()]).await?;
        for addr in self.repositories.contributors(identifier) {
            let read = self.read_all(&addr).await;
            note(addr, read);
        }
        Ok(found)
    }

    /// Moves packs out of the store that cannot be read to their end: their objects count as missing
    /// from then on, and are looked for.
    pub(crate) async fn set_unreadable_packs_aside(
        self: &Arc<Self>,
        identifier: &Identifier,
    ) -> Result<(), GraspError> {
        let failed = |error| GraspError::Stores(Box::new(error));
        let _turns = self.turns(vec![identifier.clone()]).await?;
        let packs = self.repositories.verify_packs(identifier).await;
        let packs = packs.map_err(failed)?;
        if packs.is_empty() {
            self.damage.note_set_aside(identifier, false);
            return Ok(());
        }
        for pack in &packs {
            let (name, reason) = (&pack.name, &pack.reason);
            tracing::error!(%identifier, name, reason, "setting a damaged pack aside");
        }
        let aside = {
            let identifier = identifier.clone();
            move |core: &Self| core.commit.set_packs_aside(&identifier, &packs)
        };
        self.blocking("git.refs", aside).await?.map_err(failed)?;
        self.damage.note_set_aside(identifier, true);
        Ok(())
    }

    /// What is on disk and belongs to nobody. Blocks.
    fn stray(&self) -> Result<Vec<Disagreement>, GraspError> {
        let mut found = self.stray_repositories()?;
        let stores = self.stray_stores();
        let stores = stores.map_err(|error| GraspError::Stores(Box::new(error)))?;
        found.extend(stores.into_iter().map(|store| Disagreement {
            identifier: store.identifier,
            repository: None,
            fault: Fault::StrayStore {
                directory: format!(".objects/{}", store.directory),
            },
        }));
        Ok(found)
    }

    /// The repositories on disk that are not hosted. Blocks.
    fn stray_repositories(&self) -> Result<Vec<Disagreement>, GraspError> {
        let listed = self.repositories.list();
        let mut stray = listed.map_err(|error| GraspError::Stores(Box::new(error)))?;
        stray.retain(|addr| self.hosted.status(addr).is_none());
        let stray = stray.into_iter().map(|addr| Disagreement {
            identifier: addr.identifier.clone(),
            repository: Some(addr),
            fault: Fault::Unannounced,
        });
        Ok(stray.collect())
    }
}
