//! Request and connection limits.
//!
//! Nothing here waits: a permit is given or refused at once, before any work is done for it, and
//! frees itself when dropped.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    net::IpAddr,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use grip_tasks::Live;
use grip_types::{ClientNetwork, RepoAddr};
use parking_lot::Mutex;

use crate::{client::Client, settings::WebLimits};

/// Connections beyond all bounds, so that probes are answered and everybody else is told why not;
/// a quarter of them at most is of one address.
const RESERVE: usize = 64;

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
}

/// All counters of the edge. Bounds are read from the settings at each question, so a reload
/// takes effect for the next request.
pub(crate) struct Limits {
    requests: [Arc<Total>; Class::ALL.len()],
    /// Bounded by the permits given.
    shares: Arc<PerKey<(ClientNetwork, Class)>>,
    /// Bounded by the permits given.
    repositories: Arc<PerKey<(RepoAddr, Class)>>,
    /// Bounded by the permits given.
    repository_shares: Arc<PerKey<(RepoAddr, ClientNetwork, Class)>>,
    connections: ConnectionCounts,
    reserve: ConnectionCounts,
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
}

/// The right to keep a connection open.
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
            shares: Arc::default(),
            repositories: Arc::default(),
            repository_shares: Arc::default(),
            connections: ConnectionCounts::default(),
            reserve: ConnectionCounts::default(),
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
        })
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

/// Connections in all and by address.
#[derive(Default)]
struct ConnectionCounts {
    total: Arc<Total>,
    /// Bounded by the total: an address leaves with its last connection.
    per_ip: Arc<PerKey<ClientNetwork>>,
}

impl ConnectionCounts {
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

/// How many permits are given.
#[derive(Default)]
struct Total(AtomicUsize);

struct TotalPermit(Arc<Total>);

impl Total {
    fn acquire(self: &Arc<Self>, bound: usize) -> Option<TotalPermit> {
        let more = |n| (n < bound).then_some(n + 1);
        let taken = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.ok().map(|_| TotalPermit(Arc::clone(self)))
    }
}

impl Drop for TotalPermit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How many permits are given by key; a key leaves the map with its last.
struct PerKey<K>(Mutex<HashMap<K, usize>>);

struct KeyPermit<K: Clone + Eq + Hash> {
    counts: Arc<PerKey<K>>,
    key: K,
}

impl<K> Default for PerKey<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> PerKey<K> {
    fn count(&self, key: &K) -> usize {
        self.0.lock().get(key).copied().unwrap_or(0)
    }

    fn acquire(self: &Arc<Self>, key: K, bound: usize) -> Option<KeyPermit<K>> {
        match self.0.lock().entry(key.clone()) {
            Entry::Occupied(mut entry) if *entry.get() < bound => *entry.get_mut() += 1,
            Entry::Vacant(entry) if bound > 0 => drop(entry.insert(1)),
            Entry::Occupied(_) | Entry::Vacant(_) => return None,
        }
        Some(KeyPermit {
            counts: Arc::clone(self),
            key,
        })
    }
}

impl<K: Clone + Eq + Hash> Drop for KeyPermit<K> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.counts.0.lock().entry(self.key.clone()) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// A token bucket per address.
struct Rate {
    quota: Quota,
    limiter: DefaultKeyedRateLimiter<ClientNetwork>,
    spent: AtomicUsize,
}

/// Zero would lock everyone out, operator included: it is read as one.
fn request_quota(bounds: &WebLimits) -> Quota {
    let at_least_one = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    Quota::per_second(at_least_one(bounds.requests_per_second))
        .allow_burst(at_least_one(bounds.request_burst))
}

/// A record stays for ever, and of commits without a tag there are as many as a repository has.
fn logged_commits_quota() -> Quota {
    const PER_HOUR: NonZeroU32 = NonZeroU32::new(256).expect("it is not zero");
    Quota::per_hour(PER_HOUR)
}

impl Rate {
    /// After so many requests the addresses whose buckets are full again are forgotten: the map
    /// is bounded by those that were active within a refill, and this number.
    const SWEEP_EVERY: usize = 16_384;

    fn new(quota: Quota) -> Self {
        Self {
            quota,
            limiter: RateLimiter::keyed(quota),
            spent: AtomicUsize::new(0),
        }
    }

