#![doc = include_str!("../README.md")]

mod bounds;
mod compact_event;
mod entry;
mod expired_ids;
mod journal;
mod millis;
mod missing_data;
mod purgatory;
mod schedule;
mod sync_queue;
mod wanted;

pub use bounds::{Bounds, Full, SyncDelays, Which};
pub use compact_event::CompactEvent;
pub use entry::{
    AnnouncementEntry, Family, Held, Phase, Placeholder, PlaceholderRef, PrEntry, Provenance,
    StateEntry, WantedEntry, can_be_here,
};
pub use journal::{Change, ReadRowError, Row, UnreadableRow};
pub use millis::Millis;
pub use missing_data::{
    AttemptEnd, FindProviders, Need, NeedsError, NextSync, Providers, SyncContext, UrlAttempt,
};
pub use purgatory::{Before, Counts, Expired, MadeRoom, Purgatory, Restored, Waiting};
pub use sync_queue::SyncEntry;

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// How long an event waits for its git data (G01-12).
pub const LIFETIME: Duration = MINUTE.saturating_mul(30);
/// How long a hidden announcement can still be revived (G01-20).
pub const HIDDEN_LIFETIME: Duration = MINUTE.saturating_mul(24 * 60);
/// How long `refs/nostr/<id>` waits for its event, from its last push (G01-47).
pub const PLACEHOLDER_LIFETIME: Duration = MINUTE.saturating_mul(20);
/// How many of its lifetimes an event has at most, however many pushes for it are under way.
pub const MAX_LIFETIMES: u32 = 48;
/// What an entry gets whose deadline passed while the node was down (G01-21).
pub const RESTART_GRACE: Duration = MINUTE.saturating_mul(5);
/// When data for a submitted event is looked for elsewhere: its author is likely to push it.
pub const SYNC_DELAY_DEFAULT: Duration = MINUTE.saturating_mul(3);
/// When data for a synced event is looked for: at once, but one search for a burst of events.
pub const SYNC_DELAY_IMMEDIATE: Duration = Duration::from_millis(500);
/// How long the data of an expired event is still looked for.
pub const WANTED_LIFETIME: Duration = MINUTE.saturating_mul(30 * 24 * 60);
/// The longest time between two attempts to find the data of an expired event (G02-2, G02-3).
pub const WANTED_INTERVAL: Duration = MINUTE.saturating_mul(60);
