//! Instances that share a Redis, and a host that counts what reaches it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use grip_limits::{
    BackendStatus, BreakerOptions, HostStatus, Lane, Limits, Options, Permit, Reason, RedisOptions,
    Throttle,
};
use grip_tasks::TaskGroup;
use grip_testkit::{RedisServer, until, until_true};
use grip_types::Domain;

/// Longer than any test waits: what comes back earlier did not come back by lease.
pub const LONG_LEASE: Duration = Duration::from_secs(120);

pub fn host() -> Domain {
    domain("git.example")
}

pub fn domain(name: &str) -> Domain {
    Domain::parse(name).unwrap()
}

/// Limits with a window that no test outlasts.
pub fn limits(in_flight: u32, per_window: u32) -> Limits {
    Limits {
        in_flight,
        per_window,
        window: Duration::from_secs(120),
    }
}

pub fn options(limits: Limits) -> Options {
    Options {
        limits,
        ..Options::default()
    }
}

/// A breaker that four failures open, for a moment.
pub fn quick_breaker() -> BreakerOptions {
    BreakerOptions {
        cooldown: Duration::from_millis(300),
        ..BreakerOptions::default()
    }
}

pub fn redis_options(url: String) -> RedisOptions {
    RedisOptions {
        url,
        lease: LONG_LEASE,
        // Generous: a busy machine must not look like a dead Redis.
        timeout: Duration::from_secs(5),
        ..RedisOptions::default()
    }
}

pub async fn instance(redis: RedisOptions, options: Options) -> Throttle {
    let group = TaskGroup::new("test");
    Throttle::redis(options, redis, &group).await.unwrap()
}

pub async fn instances<const N: usize>(server: &RedisServer, options: &Options) -> [Throttle; N] {
    let mut made = Vec::new();
    for _ in 0..N {
        let throttle = instance(redis_options(server.url()), options.clone()).await;
        assert_eq!(throttle.backend(), BackendStatus::Redis { connected: true });
        made.push(throttle);
    }
    made.try_into().expect("as many as were asked for")
}

/// Takes permits until one is refused.
pub async fn take_all(throttle: &Throttle, lane: Lane) -> (Vec<Permit>, Reason) {
    let mut taken = Vec::new();
    loop {
        match throttle.acquire(&host(), lane).await {
            Ok(permit) => taken.push(permit),
            Err(refused) => return (taken, refused.reason),
        }
    }
}

/// Asks until the host may be asked.
pub async fn eventually(throttle: &Throttle, lane: Lane) -> Permit {
    until("a permit", || async {
        throttle.acquire(&host(), lane).await.ok()
    })
    .await
    .unwrap()
}

/// Asks until the host is closed for `reason`.
pub async fn closes(throttle: &Throttle, reason: Reason) {
    until("a refusal", || async {
        match throttle.acquire(&host(), Lane::Git).await {
            Ok(permit) => {
                permit.unused();
                None
            }
            Err(refused) => (refused.reason == reason).then_some(()),
        }
    })
    .await
    .unwrap();
}

pub async fn reason(throttle: &Throttle, lane: Lane) -> Reason {
    let refused = throttle.acquire(&host(), lane).await;
    refused.expect_err("the host must be closed").reason
}

/// The host as the instance last saw it.
pub fn status(throttle: &Throttle) -> HostStatus {
    let mut hosts = throttle.hosts().into_iter();
    hosts.find(|status| status.domain == host()).unwrap()
}

/// Waits until an instance saw that nothing is under way.
pub async fn idle(throttle: &Throttle) {
    until_true("nothing is under way", || status(throttle).in_flight == 0)
        .await
        .unwrap();
}

pub async fn connected(throttle: &Throttle) {
    until("redis is back", || async {
        (throttle.backend() == BackendStatus::Redis { connected: true }).then_some(())
    })
    .await
    .unwrap();
}

/// Waits until an instance has noticed that Redis is disconnected.
pub async fn in_fallback(throttle: &Throttle) {
    let nowhere = domain("nowhere.example");
    until("the outage is noticed", || async {
        if let Ok(permit) = throttle.acquire(&nowhere, Lane::Git).await {
            permit.unused();
        }
        matches!(throttle.backend(), BackendStatus::Fallback { .. }).then_some(())
    })
    .await
    .unwrap();
}

/// A request as its host counts it: when the permit came, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: u64,
    /// How long the permit took to come. Redis may have counted the start so much earlier.
    pub took: u64,
}

pub fn unix_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

/// All requests that reached one host.
#[derive(Clone, Debug, Default)]
pub struct Arrivals(pub Arc<std::sync::Mutex<Vec<Arrival>>>);

impl Arrivals {
    pub fn note(&self, asked_at: u64) {
        let at = unix_micros();
        let took = at - asked_at;
        self.0.lock().unwrap().push(Arrival { at, took });
    }

    pub fn sorted(&self) -> Vec<Arrival> {
        let mut all = self.0.lock().unwrap().clone();
        all.sort_by_key(|arrival| arrival.at);
        all
    }
}

/// Sees that no window ever holds more than the limit.
///
/// Redis counts a start before we hear of it. A hundredth of the window is allowed for that; what
/// a single answer took longer than this is measured, and forgiven to the windows it is in.
pub fn assert_within(limits: Limits, arrivals: &[Arrival]) {
    let window = u64::try_from(limits.window.as_micros()).unwrap();
    let margin = window / 100;
    // Redis counts whole milliseconds.
    let rounding = 1_000;
    let too_many = limits.per_window as usize + 1;
    for crowd in arrivals.windows(too_many) {
        let span = crowd[too_many - 1].at - crowd[0].at;
        let late = crowd.iter().map(|arrival| arrival.took).max().unwrap();
        let late = late.saturating_sub(margin);
        assert!(
            span + late + rounding >= window,
            "{too_many} requests within {span} µs, of which none was {late} µs late"
        );
    }
}

/// The part of the limit that was used, in percent: how long a window is against how long it took
/// to make as many requests as it may hold, over as many whole windows as there are.
pub fn used_percent(limits: Limits, arrivals: &[Arrival]) -> u64 {
    let per_window = limits.per_window as usize;
    let windows = (arrivals.len() - 1) / per_window;
    assert!(windows > 0, "{} requests fill no window", arrivals.len());
    let took = arrivals[windows * per_window].at - arrivals[0].at;
    let window = u64::try_from(limits.window.as_micros()).unwrap();
    window * windows as u64 * 100 / took
}
