//! Calls as GitHub sees them.

use tokio::time::Instant;

/// One call.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub method: String,
    /// Below the API's base, with a slash at the beginning.
    pub path: String,
    pub query: String,
    /// The number of the token; none without one, or with one that is unknown.
    pub token: Option<usize>,
    /// Whether it asked for changes only.
    pub conditional: bool,
    /// What was answered; 0 for what is not answered yet.
    pub status: u16,
    /// Calls under way when this one came, itself included.
    pub in_flight: usize,
}
