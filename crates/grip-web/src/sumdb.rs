//! `/go/sumdb/<name>/…`: the checksum database, as the go command asks it.
//!
//! The budget that a request spends: a version that is logged costs a few rows. One that is not has to
//! be here, and its sums take a permit for zips; commits without a tag, of which there are many, also
//! count against what the client's network may have logged in an hour.

use std::sync::Arc;

use bytes::Bytes;
use grip_go::{ModulePath, Version};
use grip_index::{SumDb, SumDbError, SumDbRequest, proxy::Proxy};
use grip_types::{Service, percent_decode};

use crate::{
    app::App,
    error::WebError,
    go::{TEXT, caller, refused, small},
    limits::Class,
    request_context::{HttpResult, RequestContext},
};

const BYTES: &str = "application/octet-stream";

pub(crate) async fn answer(cx: &RequestContext<'_>) -> HttpResult {
    let sumdb = of(cx.app)?;
    let (name, path) = cx.params()[0].split_once('/').unwrap_or_default();
    let is_ours = percent_decode(name).as_deref() == Some(sumdb.name().as_bytes());
    let request = SumDbRequest::parse(path).filter(|_| is_ours);
    let request = request.ok_or_else(|| not_found("no such file of a checksum database"))?;
    let work = async {
        let body: Bytes = match request {
            SumDbRequest::Supported => Bytes::new(),
            SumDbRequest::Latest => text(&sumdb.latest().await.map_err(unreadable)?),
            SumDbRequest::Lookup(path, version) => lookup(cx, sumdb, &path, &version).await?,
            SumDbRequest::Tile(tile) => {
                let bytes = sumdb.tile(tile).await.map_err(unreadable)?;
                let bytes = bytes.ok_or_else(|| not_found("the log is not as long"))?;
                return Ok(small(cx, BYTES, bytes));
            }
            SumDbRequest::Consistency(old, new) => {
                let proof = sumdb.consistency(old, new).await.map_err(unreadable)?;
                let proof = proof.ok_or_else(|| not_found("there is no such proof"))?;
                let lines: String = proof.iter().map(|hash| format!("{hash}\n")).collect();
                lines.into()
            }
        };
        Ok(small(cx, TEXT, body))
    };
    cx.limited(Class::Module, cx.settings.timeouts.module, work)
        .await
}

/// The record of a version and the head that has it.
async fn lookup(
    cx: &RequestContext<'_>,
    sumdb: &SumDb,
    path: &ModulePath,
    version: &Version,
) -> Result<Bytes, WebError> {
    let record = match sumdb.find(path, version).await.map_err(unreadable)? {
        Some(record) => record,
        None => {
            let proxy = cx.app.proxy()?;
            let _permit = cx.permit(Class::Zip)?;
            check_budget(cx, proxy, path, version).await?;
            proxy
                .record(path, version, caller(cx))
                .await
                .map_err(refused)?
        }
    };
    // Read after the record, so that it is in what the head is signed for.
    let head = sumdb.latest().await.map_err(unreadable)?;
    Ok(format!("{}\n{}\n{head}", record.id, record.text()).into())
}

/// Refuses a commit that is not logged to a network that had many of them logged.
pub(crate) async fn check_budget(
    cx: &RequestContext<'_>,
    proxy: &Proxy,
    path: &ModulePath,
    version: &Version,
) -> Result<(), WebError> {
    let Some(sumdb) = proxy.sumdb().filter(|_| version.is_pseudo()) else {
        return Ok(());
    };
    let logged = sumdb.find(path, version).await.map_err(unreadable)?;
    let limits = &cx.app.limits;
    if logged.is_some() || limits.spend_logged_commit(cx.client, &cx.settings.limits) {
        Ok(())
    } else {
        cx.app.metrics.rejected("logged_commits");
        Err(WebError::TooManyRecords)
    }
}

/// The checksum database of this node.
pub(crate) fn of(app: &App) -> Result<&SumDb, WebError> {
    let sumdb = app.proxy()?.sumdb();
    sumdb.ok_or_else(|| not_found("this node logs no checksums"))
}

/// The signed head, where there is a log that can be read.
pub(crate) async fn head(app: &App) -> Option<Arc<str>> {
    let latest = of(app).ok()?.latest().await;
    let noted = |error: &WebError| error.log();
    latest.map_err(unreadable).inspect_err(noted).ok()
}

/// Where it answers, for GOSUMDB.
pub(crate) fn url(service: &Service, name: &str) -> String {
    format!("{}/go/sumdb/{name}", service.http_url())
}

pub(crate) fn unreadable(error: SumDbError) -> WebError {
    match error {
        SumDbError::Database(error) => {
            WebError::internal("the checksum database cannot be read", error)
        }
        error => WebError::internal("the checksum database cannot be used", error),
    }
}

fn not_found(why: &str) -> WebError {
    WebError::NoSuchModule(format!("not found: {why}"))
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
