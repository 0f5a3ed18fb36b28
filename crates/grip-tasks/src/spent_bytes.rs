//! Bytes of a budget that are in use, forgotten evenly with time.

use std::time::Duration;

use tokio::time::Instant;

/// A budget: so many bytes, which come back within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteBudget {
    pub limit: u64,
    pub window: Duration,
}

/// What is in use of one budget.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpentBytes {
    /// Not whole bytes: what is forgotten between two looks may be less than one.
    used: f64,
    at: Option<Instant>,
}

impl SpentBytes {
    /// What counts still.
    pub fn now(self, budget: ByteBudget, now: Instant) -> u64 {
        // Less than a byte is what adding up leaves.
        (self.used_now(budget, now) - 1e-3).ceil() as u64
    }

    pub fn add(&mut self, bytes: u64, budget: ByteBudget, now: Instant) {
        self.used = self.used_now(budget, now) + bytes as f64;
        self.at = Some(now);
    }

    /// Takes back what was added.
    pub fn give_back(&mut self, bytes: u64) {
        self.used = (self.used - bytes as f64).max(0.0);
    }

    fn used_now(self, budget: ByteBudget, now: Instant) -> f64 {
        let age = self.at.map_or(Duration::ZERO, |at| now.duration_since(at));
        let part = age.as_secs_f64() / budget.window.as_secs_f64().max(1e-3);
        (self.used - budget.limit as f64 * part).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: ByteBudget = ByteBudget {
        limit: 3_600,
        window: Duration::from_secs(3_600),
    };

    #[test]
    fn what_is_used_is_forgotten_evenly_however_often_it_is_looked_at() {
        let (mut spent, began) = (SpentBytes::default(), Instant::now());
        spent.add(1_000, BUDGET, began);
        for n in 1..=10_000_u32 {
            spent.add(0, BUDGET, began + Duration::from_millis(10) * n);
        }
        let after = began + Duration::from_secs(100);
        assert_eq!(spent.now(BUDGET, after), 900);
        spent.give_back(900);
        assert_eq!(spent.now(BUDGET, after), 0);
        spent.give_back(1);
        assert_eq!(spent.now(BUDGET, after), 0);
    }
}
