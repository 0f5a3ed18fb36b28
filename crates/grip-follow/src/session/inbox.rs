//! Events that a relay delivered and that are not decided yet; a full inbox stops the reading from
//! its socket (G02-38).

use std::{collections::VecDeque, sync::Arc};

use grip_nostr::Filter;

use crate::plan::Plan;

/// Events of one relay that wait.
const MAX_EVENTS: usize = 1_000;
/// Bytes of those.
const MAX_BYTES: usize = 8 << 20;
/// Events that are decided together.
const BATCH: usize = 256;

/// An event as it came.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) json: String,
    pub(crate) asked: Asked,
    /// The history request that it belongs to.
    pub(crate) job: Option<u64>,
}

/// What was asked for when an event came.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// What matches one of these.
    Filters(Arc<[Filter]>),
    /// What a plan wants.
    Plan(Arc<Plan>),
    /// Everything; what is wanted of it is what the plan wants.
    Everything(Arc<Plan>),
}

/// What became of a delivered event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Served or held now.
    Taken,
    /// Here before.
    Known,
    /// Authentic, and not for us.
    Refused,
    /// Not wanted of a relay that was asked for everything; made at that time, as it says.
    Foreign(u64),
    /// Unreadable, forged, or not what was asked for.
    Worthless,
    /// Could not be decided; another try may.
    Failed,
    /// The same, because the network of the relay has used up its share of bytes.
    OverShare,
}

impl Fate {
    /// Says whether the event of this id was delivered, as far as it matters to who asked for it.
    pub(crate) fn is_authentic(self) -> bool {
        matches!(
            self,
            Self::Taken | Self::Known | Self::Refused | Self::Foreign(_)
        )
    }

    /// Says whether another try may have another end.
    pub(crate) fn is_undecided(self) -> bool {
        matches!(self, Self::Failed | Self::OverShare)
    }
}

#[derive(Default)]
pub(crate) struct Inbox {
    waiting: VecDeque<Delivery>,
    bytes: usize,
    /// Events that were taken and are not decided.
    taken: usize,
}

impl Inbox {
    pub(super) fn push(&mut self, json: &str, asked: Asked, job: Option<u64>) {
        self.bytes += json.len();
        self.waiting.push_back(Delivery {
            json: json.to_owned(),
            asked,
            job,
        });
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_EVENTS || self.bytes >= MAX_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.taken == 0
    }

    /// The next events to decide, unless some are being decided.
    pub(crate) fn take(&mut self) -> Option<Vec<Delivery>> {
        if self.taken > 0 || self.waiting.is_empty() {
            return None;
        }
        let batch: Vec<Delivery> = self
            .waiting
            .drain(..BATCH.min(self.waiting.len()))
            .collect();
        self.taken = batch.len();
        self.bytes -= batch
            .iter()
            .map(|delivery| delivery.json.len())
            .sum::<usize>();
        Some(batch)
    }

    /// Notes that those taken are decided.
    pub(crate) fn decided(&mut self) {
        self.taken = 0;
    }
}
