//! The origin of an event.

use serde::{Deserialize, Serialize};

/// Where an event came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A client sent it to this node; its author is likely to push the data soon.
    Submitted,
    /// This node read it from another relay; its data has to be fetched.
    Synced,
}