    fn spend(&self, key: ClientNetwork) -> bool {
        let spent = self.spent.fetch_add(1, Ordering::Relaxed);
        if spent % Self::SWEEP_EVERY == Self::SWEEP_EVERY - 1 {
            self.limiter.retain_recent();
        }
        self.limiter.check_key(&key).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([203, 0, 113, last])
    }

    fn client(last: u8, exempt: bool) -> Client {
        let ip = ip(last);
        Client { ip, exempt }
    }

    #[test]
    fn commits_are_logged_for_a_network_until_its_share_of_the_hour_is_spent() {
        let bounds = WebLimits::default();
        let limits = Limits::new(&bounds);
        for _ in 0..256 {
            assert!(limits.spend_logged_commit(client(1, false), &bounds));
        }
        assert!(!limits.spend_logged_commit(client(1, false), &bounds));
        assert!(limits.spend_logged_commit(client(2, false), &bounds));
        assert!(limits.spend_logged_commit(client(1, true), &bounds));
    }

    #[test]
    fn a_class_is_full_at_its_bound_and_free_again_on_drop() {
        let bounds = WebLimits {
            page: 1,
            ..Default::default()
        };
        let limits = Limits::new(&bounds);
        let request = |class| limits.request(class, client(1, false), None, &bounds);
        let first = request(Class::Page);
        assert!(first.is_some());
        assert!(request(Class::Page).is_none());
        assert!(request(Class::Push).is_some());
        drop(first);
        assert!(request(Class::Page).is_some());
    }

    #[test]
    fn one_address_takes_a_quarter_of_the_permits_of_any_class_at_most() {
        let bounds = WebLimits::default();
        for &class in Class::ALL {
            let limits = Limits::new(&bounds);
            let all = std::iter::from_fn(|| limits.request(class, client(1, false), None, &bounds));
            let all: Vec<_> = all.collect();
            let expected = match class {
                Class::Websocket => bounds.websocket,
                _ => class.bound(&bounds) / 4,
            };
            assert_eq!(all.len(), expected, "{class:?}");
        }
    }

    #[test]
    fn what_one_address_may_have_leaves_the_rest_to_others_and_comes_back() {
        let bounds = WebLimits {
            push: 8,
            ..Default::default()
        };
        let limits = Limits::new(&bounds);
        let request = |n, exempt| limits.request(Class::Push, client(n, exempt), None, &bounds);
        let mine = [request(1, false), request(1, false)];
        assert!(mine.iter().all(Option::is_some));
        assert!(request(1, false).is_none());
        let in_flight = limits.in_flight(Class::Push);
        assert_eq!(in_flight, 2, "a refusal takes nothing");
        assert!(request(2, false).is_some() && request(1, true).is_some());
        drop(mine);
        assert!(request(1, false).is_some());
        assert!(limits.shares.0.lock().is_empty());
    }

    #[test]
    fn the_fuller_it_is_the_less_one_network_gets() {
        let bounds = WebLimits::default();
        let limits = Limits::new(&bounds);
        let take = |last| limits.request(Class::Push, client(last, false), None, &bounds);
        let all = |last| std::iter::from_fn(move || take(last)).collect::<Vec<_>>();
        let held: Vec<Vec<_>> = (1..=50).map(all).collect();
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts[..3], [16, 16, 10]);
        assert!(counts.is_sorted_by(|one, next| one >= next), "{counts:?}");
        // With a quarter for each there would be four.
        let served = counts.iter().filter(|count| **count > 0).count();
        assert!(served >= 10, "{counts:?}");
    }

    #[test]
    fn one_repository_takes_half_of_the_permits_at_most() {
        let bounds = WebLimits {
            fetch: 8,
            ..Default::default()
        };
        let limits = Limits::new(&bounds);
        let owner = nostr::prelude::PublicKey::from_byte_array([7; 32]);
        let repo = |name| RepoAddr::new(owner, grip_types::Identifier::parse(name).unwrap());
        let take = |name| {
            let repo = repo(name);
            limits.request(Class::Fetch, client(1, true), Some(&repo), &bounds)
        };
        let busy: Vec<_> = std::iter::from_fn(|| take("busy")).collect();
        assert_eq!(busy.len(), 4);
        assert!(take("other").is_some());
        drop(busy);
        assert!(limits.repositories.0.lock().is_empty());
    }

