//! The audit of what is served against what is on disk, page by page.

use std::time::Duration;

use grip_grasp::{CheckOptions, CheckRange};
use grip_types::Identifier;
use http::StatusCode;
use serde_json::json;

use super::{json, types::CheckPage};
use crate::{
    admin::Admin,
    error::WebError,
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
