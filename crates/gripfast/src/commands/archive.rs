//! `gripfast archive log`.

use anyhow::Context as _;
use grip_grasp::{ListedMove, ListedMoves};

use crate::{
    cli::{ArchiveAction, NodeRequest},
    commands::{
        client::Node,
        table::{BOLD, Table, more, short},
        when::Now,
    },
};

/// Lists the moves of refs that the archive has recorded.
pub(crate) fn run(request: &NodeRequest, action: &ArchiveAction) -> anyhow::Result<()> {
    let ArchiveAction::Log { repository, limit } = action;
    let (npub, identifier) = repository
        .split_once('/')
        .with_context(|| format!("`{repository}` is not npub/identifier"))?;
    let identifier = identifier.strip_suffix(".git").unwrap_or(identifier);
    let node = Node::new(request)?;
    let path = ["api", "v1", "archive", npub, identifier, "log"];
    let limit = limit.to_string();
    node.show(&path, &[("limit", &limit)], render)
}

fn render(listed: &ListedMoves, now: Now) -> String {
    if listed.moves.is_empty() {
        return "no move of a branch or tag is recorded\n".to_owned();
    }
    let mut out = format!("{BOLD}{}{BOLD:#} recorded moves\n\n", listed.total);
    let mut table = Table::new(["when", "ref", "from", "to", "state"], 1);
    for it in &listed.moves {
        table.row([
            &now.millis(i64::try_from(it.at).unwrap_or(i64::MAX)),
            &it.name,
            &tip(it.from),
            &tip(it.to),
            &it.state.as_deref().map_or("repair", short),
        ]);
        table.note(lost(it));
    }
    out.push_str(&table.render());
    more(&mut out, listed.total, listed.moves.len());
    out
}

/// The tip that only the archive still has, whole, so that it can be fetched.
fn lost(it: &ListedMove) -> Option<String> {
    let from = it.from?;
    Some(format!("git fetch <clone URL> {from}"))
}

fn tip(oid: Option<grip_types::Oid>) -> String {
    oid.map_or_else(|| "–".to_owned(), |oid| oid.short())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table::unstyled;

    #[test]
    fn moves_are_listed_with_the_tips_of_before() {
        let listed = serde_json::json!({"total": 3, "moves": [
            {"at": 940_000, "name": "refs/heads/main", "from": "a1".repeat(20),
             "to": "b2".repeat(20), "state": "99edac5dc5286a9c", "author": "npub1x"},
            {"at": 900_000, "name": "refs/tags/v1", "from": "a1".repeat(20), "to": null,
             "state": null, "author": null},
        ]});
        let listed = serde_json::from_value(listed).unwrap();
        let shown = unstyled(&render(&listed, Now::at(1000)));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "3 recorded moves");
        let (a, b) = ("a1a1a1a1a1", "b2b2b2b2b2");
        for part in ["1m ago", "refs/heads/main", a] {
            assert!(lines[3].contains(part), "{shown}");
        }
        assert!(
            lines[3].contains(b) && lines[3].contains("99edac5d"),
            "{shown}"
        );
        assert!(lines[4].contains(&"a1".repeat(20)), "{shown}");
        assert!(lines[5].contains("refs/tags/v1") && lines[5].contains("repair"));
        assert!(shown.contains("and 1 more"), "{shown}");
    }
}
