//! `gripfast explain`.

mod render;

use anyhow::{Context as _, bail};
use grip_grasp::Status;
use grip_web::api_types::Explained;

use crate::{
    cli::NodeRequest,
    commands::{
        client::Node,
        table::{self, plain},
        when::Now,
    },
};

/// Prints why the subject is served, held or refused; fails if nothing is known of it.
pub(crate) fn run(request: &NodeRequest, subject: &str) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    let mut path = vec!["api", "v1", "explain"];
    path.extend(subject.split('/'));
    let response = node.get(&path)?;
    // That nothing is known is an explanation too.
    if response.status != 404 {
        node.check(&response)?;
    }
    let explained: Explained = serde_json::from_str(&response.body)
        .with_context(|| format!("{} gave something else than an explanation", node.name()))?;
    if request.json {
        anstream::println!("{}", response.body.trim_end());
    } else {
        table::print(&render::page(&explained, Now::new()));
    }
    if explained.explanation.status == Status::Unknown {
        bail!("nothing is known of {}", plain(subject));
    }
    Ok(())
}
