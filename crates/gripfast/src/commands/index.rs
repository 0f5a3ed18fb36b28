//! `gripfast index status|sources|forget|now|repo|sumdb|verify`.

mod render;
mod verify;

use reqwest::Method;

use crate::{
    cli::{IndexAction, NodeRequest},
    commands::client::Node,
};

const PATH: [&str; 3] = ["api", "v1", "index"];
/// How many tags of a repository are shown.
const LISTED: usize = 200;

/// Shows the index and its sources, takes leave of one, or indexes a source or repository now.
pub(crate) fn run(request: NodeRequest, action: IndexAction) -> anyhow::Result<()> {
    let node = Node::new(&request)?;
    match action {
        IndexAction::Status => node.show(&PATH, &[], render::status),
        IndexAction::Sources => node.show(&PATH, &[], render::sources),
        IndexAction::Forget { source, hide } => {
            let path = [&PATH[..], &["forget"]].concat();
            let (how, done) = if hide {
                ("hide", format!("hiding the repositories of {source}"))
            } else {
                ("remove", format!("removing the repositories of {source}"))
            };
            let done = format!("{done}; `gripfast queue ls --kind index-leave` shows progress");
            let parameters = [("source", &*source), ("how", how)];
            node.order(Method::POST, &path, &parameters, &done)
        }
        IndexAction::Repo { name } => {
            let path = [&PATH[..], &["repos", &name]].concat();
            node.show(&path, &[("limit", &request.limit(LISTED))], render::repo)
        }
        IndexAction::Sumdb => {
            let path = [&PATH[..], &["sumdb"]].concat();
            node.show(&path, &[("limit", &request.limit(LISTED))], render::sumdb)
        }
        IndexAction::Verify { since } => verify::run(&node, &request, since.as_deref()),
        IndexAction::Now { name } => {
            let path = [&PATH[..], &["now"]].concat();
            let done = format!("indexing {name} now; `gripfast queue ls` shows progress");
            node.order(Method::POST, &path, &[("name", &name)], &done)
        }
    }
}
