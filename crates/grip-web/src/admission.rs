//! What is taken on, before any work is done for it.
//!
//! Nothing here waits: a request is let in or told "busy" at once. Every right is a value that
//! gives itself back when dropped.

mod reserve;

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
use parking_lot::Mutex;

pub(crate) use self::reserve::{Reserve, Spare};
use crate::{
    client::{Client, bucket},
    settings::WebLimits,
};

/// Kinds of work that have a pool of their own, so that none starves another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Advertise,
    Fetch,
    Push,
    Websocket,
    Api,
    Page,
    /// The feed of the index.
    Feed,
    /// What the go command asks about a module.
    Module,
    /// Zips for the go command.
    Zip,
    /// What GitHub delivers.
    Webhook,
    /// Names and digests to be resolved.
    Resolve,
}

impl Class {
    pub(crate) const ALL: [Self; 11] = [
        Self::Advertise,
        Self::Fetch,
        Self::Push,
        Self::Websocket,
        Self::Api,
        Self::Page,
        Self::Feed,
        Self::Module,
        Self::Zip,
        Self::Webhook,
        Self::Resolve,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Advertise => "advertise",
            Self::Fetch => "fetch",
            Self::Push => "push",
            Self::Websocket => "websocket",
            Self::Api => "api",
            Self::Page => "page",
            Self::Feed => "feed",
            Self::Module => "module",
            Self::Zip => "zip",
            Self::Webhook => "webhook",
            Self::Resolve => "resolve",
        }
    }

    /// Says whether one address may take only a part of the slots: all but those of WebSockets,
    /// which are bounded as connections are. A slow client can draw out any other.
    fn is_shared_out(self) -> bool {
        self != Self::Websocket
    }

    fn bound(self, limits: &WebLimits) -> usize {
        match self {
            Self::Advertise => limits.advertise,
            Self::Fetch => limits.fetch,
            Self::Push => limits.push,
            Self::Websocket => limits.websocket,
            Self::Api => limits.api,
            Self::Page => limits.page,
            Self::Feed => limits.feed,
            Self::Module => limits.module,
            Self::Zip => limits.zip,
            Self::Webhook => limits.webhook,
            Self::Resolve => limits.resolve,
        }
    }
}

/// All counters of the edge. Bounds are read from the settings at each question, so a reload
/// takes effect for the next request.
pub(crate) struct Admission {
    under_way: [AtomicUsize; Class::ALL.len()],
    connections: AtomicUsize,
    /// Connections that were closed unread.
    unread: AtomicU64,
    /// Bounded by the total of connections: an address leaves with its last one.
    per_ip: Mutex<HashMap<IpAddr, usize>>,
    /// Slots by address, for classes that are shared out. Bounded by the slots taken.
    shares: Mutex<HashMap<(IpAddr, Class), usize>>,
    rate: Live<Rate>,
}

/// One piece of work under way.
#[must_use = "the slot is free again as soon as it is dropped"]
pub(crate) struct Slot {
    admission: Arc<Admission>,
    class: Class,
    /// The address whose share it is taken from.
    bucket: Option<IpAddr>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.admission.under_way[self.class as usize].fetch_sub(1, Ordering::AcqRel);
        if let Some(bucket) = self.bucket {
            forget_one(&mut self.admission.shares.lock(), &(bucket, self.class));
        }
    }
}

/// One open connection.
#[must_use = "the place is free again as soon as it is dropped"]
pub(crate) struct Place {
    admission: Arc<Admission>,
    in_total: bool,
    bucket: Option<IpAddr>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.in_total {
            self.admission.connections.fetch_sub(1, Ordering::AcqRel);
        }
        if let Some(bucket) = self.bucket {
            forget_one(&mut self.admission.per_ip.lock(), &bucket);
        }
    }
}

/// Which bound a connection ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Connections,
    PerIp,
}

impl Admission {
    pub(crate) fn new(limits: &WebLimits) -> Arc<Self> {
        Arc::new(Self {
            under_way: Default::default(),
            connections: AtomicUsize::new(0),
            unread: AtomicU64::new(0),
            per_ip: Mutex::default(),
            shares: Mutex::default(),
            rate: Live::new(Rate::new(limits)),
        })
    }

