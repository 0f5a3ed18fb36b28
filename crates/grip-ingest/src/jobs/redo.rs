//! The re-extraction job.

use grip_queue::{Lease, Outcome};

use super::{Context, JobError};
use crate::store::Work;

impl Context {
    /// Goes on where it was interrupted, part by part.
    pub(super) async fn redo(&self, lease: &Lease) -> Result<Outcome, JobError> {
        let Some(work) = Work::named(&lease.key) else {
            return Err(JobError::Useless("nothing of that name is kept".to_owned()));
        };
        let live_for = self.options.live_for;
        while !self.store.work_on(work, &self.queue, live_for).await? {}
        Ok(Outcome::Done)
    }
}
