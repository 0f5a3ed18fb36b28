//! Issues, patches and pull requests of a repository, and the answers below them (G02-5, G02-12).

use std::{
    collections::{BTreeMap, HashSet},
    ops::ControlFlow,
};

use grip_nostr::{Address, EventId, Filter, RepoAddr, Timestamp, kinds};
use grip_store::{Item, Limits, Match, Query, ReadView, StoreError};

use crate::targets::Threads;

/// Issues, patches and pull requests of one repository that are followed, the newest.
const MAX_ROOTS: usize = 5_000;
/// How far down answers are followed.
const MAX_DEPTH: usize = 8;
/// Events that one level is asked for at a time.
const AT_ONCE: usize = 500;

/// What is served of a repository. What cannot be read is left out: it is looked at again soon.
pub(crate) fn of(view: &ReadView<'_>, addr: &RepoAddr, max_descendants: usize) -> Threads {
    let roots = roots(view, addr);
    let descendants = match descendants(view, &roots, max_descendants) {
        Ok(descendants) => descendants,
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "failed to read answers"
            );
            Vec::new()
        }
    };
    Threads { roots, descendants }
}

fn roots(view: &ReadView<'_>, addr: &RepoAddr) -> Vec<EventId> {
    let kinds = [kinds::PATCH, kinds::PULL_REQUEST, kinds::ISSUE];
    let filter = Filter {
        kinds: Some(kinds.iter().map(|kind| kind.as_u16()).collect()),
        tags: BTreeMap::from([('a', vec![Address::of_announcement(addr).to_string()])]),
        limit: Some(MAX_ROOTS),
        ..Filter::default()
    };
    match items(view, &filter, MAX_ROOTS) {
        Ok(items) => {
            let items = items.unwrap_or_default().into_iter();
            items.map(|(_, id)| EventId::from_byte_array(id)).collect()
        }
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "failed to read issues"
            );
            Vec::new()
        }
    }
}

/// Time and id of every match; none if there are more than `most`.
pub(crate) fn items(
    view: &ReadView<'_>,
    filter: &Filter,
    most: usize,
) -> Result<Option<Vec<Item>>, StoreError> {
    let limits = Limits {
        default_limit: usize::MAX,
        max_limit: usize::MAX,
    };
    let mut found = Vec::new();
    let mut is_too_many = false;
    let mut keep = |matched: &Match<'_>| {
        is_too_many = found.len() == most;
        if !is_too_many {
            found.push(matched.item());
        }
        Ok(!is_too_many)
    };
    let mut query = Query::new(vec![filter.clone()], limits);
    query.run(view, Timestamp::now(), u64::MAX, &mut keep)?;
    Ok((!is_too_many).then_some(found))
}

/// The answers below `roots`, breadth first and by age, so that two nodes with the same events
/// choose the same.
fn descendants(
    view: &ReadView<'_>,
    roots: &[EventId],
    most_of_one: usize,
) -> Result<Vec<EventId>, StoreError> {
    let most = most_of_one.saturating_mul(roots.len()).min(MAX_ROOTS);
    let mut seen: HashSet<EventId> = roots.iter().copied().collect();
    let mut level = roots.to_vec();
    let mut found = Vec::new();
    for _ in 0..MAX_DEPTH {
        let mut next: Vec<(u64, EventId)> = Vec::new();
        for part in level.chunks(AT_ONCE) {
            answers(view, part, &mut |created_at, id| {
                if seen.insert(id) {
                    next.push((created_at, id));
                }
            })?;
        }
        next.sort_unstable();
        let room = most - found.len();
        level = next.into_iter().map(|(_, id)| id).take(room).collect();
        if level.is_empty() {
            break;
        }
        found.extend_from_slice(&level);
    }
    Ok(found)
}

fn answers(
    view: &ReadView<'_>,
    parents: &[EventId],
    each: &mut dyn FnMut(u64, EventId),
) -> Result<(), StoreError> {
    let mut values: Vec<String> = parents.iter().map(|id| id.to_hex()).collect();
    values.sort_unstable();
    let filter = Filter {
        tags: BTreeMap::from([('e', values)]),
        ..Filter::default()
    };
    let limits = Limits {
        default_limit: MAX_ROOTS,
        max_limit: MAX_ROOTS,
    };
    view.query(&[filter], limits, Timestamp::now(), &mut |stored| {
        each(stored.created_at, EventId::from_byte_array(stored.id));
        ControlFlow::Continue(())
    })
}
