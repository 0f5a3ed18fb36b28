//! How the database stands, for everybody who uses it.

use grip_tasks::CancellationToken;
use tokio::sync::watch;

use crate::clock::Clock;

pub(crate) struct Standing {
    pub(crate) clock: Clock,
    /// Why the database cannot be used at this moment; none if it can.
    pub(crate) trouble: watch::Sender<Option<String>>,
    /// Somebody else has our name; it is not ours again before the next start.
    pub(crate) usurped: CancellationToken,
}

impl Standing {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            trouble: watch::Sender::new(None),
            usurped: CancellationToken::new(),
        }
    }
}
