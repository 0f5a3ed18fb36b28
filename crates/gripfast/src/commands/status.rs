//! `gripfast status`: the node on one screen.

mod render;

use anyhow::bail;
use grip_web::api_types::NodeStatus;

use crate::{
    cli::NodeRequest,
    commands::{client::Node, table},
};

/// Shows how the node is; fails if it is not ready.
pub(crate) fn run(request: &NodeRequest) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    let path = ["api", "v1", "status"];
    let status: NodeStatus = node.data_for_operator(&path)?;
    if request.json {
        anstream::println!("{:#}", serde_json::to_value(&status)?);
    } else {
        table::print(&render::page(&status));
    }
    if !status.ready {
        let parts: Vec<_> = status.missing.into_keys().collect();
        bail!("{} is not ready: {}", node.name(), parts.join(", "));
    }
    Ok(())
}
