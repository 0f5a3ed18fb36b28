//! The service and what it stands on.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use grip_db::Db;
use grip_git::Repositories;
use grip_nostr::{PublicKey, RepoAddr, Timestamp};
use grip_purgatory::{Bounds, Millis, Purgatory};
use grip_relay::Writer;
use grip_store::{EventStore, ReadView};
use grip_tasks::{Lanes, Periodic, TaskGroup, Turn};
use grip_types::{ClientNetwork, Identifier, Owner};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use crate::{
    Policy,
    admission::{ReadAnnouncements, View, ViewError},
    agreement::{Auditor, Unsettled},
    collection::{Collecting, Keep},
    commit::Commit,
    damage::Damage,
    denials::NotedDenials,
    departures::Departures,
    enforce::Enforcement,
    error::GraspError,
    holding::Holding,
    hosted_repositories::{HostedRepositories, RepositoryStatus},
    lifecycle::{Lifecycle, UsedRequests},
    maintenance::PendingMaintenance,
    node_view::NodeView,
    operator::Blocks,
    profiles::Newcomers,
    push::{PushPermits, RequestBytes},
    recent_refusals::RecentRefusals,
    unused_stores::RetainedStores,
    withdrawal::Withdrawals,
};

/// How many may wait for the turn of one identifier; more are told to try again.
pub(crate) const MAX_WAITING: usize = 256;

/// What the service is made of; each part is open and ready.
pub struct Parts {
    pub store: EventStore,
    pub writer: Writer,
    pub db: Db,
    pub repositories: Repositories,
    /// Swapped whole when the settings are read again.
    pub policy: Arc<ArcSwap<Policy>>,
    /// How much is held, and how long.
    pub bounds: Bounds,
    /// How long what nobody needs is kept on disk.
    pub keep: Keep,
    /// How long what was taken back is remembered and kept.
    pub lifecycle: Lifecycle,
    /// How often expired entries are looked for; GRASP-01 servers do so every minute.
    pub sweep_every: Duration,
    /// Owns every task of the service.
    pub group: TaskGroup,
}

/// The GRASP service. Cheap to clone; clones are the same service.
#[derive(Clone)]
pub struct Grasp {
    pub(crate) core: Arc<Core>,
    pub(crate) sweeper: Periodic,
}

/// A turn of one identifier, kept while something about it is decided and done.
pub(crate) type Turns = Vec<Turn<Identifier>>;

/// What all work shares.
pub(crate) struct Core {
    pub(crate) store: EventStore,
    pub(crate) commit: Commit,
    /// For reading and receiving; what changes goes through `commit`.
    pub(crate) repositories: Repositories,
    pub(crate) policy: Arc<ArcSwap<Policy>>,
    /// Those that decisions looked at last.
    pub(crate) announcements: ReadAnnouncements,
    pub(crate) group: TaskGroup,
    pub(crate) purgatory: Mutex<Purgatory>,
    pub(crate) bounds: Bounds,
    pub(crate) lanes: Lanes<Identifier>,
    pub(crate) hosted: HostedRepositories,
    pub(crate) withdrawals: Withdrawals,
    pub(crate) departures: Departures,
    pub(crate) blocks: Blocks,
    pub(crate) enforcement: Enforcement,
    pub(crate) holding: Holding,
    pub(crate) lifecycle: Lifecycle,
    /// Requests whose time begins again with the next sweep.
    pub(crate) used_requests: UsedRequests,
    /// Where relay and git do not agree yet.
    pub(crate) unsettled: Unsettled,
    pub(crate) damage: Damage,
    pub(crate) auditor: Auditor,
    /// One sweep at a time: an entry that has ended in memory ends on disk before anybody audits it.
    pub(crate) sweeping: tokio::sync::Mutex<()>,
    pub(crate) refusals: RecentRefusals,
    pub(crate) denials: NotedDenials,
    /// Profiles of authors who are not known here yet.
    pub(crate) newcomers: Newcomers,
    /// The pushes under way.
    pub(crate) pushes: Arc<PushPermits>,
    /// What pull requests have added within a day.
    pub(crate) request_bytes: Arc<RequestBytes>,
    pub(crate) maintenance: PendingMaintenance,
    pub(crate) keep: Keep,
    pub(crate) collecting: Collecting,
    pub(crate) kept: RetainedStores,
    /// Changes whenever the next attempt to find data may have come forward.
    pub(crate) sync_changes: watch::Sender<u64>,
    /// Counts announcements accepted, for states that came a moment too soon.
    pub(crate) announcements_accepted: watch::Sender<u64>,
    /// Places for those states.
    pub(crate) too_soon: Semaphore,
    /// Places for repositories that are made before their turns.
    pub(crate) preparing: Semaphore,
    /// Places for looks at what is missing.
    pub(crate) looks: Semaphore,
    /// Places for removals on their way to the disk.
    pub(crate) forgetting: Arc<Semaphore>,
}

