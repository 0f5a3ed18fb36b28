//! Request and connection limits.
//!
//! A permit is given or refused before any work is done for it, and frees itself when dropped. Pages
//! of code, fetches and pushes wait a moment for one, in a bounded line: to refuse a crawler at once
//! only brings its next request. Nothing else waits. Where fetches wait, those whose clients stand still
//! or are slow make room; where pushes wait, an upload of the network that has most of them does, else one that is slow.

mod counts;
mod fetches;
mod rates;
mod uploads;

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use grip_tasks::{Live, UploadProgress};
use grip_types::{ClientNetwork, RepoAddr};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

pub(crate) use self::fetches::{FetchStream, RequestRest};
use self::{
    counts::{KeyPermit, PerKey, Total, TotalPermit},
    fetches::Fetches,
    rates::{Rate, logged_commits_quota, request_quota},
    uploads::{Uploads, WatchedPermit},
};
use crate::{client::Client, settings::WebLimits};

/// Connections beyond all bounds, so that probes are answered and everybody else is told why not;
/// a quarter of them at most is of one address.
const RESERVE: usize = 64;

/// How long a page of code, a fetch or a push waits for a permit.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often those who wait look again, beside when they are woken.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How many wait at most, for each permit of their class; a quarter of them at most is of one address.
const WAITING_PER_PERMIT: usize = 8;

/// Defines the classes with their label, which is also the name of their bound in the settings.
macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident $label:ident,)*) => {
        /// Kinds of work that have a pool of permits of their own, so that none starves another.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Class {
            $($(#[$doc])* $class,)*
        }

        impl Class {
            pub(crate) const ALL: &[Self] = &[$(Self::$class,)*];

            pub(crate) fn label(self) -> &'static str {
                match self {
                    $(Self::$class => stringify!($label),)*
                }
            }

            fn bound(self, bounds: &WebLimits) -> usize {
                match self {
                    $(Self::$class => bounds.$label,)*
                }
            }
        }
    };
}

classes! {
    Advertise advertise,
    Fetch fetch,
    Push push,
    Websocket websocket,
    Api api,
    Page page,
    /// The feed of the index.
    Feed feed,
    /// Requests of the go command about a module.
    Module module,
    /// Zips for the go command.
    Zip zip,
    /// Deliveries of GitHub.
    Webhook webhook,
    /// Names and digests to be resolved.
    Resolve resolve,
    /// Files of repositories as they are.
    Raw raw,
    /// Pages that compare files.
    Diff diff,
    /// Histories of single paths.
    History history,
    /// Origins of the lines of a file.
    Blame blame,
    /// Searches in the files of a commit.
    Grep grep,
    /// All files of a commit in one.
    Archive archive,
    /// Parts of pages that keep up with the node.
    Live live,
}

impl Class {
    /// Whether one network may take only a part of the permits: all but those of WebSockets,
    /// which are bounded as connections are. A slow client can draw out any other.
    fn is_shared_out(self) -> bool {
        self != Self::Websocket
    }

    /// Whether a moment is better than a refusal: for people who follow links, and for git, which tries
    /// neither a fetch nor a push again.
    fn is_worth_a_wait(self) -> bool {
        use Class::{Blame, Diff, Fetch, Grep, History, Push, Raw};
        matches!(self, Raw | Diff | History | Blame | Grep | Fetch | Push)
    }
}

/// All counters of the edge. Bounds are read from the settings at each question, so a reload
/// takes effect for the next request.
pub(crate) struct Limits {
    requests: [Arc<Total>; Class::ALL.len()],
    lines: [Arc<Line>; Class::ALL.len()],
    /// The fetches under way; bounded by the permits given.
    fetches: Arc<Fetches>,
    /// The pushes under way; bounded by the permits given.
    uploads: Uploads,
    /// Bounded by the permits given.
    shares: Arc<PerKey<(ClientNetwork, Class)>>,
    /// Bounded by the permits given.
    repositories: Arc<PerKey<(RepoAddr, Class)>>,
    /// Bounded by the permits given.
    repository_shares: Arc<PerKey<(RepoAddr, ClientNetwork, Class)>>,
    connections: Counts,
    reserve: Counts,
    closed_unread: AtomicU64,
    rate: Live<Rate>,
    /// Commits of modules that are logged because a network asked for them.
    logged_commits: Rate,
}

/// The right to do one piece of work.
#[must_use = "the permit is free again as soon as it is dropped"]
pub(crate) struct RequestPermit {
    _total: TotalPermit,
    /// That of its address.
    _share: Option<KeyPermit<(ClientNetwork, Class)>>,
    /// That of the repository it is about.
    _of_repository: Option<KeyPermit<(RepoAddr, Class)>>,
    /// That of its address in it.
    _share_of_repository: Option<KeyPermit<(RepoAddr, ClientNetwork, Class)>>,
    /// Last, so that all of the others are free when the line hears of it.
    _freed: Freed,
}

