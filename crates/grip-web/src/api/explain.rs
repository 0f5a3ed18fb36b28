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
    let explained = explained(cx, subject).await?;
    let status = match explained.explanation.status {
        Status::Unknown => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    };
    json(status, &explained)
}

/// What is known of an event, a repository or a ref, and of the search for its data.
pub(crate) async fn explained(
    cx: &RequestContext<'_>,
    subject: &str,
) -> Result<Explained, WebError> {
    let app = cx.app;
    let grasp = &app.web.grasp;
    let explanation = if cx.is_operator() {
        grasp.explain_to_operator(subject).await
    } else {
        grasp.explain(subject).await
    };
    let explanation =
        explanation.map_err(|e| WebError::internal("an explanation cannot be given", e))?;
    let identifiers = identifiers(&explanation).into_iter();
    let sync = identifiers.filter_map(|id| search(app, id)).collect();
    let mut step = next_step(&explanation, &cx.settings.service.http_url());
    let is_waiting = matches!(explanation.status, Status::Held | Status::Wanted);
    if let Some(step) = step
        .as_mut()
        .filter(|_| is_waiting && app.web.sync.get().is_none())
    {
        step.push_str(" Nothing is fetched from other hosts: sync_enabled is off.");
    }
    let repository = explanation.repository.as_ref();
    let repository = repository.and_then(|it| addr(&it.npub, &it.identifier));
    let replicas = repository.map(|addr| app.web.sync.replicas(&addr));
    Ok(Explained {
        next_step: step,
        explanation,
        sync,
        replicas: replicas.unwrap_or_default(),
    })
}

/// The next step of the author, or of the operator where the repository is damaged.
fn next_step(explanation: &Explanation, service: &str) -> Option<String> {
    let push = "Push the branches and tags that the signed state names, with git or with ngit; the \
                event is served as soon as the data is here.";
    Some(match explanation.status {
        _ if explanation.damage.is_some() => {
            "Run `gripfast check --full --repair` on the machine of the node; what cannot be fetched \
             again is in a backup (docs/backup.md)."
                .to_owned()
        }
        Status::Served => return None,
        Status::Kept if explanation.deadline.is_some() => {
            "`gripfast holding restore NPUB/IDENTIFIER` brings back what is kept of a repository, as far as \
             the rules and its authors let it."
                .to_owned()
        }
        Status::Kept => return None,
        Status::Held => push.to_owned(),
        Status::Wanted => format!("{push} After that, send the event again if it is not served."),
        Status::Awaited => {
            "Publish the pull request event that this ref was pushed for, before it is removed."
                .to_owned()
        }
        Status::Refused => {
            "Read the reason below, change what it names, and send the event or the push again."
                .to_owned()
        }
        Status::Unknown => format!(
            "If this is a repository of yours: publish an announcement (kind 30617) that lists \
             {service} in clone and its relay in relays, then push. Check the npub and the \
             spelling too: identifiers are case-sensitive."
        ),
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
