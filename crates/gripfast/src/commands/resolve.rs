//! `gripfast resolve`.

mod render;

use self::render::{Found, Ranked};
use crate::{
    cli::ResolveRequest,
    commands::{client::Node, when::Now},
};

/// Asks the node for what a key names.
pub(crate) fn run(request: ResolveRequest) -> anyhow::Result<()> {
    let node = Node::new(&request.node)?;
    let key = request.key.as_str();
    let fresh: &[(&str, &str)] = match request.fresh {
        true => &[("fresh", "true")],
        false => &[],
    };
    if request.node.json {
        let route = if request.providers {
            "providers"
        } else {
            "resolve"
        };
        let answer: serde_json::Value = node.data_where(&[route, key], fresh)?;
        anstream::println!("{answer:#}");
        return Ok(());
    }
    let found: Found = node.data_where(&["resolve", key], fresh)?;
    anstream::print!("{}", render::found(&found, Now::new()));
    if request.providers {
        // What was just found is in the node's cache.
        let ranked: Ranked = node.data_where(&["providers", key], &[])?;
        anstream::print!("\n{}", render::providers(&ranked));
    }
    Ok(())
}
