//! The configuration that the running node uses, for its operator.

use http::StatusCode;

use super::json;
use crate::{
    admin::Admin,
    request_context::{HttpResult, RequestContext},
};

/// Every option with its value and its source; secrets are masked.
pub(crate) async fn show(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let audit = admin.begin("config", "");
    audit.end("shown");
    json(StatusCode::OK, &**cx.app.web.config.load())
}
