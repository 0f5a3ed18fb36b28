//! Rates of requests by network.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicUsize, Ordering},
};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use grip_types::ClientNetwork;

use crate::settings::WebLimits;

/// A token bucket per address.
pub(super) struct Rate {
    pub(super) quota: Quota,
    limiter: DefaultKeyedRateLimiter<ClientNetwork>,
    spent: AtomicUsize,
}

/// Zero would lock everyone out, operator included: it is read as one.
pub(super) fn request_quota(bounds: &WebLimits) -> Quota {
    let at_least_one = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    Quota::per_second(at_least_one(bounds.requests_per_second))
        .allow_burst(at_least_one(bounds.request_burst))
}

/// A record stays for ever, and of commits without a tag there are as many as a repository has.
pub(super) fn logged_commits_quota() -> Quota {
    const PER_HOUR: NonZeroU32 = NonZeroU32::new(256).expect("it is not zero");
    Quota::per_hour(PER_HOUR)
}

impl Rate {
    /// After so many requests the addresses whose buckets are full again are forgotten: the map
    /// is bounded by those that were active within a refill, and this number.
    const SWEEP_EVERY: usize = 16_384;

    pub(super) fn new(quota: Quota) -> Self {
        Self {
            quota,
            limiter: RateLimiter::keyed(quota),
            spent: AtomicUsize::new(0),
        }
    }

    pub(super) fn spend(&self, key: ClientNetwork) -> bool {
        let spent = self.spent.fetch_add(1, Ordering::Relaxed);
        if spent % Self::SWEEP_EVERY == Self::SWEEP_EVERY - 1 {
            self.limiter.retain_recent();
        }
        self.limiter.check_key(&key).is_ok()
    }
}