impl Grasp {
    /// Says how a repository stands; none means there is no such repository here.
    pub fn repository(&self, addr: &RepoAddr) -> Option<RepositoryStatus> {
        self.core.hosted.status(addr)
    }

    /// The repositories that are served at this moment, in no order that means anything.
    pub fn served(&self) -> Vec<RepoAddr> {
        let all = self.core.hosted.all().into_iter();
        let served = all.filter(|(_, status)| *status == RepositoryStatus::Served);
        served.map(|(addr, _)| addr).collect()
    }

    /// The rules in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.core.policy.load_full()
    }
}

impl Core {
    /// Runs `work` where it may block: LMDB and the file system do.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        kind: &'static str,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, GraspError> {
        let core = Arc::clone(self);
        let handle = self.group.spawn_blocking(kind, move || work(&core));
        handle.await.map_err(|_| GraspError::Stopped)
    }

    /// Lets `read` look at what is held and served at this moment. Blocks.
    pub(crate) fn look<T>(
        &self,
        read: impl FnOnce(&dyn View) -> Result<T, ViewError>,
    ) -> Result<T, ViewError> {
        read(&NodeView::new(self, &self.events()?))
    }

    /// The served events of this moment. Blocks.
    pub(crate) fn events(&self) -> Result<ReadView<'_>, ViewError> {
        self.store.read().map_err(ViewError::new)
    }

    /// Waits for the turns of all `identifiers`, in the node's own line.
    pub(crate) fn turns<'a>(
        &'a self,
        identifiers: Vec<Identifier>,
    ) -> BoxFuture<'a, Result<Turns, GraspError>> {
        let node = |_: &Identifier| Owner {
            is_served: true,
            ..Owner::default()
        };
        Box::pin(async move { Ok(self.lanes.enter_all(identifiers, node).await?) })
    }

    /// The same for what `author` signed and `network` sent.
    pub(crate) fn turns_for<'a>(
        &'a self,
        author: PublicKey,
        network: Option<ClientNetwork>,
        identifiers: Vec<Identifier>,
    ) -> BoxFuture<'a, Result<Turns, GraspError>> {
        let line = move |identifier: &Identifier| self.line_of(author, network, identifier);
        Box::pin(async move { Ok(self.lanes.enter_all(identifiers, line).await?) })
    }

    /// The line in which what `author` signed and `network` sent waits.
    pub(crate) fn line_of(
        &self,
        author: PublicKey,
        network: Option<ClientNetwork>,
        identifier: &Identifier,
    ) -> Owner {
        let addr = RepoAddr::new(author, identifier.clone());
        let is_served = self.hosted.status(&addr) == Some(RepositoryStatus::Served);
        line(author, network, is_served)
    }
}

/// The line of a network, of those who are served or of the others: however many strangers use a name, its
/// owner waits for one of them at a time, and who has had something served under it by many keys has one line
/// among the owners. Without a network it is that of the key.
fn line(author: PublicKey, network: Option<ClientNetwork>, is_served: bool) -> Owner {
    let owner = match network {
        Some(network) => Owner::of_network(network),
        None => Owner {
            key: author.to_bytes(),
            is_served,
        },
    };
    Owner { is_served, ..owner }
}

pub(crate) fn now() -> Millis {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    Millis::new(0) + since_1970.unwrap_or(Duration::ZERO)
}

pub(crate) fn timestamp() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use grip_types::NetworkPrefixes;
    use nostr::prelude::Keys;

    use super::*;

    #[test]
    fn many_keys_of_one_network_are_one_line_of_owners_or_of_strangers() {
        let network = |ip: &str| Some(NetworkPrefixes::default().network(ip.parse().unwrap()));
        let key = || Keys::generate().public_key();
        let (here, there) = (network("203.0.113.1"), network("203.0.113.2"));
        for is_served in [true, false] {
            let first = line(key(), here, is_served);
            assert_eq!(first.is_served, is_served);
            assert_eq!(first, line(key(), here, is_served));
            assert_ne!(first, line(key(), there, is_served));
            assert_ne!(first, line(key(), here, !is_served));
            assert_ne!(line(key(), None, is_served), line(key(), None, is_served));
        }
    }
}
