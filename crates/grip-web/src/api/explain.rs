//! Why something is served, held or refused.

use grip_grasp::{Explanation, Status};
use grip_nostr::RepoAddr;
use grip_types::Identifier;
use http::StatusCode;

use super::{
    json,
    types::{Explained, Search},
};
use crate::{
    app::App,
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

/// Explains an event, a repository or a ref.
pub(crate) async fn explain(cx: &RequestContext<'_>) -> HttpResult {
    let [subject, _] = cx.params();
    let explained = explained(cx.app, subject).await?;
    let status = match explained.explanation.status {
        Status::Unknown => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    };
    json(status, &explained)
}

/// What is known of an event, a repository or a ref, and of the search for its data.
pub(crate) async fn explained(app: &App, subject: &str) -> Result<Explained, WebError> {
    let explanation = app.web.grasp.explain(subject).await;
    let explanation =
        explanation.map_err(|e| WebError::internal("an explanation cannot be given", e))?;
    let identifiers = identifiers(&explanation).into_iter();
    let sync = identifiers.filter_map(|id| search(app, id)).collect();
    let repository = explanation.repository.as_ref();
    let repository = repository.and_then(|it| addr(&it.npub, &it.identifier));
    let replicas = repository.map(|addr| app.web.sync.replicas(&addr));
    Ok(Explained {
        explanation,
        sync,
        replicas: replicas.unwrap_or_default(),
    })
}

fn addr(npub: &str, identifier: &str) -> Option<RepoAddr> {
    let owner = RepoAddr::parse_npub(npub)?;
    Some(RepoAddr::new(owner, Identifier::parse(identifier).ok()?))
}

/// The identifiers whose data the subject waits for.
fn identifiers(explanation: &Explanation) -> Vec<Identifier> {
    let repository = explanation.repository.as_ref();
    let of_repository = repository.and_then(|r| Identifier::parse(&r.identifier).ok());
    let mut all = explanation.identifiers.clone();
    all.extend(of_repository.filter(|identifier| !explanation.identifiers.contains(identifier)));
    all
}

/// How the data of `identifier` is looked for, if it is or recently was.
fn search(app: &App, identifier: Identifier) -> Option<Search> {
    let entry = app.web.grasp.sync_entry(&identifier);
    let tried = app.web.sync.tried(&identifier);
    if entry.is_none() && tried.is_empty() {
        return None;
    }
    Some(Search {
        identifier,
        attempts: entry.as_ref().map_or(0, |facts| facts.attempt_count),
        next_attempt: entry.as_ref().map(|facts| facts.next_attempt.get()),
        in_progress: entry.is_some_and(|facts| facts.in_progress),
        tried,
    })
}
