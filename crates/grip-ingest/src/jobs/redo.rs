//! Reads what is kept again, by the rules of today.

use grip_queue::{Lease, Outcome};

use super::{Context, Trouble};
use crate::store::Work;

impl Context {
    /// Goes on where it was interrupted, part by part.
    pub(super) async fn redo(&self, lease: &Lease) -> Result<Outcome, Trouble> {
        let Some(work) = Work::named(&lease.key) else {
            return Err(Trouble::Useless("nothing of that name is kept".to_owned()));
        };
        let live_for = self.options.live_for;
        while !self.store.work_on(work, &self.queue, live_for).await? {}
        Ok(Outcome::Done)
    }
}
