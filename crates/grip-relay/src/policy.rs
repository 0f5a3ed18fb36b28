//! Write policy: the seam between the engine and the rules of its user.

use futures_util::future::BoxFuture;
use grip_nostr::{Event, Timestamp};
use grip_store::{EventView, Put, StoreError};
use grip_types::EventSource;

/// The rules for events that passed the engine's own checks.
pub trait WritePolicy: Send + Sync + 'static {
    /// Decides about an event that is not deferred.
    ///
    /// Runs on the writer thread inside its transaction, in arrival order, so it sees every
    /// earlier event. Must not block. May be asked again for the same event when a commit failed
    /// and its events are tried one by one.
    fn judge(
        &self,
        event: &Event,
        view: &dyn EventView,
        now: Timestamp,
    ) -> Result<Verdict, StoreError>;

    /// Decides about what [`WritePolicy::defers`] named, and carries the decision out. Runs to its end even if the client goes away.
    fn process_deferred<'a>(&'a self, event: Event, source: EventSource) -> BoxFuture<'a, Answer>;

    /// Says, before the writer is asked, whether an event goes to [`WritePolicy::process_deferred`].
    fn defers(&self, event: &Event) -> bool;

    /// Says which share of its network an event takes of, if any.
    fn share(&self, _event: &Event, _source: EventSource) -> Option<Share> {
        None
    }

    /// What such an event of `bytes` takes of it; some are dearer than they are long.
    fn share_bytes(&self, _event: &Event, bytes: usize) -> usize {
        bytes
    }

    /// Hears of events refused by `judge` or by the engine's own checks. The id of the event is
    /// true to its content; its signature may be the very thing that was wrong.
    fn noted(&self, _event: &Event, _answer: &Answer) {}
}

/// The bytes of events that one network of clients or relays may send in an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Of those that are taken from anybody, related to something served or not, or cost others more
    /// than their bytes.
    Unrelated,
    /// Of those that are taken because they relate to something served.
    Related,
    /// Of those that were read from a relay, whether they wait for data or not.
    Synced,
}

/// What becomes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Store,
    /// Passed on to subscribers and not stored.
    Broadcast,
    Refuse(Answer),
}

/// The answer of an `OK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub accepted: bool,
    /// Begins with a NIP-01 prefix unless it is empty.
    pub message: String,
}

impl Answer {
    pub fn accepted(message: impl Into<String>) -> Self {
        Self {
            accepted: true,
            message: message.into(),
        }
    }

    /// `message` needs its NIP-01 prefix.
    pub fn refused(message: impl Into<String>) -> Self {
        Self {
            accepted: false,
            message: message.into(),
        }
    }

    /// The word before the colon, as far as it is one of the known prefixes.
    pub fn prefix(&self) -> Option<&str> {
        let (prefix, _) = self.message.split_once(':')?;
        crate::stats::PREFIXES.contains(&prefix).then_some(prefix)
    }
}

/// The words for what the store did. `same_second` says whether a [`Put::Superseded`] event and
/// the one it lost to carry the same time.
pub fn answer_to_put(put: &Put, same_second: bool) -> Answer {
    match put {
        Put::Stored { .. } => Answer::accepted(""),
        Put::Duplicate => Answer::accepted("duplicate: this event is already here"),
        Put::Superseded { .. } if same_second => Answer::refused(
            "invalid: another version made in the same second is already here and its lower id \
             wins; sign again with a later created_at",
        ),
        Put::Superseded { by } => Answer::refused(format!(
            "invalid: a newer version ({}) is already here",
            by.to_hex()
        )),
        Put::Deleted { by } => Answer::refused(format!(
            "blocked: this event was deleted by its author with {}",
            by.to_hex()
        )),
        Put::Expired => Answer::refused("invalid: this event has expired"),
    }
}
