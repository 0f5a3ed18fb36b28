//! `gripfast check`: the audit of the running node, page by page.

mod from_backup;

use std::path::Path;

use anyhow::{Context as _, bail};
use grip_web::api_types::{CheckPage, DisagreementFacts};
use reqwest::Method;

use self::from_backup::Backups;
use crate::{
    cli::NodeRequest,
    commands::{
        client::Node,
        progress::Progress,
        table::{self, Table, counted},
    },
};

const PATH: [&str; 3] = ["api", "v1", "check"];

/// Succeeds when relay and git agree about everything.
pub(crate) fn run(
    request: &NodeRequest,
    full: bool,
    repair: bool,
    from_backup: Option<&Path>,
) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    let backups = from_backup.map(|root| Backups::open(root, &node, request));
    let backups = backups.transpose()?;
    // Asked first, so that a node that does not run is named before a token that is missing.
    node.get(&["healthz"])?;
    let (mut identifiers, mut found) = (0, Vec::new());
    let mut after: Option<String> = None;
    let mut progress = Progress::items("check", 0);
    loop {
        let mut parameters = Vec::new();
        parameters.extend(full.then_some(("full", "true")));
        parameters.extend(repair.then_some(("repair", "true")));
        parameters.extend(after.as_deref().map(|after| ("after", after)));
        // Every object of a repository may be read for one page.
        let page = node.change_slowly(Method::POST, &PATH, &parameters)?;
        let page: CheckPage = serde_json::from_str(&page).context("the answer cannot be read")?;
        identifiers += page.identifiers;
        found.extend(page.disagreements);
        progress.set(identifiers as u64, page.total.max(identifiers) as u64);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    progress.finish();
    let taken = match &backups {
        Some(backups) => Some(backups.take(&node, repair, &mut found)?),
        None => None,
    };
    if request.json {
        let mut all = serde_json::json!({ "identifiers": identifiers, "disagreements": found });
        if let Some(taken) = &taken {
            all["from_backup"] = serde_json::to_value(taken)?;
        }
        anstream::println!("{all:#}");
    } else {
        table::print(&render(&found));
        table::print(&from_backup::render(taken.as_deref().unwrap_or_default()));
    }
    let left = found.iter().filter(|it| it.repaired != Some(true)).count();
    if left == 0 {
        if !request.json {
            let repaired = match found.len() {
                0 => String::new(),
                number => format!(" after {}", counted(number as u64, "repair")),
            };
            let identifiers = counted(identifiers as u64, "identifier");
            anstream::println!("{identifiers}: relay and git agree{repaired}");
        }
        return Ok(());
    }
    let next_step = if repair && backups.is_some() {
        "what no backup has is looked for on other servers now: check again in a minute"
    } else if repair {
        "missing data is looked for on other servers now: check again in a minute; what nobody has may be \
         in a backup: `gripfast check --repair --from-backup DIRECTORY`"
    } else if full {
        "`gripfast check --full --repair` repairs what can be repaired"
    } else {
        "`gripfast check --repair` repairs what can be repaired, with --full also single objects"
    };
    bail!(
        "{} in {}; {next_step}",
        counted(left as u64, "disagreement"),
        counted(identifiers as u64, "identifier"),
    )
}

fn render(found: &[DisagreementFacts]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["repository", "kind", "now", "what"], 3);
    for facts in found {
        let now = match facts.repaired {
            Some(true) => "repaired",
            Some(false) => "not yet",
            None => "found",
        };
        table.row([&facts.repository, &facts.kind, &now, &facts.text]);
    }
    table.render()
}
