//! The origin of an event.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ClientNetwork;

/// Where an event came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A client sent it to this node; its author is likely to push the data soon.
    Submitted,
    /// This node read it from another relay; its data has to be fetched.
    Synced,
}

/// The origin of an event, and the network of the client or relay that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSource {
    pub origin: Origin,
    /// None where no bound per network applies, as for the operator's own tools.
    pub network: Option<ClientNetwork>,
    /// The operator named the relay it was read from.
    pub is_configured: bool,
}

impl From<Origin> for EventSource {
    fn from(origin: Origin) -> Self {
        Self {
            origin,
            network: None,
            is_configured: false,
        }
    }
}