    #[test]
    fn two_networks_do_not_close_a_repository_to_a_third() {
        let bounds = WebLimits::default();
        let limits = Limits::new(&bounds);
        let owner = nostr::prelude::PublicKey::from_byte_array([7; 32]);
        let repo = RepoAddr::new(owner, grip_types::Identifier::parse("victim").unwrap());
        let take = |last| limits.request(Class::Push, client(last, false), Some(&repo), &bounds);
        let all = |last| std::iter::from_fn(|| take(last)).collect::<Vec<_>>();
        let held = [all(1), all(2)];
        assert_eq!(held.each_ref().map(Vec::len), [8, 8]);
        assert!(take(3).is_some());
        let elsewhere = RepoAddr::new(owner, grip_types::Identifier::parse("other").unwrap());
        let other = limits.request(Class::Push, client(1, false), Some(&elsewhere), &bounds);
        assert!(other.is_some(), "its own share of all is not used up");
        drop((held, other));
        assert!(limits.repository_shares.0.lock().is_empty());
    }

    #[test]
    fn one_address_cannot_take_all_connections() {
        let bounds = WebLimits {
            connections: 3,
            connections_per_ip: 2,
            ..Default::default()
        };
        let limits = Limits::new(&bounds);
        let connect = |n| limits.connection(Some(ip(n)), &bounds);
        let (a, b) = (connect(1).ok(), connect(1).ok());
        assert!(a.is_some() && b.is_some());
        assert_eq!(connect(1).err(), Some(Full::PerIp));
        let c = connect(2).ok();
        assert!(c.is_some());
        assert_eq!(connect(3).err(), Some(Full::Connections));
        drop((a, b, c));
        assert_eq!((limits.open_connections(), limits.addresses()), (0, 0));
    }

    #[test]
    fn a_proxy_is_bounded_in_total_only_and_its_clients_each() {
        let bounds = WebLimits {
            connections_per_ip: 1,
            ..Default::default()
        };
        let limits = Limits::new(&bounds);
        let all: Vec<_> = (0..5).map(|_| limits.connection(None, &bounds)).collect();
        assert!(all.iter().all(Result::is_ok));
        let first = limits.connection_behind_proxy(ip(1), &bounds);
        assert!(first.is_ok());
        assert!(limits.connection_behind_proxy(ip(1), &bounds).is_err());
        assert!(limits.connection_behind_proxy(ip(2), &bounds).is_ok());
    }

    #[test]
    fn one_address_takes_a_quarter_of_the_reserve_and_leaves_the_rest_to_others() {
        let bounds = WebLimits::default();
        let limits = Limits::new(&bounds);
        let take = |last: u8| limits.reserve(Some(ip(last)), &bounds);
        let mine: Vec<_> = (0..RESERVE / 4).map(|_| take(1)).collect();
        assert!(mine.iter().all(Option::is_some));
        assert!(take(1).is_none());
        let others: Vec<_> = (0..RESERVE * 3 / 4)
            .map(|_| limits.reserve(None, &bounds))
            .collect();
        assert!(others.iter().all(Option::is_some), "a refusal takes none");
        assert!(take(2).is_none(), "all are taken");
        assert_eq!(limits.closed_unread(), 2);
        drop((mine, others));
        assert!(take(1).is_some() && limits.reserve.per_ip.0.lock().is_empty());
    }

    #[test]
    fn requests_beyond_the_burst_are_refused_but_not_those_of_others() {
        let bounds = WebLimits {
            requests_per_second: 1,
            request_burst: 2,
            ..Default::default()
        };
        let limits = Limits::new(&bounds);
        let spend = |n| limits.spend(client(n, false), &bounds);
        assert_eq!(
            [spend(1), spend(1), spend(1), spend(2)],
            [true, true, false, true]
        );
        assert!((0..10).all(|_| limits.spend(client(1, true), &bounds)));
        let generous = WebLimits::default();
        limits.spend(client(1, false), &generous);
        let is_left = limits.spend(client(1, false), &generous);
        assert!(is_left, "a reload counts");
    }
}