/// The right to keep a connection open, or a place in a line.
#[must_use = "the permit is free again as soon as it is dropped"]
pub(crate) struct ConnectionPermit {
    _total: Option<TotalPermit>,
    _per_ip: Option<KeyPermit<ClientNetwork>>,
}

/// The bound that a connection ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Connections,
    PerIp,
}

impl Limits {
    pub(crate) fn new(bounds: &WebLimits) -> Self {
        Self {
            requests: Default::default(),
            lines: Default::default(),
            fetches: Arc::default(),
            uploads: Uploads::default(),
            shares: Arc::default(),
            repositories: Arc::default(),
            repository_shares: Arc::default(),
            connections: Counts::default(),
            reserve: Counts::default(),
            closed_unread: AtomicU64::new(0),
            rate: Live::new(Rate::new(request_quota(bounds))),
            logged_commits: Rate::new(logged_commits_quota()),
        }
    }

    /// Takes a permit of `class`; `None` if all are taken, or all that one network or one repository
    /// may have.
    pub(crate) fn request(
        &self,
        class: Class,
        client: Client,
        repository: Option<&RepoAddr>,
        bounds: &WebLimits,
    ) -> Option<RequestPermit> {
        let bound = class.bound(bounds);
        let total = self.requests[class as usize].acquire(bound)?;
        let is_shared_out = class.is_shared_out() && !client.exempt;
        let network = is_shared_out.then(|| bounds.networks.network(client.ip));
        let share = match network {
            Some(network) => {
                let most = share_of(bound, self.in_flight(class));
                Some(self.shares.acquire((network, class), most)?)
            }
            None => None,
        };
        let (mut of_repository, mut share_of_repository) = (None, None);
        if let Some(repository) = repository {
            let bound = bound.div_ceil(2);
            let key = (repository.clone(), class);
            of_repository = Some(self.repositories.acquire(key.clone(), bound)?);
            if let Some(network) = network {
                let most = share_of(bound, self.repositories.count(&key));
                let key = (repository.clone(), network, class);
                share_of_repository = Some(self.repository_shares.acquire(key, most)?);
            }
        }
        Some(RequestPermit {
            _total: total,
            _share: share,
            _of_repository: of_repository,
            _share_of_repository: share_of_repository,
            _freed: Freed(Arc::clone(&self.lines[class as usize])),
        })
    }

    /// The same, and waits a moment where the class is worth it and the line is not full.
    pub(crate) async fn request_soon(
        &self,
        class: Class,
        client: Client,
        repository: Option<&RepoAddr>,
        bounds: &WebLimits,
    ) -> Option<RequestPermit> {
        let request = || self.request(class, client, repository, bounds);
        let permit = request();
        if permit.is_some() || !class.is_worth_a_wait() {
            return permit;
        }
        let deadline = Instant::now() + PATIENCE;
        let line = &self.lines[class as usize];
        let network = (!client.exempt).then(|| bounds.networks.network(client.ip));
        let bound = class.bound(bounds).saturating_mul(WAITING_PER_PERMIT);
        let place = line.waiting.acquire(network, bound, bound.div_ceil(4));
        let _place = place.ok()?;
        loop {
            let mut freed = std::pin::pin!(line.freed.notified());
            // Registered before looking, so that no permit is missed.
            freed.as_mut().enable();
            if let Some(permit) = request() {
                return Some(permit);
            }
            if let Some(of) = self.short_of(class, network, repository, bounds)
                && self.make_room(class, network, of)
            {
                continue;
            }
            // Who is woken first may have its share, and take for a moment what another could have.
            let until = deadline.min(Instant::now() + LOOK_EVERY);
            if timeout_at(until, freed).await.is_err() && until == deadline {
                return None;
            }
        }
    }

