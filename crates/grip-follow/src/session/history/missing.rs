//! Events that a relay said it has and did not give (G02-24).

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use super::job::MAX_IDS;

const FIRST_PAUSE: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_secs(900);
const MAX_ATTEMPTS: u32 = 12;
/// Groups that are remembered, the oldest given up first.
const MAX_GROUPS: usize = 32;

/// Groups of ids that are asked for together.
#[derive(Default)]
pub(super) struct Missing {
    groups: VecDeque<Group>,
}

struct Group {
    ids: Vec<[u8; 32]>,
    attempt: u32,
    due: Instant,
}

impl Missing {
    /// Keeps ids to be asked for again; says whether any were given up.
    pub(super) fn add(&mut self, ids: &[[u8; 32]], attempt: u32, now: Instant) -> bool {
        if ids.is_empty() || attempt + 1 > MAX_ATTEMPTS {
            return !ids.is_empty();
        }
        // The first time again at once.
        let pause = match attempt {
            0 => Duration::ZERO,
            n => (FIRST_PAUSE * 2_u32.pow(n.min(10) - 1)).min(MAX_PAUSE),
        };
        let mut has_lost = false;
        for part in ids.chunks(MAX_IDS) {
            if self.groups.len() == MAX_GROUPS {
                self.groups.pop_front();
                has_lost = true;
            }
            self.groups.push_back(Group {
                ids: part.to_vec(),
                attempt: attempt + 1,
                due: now + pause,
            });
        }
        has_lost
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.groups.iter().map(|group| group.due).min()
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    pub(super) fn take_due(&mut self, now: Instant) -> Option<(Vec<[u8; 32]>, u32)> {
        let at = self.groups.iter().position(|group| group.due <= now)?;
        let group = self.groups.remove(at)?;
        Some((group.ids, group.attempt))
    }
}
