//! Has the data of one identifier looked for, and waits for the end of that.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use grip_queue::{Handler, Job, Outcome};
use grip_tasks::CancellationToken;
use grip_types::Identifier;
use tokio::time::timeout;

use crate::grasp::{Core, now};

/// How long the end of an attempt is waited for. One that takes longer goes on by itself.
const LONGEST: Duration = Duration::from_secs(60);

pub(super) struct Seeker {
    core: Arc<Core>,
}

/// What has to be done for an identifier.
enum Wish {
    Nothing,
    /// Something is held as well, and looked for more often than this.
    Held,
    Look,
}

impl Seeker {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    async fn seek(&self, job: &Job) -> Outcome {
        let Ok(identifier) = Identifier::parse(&job.key) else {
            return Outcome::Remove;
        };
        let rows = &self.core.wanted;
        let began_ms = rows.queue().db().now_ms();
        if let Wish::Look = self.wish(&identifier)
            && !self.attempt(&identifier, job.stop()).await
        {
            // The node stops: the next start looks at once.
            return Outcome::Postponed {
                until_ms: began_ms,
                reason: "the search was cut short".to_owned(),
            };
        }
        match self.wish(&identifier) {
            Wish::Nothing => Outcome::Remove,
            // From the time this one began, or a long attempt would put them further apart.
            Wish::Held | Wish::Look => Outcome::Postponed {
                until_ms: rows.again(&identifier, began_ms),
                reason: "it was not to be had yet".to_owned(),
            },
        }
    }

    fn wish(&self, identifier: &Identifier) -> Wish {
        let purgatory = self.core.purgatory.lock();
        match (
            purgatory.wants(identifier),
            purgatory.has_held_events(identifier),
        ) {
            (false, _) => Wish::Nothing,
            (true, true) => Wish::Held,
            (true, false) => Wish::Look,
        }
    }

    /// Asks for an attempt and waits for its end, for a while; false if told to stop before.
    async fn attempt(&self, identifier: &Identifier, stop: &CancellationToken) -> bool {
        let mut ends = self.core.sync_ends.subscribe();
        let asked = self
            .core
            .held(|purgatory| ((), purgatory.sync_now(identifier, now())));
        if let Err(error) = asked.await {
            error.log("a search that was asked for could not be journalled");
        }
        let ended = async {
            loop {
                // Before looking, so that no end falls in between.
                ends.borrow_and_update();
                if self.rests(identifier) || ends.changed().await.is_err() {
                    return;
                }
            }
        };
        let waited = stop.run_until_cancelled(timeout(LONGEST, ended));
        waited.await.is_some()
    }

    /// Nothing of it is under way, nor will be before somebody asks.
    fn rests(&self, identifier: &Identifier) -> bool {
        let purgatory = self.core.purgatory.lock();
        let entry = purgatory.sync_entry(identifier);
        let rests = entry.is_none_or(|it| !it.in_progress && it.next_attempt.is_none());
        rests || purgatory.has_held_events(identifier)
    }
}

impl Handler for Seeker {
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.seek(&job).await })
    }
}
