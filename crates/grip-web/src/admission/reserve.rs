//! Places for connections beyond all bounds, so that probes are answered as ever and everybody
//! else is told why not. Those beyond are closed unread.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{count_one, forget_one};
use crate::client::bucket;

/// Places in all, and those that one address may have.
const RESERVE: usize = 64;
const SHARE: usize = RESERVE / 4;

/// The places, and who has them.
pub(crate) struct Reserve {
    places: Arc<Semaphore>,
    /// Bounded by the places.
    shares: Mutex<HashMap<IpAddr, usize>>,
}

/// One of the places.
#[must_use = "the place is free again as soon as it is dropped"]
pub(crate) struct Spare {
    reserve: Arc<Reserve>,
    bucket: Option<IpAddr>,
    _permit: OwnedSemaphorePermit,
}

impl Reserve {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            places: Arc::new(Semaphore::new(RESERVE)),
            shares: Mutex::default(),
        })
    }

    /// Takes a place for `peer`, if one is left for it; `None` is a proxy, which stands for many
    /// clients.
    pub(crate) fn take(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<Spare> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let bucket = peer.map(bucket);
        let has_share =
            bucket.is_none_or(|bucket| count_one(&mut self.shares.lock(), bucket, SHARE));
        has_share.then(|| Spare {
            reserve: Arc::clone(self),
            bucket,
            _permit: permit,
        })
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if let Some(bucket) = self.bucket {
            forget_one(&mut self.reserve.shares.lock(), &bucket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_takes_a_quarter_of_the_reserve_and_leaves_the_rest_to_others() {
        let reserve = Reserve::new();
        let take = |last: u8| reserve.take(Some(IpAddr::from([203, 0, 113, last])));
        let mine: Vec<_> = (0..SHARE).map(|_| take(1)).collect();
        assert!(mine.iter().all(Option::is_some));
        assert!(take(1).is_none());
        let others: Vec<_> = (0..RESERVE - SHARE).map(|_| reserve.take(None)).collect();
        assert!(others.iter().all(Option::is_some), "a refusal takes none");
        assert!(take(2).is_none(), "all are taken");
        drop((mine, others));
        assert!(take(1).is_some() && reserve.shares.lock().is_empty());
    }
}
