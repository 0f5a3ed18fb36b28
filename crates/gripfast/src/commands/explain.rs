//! `gripfast explain`.

mod render;

use anyhow::Context as _;

use crate::{
    cli::NodeRequest,
    commands::{client::Node, when::Now},
};

/// Prints why the subject is served, held or refused.
pub(crate) fn run(request: &NodeRequest, subject: &str) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    let mut path = vec!["api", "v1", "explain"];
    path.extend(subject.split('/'));
    let response = node.get(&path)?;
    // That nothing is known is an explanation too.
    if response.status != 404 {
        node.check(&response)?;
    }
    if request.json {
        anstream::println!("{}", response.body.trim_end());
        return Ok(());
    }
    let explanation = serde_json::from_str(&response.body)
        .with_context(|| format!("{} gave something else than an explanation", node.name()))?;
    anstream::print!("{}", render::page(&explanation, Now::new()));
    Ok(())
}
