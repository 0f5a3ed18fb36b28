#![doc = include_str!("../README.md")]

mod admission;
mod agreement;
mod cascade;
mod collection;
mod commit;
mod contributors;
mod damage;
mod denials;
mod departures;
mod disk_room;
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
mod lifecycle;
mod maintenance;
mod moving_in;
mod node_view;
mod operator;
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

pub use agreement::{
    CheckOptions, CheckRange, Checked, Disagreement, Fault, RestoreError, RestoredObjects,
};
pub use collection::{CollectionTotals, Keep};
pub use explain::{EventFacts, Explanation, Missing, Status};
pub use grasp::{Grasp, Parts};
pub use grip_purgatory::{AttemptEnd, Bounds, Millis, SyncContext, SyncDelays, UrlAttempt};
pub use grip_store::Kept;
pub use holding::{HeldBack, HoldingReason};
pub use hosted_repositories::RepositoryStatus;
pub use lifecycle::{Aged, Lifecycle};
pub use maintenance::Maintained;
pub use moving_in::{RemovedEvent, RequestTimes, TakenBack};
pub use operator::{Block, Removal, Removed, RepositoryFacts};
pub use policy::{
    Archive, ArchiveMode, InvalidSelection, Policy, PullRequestBytes, PullRequestRefs, Selection,
    TipRetention, parse_authors,
};
pub use push::{PushReply, Unread};
pub use recent_refusals::Refusal;
pub use ref_moves::{ListedMove, ListedMoves};
pub use release::{DataSource, Released};
pub use start::StartError;
pub use summary::{ListedRef, LookError, RepositorySummary, StateFacts, Stats};
pub use sweep::Swept;
pub use sync::{SyncFacts, WaitingFacts, WaitingStatus};
