//! `gripfast compact`.

use reqwest::Method;

use crate::{cli::NodeRequest, commands::client::Node};

/// Compacts the event store of the running node.
pub(crate) fn run(request: NodeRequest) -> anyhow::Result<()> {
    let node = Node::new(&request)?;
    let done = "compacting the event store; the node's log says when it is done, and what it saved";
    node.order(Method::POST, &["api", "v1", "events", "compact"], &[], done)
}
