//! Calls whose answer never came.

use std::collections::VecDeque;

use super::Ticket;

/// Calls that nobody answered: the host may have counted each, at the latest when it was given
/// up.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// How many were given up after which call had begun, the oldest first.
    calls: VecDeque<(Ticket, u32)>,
}

/// Moments of giving up that are told apart. Beyond, the last two are taken for one.
const MAX_MOMENTS: usize = 64;

impl Lost {
    /// So many, of which nothing else is known.
    pub(super) fn of(count: u32) -> Self {
        let calls = (count > 0).then_some((Ticket::OLDEST, count));
        Self {
            calls: calls.into_iter().collect(),
        }
    }

    pub(super) fn count(&self) -> u32 {
        let counts = self.calls.iter().map(|(_, count)| *count);
        counts.fold(0, u32::saturating_add)
    }

    pub(super) fn add(&mut self, last: Ticket) {
        let is_full = self.calls.len() >= MAX_MOMENTS;
        match self.calls.back_mut() {
            Some((at, count)) if *at == last || is_full => {
                *at = last;
                *count = count.saturating_add(1);
            }
            _ => self.calls.push_back((last, 1)),
        }
    }

    /// Forgets those that were given up before `ticket` began: its answer counts them.
    pub(super) fn resolve(&mut self, ticket: Ticket) {
        while self.calls.front().is_some_and(|(at, _)| *at < ticket) {
            self.calls.pop_front();
        }
    }
}
