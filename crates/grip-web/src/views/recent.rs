//! The repositories that moved last, for the landing page.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwapOption;
use grip_grasp::RepositoryStatus;
use grip_nostr::{Event, Filter, RepoAddr, Timestamp, first_value, kinds};
use grip_store::{EventStore, Limits, StoreError};
use tokio::time::Instant;

use crate::{
    app::App,
    error::WebError,
    pages::{self, Frame, RepositoryLine},
};

/// How many are listed.
const LISTED: usize = 20;

/// How many states are looked at to find them: several may speak of one repository.
const STATES: usize = 200;

/// How old the list may be: however often the page is asked for, the store is not.
const FRESH: Duration = Duration::from_secs(2);

/// Remembers the list for a moment.
#[derive(Default)]
pub(crate) struct Recent {
    last: ArcSwapOption<(Instant, Arc<List>)>,
}

pub(crate) struct List {
    pub(crate) lines: Vec<RepositoryLine>,
    /// All that are served, listed or not.
    pub(crate) hosted: usize,
    pub(crate) events: u64,
}

impl Recent {
    pub(crate) async fn list(&self, app: &App, frame: &Frame) -> Result<Arc<List>, WebError> {
        if let Some(last) = self.last.load_full()
            && last.0.elapsed() < FRESH
        {
            return Ok(Arc::clone(&last.1));
        }
        let list = Arc::new(read(app, frame).await?);
        let now = (Instant::now(), Arc::clone(&list));
        self.last.store(Some(Arc::new(now)));
        Ok(list)
    }
}

async fn read(app: &App, frame: &Frame) -> Result<List, WebError> {
    let cannot = |e| WebError::internal("recent repositories cannot be listed", e);
    let served: Vec<RepoAddr> = app
        .grasp()
        .repositories()
        .into_iter()
        .filter(|(_, status)| *status == RepositoryStatus::Served)
        .map(|(addr, _)| addr)
        .collect();
    let hosted = served.len();
    let store = app.store().clone();
    let (addrs, events) = app
        .blocking("recent", move || newest(&store, &served))
        .await?
        .map_err(cannot)?;
    let mut lines = Vec::new();
    for addr in addrs {
        let summary = app.grasp().summary(&addr).await;
        let summary =
            summary.map_err(|e| WebError::internal("a repository cannot be described", e))?;
        let Some(summary) = summary else { continue };
        lines.push(RepositoryLine {
            href: format!("{}{}", frame.root(), addr.path()),
            owner: pages::short_npub(&summary.npub),
            name: summary.name,
            description: first_line(&summary.description),
            when: summary
                .state
                .map_or_else(String::new, |state| pages::when(state.created_at)),
        });
    }
    Ok(List {
        lines,
        hosted,
        events,
    })
}

/// The repositories of `served` in the order of their newest states, and the number of events.
/// Those without a recent state follow by name. Blocks.
fn newest(store: &EventStore, served: &[RepoAddr]) -> Result<(Vec<RepoAddr>, u64), StoreError> {
    let mut by_identifier: HashMap<&str, Vec<&RepoAddr>> = HashMap::new();
    for addr in served {
        let of_identifier = by_identifier.entry(addr.identifier.as_str()).or_default();
        of_identifier.push(addr);
    }
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let filter = Filter {
        kinds: Some(vec![kinds::STATE.as_u16()]),
        ..Filter::default()
    };
    let limits = Limits {
        default_limit: STATES,
        max_limit: STATES,
    };
    let view = store.read()?;
    view.query(&[filter], limits, Timestamp::now(), &mut |stored| {
        let Ok(state) = serde_json::from_slice::<Event>(stored.json) else {
            return ControlFlow::Continue(());
        };
        let d = first_value(&state, "d").unwrap_or_default();
        for addr in by_identifier.get(d).into_iter().flatten() {
            if seen.insert(*addr) {
                found.push((*addr).clone());
            }
        }
        match found.len() >= LISTED {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    let rest = served.iter().filter(|addr| !seen.contains(*addr)).cloned();
    found.extend(rest);
    found.truncate(LISTED);
    Ok((found, store.stats()?.events))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