    /// Whose fetches are too many for one more: those of all repositories, or of `repository`. None where
    /// the client's own network has its share, which nobody else can make larger.
    fn short_of<'a>(
        &self,
        class: Class,
        network: Option<ClientNetwork>,
        repository: Option<&'a RepoAddr>,
        bounds: &WebLimits,
    ) -> Option<Option<&'a RepoAddr>> {
        if network.is_some_and(|network| self.shares.count(&(network, class)) > 0) {
            return None;
        }
        let bound = class.bound(bounds);
        if self.in_flight(class) >= bound {
            return Some(None);
        }
        let repository = repository?;
        let taken = self.repositories.count(&(repository.clone(), class));
        (taken >= bound.div_ceil(2)).then_some(Some(repository))
    }

    /// Ends a transfer of others that has the least claim to its permit; false if there is none.
    fn make_room(
        &self,
        class: Class,
        network: Option<ClientNetwork>,
        repository: Option<&RepoAddr>,
    ) -> bool {
        match class {
            Class::Fetch => self.fetches.cut_one(network, repository),
            Class::Push => self.uploads.displace_one(network, repository),
            _ => false,
        }
    }

    /// The permit of an upload, which is freed early if the upload has to make room for another.
    pub(crate) fn upload(
        &self,
        permit: RequestPermit,
        network: Option<ClientNetwork>,
        repository: RepoAddr,
        progress: Arc<UploadProgress>,
    ) -> Arc<WatchedPermit> {
        self.uploads.begin(permit, network, repository, progress)
    }

    /// A stream that ends early, and frees its permit, where its client hardly reads it or hardly sends the
    /// rest of its request while others wait.
    pub(crate) fn fetch<S: Send + 'static>(
        &self,
        chunks: S,
        permit: RequestPermit,
        network: Option<ClientNetwork>,
        repository: RepoAddr,
        request: Arc<RequestRest>,
    ) -> FetchStream<S> {
        self.fetches
            .begin(chunks, permit, network, repository, request)
    }

    /// Counts a new connection from `peer`; `None` is a proxy, which stands for many clients.
    pub(crate) fn connection(
        &self,
        peer: Option<IpAddr>,
        bounds: &WebLimits,
    ) -> Result<ConnectionPermit, Full> {
        let network = peer.map(|peer| bounds.networks.network(peer));
        self.connections
            .acquire(network, bounds.connections, bounds.connections_per_ip)
    }

    /// Counts a long-lived WebSocket that came through a proxy against its client's address.
    pub(crate) fn connection_behind_proxy(
        &self,
        client: IpAddr,
        bounds: &WebLimits,
    ) -> Result<ConnectionPermit, Full> {
        let key = bounds.networks.network(client);
        let per_ip = self
            .connections
            .per_ip
            .acquire(key, bounds.connections_per_ip);
        Ok(ConnectionPermit {
            _total: None,
            _per_ip: Some(per_ip.ok_or(Full::PerIp)?),
        })
    }

    /// Takes a connection of the reserve for `peer`. Without one the connection is closed unread,
    /// and counted as such.
    pub(crate) fn reserve(
        &self,
        peer: Option<IpAddr>,
        bounds: &WebLimits,
    ) -> Option<ConnectionPermit> {
        let network = peer.map(|peer| bounds.networks.network(peer));
        let permit = self.reserve.acquire(network, RESERVE, RESERVE / 4).ok();
        if permit.is_none() {
            self.closed_unread.fetch_add(1, Ordering::Relaxed);
        }
        permit
    }

    /// Spends one request of the client's rate; false if none is left.
    pub(crate) fn spend(&self, client: Client, bounds: &WebLimits) -> bool {
        if client.exempt {
            return true;
        }
        let quota = request_quota(bounds);
        let fits = |rate: &Rate| rate.quota == quota;
        let rate = self.rate.renew(fits, || Rate::new(quota));
        rate.spend(bounds.networks.network(client.ip))
    }

    /// Spends one of the commits that the client may have logged; false if none is left.
    pub(crate) fn spend_logged_commit(&self, client: Client, bounds: &WebLimits) -> bool {
        client.exempt
            || self
                .logged_commits
                .spend(bounds.networks.network(client.ip))
    }

    pub(crate) fn in_flight(&self, class: Class) -> usize {
        self.requests[class as usize].0.load(Ordering::Acquire)
    }

    pub(crate) fn open_connections(&self) -> usize {
        self.connections.total.0.load(Ordering::Acquire)
    }

    /// Connections that found no permit, not even of the reserve.
    pub(crate) fn closed_unread(&self) -> u64 {
        self.closed_unread.load(Ordering::Relaxed)
    }

    pub(crate) fn addresses(&self) -> usize {
        self.connections.per_ip.0.lock().len()
    }
}

/// What one network may have of `bound` permits, `taken` with the one in question: a quarter, and
/// half of what is free, so that many networks that each take all they get share the rest.
fn share_of(bound: usize, taken: usize) -> usize {
    let free = bound.saturating_sub(taken);
    bound.div_ceil(4).min((free / 2).max(1))
}

/// Permits in all and by address: of connections, and of places in a line.
#[derive(Default)]
struct Counts {
    total: Arc<Total>,
    /// Bounded by the total: an address leaves with its last permit.
    per_ip: Arc<PerKey<ClientNetwork>>,
}

impl Counts {
    fn acquire(
        &self,
        network: Option<ClientNetwork>,
        bound: usize,
        bound_per_ip: usize,
    ) -> Result<ConnectionPermit, Full> {
        let total = self.total.acquire(bound).ok_or(Full::Connections)?;
        let per_ip = network.map(|network| {
            let permit = self.per_ip.acquire(network, bound_per_ip);
            permit.ok_or(Full::PerIp)
        });
        Ok(ConnectionPermit {
            _total: Some(total),
            _per_ip: per_ip.transpose()?,
        })
    }
}

/// Those who wait for a permit of a class.
#[derive(Default)]
struct Line {
    waiting: Counts,
    freed: Notify,
}

/// Wakes a line when it is dropped with its permit: all of it, since the first may have used up its share.
struct Freed(Arc<Line>);

impl Drop for Freed {
    fn drop(&mut self) {
        self.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