    /// Takes a slot of `class`, or says that all are taken, or all that one address may have.
    pub(crate) fn enter(
        self: &Arc<Self>,
        class: Class,
        client: Client,
        limits: &WebLimits,
    ) -> Option<Slot> {
        let bound = class.bound(limits);
        if !take_one(&self.under_way[class as usize], bound) {
            return None;
        }
        let mut slot = Slot {
            admission: Arc::clone(self),
            class,
            bucket: None,
        };
        if class.is_shared_out() && !client.exempt {
            let bucket = bucket(client.ip);
            let share = bound.div_ceil(4);
            if !count_one(&mut self.shares.lock(), (bucket, class), share) {
                return None;
            }
            slot.bucket = Some(bucket);
        }
        Some(slot)
    }

    /// Counts a new connection from `peer`; `None` is a proxy, which stands for many clients.
    pub(crate) fn connect(
        self: &Arc<Self>,
        peer: Option<IpAddr>,
        limits: &WebLimits,
    ) -> Result<Place, Full> {
        if !take_one(&self.connections, limits.connections) {
            return Err(Full::Connections);
        }
        let mut place = Place {
            admission: Arc::clone(self),
            in_total: true,
            bucket: None,
        };
        if let Some(peer) = peer {
            place.bucket = Some(self.arrive(bucket(peer), limits).ok_or(Full::PerIp)?);
        }
        Ok(place)
    }

    /// Counts a long-lived WebSocket that came through a proxy against its client's address.
    pub(crate) fn count_behind_proxy(
        self: &Arc<Self>,
        client: IpAddr,
        limits: &WebLimits,
    ) -> Result<Place, Full> {
        let bucket = self.arrive(bucket(client), limits).ok_or(Full::PerIp)?;
        Ok(Place {
            admission: Arc::clone(self),
            in_total: false,
            bucket: Some(bucket),
        })
    }

    fn arrive(&self, bucket: IpAddr, limits: &WebLimits) -> Option<IpAddr> {
        let bound = limits.connections_per_ip;
        count_one(&mut self.per_ip.lock(), bucket, bound).then_some(bucket)
    }

    /// Spends one request of the client's budget; false if it has none left.
    pub(crate) fn spend(&self, client: Client, limits: &WebLimits) -> bool {
        if client.exempt {
            return true;
        }
        let fits = |rate: &Rate| rate.is_for(limits);
        let rate = self.rate.renew(fits, || Rate::new(limits));
        rate.spend(bucket(client.ip))
    }

    pub(crate) fn under_way(&self, class: Class) -> usize {
        self.under_way[class as usize].load(Ordering::Acquire)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// Counts a connection that found no place, not even to be told so.
    pub(crate) fn closed_unread(&self) {
        self.unread.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unread(&self) -> u64 {
        self.unread.load(Ordering::Relaxed)
    }

    pub(crate) fn addresses(&self) -> usize {
        self.per_ip.lock().len()
    }
}

/// Adds one to `count` unless that would pass `bound`.
fn take_one(count: &AtomicUsize, bound: usize) -> bool {
    count
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
            (n < bound).then_some(n + 1)
        })
        .is_ok()
}

/// Adds one to the count of `key` unless that would pass `bound`.
fn count_one<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K, bound: usize) -> bool {
    match counts.entry(key) {
        Entry::Occupied(mut entry) if *entry.get() < bound => {
            *entry.get_mut() += 1;
            true
        }
        Entry::Vacant(entry) if bound > 0 => {
            entry.insert(1);
            true
        }
        Entry::Occupied(_) | Entry::Vacant(_) => false,
    }
}

/// Takes one from the count of `key`, which leaves the map with its last.
fn forget_one<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// A token bucket per address.
struct Rate {
    per_second: NonZeroU32,
    burst: NonZeroU32,
    limiter: DefaultKeyedRateLimiter<IpAddr>,
    spent: AtomicUsize,
}

impl Rate {
    /// After so many requests the addresses whose buckets are full again are forgotten: the map
    /// is bounded by those that were active within a refill, and this number.
    const SWEEP_EVERY: usize = 16_384;

    fn new(limits: &WebLimits) -> Self {
        let (per_second, burst) = Self::quota(limits);
        Self {
            per_second,
            burst,
            limiter: RateLimiter::keyed(Quota::per_second(per_second).allow_burst(burst)),
            spent: AtomicUsize::new(0),
        }
    }

