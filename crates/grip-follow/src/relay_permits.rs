//! Permits that all followed relays share: to be dialled, to have their history read.
//!
//! Strangers name relays that answer nothing, and each of them keeps its permit for as long as that is
//! waited for. So one permit is for the relays that the operator configured alone: no number of others puts
//! these behind.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many permits at once. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RelayPermits {
    all: Arc<Semaphore>,
    /// One less: what relays that events name may have of them.
    named: Arc<Semaphore>,
}

/// Frees itself on drop.
#[must_use = "it is free again as soon as the permit is dropped"]
pub(crate) struct RelayPermit {
    _named: Option<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

impl RelayPermits {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(count)),
            named: Arc::new(Semaphore::new(count - 1)),
        }
    }

    /// Waits for one, first come, first served among relays of the same kind. Cancel safe.
    pub(crate) async fn acquire(&self, is_configured: bool) -> RelayPermit {
        let never_closed = "because the permits are never closed";
        let named = if is_configured {
            None
        } else {
            let named = Arc::clone(&self.named).acquire_owned().await;
            Some(named.expect(never_closed))
        };
        let of_all = Arc::clone(&self.all).acquire_owned().await;
        RelayPermit {
            _named: named,
            _of_all: of_all.expect(never_closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn g02_39_one_permit_is_for_configured_relays_and_never_more_are_out() {
        let permits = RelayPermits::new(3);
        let now = |is_configured| permits.acquire(is_configured).now_or_never();
        let named: Vec<_> = (0..5).map_while(|_| now(false)).collect();
        assert_eq!(named.len(), 2);
        let configured = now(true).unwrap();
        assert!(now(true).is_none() && now(false).is_none());
        drop(named);
        assert_eq!((0..5).map_while(|_| now(true)).count(), 5, "each is freed");
        drop(configured);
        let all: Vec<_> = (0..5).map_while(|_| now(true)).collect();
        assert_eq!(all.len(), 3);
    }
}
