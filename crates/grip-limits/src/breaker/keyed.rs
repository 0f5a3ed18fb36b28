//! Breakers of many keys of one process.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use tokio::time::Instant;

use super::{Blocked, Breaker};
use crate::{Accounts, BreakerOptions, BreakerState, Ledger as _, LocalLedger, Permit, Verdict};

/// One circuit breaker per key. Cheap to clone; clones share the breakers.
#[derive(Clone)]
pub struct Breakers<K: BreakerKey> {
    ledger: Arc<LocalLedger<KeyedBreakers<K>>>,
}

/// What a breaker can be kept for.
pub trait BreakerKey: Clone + Ord + Hash + Send + Sync + 'static {}

impl<K: Clone + Ord + Hash + Send + Sync + 'static> BreakerKey for K {}

/// The accounts of [`Breakers`]: at most `max_keys`, of which the blank ones, then the one used
/// longest ago, make room for another.
pub struct KeyedBreakers<K> {
    options: BreakerOptions,
    max_keys: usize,
    breakers: HashMap<K, (Breaker, Instant)>,
}

/// A request that a breaker let through.
pub struct Admitted<K> {
    key: K,
    probe: Option<u64>,
}

impl<K: BreakerKey> Breakers<K> {
    pub fn new(options: BreakerOptions, max_keys: usize) -> Self {
        let accounts = KeyedBreakers {
            options,
            max_keys,
            breakers: HashMap::new(),
        };
        let ledger = Arc::new(LocalLedger::new(accounts));
        Self { ledger }
    }

    /// The right to one request to `key`; else when to ask again.
    ///
    /// A permit that is dropped says nothing about the key: who gave up does not know whether an
    /// answer was on its way.
    pub fn acquire(&self, key: &K) -> Result<Permit<KeyedBreakers<K>>, Instant> {
        Permit::take_local(&self.ledger, key)
    }

    /// When a key's breaker lets probes through, if it is open.
    pub fn open_until(&self, key: &K) -> Option<Instant> {
        let accounts = self.ledger.lock();
        let until = accounts.breakers.get(key)?.0.open_until();
        until.filter(|until| *until > Instant::now())
    }

    /// The breakers that are not closed, ordered by key.
    pub fn states(&self) -> Vec<(K, BreakerState)> {
        let now = Instant::now();
        let mut accounts = self.ledger.lock();
        let breakers = accounts.breakers.iter_mut();
        let mut states: Vec<_> = breakers
            .map(|(key, (breaker, _))| (key.clone(), breaker.state(now)))
            .filter(|(_, state)| *state != BreakerState::Closed)
            .collect();
        drop(accounts);
        states.sort_by(|(a, _), (b, _)| a.cmp(b));
        states
    }
}

impl<K: BreakerKey> Accounts for KeyedBreakers<K> {
    type Key = K;
    type Grant = Admitted<K>;
    /// None says nothing about the key.
    type Outcome = Option<Verdict>;
    type Refusal = Instant;

    fn take(&mut self, key: &K, now: Instant) -> Result<Admitted<K>, Instant> {
        let breaker = self.breakers.get_mut(key);
        let probe = match breaker {
            None => None,
            Some((breaker, _)) => match breaker.check(&self.options, now) {
                Ok(()) => breaker.start(),
                Err(Blocked::OpenUntil(until)) => return Err(until),
                Err(Blocked::Probing) => return Err(now),
            },
        };
        Ok(Admitted {
            key: key.clone(),
            probe,
        })
    }

    fn settle(&mut self, grant: &Admitted<K>, outcome: Option<Verdict>, now: Instant) {
        if !self.breakers.contains_key(&grant.key) {
            if outcome.is_none() {
                return;
            }
            self.evict(now);
        }
        let entry = self.breakers.entry(grant.key.clone());
        let (breaker, used_at) = entry.or_insert_with(|| (Breaker::default(), now));
        *used_at = now;
        breaker.end(grant.probe, outcome, &self.options, now);
    }

    fn dropped(_: &Admitted<K>, _: Instant) -> Option<Verdict> {
        None
    }
}

impl<K: BreakerKey> KeyedBreakers<K> {
    fn evict(&mut self, now: Instant) {
        if self.breakers.len() < self.max_keys {
            return;
        }
        let options = self.options;
        self.breakers
            .retain(|_, (breaker, _)| !breaker.is_blank(&options, now));
        if self.breakers.len() < self.max_keys {
            return;
        }
        let oldest = self.breakers.iter().min_by_key(|(_, (_, used))| *used);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            self.breakers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn end(breakers: &Breakers<u32>, key: u32, outcome: Option<Verdict>) {
        let permit = breakers.acquire(&key);
        permit.map_err(|_| "open").unwrap().settle(outcome);
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_key_is_probed_after_the_cooldown_by_no_more_than_the_probes() {
        let options = BreakerOptions {
            probes: 2,
            ..BreakerOptions::default()
        };
        let breakers = Breakers::new(options, 10);
        for _ in 0..4 {
            end(&breakers, 1, Some(Verdict::Failure));
        }
        let now = Instant::now();
        let until = breakers.acquire(&1).err().unwrap();
        assert_eq!(until, now + options.cooldown);
        assert_eq!(breakers.open_until(&1), Some(until));
        assert_eq!(breakers.states(), [(1, BreakerState::Open)]);
        assert!(breakers.acquire(&2).is_ok());

        tokio::time::advance(options.cooldown).await;
        assert_eq!(breakers.states(), [(1, BreakerState::HalfOpen)]);
        assert_eq!(breakers.open_until(&1), None);
        let one = breakers.acquire(&1).ok().unwrap();
        let two = breakers.acquire(&1).ok().unwrap();
        assert!(breakers.acquire(&1).is_err());
        // A probe that was given up early is free for another.
        drop(two);
        let two = breakers.acquire(&1).ok().unwrap();
        one.settle(Some(Verdict::Success));
        two.settle(Some(Verdict::Success));
        assert!(breakers.states().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_given_up_says_nothing() {
        let breakers = Breakers::new(BreakerOptions::default(), 10);
        for _ in 0..9 {
            let slow = breakers.acquire(&1);
            tokio::time::advance(SECOND).await;
            drop(slow);
        }
        assert!(breakers.states().is_empty());
        assert!(breakers.ledger.lock().breakers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_key_used_longest_ago_makes_room_where_none_is_blank() {
        let breakers = Breakers::new(BreakerOptions::default(), 3);
        for key in 0..10 {
            end(&breakers, key, None);
            assert!(
                breakers.ledger.lock().breakers.is_empty(),
                "nothing is known"
            );
        }
        for key in 0..10 {
            end(&breakers, key, Some(Verdict::Failure));
            tokio::time::advance(SECOND).await;
        }
        let keys = |breakers: &Breakers<u32>| {
            let mut keys: Vec<_> = breakers.ledger.lock().breakers.keys().copied().collect();
            keys.sort_unstable();
            keys
        };
        assert_eq!(keys(&breakers), [7, 8, 9]);
        // Those of which nothing is known any more leave first.
        tokio::time::advance(SECOND * 60).await;
        end(&breakers, 10, Some(Verdict::Success));
        assert_eq!(keys(&breakers), [10]);
    }
}
