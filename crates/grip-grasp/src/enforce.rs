//! Bans, blacklists and selections, applied to what is served and held already (G01-123, G01-124,
//! G05-12).

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use grip_nostr::{
    Address, Announcement, Event, Filter, Kind, PublicKey, PullRequest, RepoAddr, Timestamp,
};
use grip_purgatory::Waiting;
use grip_store::Limits;
use grip_tasks::fault;

use crate::{
    Grasp, Policy,
    admission::{Announcements, ViewError},
    agreement::announced,
    error::GraspError,
    grasp::{Core, timestamp},
    holding::HoldingReason,
};

/// Events that are ended in one step.
const BATCH: usize = 500;
const NOT_ENFORCED: &str =
    "failed to apply the rules to what is served; the next sweep tries again";

/// Passes of the rules over what is served and held: one at a time, each by the rules that are in force when
/// it begins. Two at once could take an event out of service and bring it back in either order.
#[derive(Default)]
pub(crate) struct Enforcement {
    /// Counts the passes that were asked for.
    asked: AtomicU64,
    /// How many had been asked for when the last pass began that came to its end.
    done: tokio::sync::Mutex<u64>,
}

impl Enforcement {
    /// Says whether rules have not been applied to their end, and nobody is about to.
    pub(crate) fn is_due(&self) -> bool {
        let done = self.done.try_lock();
        done.is_ok_and(|done| *done != self.asked.load(Ordering::Acquire))
    }
}

impl Grasp {
    /// Has other rules count from now on, for what is served and held already too, soon.
    pub fn set_policy(&self, policy: Policy) {
        self.core.swap_policy(policy);
        self.core.enforce_soon();
    }

    /// The same, and waits until it is done.
    pub async fn enforce(&self, policy: Policy) {
        self.core.swap_policy(policy);
        if let Err(error) = self.core.enforce().await {
            error.log(NOT_ENFORCED);
        }
    }
}

impl Core {
    fn swap_policy(&self, policy: Policy) {
        // Built again if a block came between.
        self.policy.rcu(|present| Policy {
            former: present.former.clone(),
            blocked: self.blocks.selection(),
            ..policy.clone()
        });
    }

    /// Ends what the rules in force ban, in a task of its own.
    pub(crate) fn enforce_soon(self: &Arc<Self>) {
        let core = Arc::clone(self);
        self.group.spawn("grasp.enforce", async move {
            if let Err(error) = core.enforce().await {
                error.log(NOT_ENFORCED);
            }
        });
    }

    /// Applies the rules in force. What a failure leaves undone the next sweep tries again.
    pub(crate) async fn enforce(self: &Arc<Self>) -> Result<(), GraspError> {
        self.enforcement.asked.fetch_add(1, Ordering::AcqRel);
        fault::point("enforce.asked");
        self.enforce_asked().await
    }

    /// The same for the sweep, where rules have not been applied to their end.
    pub(crate) async fn enforce_again(self: &Arc<Self>) {
        if self.enforcement.is_due()
            && let Err(error) = self.enforce_asked().await
        {
            error.log(NOT_ENFORCED);
        }
    }

    async fn enforce_asked(self: &Arc<Self>) -> Result<(), GraspError> {
        let mut done = self.enforcement.done.lock().await;
        let asked = self.enforcement.asked.load(Ordering::Acquire);
        self.apply_rules().await?;
        *done = asked;
        Ok(())
    }

    async fn apply_rules(self: &Arc<Self>) -> Result<(), GraspError> {
        let policy = self.policy.load_full();
        for author in policy.banned_authors() {
            self.end_author(author).await?;
        }
        self.end_banned_repositories(&policy).await?;
        self.end_unselected_repositories(&policy).await?;
        self.end_withdrawals(|addr| policy.bans(addr)).await?;
        self.end_banned_contributions(&policy).await?;
        self.drop_banned().await?;
        self.finish_vanishing(|_| true).await?;
        self.restore_from_holding(&policy).await?;
        self.drop_unkept_tips(|_| true).await
    }

    /// Takes the served events of a key out of service.
    async fn end_author(self: &Arc<Self>, author: &PublicKey) -> Result<(), GraspError> {
        loop {
            let author = *author;
            let look = move |core: &Self| core.events_of(&author, None, |_| true);
            let events = self.blocking("grasp.look", look).await??;
            if events.is_empty() {
                return Ok(());
            }
            self.put_on_hold(events, HoldingReason::Banned).await?;
        }
    }

    /// Some of the served events of a key, of certain kinds and up to a time. Blocks.
    pub(crate) fn events_of(
        &self,
        author: &PublicKey,
        until: Option<Timestamp>,
        is_wanted: fn(Kind) -> bool,
    ) -> Result<Vec<Event>, ViewError> {
        let filter = Filter {
            authors: Some(vec![author.to_bytes()]),
            until: until.map(|until| until.as_secs()),
            ..Filter::default()
        };
        self.some_events(&[filter], is_wanted)
    }

