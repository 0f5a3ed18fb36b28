//! Turns of the fetches that run at once.
//!
//! Whose share is used up: that of the network which had it fetched. One has half of the turns at
//! most, and what it wants beyond that waits without being in the way of others.

use std::pin::pin;

use grip_tasks::{Permit, Permits};
use grip_types::ClientNetwork;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::User;

/// Fetches at once.
const FETCHES: usize = 4;
/// Of these, those of one network.
const OF_ONE_NETWORK: usize = 2;

pub(super) struct Turns {
    free: Semaphore,
    networks: Permits<ClientNetwork>,
    /// A network has a turn less.
    freed: Notify,
}

/// One turn; dropping it frees it.
#[must_use = "dropping the turn frees it"]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    of_network: Option<Permit<ClientNetwork>>,
    _turn: SemaphorePermit<'a>,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            free: Semaphore::new(FETCHES),
            networks: Permits::new(),
            freed: Notify::new(),
        }
    }

    /// Waits for a turn. Cancel safe.
    pub(super) async fn wait(&self, user: User) -> Turn<'_> {
        let of_network = match user {
            User::Network(network) => Some(self.wait_for_network(network).await),
            User::Known | User::Nobody => None,
        };
        let turn = self.free.acquire().await;
        Turn {
            turns: self,
            of_network,
            _turn: turn.expect("because it is never closed"),
        }
    }

    async fn wait_for_network(&self, network: ClientNetwork) -> Permit<ClientNetwork> {
        loop {
            let mut freed = pin!(self.freed.notified());
            // Before the attempt, so that no turn is freed unnoticed between the two.
            freed.as_mut().enable();
            if let Some(permit) = self.networks.try_take(&network, OF_ONE_NETWORK) {
                return permit;
            }
            freed.await;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(permit) = self.of_network.take() {
            drop(permit);
            self.turns.freed.notify_waiters();
        }
    }
}
