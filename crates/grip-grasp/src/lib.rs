#![doc = include_str!("../README.md")]

mod admission;
mod agreement;
mod commit;
mod contributors;
mod damage;
mod denials;
mod departures;
mod effects;
mod enforce;
mod error;
mod explain;
mod followed;
mod former_names;
mod grasp;
mod hold;
mod holding;
mod hosted_repositories;
mod incoming;
mod maintenance;
mod node_view;
mod orphan_refs;
mod policy;
mod profiles;
mod push;
mod push_rules;
mod recent_refusals;
mod ref_moves;
mod release;
mod repositories;
mod repository_events;
mod start;
mod summary;
mod sweep;
mod sync;
mod unused_stores;
mod withdrawal;

pub use agreement::{CheckOptions, Checked, Disagreement, Fault};
pub use explain::{EventFacts, Explanation, Missing, Status};
pub use grasp::{Grasp, Parts};
pub use grip_purgatory::{AttemptEnd, Bounds, Millis, SyncContext, SyncDelays, UrlAttempt};
pub use hosted_repositories::RepositoryStatus;
pub use maintenance::Maintained;
pub use policy::{
    Archive, ArchiveMode, InvalidSelection, Policy, Selection, TipRetention, parse_authors,
};
pub use push::PushReply;
pub use recent_refusals::Refusal;
pub use ref_moves::{ListedMove, ListedMoves};
pub use release::{DataSource, Released};
pub use start::StartError;
pub use summary::{ListedRef, LookError, RepositorySummary, StateFacts, Stats};
pub use sweep::Swept;
pub use sync::{SyncFacts, WaitingFacts, WaitingStatus};
