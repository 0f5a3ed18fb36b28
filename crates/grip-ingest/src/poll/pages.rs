//! The pages of one poll, put together: new events, gaps, the next cursor. Pure.
//!
//! A list shows the latest events only, so what was seen before must show up again: then nothing
//! lies between. Where it does not, there may be a hole. Pages move while they are read, because
//! new events come: an event may be on two pages, and none is left out by that.

use std::collections::HashSet;

use bytes::Bytes;

use crate::{
    accept::Batch,
    extract::{self, Event},
    store::{Hole, Polled, SourceRow},
};

/// Events that GitHub shows of a list at most.
const LISTED: usize = 300;
/// For how long GitHub shows an event.
const LISTED_FOR_MS: i64 = 30 * 24 * 60 * 60 * 1_000;
/// Events of a full page.
const PER_PAGE: usize = 100;
/// Ids that are remembered: all that a list can show, and some more.
const REMEMBERED: usize = 500;

/// An event's id and its moment.
type Seen = (String, Option<i64>);

/// The pages of one poll.
#[derive(Default)]
pub(super) struct PollPages {
    before: SourceRow,
    known: HashSet<String>,
    /// What was seen before and in this look, the latest first.
    known_order: Vec<String>,
    order: Vec<String>,
    seen: HashSet<String>,
    newest: Option<Seen>,
    oldest: Option<Seen>,
    /// Events on each page, also those that cannot be read.
    pages: Vec<usize>,
    has_met: bool,
    batch: Batch,
}

impl PollPages {
    pub(super) fn new(before: SourceRow) -> Self {
        let known_order: Vec<String> = serde_json::from_str(&before.recent).unwrap_or_default();
        Self {
            known: known_order.iter().cloned().collect(),
            known_order,
            before,
            ..Self::default()
        }
    }

    /// Takes the next page.
    pub(super) fn take(&mut self, events: &[Bytes]) {
        self.pages.push(events.len());
        for body in events {
            let event = match extract::event(body) {
                Ok(event) => event,
                Err(why) => {
                    self.batch.reject(body, &why);
                    continue;
                }
            };
            let (id, at_ms) = match &event {
                Event::Push(push) => (push.id.clone(), push.at_ms),
                Event::Tag(tag) => (tag.id.clone(), tag.at_ms),
                Event::Other { id, at_ms, .. } => (id.clone(), *at_ms),
            };
            if !self.seen.insert(id.clone()) {
                continue;
            }
            let is_known = self.known.contains(&id);
            self.has_met |= is_known;
            self.newest.get_or_insert_with(|| (id.clone(), at_ms));
            self.order.push(id.clone());
            self.oldest = Some((id, at_ms));
            // What was seen before was taken in then, and may have been let go since.
            if !is_known {
                self.batch.add(event);
            }
        }
    }

    /// Whether what was seen before has shown up.
    pub(super) fn has_met(&self) -> bool {
        self.has_met
    }

    pub(super) fn count(&self) -> usize {
        self.pages.len()
    }

    /// What was read so far, for a look that cannot be finished: the list counts as unread.
    pub(super) fn unfinished(self) -> Batch {
        self.batch
    }

    /// What the list is like now. `has_ended`: there is no further page.
    pub(super) fn finish(
        self,
        etag: Option<String>,
        poll_interval_ms: Option<i64>,
        has_ended: bool,
        now_ms: i64,
    ) -> (Batch, Polled) {
        let gap = self.hole(has_ended, now_ms);
        let last = self.before.newest_id.map(|id| (id, self.before.newest_at));
        // A list may be older than the one before.
        let newest = self.newest.filter(|(id, _)| !self.known.contains(id));
        let mut added = HashSet::new();
        let recent = self.order.into_iter().chain(self.known_order);
        let recent = recent.filter(|id| added.insert(id.clone()));
        let recent = recent.take(REMEMBERED).collect();
        let polled = Polled::Changed {
            etag,
            poll_interval_ms: poll_interval_ms.or(self.before.poll_interval_ms),
            recent,
            newest: newest.or(last),
            gap,
        };
        (self.batch, polled)
    }

    /// The hole, if there may be one.
    fn hole(&self, has_ended: bool, now_ms: i64) -> Option<Hole> {
        // Before the first look there was nothing to miss.
        let polled_at = self.before.polled_at?;
        let is_long_ago = now_ms.saturating_sub(polled_at) > LISTED_FOR_MS;
        let shows_all = has_ended && !self.is_full() && !is_long_ago;
        if self.has_met || shows_all {
            return None;
        }
        Some(Hole {
            after: self
                .before
                .newest_id
                .clone()
                .map(|id| (id, self.before.newest_at)),
            before: self.oldest.clone(),
        })
    }

    /// Whether the list shows as many as it can, so that there may be more. GitHub counts
    /// events that it does not show: then pages before the last are not full.
    fn is_full(&self) -> bool {
        let Some((last, others)) = self.pages.split_last() else {
            return false;
        };
        let listed = others.len() * PER_PAGE + last;
        let has_hidden = others.iter().any(|page| *page < PER_PAGE);
        listed >= LISTED || (has_hidden && others.len() + 1 >= LISTED / PER_PAGE)
    }
}

#[cfg(test)]
mod tests;
