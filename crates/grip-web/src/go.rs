//! `/go/…`: modules for the go command, which reads status codes and prints texts.
//!
//! 404 lets it go on to the next proxy of its list; anything else ends its search. A tag may move,
//! so nothing may be kept without asking again, but a client that asks again with the tag of what
//! it has is answered without the work.

use futures_util::stream;
use grip_index::{
    Reader,
    proxy::{Answer, Caller, ProxyError, Request as ModuleRequest, Zip},
};
use http::{Method, StatusCode};

use crate::{
    body::Body,
    error::WebError,
    etag::ETag,
    limits::Class,
    private,
    request_context::{HttpResult, RequestContext},
    respond, restricted, sumdb,
};

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) async fn proxy(cx: &RequestContext<'_>) -> HttpResult {
    let proxy = cx.app.proxy()?;
    let request = ModuleRequest::parse(cx.params()[0]).map_err(refused)?;
    let class = match request {
        ModuleRequest::Zip(..) => Class::Zip,
        _ => Class::Module,
    };
    let work = async {
        if let ModuleRequest::Zip(path, version) = &request {
            sumdb::check_budget(cx, proxy, path, version).await?;
        }
        let caller = caller(cx);
        let answer = proxy.answer(&request, caller).await.map_err(refused)?;
        let mut response = match answer {
            Answer::List(list) => small(cx, TEXT, list.into()),
            Answer::Info(json) => small(cx, "application/json", json),
            Answer::GoMod(text) => small(cx, TEXT, text),
            Answer::Zip(file) => zip(cx, file).await?,
        };
        if caller.reader == Reader::All {
            private::keep_out_of_caches(response.headers_mut());
        }
        Ok(response)
    };
    cx.limited(class, cx.settings.timeouts.module, work).await
}

/// Who asks, and whose share is used up by what is fetched from other hosts. Readers of restricted
/// repositories are known, and so is a tool on this machine.
pub(crate) fn caller(cx: &RequestContext<'_>) -> Caller {
    let reader = restricted::reader(cx);
    let is_known = reader == Reader::All || cx.client.exempt;
    let network = cx.settings.limits.networks.network(cx.client.ip);
    Caller {
        reader,
        network: (!is_known).then_some(network),
        ..Caller::default()
    }
}

pub(crate) fn small(
    cx: &RequestContext<'_>,
    kind: &'static str,
    body: bytes::Bytes,
) -> http::Response<Body> {
    let etag = ETag::of([&body[..]]);
    if etag.is_known(cx.headers()) {
        etag.unchanged()
    } else {
        etag.put_on(respond::typed(StatusCode::OK, kind, body))
    }
}

/// A zip is not begun for a client that has it, or wants only the head.
async fn zip(cx: &RequestContext<'_>, zip: Zip) -> HttpResult {
    let etag = ETag::named(&zip.etag());
    if etag.is_known(cx.headers()) {
        return Ok(etag.unchanged());
    }
    let body = if cx.head.method == Method::HEAD {
        Body::stream(stream::empty())
    } else {
        Body::stream(zip.open().await.map_err(refused)?)
    };
    let response = respond::typed(StatusCode::OK, "application/zip", body);
    Ok(etag.put_on(response))
}

pub(crate) fn refused(error: ProxyError) -> WebError {
    match error {
        ProxyError::NotFound { .. } => WebError::NoSuchModule(error.to_string()),
        ProxyError::Moved { .. } | ProxyError::Untrusted { .. } => {
            WebError::RefusedModule(error.to_string())
        }
        ProxyError::Busy { retry_after } => WebError::ModulesBusy { retry_after },
        ProxyError::Elsewhere { retry_after, .. } => WebError::ModuleElsewhere {
            why: error.to_string(),
            retry_after,
        },
        ProxyError::BudgetSpent { retry_after } => WebError::FetchesSpent {
            why: error.to_string(),
            retry_after,
        },
        error => WebError::internal("a module cannot be served", error),
    }
}
