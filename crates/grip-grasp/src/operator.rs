//! Orders of the operator: repositories that are listed, and what is removed and blocked.
//!
//! A block is a rule as in the settings, kept in the journal and not in a file: what it takes out of
//! service comes back when it is lifted. What is removed is gone, and may be sent again.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
};

use grip_nostr::{Address, Event, EventId, Filter, PublicKey, RepoAddr, kinds};
use grip_purgatory::{Change, Row};
use grip_store::{EventView as _, Limits};
use grip_types::Identifier;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Grasp, InvalidSelection, LookError, Policy, RepositoryStatus, Selection,
    admission::{View as _, ViewError},
    error::GraspError,
    grasp::{Core, now, timestamp},
    node_view::NodeView,
};

/// The class of the rows of blocks in the journal.
const CLASS: &str = "block";
/// Events that are counted of one author before they are called many.
const MAX_COUNTED: usize = 1_000_000;

/// Something that is kept out of relay and git.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Block {
    /// `npub`, `npub/identifier` or `identifier`.
    pub subject: String,
    /// A note of the operator.
    pub reason: String,
    /// Unix milliseconds.
    pub since: i64,
}

#[derive(Deserialize, Serialize)]
struct Payload {
    reason: String,
}

/// The blocks in force, by subject. The operator alone makes them.
#[derive(Default)]
pub(crate) struct Blocks {
    by_subject: Mutex<BTreeMap<String, Block>>,
}

impl Blocks {
    /// Takes its rows from those of the journal and leaves the others.
    pub(crate) fn restore(rows: &mut Vec<Row>) -> Self {
        let mut by_subject = BTreeMap::new();
        rows.retain(|row| {
            let ours = row.class == CLASS;
            if ours {
                let payload = serde_json::from_str(&row.payload);
                let Payload { reason } = payload.unwrap_or(Payload {
                    reason: String::new(),
                });
                let block = Block {
                    subject: row.key.clone(),
                    reason,
                    since: row.expires_at,
                };
                by_subject.insert(row.key.clone(), block);
            }
            !ours
        });
        Self {
            by_subject: Mutex::new(by_subject),
        }
    }

    /// What they say, for the rules.
    pub(crate) fn selection(&self) -> Selection {
        let mut selection = Selection::default();
        for subject in self.by_subject.lock().keys() {
            if let Err(error) = selection.add(subject) {
                tracing::error!(subject, %error, "failed to read a block; it has no effect");
            }
        }
        selection
    }
}

/// A hosted repository, for lists.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct RepositoryFacts {
    pub npub: String,
    pub identifier: String,
    pub status: RepositoryStatus,
    pub branches: usize,
    pub tags: usize,
    /// `refs/nostr/*`.
    pub pull_requests: usize,
    /// How many owners have a repository of this name, and so share its objects.
    pub owners: usize,
    /// Bytes of these objects on disk.
    pub object_bytes: u64,
    /// Bytes of uploads whose events have not come, of this repository alone.
    pub staged_bytes: u64,
}

/// What an order removed, or would remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Removed {
    /// Served events.
    pub served: usize,
    /// Events that wait.
    pub waiting: usize,
    /// Repositories that are archived or, if they are empty, removed with them.
    pub repositories: usize,
}

impl Removed {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What an order to remove names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    Repository(RepoAddr),
    Event(EventId),
    /// Every event of a key.
    Author(PublicKey),
}

impl Grasp {
    pub fn blocks(&self) -> Vec<Block> {
        self.core
            .blocks
            .by_subject
            .lock()
            .values()
            .cloned()
            .collect()
    }

    /// Reads the subject of a block: `npub`, `npub/identifier` or `identifier`.
    pub fn block_subject(text: &str) -> Result<String, InvalidSelection> {
        let text = text.trim();
        Selection::default().add(text).map(|()| text.to_owned())
    }

    /// Keeps `subject` out from now on, and takes out of service what is here of it. Durable before
    /// it has any effect. False if it was blocked already.
    pub async fn block(&self, subject: &str, reason: &str) -> Result<bool, LookError> {
        Ok(self.core.block(subject, reason).await?)
    }

    /// Lifts a block; what it took out of service comes back. False if there is none.
    pub async fn unblock(&self, subject: &str) -> Result<bool, LookError> {
        Ok(self.core.unblock(subject).await?)
    }

    /// Hosted repositories by name, or the largest first; `limit` of them.
    pub async fn list_repositories(
        &self,
        limit: usize,
        by_size: bool,
    ) -> Result<Vec<RepositoryFacts>, LookError> {
        let list = move |core: &Core| core.list_repositories(limit, by_size);
        Ok(self.core.blocking("grasp.look", list).await?)
    }

