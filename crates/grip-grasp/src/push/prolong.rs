//! Claims that a push will release, kept alive while its upload makes real progress.
//!
//! A claim waits for its data, and here its data comes: an upload that takes longer than the claim
//! may wait would always fail otherwise. What would release nothing prolongs nothing, nor does a
//! trickle; and however many pushes come, purgatory ends the claim after a whole day.

use std::time::Duration;

use grip_nostr::EventId;
use grip_tasks::{SLOW_BYTES_PER_SECOND, UploadProgress};

use super::{Push, judge::Judged};
use crate::{
    error::GraspError,
    grasp::{Core, now},
};

/// What a claim is sure to have left, as parts of its lifetime: when a push for it begins, and each
/// time its upload has shown progress; and how often it is looked at.
const AT_FIRST: u32 = 5;
const PROLONGED: u32 = 2;
const LOOKED_AT: u32 = 6;

/// The events that wait for what this push brings: refs that are already as asked bring nothing.
pub(super) fn claims(judged: &Judged) -> Vec<EventId> {
    let authorised = &judged.authorised;
    let moves_refs = authorised.edits.iter().any(|edit| edit.name.is_state_ref());
    let requests = authorised.pull_requests.iter();
    let requests = requests.filter(|(id, tip)| !judged.current.has_tip(id, tip));
    let state = authorised.by.filter(|_| moves_refs);
    state
        .into_iter()
        .chain(requests.map(|(id, _)| *id))
        .collect()
}

impl Core {
    /// Gives the claims of a push that begins the time to show its first progress.
    pub(super) async fn begin_claims(
        &self,
        push: &Push,
        claims: &[EventId],
    ) -> Result<(), GraspError> {
        self.prolong(push, claims, self.bounds.lifetime / AT_FIRST)
            .await
    }

    /// Keeps the claims alive as long as the upload is quick enough. Never ends; cancel safe.
    pub(super) async fn keep_claims(
        &self,
        push: &Push,
        claims: &[EventId],
        progress: &UploadProgress,
    ) {
        if claims.is_empty() {
            std::future::pending::<()>().await;
        }
        let every = self.bounds.lifetime / LOOKED_AT;
        let least = SLOW_BYTES_PER_SECOND as f64 * every.as_secs_f64();
        let mut before = 0;
        loop {
            tokio::time::sleep(every).await;
            let received = progress.received_bytes();
            let is_progress = (received - before) as f64 >= least;
            before = received;
            if is_progress || progress.is_whole() {
                let prolonged = self.prolong(push, claims, self.bounds.lifetime / PROLONGED);
                if let Err(error) = prolonged.await {
                    error.log("failed to prolong what a push rests on");
                }
            }
        }
    }

    async fn prolong(
        &self,
        push: &Push,
        claims: &[EventId],
        by: Duration,
    ) -> Result<(), GraspError> {
        if claims.is_empty() {
            return Ok(());
        }
        self.held(|purgatory| {
            let changes = purgatory.extend_for_push(&push.addr, claims, by, now());
            ((), changes)
        })
        .await
    }
}
