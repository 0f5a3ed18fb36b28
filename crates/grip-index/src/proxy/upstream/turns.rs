//! Turns of the fetches that run at once.
//!
//! Whose share is used up: that of the network which had it fetched. One has half of the turns at
//! most, and what it wants beyond that waits without being in the way of others. What waits for a busy host has
//! no turn meanwhile: other hosts are fetched from.

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

/// The turn of one fetch, which has none while it waits for something else.
pub(super) struct FetchTurn<'a> {
    turns: &'a Turns,
    user: User,
    turn: Option<Turn<'a>>,
}

impl FetchTurn<'_> {
    /// Waits for `other` without the turn, then for a turn. Cancel safe.
    pub(super) async fn give_up_for(&mut self, other: impl Future<Output = ()>) {
        self.turn = None;
        other.await;
        self.turn = Some(self.turns.wait(self.user).await);
    }
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            free: Semaphore::new(FETCHES),
            networks: Permits::new(),
            freed: Notify::new(),
        }
    }

    /// Waits for the turn of a fetch. Cancel safe.
    pub(super) async fn begin(&self, user: User) -> FetchTurn<'_> {
        FetchTurn {
            turns: self,
            user,
            turn: Some(self.wait(user).await),
        }
    }

    /// Waits for a turn. Cancel safe.
    async fn wait(&self, user: User) -> Turn<'_> {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use grip_types::NetworkPrefixes;
    use tokio::{sync::Semaphore, time::timeout};

    use super::*;

    fn network(last: u8) -> User {
        User::Network(NetworkPrefixes::default().network([192, 0, 2, last].into()))
    }

    /// Two networks that waited for one busy host had all turns, and nothing was fetched from any other.
    #[tokio::test(start_paused = true)]
    async fn fetches_that_wait_for_a_busy_host_leave_their_turns_to_others() {
        let (turns, host) = (&Turns::new(), &Semaphore::new(0));
        let waiting = [1, 1, 2, 2].map(|last| async move {
            let mut turn = turns.begin(network(last)).await;
            let freed = async { host.acquire().await.unwrap().forget() };
            turn.give_up_for(freed).await;
            assert!(turn.turn.is_some());
        });
        let third = async {
            tokio::task::yield_now().await;
            drop(turns.begin(network(3)).await);
            host.add_permits(4);
        };
        let all = async { tokio::join!(join_all(waiting), third) };
        let done = timeout(Duration::from_secs(1), all).await;
        assert!(done.is_ok(), "the third waited for the host of the others");
    }
}
