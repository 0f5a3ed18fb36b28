//! Gathers what pages show.

mod github;
mod modules;
mod purgatory;
mod recent;
mod resolver;
mod sync;

use std::sync::Arc;

use grip_grasp::{Explanation, RepositoryStatus, RepositorySummary};
use grip_nostr::{RepoAddr, kinds};
use http::{Response, StatusCode};

pub(crate) use self::{
    github::github, modules::modules, purgatory::purgatory, recent::Recent, resolver::resolver,
    sync::sync,
};
use crate::{
    app::{App, Asked},
    body::Body,
    error::WebError,
    pages::{self, CounterView, Frame, Home, Notice, RefLine, RepositoryPage, StateLine},
};

/// Held states whose missing objects are listed.
const EXPLAINED_STATES: usize = 3;

/// Objects listed as missing on a page; the API lists more.
const LISTED_MISSING: usize = 12;

/// The landing page.
pub(crate) async fn home(app: &Arc<App>, asked: &Asked) -> Result<Response<Body>, WebError> {
    let settings = &asked.settings;
    let frame = Frame::new(settings, app.build());
    let recent = app.recent().list(app, &frame).await?;
    let node = &settings.node;
    let grasps: Vec<String> = node
        .grasps
        .iter()
        .map(|n| format!("GRASP-{n:02}"))
        .collect();
    let page = Home {
        description: node.description.clone(),
        counters: counters(app, recent.events),
        more: recent.hosted.saturating_sub(recent.lines.len()),
        repositories: recent.lines.clone(),
        grasps: grasps.join(", "),
        criteria: node.repo_acceptance_criteria.clone(),
        curation: node.curation.clone(),
        metrics: settings.metrics,
        index: app.index().is_ok(),
        resolve: app.resolve().is_ok(),
        watch: app.watch().is_ok(),
        frame,
    };
    pages::draw(StatusCode::OK, &page)
}

fn counters(app: &App, events: u64) -> Vec<CounterView> {
    let stats = app.grasp().stats();
    let waiting = stats.purgatory.announcements + stats.purgatory.states + stats.purgatory.prs;
    let counter = |label, value: u64| CounterView {
        label,
        value: pages::grouped(value),
    };
    vec![
        counter("repositories", stats.repositories as u64),
        counter("events served", events),
        counter("waiting for git data", waiting as u64),
        counter("relay clients", app.relay().stats().connections.get()),
    ]
}

/// The page of one repository (G01-33).
pub(crate) async fn repository(
    app: &Arc<App>,
    addr: RepoAddr,
    asked: &Asked,
) -> Result<Response<Body>, WebError> {
    let cannot = |e| WebError::internal("a repository cannot be described", e);
    let summary = app.grasp().summary(&addr).await.map_err(cannot)?;
    let summary = summary.ok_or(WebError::NoSuchRepository)?;
    let notice = notice(app, &addr, &summary).await.map_err(cannot)?;
    let frame = Frame::new(&asked.settings, app.build());
    let encoded = addr.identifier.encoded();
    let page = RepositoryPage {
        explain: format!("{}api/v1/explain/{}/{encoded}", frame.root(), summary.npub),
        workshop: format!("https://gitworkshop.dev/{}/{encoded}", summary.npub),
        is_held: summary.status == RepositoryStatus::Held,
        notice,
        refs: refs(&summary),
        more_refs: (summary.branches + summary.tags).saturating_sub(summary.refs.len()),
        state: summary.state.as_ref().map(|state| StateLine {
            when: pages::when(state.created_at),
            id: state.id.clone(),
        }),
        name: summary.name,
        description: summary.description,
        identifier: summary.identifier,
        clone: summary.clone_url,
        nostr: summary.nostr_url,
        maintainers: summary.maintainers,
        pull_requests: summary.pull_requests,
        web: summary.web,
        frame,
    };
    pages::draw(StatusCode::OK, &page)
}

fn refs(summary: &RepositorySummary) -> Vec<RefLine> {
    let line = |listed: &grip_grasp::ListedRef| RefLine {
        name: listed.name.short().to_owned(),
        oid: listed.oid.to_hex(),
        short: listed.oid.short(),
        is_head: summary.head.as_ref() == Some(&listed.name),
        is_tag: listed.name.is_tag(),
    };
    summary.refs.iter().map(line).collect()
}

/// What a visitor should know before anything else.
async fn notice(
    app: &App,
    addr: &RepoAddr,
    summary: &RepositorySummary,
) -> Result<Option<Notice>, grip_grasp::LookError> {
    if let Some(until) = summary.withdrawn_until {
        return Ok(Some(Notice {
            title: "Withdrawn.",
            why: "Its owner no longer keeps it here. It can still be read for a while.".into(),
            missing: Vec::new(),
            until: Some(pages::when_ms(until)),
        }));
    }
    let is_held = summary.status == RepositoryStatus::Held;
    if !is_held && summary.held_states == 0 {
        return Ok(None);
    }
    let name = format!("{}/{}", summary.npub, addr.identifier.encoded());
    let explanation = app.grasp().explain(&name).await?;
    let missing = missing(app, &explanation).await?;
    let nothing_signed = summary.held_states == 0;
    Ok(Some(match is_held {
        true => Notice {
            title: "Not served yet.",
            why: "The announcement is here, the git data is not. It is served after the first \
                  push that matches a signed state."
                .into(),
            missing: match nothing_signed {
                true => vec!["a state event (kind 30618) of a maintainer".into()],
                false => missing,
            },
            until: explanation.deadline.map(pages::when_ms),
        },
        false => Notice {
            title: "An update is on its way.",
            why: "A newer state is signed, but its git data has not come. What is shown here is \
                  the last complete one."
                .into(),
            missing,
            until: explanation
                .held
                .iter()
                .filter_map(|e| e.deadline)
                .max()
                .map(pages::when_ms),
        },
    }))
}

/// The objects that the held states of a repository wait for.
async fn missing(
    app: &App,
    explanation: &Explanation,
) -> Result<Vec<String>, grip_grasp::LookError> {
    let is_state = |kind: u16| kind == kinds::STATE.as_u16();
    let states = explanation.held.iter().filter(|e| is_state(e.kind));
    let (mut lines, mut total) = (Vec::new(), 0);
    for state in states.take(EXPLAINED_STATES) {
        let of_state = app.grasp().explain(&state.id).await?;
        total += of_state.missing_total;
        let line = |m: &grip_grasp::Missing| format!("{} at {}", m.name, m.oid.short());
        lines.extend(of_state.missing.iter().map(line));
    }
    lines.truncate(LISTED_MISSING);
    if total > lines.len() {
        lines.push(format!("and {} more", total - lines.len()));
    }
    Ok(lines)
}