    /// The same of one; none if it is not hosted.
    pub async fn repository_facts(
        &self,
        addr: &RepoAddr,
    ) -> Result<Option<RepositoryFacts>, LookError> {
        let Some(status) = self.core.hosted.status(addr) else {
            return Ok(None);
        };
        let addr = addr.clone();
        let look = move |core: &Core| core.facts(&addr, status);
        Ok(Some(self.core.blocking("grasp.look", look).await?))
    }

    /// What [`Self::remove`] would remove.
    pub async fn would_remove(&self, what: &Removal) -> Result<Removed, LookError> {
        let what = what.clone();
        let look = move |core: &Core| core.would_remove(&what);
        Ok(self.core.blocking("grasp.look", look).await??)
    }

    /// Removes a repository, an event or all of an author from relay and git alike.
    pub async fn remove(&self, what: &Removal) -> Result<Removed, LookError> {
        Ok(self.core.remove(what).await?)
    }
}

impl Core {
    async fn block(self: &Arc<Self>, subject: &str, reason: &str) -> Result<bool, GraspError> {
        if self.blocks.by_subject.lock().contains_key(subject) {
            return Ok(false);
        }
        let since = now().get();
        let payload = Payload {
            reason: reason.to_owned(),
        };
        let row = Row {
            class: CLASS.to_owned(),
            key: subject.to_owned(),
            identifier: String::new(),
            payload: serde_json::to_string(&payload).expect("a text is always JSON"),
            expires_at: since,
        };
        self.write_held(vec![Change::Put(row)]).await?;
        let block = Block {
            subject: subject.to_owned(),
            reason: reason.to_owned(),
            since,
        };
        self.blocks
            .by_subject
            .lock()
            .insert(block.subject.clone(), block);
        self.blocks_changed().await?;
        Ok(true)
    }

    async fn unblock(self: &Arc<Self>, subject: &str) -> Result<bool, GraspError> {
        if !self.blocks.by_subject.lock().contains_key(subject) {
            return Ok(false);
        }
        let row = Change::Remove {
            class: CLASS.to_owned(),
            key: subject.to_owned(),
        };
        self.write_held(vec![row]).await?;
        self.blocks.by_subject.lock().remove(subject);
        self.blocks_changed().await?;
        Ok(true)
    }

    /// Goes on to its end whatever becomes of who waits for it.
    async fn blocks_changed(self: &Arc<Self>) -> Result<(), GraspError> {
        let core = Arc::clone(self);
        let enforcing = self.group.spawn("grasp.enforce", async move {
            core.policy.rcu(|policy| Policy {
                blocked: core.blocks.selection(),
                ..Policy::clone(policy)
            });
            core.enforce().await
        });
        enforcing.await.map_err(|_| GraspError::Stopped)?
    }

    /// Blocks.
    fn list_repositories(&self, limit: usize, by_size: bool) -> Vec<RepositoryFacts> {
        let mut all = self.hosted.all();
        if by_size {
            let names: BTreeSet<Identifier> = all
                .iter()
                .map(|(addr, _)| addr.identifier.clone())
                .collect();
            let bytes = |name: Identifier| (name.clone(), self.repositories.object_bytes(&name));
            let bytes: BTreeMap<Identifier, u64> = names.into_iter().map(bytes).collect();
            all.sort_by_key(|(addr, _)| std::cmp::Reverse(bytes[&addr.identifier]));
        }
        let listed = all.into_iter().take(limit);
        listed
            .map(|(addr, status)| self.facts(&addr, status))
            .collect()
    }

    /// Blocks. Refs that cannot be read count as none.
    fn facts(&self, addr: &RepoAddr, status: RepositoryStatus) -> RepositoryFacts {
        let refs = self.repositories.refs(addr).ok();
        let count = |is: fn(&grip_types::RefName) -> bool| {
            let refs = refs.iter().flat_map(|refs| refs.iter());
            refs.filter(|r| is(&r.name)).count()
        };
        RepositoryFacts {
            npub: addr.npub(),
            identifier: addr.identifier.as_str().to_owned(),
            status,
            branches: count(grip_types::RefName::is_head),
            tags: count(grip_types::RefName::is_tag),
            pull_requests: count(grip_types::RefName::is_under_nostr),
            owners: self.hosted.owners(&addr.identifier).len(),
            object_bytes: self.repositories.object_bytes(&addr.identifier),
            staged_bytes: self.repositories.staged_bytes(addr),
        }
    }

