//! The repositories with the newest states, for the landing page.

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

use super::Frame;
use crate::{app::App, error::WebError};

/// How many are listed.
const LISTED: usize = 20;

/// How many states are looked at to find them: several may speak of one repository.
const STATES: usize = 200;

/// How old the list may be: however often the page is asked for, the store is not.
const FRESH: Duration = Duration::from_secs(2);

/// A cache of the list, for a moment.
#[derive(Default)]
pub(crate) struct RecentRepositories {
    last: ArcSwapOption<(Instant, Arc<List>)>,
}

#[derive(Clone)]
pub(super) struct RepositoryLine {
    pub(super) name: String,
    pub(super) href: String,
    pub(super) owner: String,
    pub(super) description: String,
    pub(super) when: String,
}

pub(super) struct List {
    pub(super) lines: Vec<RepositoryLine>,
    /// All that are served, listed or not.
    pub(super) hosted: usize,
    pub(super) events: u64,
}

impl RecentRepositories {
    pub(super) async fn list(&self, app: &App, frame: &Frame) -> Result<Arc<List>, WebError> {
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
        .web
        .grasp
        .repositories()
        .into_iter()
        .filter(|(_, status)| *status == RepositoryStatus::Served)
        .map(|(addr, _)| addr)
        .collect();
    let hosted = served.len();
    let store = app.web.store.clone();
    let (addrs, events) = app
        .blocking("recent", move || newest(&store, &served))
        .await?
        .map_err(cannot)?;
    let mut lines = Vec::new();
    for addr in addrs {
        let summary = app.web.grasp.summary(&addr).await;
        let summary =
            summary.map_err(|e| WebError::internal("a repository cannot be described", e))?;
        let Some(summary) = summary else { continue };
        lines.push(RepositoryLine {
            href: format!("{}{}", frame.root(), addr.path()),
            owner: super::short_npub(&summary.npub),
            name: summary.name,
            description: first_line(&summary.description),
            when: summary
                .state
                .map_or_else(String::new, |state| super::when(state.created_at)),
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
        if found.len() >= LISTED {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
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
