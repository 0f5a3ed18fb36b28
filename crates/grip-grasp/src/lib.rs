//! Admission, push authorisation, release: drives the purgatory.
//!
//! Invariant: everything about one identifier happens in that identifier's turn, so announcements,
//! states, pull requests, deletions, pushes and releases have one serial order. Nothing here
//! starts a process, speaks HTTP or decides on the writer thread by more than reading.

mod admission;
mod changed;
mod claims;
mod commit;
mod disk;
mod effects;
mod explain;
mod grasp;
mod hold;
mod hosted;
mod maintenance;
mod policy;
mod push;
mod push_rules;
mod refusals;
mod release;
mod settle;
mod start;
mod summary;
mod sweep;
mod sync;
mod trouble;
mod unnoted;
mod unused;
mod wanted;
mod withdrawal;
mod world;

pub use changed::{Changed, Changes};
pub use claims::Claims;
pub use explain::{EventFacts, Explanation, Missing, Status};
pub use grasp::{Grasp, Parts};
pub use grip_purgatory::{Bounds, Millis, SyncDelays};
pub use hosted::RepositoryStatus;
pub use policy::{InvalidSelection, Policy, Selection, parse_authors};
pub use push::PushReply;
pub use refusals::Refusal;
pub use release::{DataSource, Released};
pub use start::StartError;
pub use summary::{ListedRef, LookError, RepositorySummary, StateFacts, Stats};
pub use sweep::Swept;
pub use sync::{Need, SyncAfter, SyncFacts, WaitingFacts, WaitingStatus};
