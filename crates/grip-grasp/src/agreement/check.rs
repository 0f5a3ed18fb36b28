//! The audit of everything, page by page, for the operator.

use std::{ops::Bound, sync::Arc};

use grip_nostr::RepoAddr;
use grip_types::Identifier;

use super::{Disagreement, Fault};
use crate::{Grasp, LookError, error::GraspError, grasp::Core};

/// A page of the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// How many identifiers were looked at.
    pub identifiers: usize,
    /// The last of them, unless it was the last of all.
    pub next: Option<Identifier>,
    pub found: Vec<Disagreement>,
    /// Of a repair, what it could not settle yet.
    pub left: Vec<Disagreement>,
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
    /// Audits up to `limit` identifiers after `after`; the last page also tells what is on disk and
    /// belongs to nobody.
    pub async fn check(
        &self,
        after: Option<Identifier>,
        limit: usize,
        options: CheckOptions,
    ) -> Result<Checked, LookError> {
        let all = self.identifiers();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let page = all.range((from, Bound::Unbounded)).take(limit);
        let mut checked = Checked::default();
        for identifier in page {
            checked.identifiers += 1;
            checked.next = Some(identifier.clone());
            self.core.read_again(identifier).await?;
            let mut found = self.audit(identifier).await?;
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
        }
        if checked.identifiers < limit {
            checked.next = None;
            let stray = self.core.blocking("grasp.audit", Core::stray_repositories);
            let stray = stray.await??;
            if options.repair {
                checked.left.extend(stray.iter().cloned());
            }
            checked.found.extend(stray);
        }
        Ok(checked)
    }
}

impl Core {
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

    async fn fsck_all(&self, identifier: &Identifier) -> Result<Vec<Disagreement>, GraspError> {
        let mut found = Vec::new();
        for owner in self.hosted.owners(identifier).into_keys() {
            let addr = RepoAddr::new(owner, identifier.clone());
            let fault = match self.fsck(&addr).await {
                Ok(reason) => reason.map(|reason| Fault::Damaged { reason }),
                // Of anything else that is wrong with it the audit has told.
                Err(error) => error.unread().map(|reason| Fault::Unread { reason }),
            };
            found.extend(fault.map(|fault| Disagreement {
                identifier: identifier.clone(),
                repository: Some(addr),
                fault,
            }));
        }
        Ok(found)
    }

    /// Moves packs out of the store that cannot be read to their end: their objects count as missing
    /// from then on, and are looked for.
    async fn set_unreadable_packs_aside(
        self: &Arc<Self>,
        identifier: &Identifier,
    ) -> Result<(), GraspError> {
        let failed = |error| GraspError::Stores(Box::new(error));
        let _turns = self.turns(vec![identifier.clone()]).await?;
        let packs = self.repositories.verify_packs(identifier).await;
        let packs = packs.map_err(failed)?;
        if packs.is_empty() {
            return Ok(());
        }
        for pack in &packs {
            let (name, reason) = (&pack.name, &pack.reason);
            tracing::error!(%identifier, name, reason, "setting a damaged pack aside");
        }
        let identifier = identifier.clone();
        let aside = move |core: &Self| core.repositories.set_aside(&identifier, &packs);
        self.blocking("git.refs", aside).await?.map_err(failed)
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
