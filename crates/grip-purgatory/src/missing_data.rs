//! Missing git data: the seam between the service, which knows what waiting events lack, and the
//! search, which brings it from other hosts.
//!
//! It is here because both are features: each may use this crate, and neither the other.

use std::{collections::BTreeSet, future::Future, pin::Pin, time::Duration};

use grip_nostr::{EventId, PublicKey};
use grip_types::{Identifier, Oid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use url::Url;

use crate::Millis;

/// The objects that one waiting event lacks, and who may have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub event: EventId,
    /// It is a state and not a pull request. Anybody may send a pull request, with a tip that
    /// nobody has: where not all is to be had, states come first.
    pub is_state: bool,
    /// Who signed it, and so pays for what it makes us fetch.
    pub author: PublicKey,
    /// Its author may move the refs of a repository that is served here.
    pub is_served: bool,
    /// The objects it names that are not here; never empty.
    pub oids: BTreeSet<Oid>,
    /// The clone URLs of the announcements that speak for it, and its own, in their order; none is
    /// ours. A URL is asked for nothing else: the same identifier is not the same project.
    pub urls: Vec<Url>,
    /// Those who announced the repository it speaks of: others that have their repositories may
    /// have the objects too.
    pub owners: Vec<PublicKey>,
}

/// Others that may have what an event lacks, although nobody who speaks for it names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Providers {
    pub event: EventId,
    /// The best first.
    pub urls: Vec<Url>,
    /// All owners of its repository were looked up, and an answer came. If not, what was found
    /// earlier still counts.
    pub is_whole: bool,
}

/// The identifier to search for next.
#[must_use = "an identifier that was taken is searched for by nobody else"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextSync {
    /// Its time has come: its attempt is under way from now on.
    Due(Identifier),
    /// The first is due after this.
    In(Duration),
    /// Nothing waits, or all that waits is under way.
    Nothing,
}

impl NextSync {
    pub fn due(self) -> Option<Identifier> {
        match self {
            Self::Due(identifier) => Some(identifier),
            Self::In(_) | Self::Nothing => None,
        }
    }
}

/// The end of an attempt for an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// Nothing is missing any more.
    Complete,
    /// Something is still missing: the attempt counts, and the next one comes after this.
    Retry(Duration),
    /// The attempt is not finished: it does not count, and goes on after this.
    Resume(Duration),
}

/// One URL that was asked, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct UrlAttempt {
    pub identifier: Identifier,
    /// Without user name, password and query.
    pub url: String,
    /// When it ended, in unix milliseconds.
    pub at: i64,
    pub duration_ms: u64,
    /// In words.
    pub outcome: String,
    /// What somebody can do about it; empty where there is nothing to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub next_step: String,
    pub oids_fetched: usize,
    /// It brought something that was missing.
    pub is_success: bool,
}

/// The service could not say what is missing.
#[derive(Debug, thiserror::Error)]
#[error("cannot look up which objects are missing")]
pub struct NeedsError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// The service as the search sees it: what waits, when it is due, and what to do with data.
pub trait SyncContext: Send + Sync + 'static {
    fn now(&self) -> Millis;

    /// When the next attempt is due; none if nothing waits or all that waits is under way.
    fn next_sync(&self) -> Option<Millis>;

    /// Takes the identifier that is due first, if its time has come; nobody else gets it until
    /// [`SyncContext::finish_sync`]. A restart before that makes the attempt again.
    fn begin_sync(&self) -> NextSync;

    /// Attempts that did not bring everything, since the last new event: the waits grow with it.
    fn attempt_count(&self, identifier: &Identifier) -> u32;

    /// Ends what [`SyncContext::begin_sync`] began, durably. An event that came meanwhile keeps
    /// the identifier in the queue, whatever `end` says. Without an attempt it does nothing.
    fn finish_sync(
        &self,
        identifier: &Identifier,
        end: AttemptEnd,
    ) -> impl Future<Output = ()> + Send;

    /// Changes whenever [`SyncContext::next_sync`] may have come forward.
    fn sync_changes(&self) -> watch::Receiver<u64>;

    /// Says whether an event of this identifier waits for git data.
    fn has_pending_events(&self, identifier: &Identifier) -> bool;

    /// The objects that the waiting events of an identifier lack, for events that would be served
    /// if they had them.
    fn needs(
        &self,
        identifier: &Identifier,
    ) -> impl Future<Output = Result<Vec<Need>, NeedsError>> + Send;

    /// Releases what has its data now, and says how many events that were.
    fn process_newly_available_git_data(
        &self,
        identifier: &Identifier,
    ) -> impl Future<Output = usize> + Send;
}

/// The lookup of others that may have what is missing, once all that are named were asked or
/// cannot be asked now. What they say is believed no more than what anybody says: they are asked
/// for objects by their digest, through the same guard and throttle.
pub trait FindProviders: Send + Sync + 'static {
    fn find_providers<'a>(
        &'a self,
        identifier: &'a Identifier,
        needs: &'a [Need],
    ) -> Pin<Box<dyn Future<Output = Vec<Providers>> + Send + 'a>>;
}
