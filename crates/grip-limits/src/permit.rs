//! The permit: what was taken of a limit, free again when it is dropped.

use std::{fmt, sync::Arc};

use tokio::time::Instant;

use crate::{Accounts, Ledger, LocalLedger};

/// A right that frees itself on drop: after success, `?`, timeout, panic and cancellation alike.
#[must_use = "what was taken is free again as soon as the permit is dropped"]
pub struct Permit<A: Accounts = crate::Hosts> {
    /// None only once it has been settled.
    grant: Option<A::Grant>,
    ledger: Arc<dyn Ledger<A>>,
}

const HELD: &str = "because only what consumes the permit takes its grant";

impl<A: Accounts> Permit<A> {
    /// Takes a permit, or says why not; never waits for capacity. Cancel safe.
    pub async fn take(ledger: &Arc<dyn Ledger<A>>, key: &A::Key) -> Result<Self, A::Refusal> {
        let grant = Some(ledger.take(key).await?);
        let ledger = Arc::clone(ledger);
        Ok(Self { grant, ledger })
    }

    pub(crate) fn take_local(
        ledger: &Arc<LocalLedger<A>>,
        key: &A::Key,
    ) -> Result<Self, A::Refusal> {
        let grant = Some(ledger.lock().take(key, Instant::now())?);
        let ledger = Arc::clone(ledger) as Arc<dyn Ledger<A>>;
        Ok(Self { grant, ledger })
    }

    /// Takes more under the same permit. A refusal leaves it as it was.
    pub(crate) async fn take_more(&mut self, key: &A::Key) -> Result<(), A::Refusal> {
        let grant = self.ledger.take(key).await?;
        self.grant = Some(grant);
        Ok(())
    }

    pub fn grant(&self) -> &A::Grant {
        self.grant.as_ref().expect(HELD)
    }

    pub fn grant_mut(&mut self) -> &mut A::Grant {
        self.grant.as_mut().expect(HELD)
    }

    /// Frees it with what its use taught.
    pub fn settle(mut self, outcome: A::Outcome) {
        if let Some(grant) = self.grant.take() {
            self.ledger.settle(grant, outcome);
        }
    }
}

impl<A: Accounts> Drop for Permit<A> {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            let outcome = A::dropped(&grant, Instant::now());
            self.ledger.settle(grant, outcome);
        }
    }
}

impl<A: Accounts<Grant: fmt::Debug>> fmt::Debug for Permit<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("grant", &self.grant)
            .finish()
    }
}
