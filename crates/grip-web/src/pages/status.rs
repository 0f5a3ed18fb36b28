//! The page of how the node is at present.

use std::collections::BTreeMap;

use askama::Template;
use http::StatusCode;

use super::{CounterView, Frame, home};
use crate::request_context::{HttpResult, RequestContext};

#[derive(Template)]
#[template(path = "status.html")]
struct StatusPage {
    frame: Frame,
    missing: BTreeMap<&'static str, String>,
    warning: Option<String>,
    counters: Vec<CounterView>,
    metrics: bool,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let web = &cx.app.web;
    let catalog = cx.app.catalog.get(cx.app).await?;
    let page = StatusPage {
        frame: cx.frame().about("Status", "How this node is at present"),
        missing: web.readiness.missing(),
        warning: web.sync.backend().and_then(|backend| backend.warning()),
        counters: home::figures(cx.app, &catalog),
        metrics: cx.settings.metrics,
    };
    super::render(StatusCode::OK, &page)
}
