//! The free space on the disk below which nothing is fetched, and what fetches under way reserve.
//!
//! Whose share is used up: the disk is everybody's, and what is left of it above the floor of all is for those
//! who are served here (`stranger_min_free_bytes`). Each fetch under way has some of it reserved; one
//! that has received more than that is the first to be given up when the rest runs out, so that a few
//! endless packs do not cost all others theirs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::fetch::FetchError;

/// A full disk is logged this often, however many fetches it stops.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// What every fetch under way may bring in any case.
const RESERVED: u64 = 64 << 20;
/// How often the disk is looked at again while something comes.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct FreeSpace {
    /// Fetches under way.
    fetches: AtomicU64,
    warned: Mutex<Option<Instant>>,
}

/// Room for one fetch under way, given back on drop.
#[must_use = "the room is free again as soon as it is dropped"]
pub(super) struct SpacePermit {
    space: Arc<FreeSpace>,
    /// Free bytes that must be left.
    floor: u64,
}

impl FreeSpace {
    /// Reserves room for a fetch, if all have theirs beside the `floor` that must stay free.
    pub(super) fn reserve(
        self: &Arc<Self>,
        floor: u64,
        free: u64,
        now: Instant,
    ) -> Result<SpacePermit, FetchError> {
        let others = self.fetches.load(Relaxed);
        self.check(floor, free, others, now)?;
        self.fetches.fetch_add(1, Relaxed);
        Ok(SpacePermit {
            space: Arc::clone(self),
            floor,
        })
    }

    fn check(&self, floor: u64, free: u64, others: u64, now: Instant) -> Result<(), FetchError> {
        let reserved = others.saturating_mul(RESERVED);
        if free >= floor.saturating_add(reserved) {
            return Ok(());
        }
        let error = FetchError::DiskFull(floor);
        if self.is_news(now) {
            tracing::warn!(free, reserved, "not fetching: {error}");
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

impl SpacePermit {
    /// Says whether a fetch that has received so much may go on.
    pub(super) fn check(&self, free: u64, received: u64, now: Instant) -> Result<(), FetchError> {
        let others = if received > RESERVED {
            self.space.fetches.load(Relaxed).saturating_sub(1)
        } else {
            0
        };
        self.space.check(self.floor, free, others, now)
    }
}

impl Drop for SpacePermit {
    fn drop(&mut self) {
        self.space.fetches.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: u64 = 100;

    fn space() -> Arc<FreeSpace> {
        Arc::default()
    }

    #[test]
    fn fetches_stop_below_the_floor_and_go_on_at_it() {
        let (disk, now) = (space(), Instant::now());
        let full = disk.reserve(FLOOR, 99, now).err();
        assert!(matches!(full, Some(FetchError::DiskFull(FLOOR))));
        assert!(disk.reserve(FLOOR, 100, now).is_ok());
        assert!(disk.reserve(0, 0, now).is_ok());
    }

    #[test]
    fn fetches_under_way_have_their_room_reserved() {
        let (disk, now) = (space(), Instant::now());
        let first = disk.reserve(FLOOR, 100, now).ok().unwrap();
        assert!(disk.reserve(FLOOR, 100 + RESERVED - 1, now).is_err());
        let second = disk.reserve(FLOOR, 100 + RESERVED, now).ok().unwrap();
        drop(first);
        assert!(disk.reserve(FLOOR, 100 + RESERVED, now).is_ok());
        drop(second);
        assert!(disk.reserve(FLOOR, 100, now).is_ok());
    }

    #[test]
    fn a_large_fetch_is_given_up_before_it_takes_the_room_of_others() {
        let (disk, now) = (space(), Instant::now());
        let plenty = 100 + 10 * RESERVED;
        let large = disk.reserve(FLOOR, plenty, now).ok().unwrap();
        let small = disk.reserve(FLOOR, plenty, now).ok().unwrap();
        let left = 100 + RESERVED - 1;
        assert!(large.check(left, RESERVED + 1, now).is_err());
        assert!(small.check(left, RESERVED, now).is_ok());
        // A stranger's ends at a floor of its own, others go on.
        let stranger = disk.reserve(2 * FLOOR, plenty, now).ok().unwrap();
        assert!(stranger.check(2 * FLOOR - 1, 0, now).is_err());
        assert!(small.check(2 * FLOOR - 1, 0, now).is_ok());
        drop((large, stranger));
        assert!(small.check(left, RESERVED + 1, now).is_ok(), "alone it may");
        assert!(small.check(99, 0, now).is_err());
    }

    #[test]
    fn a_full_disk_is_warned_about_once_a_minute() {
        let (floor, now) = (space(), Instant::now());
        let after = |seconds| floor.is_news(now + Duration::from_secs(seconds));
        assert!(after(0));
        assert!(!after(1) && !after(59));
        assert!(after(60));
        assert!(!after(61));
    }
}
