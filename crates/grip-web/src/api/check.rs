//! The audit of what is served against what is on disk, page by page.

use std::time::Duration;

use grip_grasp::{CheckOptions, CheckRange, RestoreError};
use grip_types::{ErrorChain, Identifier};
use http::StatusCode;
use hyper::body::Incoming;
use serde_json::json;

use super::{
    json,
    types::{CheckPage, RestoredRepository},
};
use crate::{
    admin::Admin,
    error::WebError,
    git::{Encoding, Patience, Reader},
    limits::Class,
    query::{flag, query_text},
    request_context::{HttpResult, RequestContext},
};

/// Identifiers of one page.
const PER_PAGE: usize = 100;
/// After this time a page ends, so that a client hears how far it is.
const PAGE_TIME: Duration = Duration::from_secs(2);

/// What is done, for who reads the record of it.
fn in_words(options: CheckOptions) -> &'static str {
    match (options.full, options.repair) {
        (false, false) => "relay against git",
        (true, false) => "relay against git, every object",
        (false, true) => "relay against git, with repair",
        (true, true) => "relay against git, every object, with repair",
    }
}

/// Audits the identifiers after `after`; `full` reads every object, `repair` settles what is found.
pub(crate) async fn run(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let query = cx.query();
    let options = CheckOptions {
        full: flag(query, "full")?.unwrap_or(false),
        repair: flag(query, "repair")?.unwrap_or(false),
    };
    let after = query_text(query, "after")?;
    let after = after.as_deref().map(Identifier::parse).transpose();
    let after = after.map_err(|e| WebError::Malformed(e.to_string()))?;
    let range = CheckRange {
        after,
        limit: PER_PAGE,
        time: PAGE_TIME,
    };
    let audit = admin.begin("check", in_words(options));
    let checked = cx.app.web.grasp.check(range, options).await;
    audit.end(if checked.is_ok() { "done" } else { "failed" });
    let checked = checked.map_err(|e| WebError::internal("the audit failed", e))?;
    json(
        StatusCode::OK,
        &json!(CheckPage::new(checked, options.repair)),
    )
}

/// Puts back what the objects of an identifier lack and the pack of the request has: the command reads the
/// backup, which the node may not see.
pub(crate) async fn restore(cx: &RequestContext<'_>, admin: Admin, body: Incoming) -> HttpResult {
    let identifier = query_text(cx.query(), "identifier")?;
    let identifier = Identifier::parse(identifier.as_deref().unwrap_or_default());
    let identifier = identifier.map_err(|e| WebError::Malformed(e.to_string()))?;
    let _permit = cx.permit_soon(Class::Push, None).await?;
    let encoding = Encoding::of(cx.headers())?;
    let pack = Reader::new(body, encoding, Patience::of(&cx.settings));
    let audit = admin.begin("restore", format!("objects of {identifier} from a backup"));
    let restored = cx.app.web.grasp.restore_objects(&identifier, pack).await;
    audit.end(match &restored {
        Ok(restored) if restored.left.is_empty() => "whole again".to_owned(),
        Ok(restored) => format!("{} points left", restored.left.len()),
        Err(error) => format!("failed: {}", ErrorChain(error)),
    });
    let restored = restored.map_err(|error| match error {
        RestoreError::NotHosted => WebError::NoSuchRepository,
        RestoreError::Pack(error) if !error.is_node_fault() => {
            WebError::Malformed(ErrorChain(&error).to_string())
        }
        error => WebError::internal("nothing could be restored", error),
    })?;
    json(StatusCode::OK, &RestoredRepository::from(restored))
}
