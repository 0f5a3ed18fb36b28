//! The re-extraction job.

use grip_queue::{Lease, Outcome};

use super::{Context, JobError};
use crate::store::Reextraction;

impl Context {
    /// Goes on where it was interrupted, part by part.
    pub(super) async fn reextract(&self, lease: &Lease) -> Result<Outcome, JobError> {
        let Some(work) = Reextraction::named(&lease.key) else {
            return Err(JobError::Useless("nothing of that name is kept".to_owned()));
        };
        let live_for = self.options.live_for;
        while !self
            .store
            .reextract_step(work, &self.queue, live_for)
            .await?
        {}
        Ok(Outcome::Done)
    }
}