    /// Some of the served events that filters find. Blocks.
    fn some_events(
        &self,
        filters: &[Filter],
        is_wanted: fn(Kind) -> bool,
    ) -> Result<Vec<Event>, ViewError> {
        let limits = Limits {
            default_limit: usize::MAX,
            max_limit: usize::MAX,
        };
        let view = self.store.read().map_err(ViewError::new)?;
        let mut found = Vec::new();
        let queried = view.query(filters, limits, timestamp(), &mut |stored| {
            if is_wanted(Kind::from(stored.kind)) {
                found.extend(serde_json::from_slice::<Event>(stored.json).ok());
            }
            if found.len() < BATCH {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        queried.map_err(ViewError::new)?;
        Ok(found)
    }

    /// Takes the announcements of banned repositories out of service, and so the repositories. What is
    /// banned may have no repository any more: a crash may have come between, or the node was down.
    async fn end_banned_repositories(
        self: &Arc<Self>,
        policy: &Arc<Policy>,
    ) -> Result<(), GraspError> {
        for (selection, reason) in [
            (&policy.repository_blacklist, HoldingReason::Blacklist),
            (&policy.blocked, HoldingReason::Banned),
        ] {
            loop {
                let filters = selection.announcements();
                if filters.is_empty() {
                    break;
                }
                let look = move |core: &Self| core.some_events(&filters, |_| true);
                let banned = self.blocking("grasp.look", look).await??;
                if banned.is_empty() {
                    break;
                }
                for addr in banned.iter().filter_map(announced) {
                    tracing::info!(repository = %addr, %reason, "repository is not taken any more");
                }
                self.put_on_hold(banned, reason).await?;
            }
        }
        Ok(())
    }

    /// Settles the identifiers of repositories that are not selected any more, by which these leave.
    async fn end_unselected_repositories(
        self: &Arc<Self>,
        policy: &Arc<Policy>,
    ) -> Result<(), GraspError> {
        let policy = Arc::clone(policy);
        let look = move |core: &Self| {
            core.look(|view| {
                let mut concerned = BTreeSet::new();
                for (addr, _) in core.hosted.all() {
                    let served = view.latest(&Address::of_announcement(&addr))?;
                    if served.is_some_and(|event| !is_hosted(&event, &policy)) {
                        concerned.insert(addr.identifier);
                    }
                }
                Ok(concerned)
            })
        };
        for identifier in self.blocking("grasp.look", look).await?? {
            self.settle_in_turn(&identifier).await;
        }
        Ok(())
    }

    /// Takes the pull requests out of service that are here for banned repositories alone.
    async fn end_banned_contributions(
        self: &Arc<Self>,
        policy: &Arc<Policy>,
    ) -> Result<(), GraspError> {
        for identifier in self.repositories.contributed() {
            let look = {
                let policy = Arc::clone(policy);
                move |core: &Self| core.banned_contributions(&identifier, &policy)
            };
            let banned = self.blocking("grasp.look", look).await??;
            // What an order took out comes back when it is taken back.
            let list = &policy.repository_blacklist;
            let is_listed = |event: &Event| {
                let targets = PullRequest::parse(event.clone()).map(|request| request.targets);
                targets.is_ok_and(|targets| targets.iter().any(|target| list.contains(target)))
            };
            let (listed, ordered): (Vec<Event>, Vec<Event>) =
                banned.into_iter().partition(is_listed);
            for (events, reason) in [
                (listed, HoldingReason::Blacklist),
                (ordered, HoldingReason::Banned),
            ] {
                if !events.is_empty() {
                    self.put_on_hold(events, reason).await?;
                }
            }
        }
        Ok(())
    }

    /// The operator does not host `addr` any more: its announcement, unless it is served for the
    /// sake of discovery too, is taken out of service and kept. The caller has the turn.
    pub(crate) async fn unselect(self: &Arc<Self>, addr: &RepoAddr) -> Result<(), GraspError> {
        let look = {
            let addr = addr.clone();
            move |core: &Self| {
                let policy = core.policy.load();
                core.look(|view| {
                    let announcements = Announcements::load(&addr.identifier, view, &policy)?;
                    let served = view.latest(&Address::of_announcement(&addr))?;
                    let is_unselected = |event: &Event| {
                        !is_hosted(event, &policy) && !announcements.is_listed(&addr.owner)
                    };
                    Ok(served.filter(is_unselected))
                })
            }
        };
        let Some(event) = self.blocking("grasp.look", look).await?? else {
            return Ok(());
        };
        tracing::info!(repository = %addr, "repository is not selected any more");
        let (id, held) = (event.id, [(event, Some(addr.clone()))]);
        self.holding.put(&held, HoldingReason::Whitelist).await?;
        self.commit.remove_events(vec![id]).await
    }

    /// Drops the held events of banned keys, and of repositories that are banned or not selected.
    async fn drop_banned(self: &Arc<Self>) -> Result<(), GraspError> {
        // By the rules of the moment: what waits and is dropped does not come back with others.
        let is_banned = |waiting: &Waiting<'_>| {
            let policy = self.policy.load();
            match waiting {
                Waiting::Announcement(entry) => {
                    policy.bans(&entry.addr) || !is_hosted(&entry.held.event.unpack(), &policy)
                }
                other => policy.bans_author(&other.held().author()),
            }
        };
        self.drop_waiting_where(is_banned).await.map(drop)
    }
}

/// Says whether an announcement has a repository here by the rules in force.
pub(crate) fn is_hosted(event: &Event, policy: &Policy) -> bool {
    let announcement = Announcement::parse(event.clone());
    announcement.is_ok_and(|announcement| policy.hosts(&announcement))
}
