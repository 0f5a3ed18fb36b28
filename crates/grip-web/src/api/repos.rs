//! Hosted repositories, and the orders to remove and to block.

use grip_grasp::{Grasp, LookError, Removal};
use grip_nostr::{EventId, RepoAddr};
use http::StatusCode;
use serde_json::json;

use super::{
    json,
    types::{BlockList, BlockReport, RemovalReport, RepositoryList},
};
use crate::{
    admin::Admin,
    error::WebError,
    query::{decoded, flag, query_text, query_value, wrong},
    request_context::{HttpResult, RequestContext},
};

/// Longest note with a block.
const MAX_REASON: usize = 500;

/// Lists hosted repositories by name.
pub(crate) async fn list(cx: &RequestContext<'_>) -> HttpResult {
    listed(cx, false).await
}

/// Lists hosted repositories, the largest first: every store is measured for that.
pub(crate) async fn sizes(cx: &RequestContext<'_>, _: Admin) -> HttpResult {
    listed(cx, true).await
}

async fn listed(cx: &RequestContext<'_>, by_size: bool) -> HttpResult {
    let grasp = &cx.app.web.grasp;
    let limit = super::limit(cx.query())?;
    let repositories = grasp.list_repositories(limit, by_size).await;
    let list = RepositoryList {
        total: grasp.stats().repositories,
        repositories: repositories.map_err(unreadable)?,
    };
    json(StatusCode::OK, &json!(list))
}

/// Shows one repository.
pub(crate) async fn show(cx: &RequestContext<'_>) -> HttpResult {
    let addr = repository(&decoded(cx.params()[0], "the name")?)?;
    let facts = cx.app.web.grasp.repository_facts(&addr).await;
    let facts = facts.map_err(unreadable)?;
    json(
        StatusCode::OK,
        &json!(facts.ok_or(WebError::NoSuchRepository)?),
    )
}

/// Removes a repository, an event or all events of an author; without `execute` it only says what
/// would go.
pub(crate) async fn remove(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let what = removal(cx.query())?;
    let grasp = &cx.app.web.grasp;
    if !flag(cx.query(), "execute")?.unwrap_or(false) {
        let planned = grasp.would_remove(&what).await.map_err(unreadable)?;
        return report(true, planned);
    }
    let (order, subject) = match &what {
        Removal::Repository(addr) => ("repos rm", addr.path()),
        Removal::Event(id) => ("events rm", id.to_hex()),
        Removal::Author(key) => ("events rm", key.to_hex()),
    };
    let audit = admin.begin(order, subject);
    // Goes on to its end though the client may leave: half a removal helps nobody.
    let removing = {
        let grasp = grasp.clone();
        cx.app
            .group
            .spawn("operator-remove", async move { grasp.remove(&what).await })
    };
    match removing.await {
        Ok(Ok(removed)) => {
            audit.end(format!("{removed:?}"));
            report(false, removed)
        }
        Ok(Err(error)) => {
            audit.end(format!("failed: {error}"));
            Err(unreadable(error))
        }
        Err(error) => {
            audit.end("stopped");
            Err(WebError::internal("the node stops", error))
        }
    }
}

fn report(dry_run: bool, removed: grip_grasp::Removed) -> HttpResult {
    if removed.is_nothing() {
        return Err(WebError::NothingNamed {
            what: "event or repository",
        });
    }
    json(StatusCode::OK, &json!(RemovalReport { dry_run, removed }))
}

/// Lists what is blocked.
pub(crate) async fn blocks(cx: &RequestContext<'_>, _: Admin) -> HttpResult {
    let blocks = cx.app.web.grasp.blocks();
    json(StatusCode::OK, &json!(BlockList { blocks }))
}

/// Blocks a repository, a name or all of an author, in relay and git.
pub(crate) async fn block(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let subject = subject(cx.query())?;
    let reason = query_text(cx.query(), "reason")?.unwrap_or_default();
    if reason.len() > MAX_REASON {
        return Err(wrong(
            "reason",
            format!("it has {MAX_REASON} bytes at most"),
        ));
    }
    let audit = admin.begin("repos block", &subject);
    let blocked = cx.app.web.grasp.block(&subject, &reason).await;
    match &blocked {
        Ok(true) => audit.end("blocked"),
        Ok(false) => audit.end("was blocked already"),
        Err(error) => audit.end(format!("failed: {error}")),
    }
    let is_new = blocked.map_err(unreadable)?;
    let answer = BlockReport {
        subject,
        blocked: true,
        is_new: Some(is_new),
    };
    json(StatusCode::OK, &answer)
}

/// Lifts a block.
pub(crate) async fn unblock(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let subject = subject(cx.query())?;
    let audit = admin.begin("repos unblock", &subject);
    let lifted = cx.app.web.grasp.unblock(&subject).await;
    if !audit.end_found(lifted, "lifted").map_err(unreadable)? {
        return Err(WebError::NothingNamed { what: "block" });
    }
    let answer = BlockReport {
        subject,
        blocked: false,
        is_new: None,
    };
    json(StatusCode::OK, &answer)
}

fn subject(query: Option<&str>) -> Result<String, WebError> {
    let text = query_text(query, "subject")?;
    let text = text.ok_or_else(|| wrong("subject", "it names what is blocked"))?;
    Grasp::block_subject(&text).map_err(|error| WebError::Malformed(error.to_string()))
}

fn removal(query: Option<&str>) -> Result<Removal, WebError> {
    if let Some(name) = query_text(query, "repository")? {
        return repository(&name).map(Removal::Repository);
    }
    if let Some(id) = query_value(query, "event") {
        let id = EventId::from_hex(id);
        return id
            .map(Removal::Event)
            .map_err(|_| WebError::Malformed("an event id has 64 hex digits".into()));
    }
    let author = query_value(query, "author").and_then(RepoAddr::parse_npub);
    let author = author.map(Removal::Author);
    let what = "what is removed is named by repository, event or author (an npub)";
    author.ok_or_else(|| WebError::Malformed(what.into()))
}

/// Reads `npub/identifier`.
fn repository(text: &str) -> Result<RepoAddr, WebError> {
    let parts = text.split_once('/');
    let addr = parts.and_then(|(npub, name)| {
        let owner = RepoAddr::parse_npub(npub)?;
        let name = name.strip_suffix(".git").unwrap_or(name);
        let identifier = grip_types::Identifier::parse(name).ok()?;
        Some(RepoAddr::new(owner, identifier))
    });
    addr.ok_or_else(|| WebError::Malformed("a repository is named npub/identifier".into()))
}

fn unreadable(error: LookError) -> WebError {
    WebError::internal("the order could not be carried out", error)
}
