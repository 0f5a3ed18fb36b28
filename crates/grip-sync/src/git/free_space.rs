//! The free space on the disk below which nothing is fetched.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::fetch::FetchError;

/// A full disk is logged this often, however many fetches it stops.
const WARN_EVERY: Duration = Duration::from_secs(60);

pub(super) struct FreeSpace {
    bytes: u64,
    warned: Mutex<Option<Instant>>,
}

impl FreeSpace {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            bytes,
            warned: Mutex::new(None),
        }
    }

    pub(super) fn check(&self, free: u64, now: Instant) -> Result<(), FetchError> {
        if free >= self.bytes {
            return Ok(());
        }
        let error = FetchError::DiskFull(self.bytes);
        if self.is_news(now) {
            tracing::warn!(free, "not fetching: {error}");
        }
        Err(error)
    }

    fn is_news(&self, now: Instant) -> bool {
        let mut warned = self.warned.lock();
        let is_news = warned.is_none_or(|last| now.duration_since(last) >= WARN_EVERY);
        if is_news {
            *warned = Some(now);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetches_stop_below_the_floor_and_go_on_at_it() {
        let (floor, now) = (FreeSpace::new(100), Instant::now());
        assert!(matches!(
            floor.check(99, now),
            Err(FetchError::DiskFull(100))
        ));
        assert!(floor.check(100, now).is_ok());
        assert!(FreeSpace::new(0).check(0, now).is_ok());
    }

    #[test]
    fn a_full_disk_is_warned_about_once_a_minute() {
        let (floor, now) = (FreeSpace::new(100), Instant::now());
        let after = |seconds| floor.is_news(now + Duration::from_secs(seconds));
        assert!(after(0));
        assert!(!after(1) && !after(59));
        assert!(after(60));
        assert!(!after(61));
    }
}
