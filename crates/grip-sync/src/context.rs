//! What the sync asks of the rest of the node. `gripfast` implements it over the real parts, tests
//! over made-up ones.

use std::{collections::BTreeSet, future::Future, time::Duration};

use grip_nostr::{EventId, PublicKey};
use grip_purgatory::Millis;
use grip_types::{Identifier, Oid};
use tokio::sync::watch;
use url::Url;

/// What one waiting event lacks, and who may have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub event: EventId,
    /// It is a state and not a pull request. Anybody may send a pull request, with a tip that
    /// nobody has: where not all is to be had, states come first.
    pub is_state: bool,
    /// The objects it names that are not here; never empty.
    pub oids: BTreeSet<Oid>,
    /// The clone URLs of the announcements that speak for it, and its own, in their order. A URL
    /// is asked for nothing else: the same identifier is not the same project.
    pub urls: Vec<Url>,
    /// Who announced the repository it speaks of.
    pub owners: Vec<PublicKey>,
}

/// Others that may have what an event lacks, although nobody who speaks for it names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Further {
    pub event: EventId,
    /// The best first.
    pub urls: Vec<Url>,
    /// All who announced its repository were looked for, and an answer came. Where not, what was
    /// found earlier still counts.
    pub is_whole: bool,
}

/// How an attempt for an identifier ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing is missing any more.
    Complete,
    /// Something is still missing: count the attempt, and try again after this.
    Retry(Duration),
    /// A host told us how to ask it better: the attempt does not count, and goes on after this.
    Resume(Duration),
}

/// Why the node could not say what is missing.
#[derive(Debug, thiserror::Error)]
#[error("what is missing could not be looked up")]
pub struct ContextError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// What waits here, when it is due, and what to tell when data came.
pub trait SyncContext: Send + Sync + 'static {
    fn now(&self) -> Millis;

    /// When the next attempt is due; none if nothing waits.
    fn next_due(&self) -> Option<Millis>;

    /// Takes the identifier that is due first, if its time has come; it is nobody else's until
    /// [`SyncContext::finish`].
    fn begin(&self) -> Option<Identifier>;

    /// Attempts that did not bring everything, since the last new event: the waits grow with it.
    fn attempt_count(&self, identifier: &Identifier) -> u32;

    /// Ends what `begin` began, durably. An event that came meanwhile keeps the identifier in the
    /// queue, whatever `after` says.
    fn finish(&self, identifier: &Identifier, after: After) -> impl Future<Output = ()> + Send;

    /// Changes whenever [`SyncContext::next_due`] may have come forward.
    fn changes(&self) -> watch::Receiver<u64>;

    /// How many identifiers wait.
    fn queue_len(&self) -> usize;

    fn has_pending_events(&self, identifier: &Identifier) -> bool;

    /// What all waiting events of the identifier lack.
    fn needs(
        &self,
        identifier: &Identifier,
    ) -> impl Future<Output = Result<Vec<Need>, ContextError>> + Send;

    /// Looks for others that may have what is missing, once all that are named were asked or
    /// cannot be asked now. What they say is believed no more than what anybody says: they are
    /// asked for objects by their digest, through the same guard and throttle.
    fn further(
        &self,
        identifier: &Identifier,
        needs: &[Need],
    ) -> impl Future<Output = Vec<Further>> + Send;

    /// Releases what has its data now, and says how many events that were.
    fn process_newly_available_git_data(
        &self,
        identifier: &Identifier,
    ) -> impl Future<Output = usize> + Send;
}