    /// Zero would lock everyone out, operator included: it is read as one.
    fn quota(limits: &WebLimits) -> (NonZeroU32, NonZeroU32) {
        let at_least_one = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        (
            at_least_one(limits.requests_per_second),
            at_least_one(limits.request_burst),
        )
    }

    fn is_for(&self, limits: &WebLimits) -> bool {
        (self.per_second, self.burst) == Self::quota(limits)
    }

    fn spend(&self, key: IpAddr) -> bool {
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
        Client {
            ip: ip(last),
            exempt,
        }
    }

    #[test]
    fn a_class_is_full_at_its_bound_and_free_again_on_drop() {
        let limits = WebLimits {
            page: 1,
            ..Default::default()
        };
        let admission = Admission::new(&limits);
        let enter = |class| admission.enter(class, client(1, false), &limits);
        let first = enter(Class::Page);
        assert!(first.is_some());
        assert!(enter(Class::Page).is_none());
        assert!(enter(Class::Push).is_some());
        drop(first);
        assert!(enter(Class::Page).is_some());
    }

    #[test]
    fn one_address_takes_a_quarter_of_the_slots_of_any_route_at_most() {
        let limits = WebLimits::default();
        for class in Class::ALL {
            let admission = Admission::new(&limits);
            let all = std::iter::from_fn(|| admission.enter(class, client(1, false), &limits));
            let all: Vec<_> = all.collect();
            let expected = match class {
                Class::Websocket => limits.websocket,
                _ => class.bound(&limits) / 4,
            };
            assert_eq!(all.len(), expected, "{class:?}");
        }
    }

    #[test]
    fn what_one_address_may_have_leaves_the_rest_to_others_and_comes_back() {
        let limits = WebLimits {
            push: 8,
            ..Default::default()
        };
        let admission = Admission::new(&limits);
        let enter = |n, exempt| admission.enter(Class::Push, client(n, exempt), &limits);
        let mine = [enter(1, false), enter(1, false)];
        assert!(mine.iter().all(Option::is_some));
        assert!(enter(1, false).is_none());
        assert_eq!(
            admission.under_way(Class::Push),
            2,
            "a refusal takes nothing"
        );
        assert!(enter(2, false).is_some() && enter(1, true).is_some());
        drop(mine);
        assert!(enter(1, false).is_some());
        assert!(admission.shares.lock().is_empty());
    }

    #[test]
    fn one_address_cannot_take_all_connections() {
        let limits = WebLimits {
            connections: 3,
            connections_per_ip: 2,
            ..Default::default()
        };
        let admission = Admission::new(&limits);
        let connect = |n| admission.connect(Some(ip(n)), &limits);
        let a = connect(1).ok();
        let b = connect(1).ok();
        assert!(a.is_some() && b.is_some());
        assert_eq!(connect(1).err(), Some(Full::PerIp));
        let c = connect(2).ok();
        assert!(c.is_some());
        assert_eq!(connect(3).err(), Some(Full::Connections));
        drop((a, b, c));
        assert_eq!((admission.connections(), admission.addresses()), (0, 0));
    }

    #[test]
    fn a_proxy_is_bounded_in_total_only_and_its_clients_each() {
        let limits = WebLimits {
            connections_per_ip: 1,
            ..Default::default()
        };
        let admission = Admission::new(&limits);
        let places: Vec<_> = (0..5).map(|_| admission.connect(None, &limits)).collect();
        assert!(places.iter().all(Result::is_ok));
        let first = admission.count_behind_proxy(ip(1), &limits);
        assert!(first.is_ok());
        assert!(admission.count_behind_proxy(ip(1), &limits).is_err());
        assert!(admission.count_behind_proxy(ip(2), &limits).is_ok());
    }

    #[test]
    fn requests_beyond_the_burst_are_refused_but_not_those_of_others() {
        let limits = WebLimits {
            requests_per_second: 1,
            request_burst: 2,
            ..Default::default()
        };
        let admission = Admission::new(&limits);
        let spend = |n| admission.spend(client(n, false), &limits);
        assert_eq!(
            [spend(1), spend(1), spend(1), spend(2)],
            [true, true, false, true]
        );
        assert!((0..10).all(|_| admission.spend(client(1, true), &limits)));
        let generous = WebLimits::default();
        admission.spend(client(1, false), &generous);
        assert!(
            admission.spend(client(1, false), &generous),
            "a reload counts"
        );
    }
}
