//! Admission, push authorisation, release: drives the purgatory.
//!
//! Invariant: everything about one identifier happens in that identifier's turn, so announcements,
//! states, pull requests, deletions, pushes and releases have one serial order. Nothing here
//! starts a process, speaks HTTP or decides on the writer thread by more than reading.

mod admission;
mod commit;
mod effects;
mod error;
mod explain;
mod grasp;
mod hold;
mod hosted_repositories;
mod incoming;
mod node_view;
mod orphan_refs;
mod policy;
mod push;
mod push_rules;
mod recent_refusals;
mod release;
mod repack;
mod repositories;
mod repository_events;
mod start;
mod summary;
mod sweep;
mod sync;
mod unused_stores;
mod withdrawal;

pub use explain::{EventFacts, Explanation, Missing, Status};
pub use grasp::{Grasp, Parts};
pub use grip_purgatory::{AttemptEnd, Bounds, Millis, SyncContext, SyncDelays, UrlAttempt};
pub use hosted_repositories::RepositoryStatus;
pub use policy::{InvalidSelection, Policy, Selection, parse_authors};
pub use push::PushReply;
pub use recent_refusals::Refusal;
pub use release::{DataSource, Released};
pub use start::StartError;
pub use summary::{ListedRef, LookError, RepositorySummary, StateFacts, Stats};
pub use sweep::Swept;
pub use sync::{SyncFacts, WaitingFacts, WaitingStatus};
