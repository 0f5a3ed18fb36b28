//! The tasks of the process: their owners, their purpose and their counts.

use std::{collections::BTreeMap, sync::LazyLock};

use http::StatusCode;

use super::types::{TaskFacts, TaskList};
use crate::request_context::{HttpResult, RequestContext};

/// One line a kind of task: its name, how much hangs on it, what it does. `cargo xtask check`
/// fails where a task is started that is not in it, and docs/service.md is made from it.
const INVENTORY: &str = include_str!("../../tasks.tsv");

/// What is known of a kind beforehand.
#[derive(Clone, Copy)]
struct Kind {
    /// `critical`: the node does not do its work without it; `request`: it ends with what asked
    /// for it; `background`: it is done again at its time.
    weight: &'static str,
    what: &'static str,
}

static KINDS: LazyLock<BTreeMap<&'static str, Kind>> = LazyLock::new(|| {
    let columns = |line: &'static str| {
        let mut columns = line.splitn(3, '\t');
        let name = columns.next()?;
        let (weight, what) = (columns.next()?, columns.next()?);
        Some((name, Kind { weight, what }))
    };
    INVENTORY.lines().filter_map(columns).collect()
});

/// Lists all tasks of the process.
pub(crate) fn list(cx: &RequestContext<'_>) -> HttpResult {
    let tasks = cx.app.tasks();
    let running = tasks.iter().map(|task| task.running).sum();
    let listed = tasks.into_iter().map(|task| {
        let known = KINDS.get(task.kind);
        TaskFacts {
            group: task.group,
            kind: task.kind,
            criticality: known.map(|kind| kind.weight),
            what: known.map(|kind| kind.what),
            running: task.running,
            started_total: task.started_total,
            canceled_total: task.canceled_total,
            aborted_total: task.aborted_total,
            panicked_total: task.panicked_total,
        }
    });
    let tasks = listed.collect();
    super::json(StatusCode::OK, &TaskList { running, tasks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_inventory_is_whole_and_in_order() {
        assert_eq!(KINDS.len(), INVENTORY.lines().count());
        assert!(INVENTORY.lines().is_sorted());
        for (name, kind) in KINDS.iter() {
            let weights = ["critical", "request", "background"];
            assert!(weights.contains(&kind.weight), "{name}: {}", kind.weight);
            assert!(kind.what.len() > 10, "{name}");
        }
    }
}
