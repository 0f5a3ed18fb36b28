//! The page of one repository (G01-33).

use askama::Template;
use grip_grasp::{Explanation, LookError, Missing, RepositoryStatus, RepositorySummary};
use grip_nostr::kinds;
use grip_types::RefName;
use http::{HeaderValue, StatusCode, header};

use super::{Frame, Notice};
use crate::{
    app::App,
    error::WebError,
    negotiation,
    request_context::{HttpResult, RequestContext},
    respond,
};

/// Held states whose missing objects are listed.
const EXPLAINED_STATES: usize = 3;

/// Objects listed as missing on a page; the API lists more.
const LISTED_MISSING: usize = 12;

#[derive(Template)]
#[template(path = "repository.html")]
pub(super) struct RepositoryPage {
    pub(super) frame: Frame,
    pub(super) summary: RepositorySummary,
    pub(super) notice: Option<Notice>,
    /// `<npub>/<identifier>` as paths have it.
    pub(super) path: String,
}

impl RepositoryPage {
    fn is_held(&self) -> bool {
        self.summary.status == RepositoryStatus::Held
    }

    fn is_head(&self, name: &RefName) -> bool {
        self.summary.head.as_ref() == Some(name)
    }

    /// Branches and tags beyond those listed.
    fn more_refs(&self) -> usize {
        let summary = &self.summary;
        (summary.branches + summary.tags).saturating_sub(summary.refs.len())
    }
}

/// Sends a browser from a path without `.git` on to the page; programs are told that nothing is
/// here, since git must not learn to leave out the suffix.
pub(crate) fn redirect(cx: &RequestContext<'_>) -> HttpResult {
    if !negotiation::wants_page(cx.headers()) {
        return Err(WebError::NoSuchRepository);
    }
    let target = format!("{}{}", cx.frame().root(), cx.repository()?.path());
    let location = HeaderValue::from_str(&target)
        .map_err(|e| WebError::internal("a path is no header value", e))?;
    let mut response = respond::text(StatusCode::FOUND, format!("{target}\n"));
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let (app, addr) = (cx.app, cx.repository()?);
    let cannot = |e| WebError::internal("a repository cannot be described", e);
    let summary = app.web.grasp.summary(addr).await.map_err(cannot)?;
    let summary = summary.ok_or(WebError::NoSuchRepository)?;
    let path = format!("{}/{}", summary.npub, addr.identifier.encoded());
    let page = RepositoryPage {
        notice: notice(app, &path, &summary).await.map_err(cannot)?,
        frame: cx.frame(),
        summary,
        path,
    };
    super::render(StatusCode::OK, &page)
}

/// What a visitor should know before anything else.
async fn notice(
    app: &App,
    name: &str,
    summary: &RepositorySummary,
) -> Result<Option<Notice>, LookError> {
    if let Some(until) = summary.withdrawn_until {
        let why = "Its owner no longer keeps it here. It can still be read for a while.";
        return Ok(Some(Notice {
            until: Some(super::when_ms(until)),
            ..Notice::new("Withdrawn.", why)
        }));
    }
    let is_held = summary.status == RepositoryStatus::Held;
    if !is_held && summary.held_states == 0 {
        return Ok(None);
    }
    let explanation = app.web.grasp.explain(name).await?;
    let missing = missing(app, &explanation).await?;
    if is_held {
        let why = "The announcement is here, the git data is not. It is served after the first \
                   push that matches a signed state.";
        let nothing_signed = summary.held_states == 0;
        return Ok(Some(Notice {
            missing: if nothing_signed {
                vec!["a state event (kind 30618) of a maintainer".into()]
            } else {
                missing
            },
            until: explanation.deadline.map(super::when_ms),
            ..Notice::new("Not served yet.", why)
        }));
    }
    let why = "A newer state is signed, but its git data has not come. What is shown here is the \
               last complete one.";
    let deadlines = explanation.held.iter().filter_map(|event| event.deadline);
    Ok(Some(Notice {
        missing,
        until: deadlines.max().map(super::when_ms),
        ..Notice::new("An update is on its way.", why)
    }))
}

/// The objects that the held states of a repository wait for.
async fn missing(app: &App, explanation: &Explanation) -> Result<Vec<String>, LookError> {
    let is_state = |kind: u16| kind == kinds::STATE.as_u16();
    let states = explanation.held.iter().filter(|e| is_state(e.kind));
    let (mut lines, mut total) = (Vec::new(), 0);
    for state in states.take(EXPLAINED_STATES) {
        let of_state = app.web.grasp.explain(&state.id).await?;
        total += of_state.missing_total;
        let line = |m: &Missing| format!("{} at {}", m.name, m.oid.short());
        lines.extend(of_state.missing.iter().map(line));
    }
    lines.truncate(LISTED_MISSING);
    if total > lines.len() {
        lines.push(format!("and {} more", total - lines.len()));
    }
    Ok(lines)
}
