//! `gripfast resolve`.

mod render;

use anyhow::Context as _;
use grip_resolve::Ranked;
use grip_web::api_types::ResolvedManifest;

use crate::{
    cli::{NodeRequest, ResolveQuery},
    commands::{client::Node, table, when::Now},
};

/// Shows the manifest of a key, and its providers if wanted.
pub(crate) fn run(request: &NodeRequest, query: &ResolveQuery) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    let key = query.key.as_str();
    let fresh: Vec<_> = query
        .fresh
        .then_some(("fresh", "true"))
        .into_iter()
        .collect();
    if query.is_url_only {
        return print_url(&node, query, &fresh);
    }
    if request.json {
        let with_providers = query.providers;
        let route = if with_providers {
            "providers"
        } else {
            "resolve"
        };
        return node.show_json(node.text(&[route, key], &fresh)?);
    }
    let found: ResolvedManifest = node.data(&["resolve", key], &fresh)?;
    table::print(&render::found(&found, Now::new()));
    if query.providers {
        // What was just found is in the node's cache.
        let mut ranked: Ranked = node.data(&["providers", key], &[])?;
        ranked
            .providers
            .truncate(request.limit.unwrap_or(usize::MAX));
        anstream::print!("\n{}", render::providers(&ranked));
    }
    Ok(())
}

/// Prints the best URL alone, for `git clone $(gripfast resolve --clone-url …)`.
fn print_url(node: &Node<'_>, query: &ResolveQuery, fresh: &[(&str, &str)]) -> anyhow::Result<()> {
    let ranked: Ranked = node.data(&["providers", &query.key], fresh)?;
    let best = ranked.providers.first().context("no provider is known")?;
    anstream::println!("{}", best.url);
    Ok(())
}
