//! Random stories of several people on one name, checked after every step against a small model of
//! the protocol.
//!
//! The model knows which events were sent, asks which of them are served and held, and derives from
//! these alone what git has to show. It shares no code with the node, and plays on whatever
//! implements [`Subject`]: the service inside a test, or the real binary. A story that fails shrinks
//! to a short one.

mod campaign;
mod check;
mod fixture;
mod step;
mod story;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use nostr::prelude::{Event, EventId, PublicKey};

pub use self::{
    campaign::{Campaign, Played},
    fixture::Fixture,
    story::Tally,
};
use crate::{Answer, Author};

/// Where an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Served,
    /// It waits for its data.
    Held,
    Gone,
}

/// A repository as a client of git sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repository {
    /// Its announcement is served, and not held.
    pub is_served: bool,
    /// Every ref that is shown, and with it `HEAD`, at the name of its branch, if that is there.
    pub refs: BTreeMap<String, String>,
}

/// How a node ends, and how it is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    Orderly,
    /// Whatever is under way is cut.
    Killed,
    /// In order, and then without free space on the disk until the next restart.
    DiskFull,
    /// In order, and then under another name until the next restart.
    Renamed,
}

/// A node that stories are played on.
#[expect(
    async_fn_in_trait,
    reason = "a story is played by one thread with a runtime of its own"
)]
pub trait Subject {
    /// The name that announcements list.
    fn service(&self) -> String;

    /// A further clone URL for announcements of `name`, from which [`Self::fetch`] brings objects.
    fn clone_url(&self, name: &str) -> Option<String>;

    /// Sends an event as a client does.
    async fn send(&mut self, event: &Event) -> Result<Answer>;

    /// Has an event come from another relay.
    async fn arrive(&mut self, event: &Event) -> Result<()>;

    /// Sends the body of a push.
    async fn push(&mut self, owner: &Author, name: &str, body: Vec<u8>) -> Result<()>;

    /// Has all that a commit reaches come by another way than a push.
    async fn fetch(&mut self, name: &str, tip: &str, fixture: &Fixture) -> Result<()>;

    async fn statuses(&mut self, events: &[&Event]) -> Result<Vec<Status>>;

    async fn repository(&mut self, owner: &Author, name: &str) -> Result<Option<Repository>>;

    /// Refuses these keys and no others from now on, over restarts too.
    async fn ban(&mut self, banned: &BTreeSet<PublicKey>) -> Result<()>;

    /// The time passes for which events are held, these among them.
    async fn expire_held(&mut self, held: &[EventId]) -> Result<()>;

    /// Ends events whose own time is over, served and held.
    async fn end_expired(&mut self) -> Result<()>;

    async fn restart(&mut self, how: Restart) -> Result<()>;

    /// The database is away until the next restart.
    async fn lose_database(&mut self) -> Result<()>;

    /// What the node itself finds wrong about an identifier.
    async fn audit(&mut self, name: &str) -> Result<Vec<String>>;

    /// Says whether nothing happens beside the story: whatever a step causes has happened when it ends.
    fn is_at_rest(&self) -> bool;

    async fn close(self) -> Result<()>;
}
