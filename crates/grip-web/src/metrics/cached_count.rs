//! A cache of counts that take long.

use std::{future::Future, time::Duration};

use grip_db::DbError;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long something is shown at least before it is counted again.
const FRESH: Duration = Duration::from_secs(1);
/// At most one part in so many of the time is spent on counting.
const PART: u32 = 50;

/// Keeps what was counted: the share of time that counting takes stays the same however much
/// there is to count.
pub(super) struct CachedCount<T> {
    last: Mutex<Option<(T, Instant)>>,
    /// One counts at a time.
    counting: tokio::sync::Mutex<()>,
}

impl<T> Default for CachedCount<T> {
    fn default() -> Self {
        Self {
            last: Mutex::new(None),
            counting: tokio::sync::Mutex::default(),
        }
    }
}

impl<T: Clone> CachedCount<T> {
    /// What was counted a moment ago, or what `count` finds now.
    pub(super) async fn get(
        &self,
        count: impl Future<Output = Result<T, DbError>>,
    ) -> Result<T, DbError> {
        if let Some(counted) = self.fresh() {
            return Ok(counted);
        }
        let _alone = self.counting.lock().await;
        if let Some(counted) = self.fresh() {
            return Ok(counted);
        }
        let began = Instant::now();
        let counted = count.await?;
        let until = Instant::now() + FRESH.max(began.elapsed() * PART);
        *self.last.lock() = Some((counted.clone(), until));
        Ok(counted)
    }

    fn fresh(&self) -> Option<T> {
        let last = self.last.lock();
        let last = last.as_ref().filter(|(_, until)| Instant::now() < *until);
        last.map(|(counted, _)| counted.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_counted_again_after_fifty_times_the_time_it_took() {
        let cached = CachedCount::default();
        let slow = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok(1)
        };
        assert_eq!(cached.get(slow).await.ok(), Some(1));
        tokio::time::advance(Duration::from_secs(99)).await;
        assert_eq!(cached.get(async { Ok(2) }).await.ok(), Some(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cached.get(async { Ok(2) }).await.ok(), Some(2));
        tokio::time::advance(FRESH).await;
        let failed = cached.get(async { Err(DbError::Aborted) }).await;
        assert!(failed.is_err());
        assert_eq!(cached.get(async { Ok(3) }).await.ok(), Some(3));
    }
}