    /// Blocks.
    fn would_remove(&self, what: &Removal) -> Result<Removed, GraspError> {
        let mut removed = Removed::default();
        match what {
            Removal::Repository(addr) => {
                removed.served = usize::from(self.announcement(addr)?.is_some());
                removed.waiting = usize::from(self.held_announcement(addr).is_some());
                removed.repositories = usize::from(self.hosted.status(addr).is_some());
            }
            Removal::Event(id) => {
                removed.served = usize::from(self.served_event(id)?.is_some());
                removed.waiting = usize::from(self.purgatory.lock().find_waiting(id).is_some());
            }
            Removal::Author(author) => {
                removed.served = self.count_of(author)?;
                removed.waiting = self.waiting_of(author).len();
                let hosted = self.hosted.all().into_iter();
                removed.repositories = hosted.filter(|(addr, _)| addr.owner == *author).count();
            }
        }
        Ok(removed)
    }

    async fn remove(self: &Arc<Self>, what: &Removal) -> Result<Removed, GraspError> {
        let planned = {
            let what = what.clone();
            self.blocking("grasp.look", move |core| core.would_remove(&what))
                .await??
        };
        let mut removed = Removed {
            repositories: planned.repositories,
            ..Removed::default()
        };
        match what {
            Removal::Repository(addr) => {
                let look = {
                    let addr = addr.clone();
                    move |core: &Self| core.announcement(&addr)
                };
                let served = self.blocking("grasp.look", look).await??;
                removed.served = usize::from(served.is_some());
                self.end_served(served.into_iter().collect()).await?;
                if let Some(id) = self.held_announcement(addr) {
                    removed.waiting = usize::from(self.drop_waiting(&id).await?);
                }
            }
            Removal::Event(id) => {
                let look = {
                    let id = *id;
                    move |core: &Self| core.served_event(&id)
                };
                let served = self.blocking("grasp.look", look).await??;
                removed.served = usize::from(served.is_some());
                self.end_served(served.into_iter().collect()).await?;
                removed.waiting = usize::from(self.drop_waiting(id).await?);
            }
            Removal::Author(author) => {
                removed.waiting = self.drop_waiting_of(author).await?;
                loop {
                    let author = *author;
                    let look = move |core: &Self| core.events_of(&author, None, |_| true);
                    let mut events = self.blocking("grasp.look", look).await??;
                    if events.is_empty() {
                        break;
                    }
                    removed.served += events.len();
                    // First, so that none is held again for want of a state.
                    events.sort_by_key(|event| event.kind != kinds::ANNOUNCEMENT);
                    self.end_served(events).await?;
                }
                self.drop_waiting_of(author).await?;
            }
        }
        Ok(removed)
    }

    async fn drop_waiting_of(self: &Arc<Self>, author: &PublicKey) -> Result<usize, GraspError> {
        let mut dropped = 0;
        for id in self.waiting_of(author) {
            dropped += usize::from(self.drop_waiting(&id).await?);
        }
        Ok(dropped)
    }

    fn announcement(&self, addr: &RepoAddr) -> Result<Option<Event>, GraspError> {
        let view = self.events()?;
        let found = view.latest(&Address::of_announcement(addr));
        Ok(found.map_err(ViewError::new)?)
    }

    fn held_announcement(&self, addr: &RepoAddr) -> Option<EventId> {
        let purgatory = self.purgatory.lock();
        purgatory
            .find_announcement(addr)
            .map(|entry| entry.held.id())
    }

    fn served_event(&self, id: &EventId) -> Result<Option<Event>, GraspError> {
        let events = self.events()?;
        Ok(NodeView::new(self, &events).served_event(id)?)
    }

    fn waiting_of(&self, author: &PublicKey) -> Vec<EventId> {
        let purgatory = self.purgatory.lock();
        let own = purgatory.waiting().map(|waiting| waiting.held());
        let own = own.filter(|held| held.author() == *author);
        own.map(|held| held.id()).collect()
    }

    fn count_of(&self, author: &PublicKey) -> Result<usize, GraspError> {
        let filter = Filter {
            authors: Some(vec![author.to_bytes()]),
            ..Filter::default()
        };
        let limits = Limits {
            default_limit: MAX_COUNTED,
            max_limit: MAX_COUNTED,
        };
        let mut count = 0;
        let view = self.events()?;
        let counted = view.query(&[filter], limits, timestamp(), &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        counted.map_err(ViewError::new)?;
        Ok(count)
    }
}
