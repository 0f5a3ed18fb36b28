//! Endings of served events: taken out of the relay, and out of git what rests on them.

use std::{collections::BTreeSet, fmt, sync::Arc};

use futures_util::future::BoxFuture;
use grip_nostr::{Event, EventId, PullRequest, RepoAddr, expiration, kinds};
use grip_store::EventView as _;
use grip_tasks::fault;
use grip_types::{ErrorChain, Identifier};

use super::settle::announced;
use crate::{
    Grasp,
    admission::{ViewError, by_request, own_identifier},
    enforce::is_hosted,
    error::GraspError,
    grasp::{Core, timestamp},
};

/// Events that are ended in one step, so that nobody waits long for the writer.
const BATCH: usize = 1_000;

/// What a look for expired events came to.
pub(crate) struct Ended(usize);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} events had expired", self.0)
    }
}

impl Grasp {
    /// Ends the served events whose own time is over (NIP-40); says how many. A task does this every
    /// second.
    pub async fn end_expired(&self) -> usize {
        match self.core.end_expired().await {
            Ok(ended) => ended,
            Err(error) => {
                error.log("failed to end expired events; the next look tries again");
                0
            }
        }
    }
}

impl Core {
    /// Ends the events whose own time is over (NIP-40), in relay and git.
    pub(crate) async fn end_expired_now(self: Arc<Self>) -> Result<Ended, String> {
        let ended = self.end_expired().await;
        ended
            .map(Ended)
            .map_err(|error| ErrorChain(&error).to_string())
    }

    pub(crate) async fn end_expired(self: &Arc<Self>) -> Result<usize, GraspError> {
        let mut ended = 0;
        loop {
            let look = |core: &Self| {
                let events = core.store.read().map_err(ViewError::new)?;
                events.expired(timestamp(), BATCH).map_err(ViewError::new)
            };
            let expired = self.blocking("grasp.look", look).await??;
            let count = expired.len();
            self.end_served(expired).await?;
            ended += count;
            if count < BATCH {
                return Ok(ended);
            }
        }
    }

    /// Takes events out of the relay, and out of git what rests on them.
    ///
    /// A crash in between leaves nothing that the start, which settles every identifier, does not
    /// see. That the owner of an announcement has left is remembered first: no older version of it
    /// comes back.
    pub(crate) fn end_served<'a>(
        self: &'a Arc<Self>,
        events: Vec<Event>,
    ) -> BoxFuture<'a, Result<(), GraspError>> {
        Box::pin(async move {
            let (git, others): (Vec<_>, Vec<_>) = events.into_iter().partition(is_about_git);
            if !others.is_empty() {
                let ids = others.iter().map(|event| event.id).collect();
                self.commit.remove_events(ids).await?;
            }
            for event in git {
                let identifiers = self.concerned_by_ending(&event).await?;
                let _turns = self.turns(identifiers.iter().cloned().collect()).await?;
                let is_over = expiration(&event).is_some_and(|end| end <= timestamp());
                // What came in between may have found it unannounced, and removed its repository.
                let was_hosted = is_over && is_hosted(&event, &self.policy.load());
                if let Some(addr) = announced(&event)
                    && (was_hosted || self.hosted.status(&addr).is_some())
                {
                    self.remember_departure(&addr, &event).await?;
                    fault::point("end.departure_noted");
                }
                if event.kind == kinds::STATE && is_over {
                    // As if its author had deleted it (G01-122).
                    self.commit.roll_back(event.id).await?;
                } else {
                    self.commit.remove_events(vec![event.id]).await?;
                }
                fault::point("end.event_removed");
                tracing::info!(id = %event.id, kind = event.kind.as_u16(), "event ended");
                let request = PullRequest::is_one(&event).then_some(event.id);
                for identifier in &identifiers {
                    let requests = request.into_iter().collect();
                    self.clear_tips(identifier, requests).await?;
                    self.settle(identifier).await;
                    self.hosted.events_changed(identifier);
                }
            }
            Ok(())
        })
    }

    async fn concerned_by_ending(
        self: &Arc<Self>,
        event: &Event,
    ) -> Result<BTreeSet<Identifier>, GraspError> {
        let Ok(request) = PullRequest::parse(event.clone()) else {
            return Ok(own_identifier(event).into_iter().collect());
        };
        let look = move |core: &Self| {
            let policy = core.policy.load();
            core.look(|view| by_request(&request, view, &policy))
        };
        Ok(self.blocking("grasp.look", look).await??)
    }

    /// Deletes `refs/nostr/<event>` of some pull requests in every repository of an identifier,
    /// contributors' too.
    pub(crate) async fn clear_tips(
        self: &Arc<Self>,
        identifier: &Identifier,
        requests: BTreeSet<EventId>,
    ) -> Result<(), GraspError> {
        if requests.is_empty() {
            return Ok(());
        }
        let identifier = identifier.clone();
        let clear = move |core: &Self| {
            let owners = core.hosted.owners(&identifier).into_keys();
            let repositories = owners.map(|owner| RepoAddr::new(owner, identifier.clone()));
            for addr in repositories.chain(core.repositories.contributors(&identifier)) {
                for event in &requests {
                    core.clear_tip(&addr, event, None)?;
                }
            }
            Ok(())
        };
        self.blocking("git.refs", clear).await?
    }
}

fn is_about_git(event: &Event) -> bool {
    [kinds::ANNOUNCEMENT, kinds::STATE].contains(&event.kind) || PullRequest::is_one(event)
}
