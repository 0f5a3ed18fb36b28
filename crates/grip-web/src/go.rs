//! `/go/…`: modules for the go command, which reads status codes and prints texts.
//!
//! 404 lets it go on to the next proxy of its list; anything else ends its search. A tag may move,
//! so nothing may be kept without asking again, but who asks again with a tag is answered without
//! the work.

use std::sync::Arc;

use futures_util::stream;
use grip_index::proxy::{Answer, ProxyError, Request as Question, Zip};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::{
    admission::Class,
    app::{App, Asked},
    body::Body,
    error::WebError,
    etag::ETag,
    method::only_get,
    respond,
};

const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) async fn handle(
    app: &Arc<App>,
    path: &str,
    request: &Request<Incoming>,
    asked: &Asked,
) -> Result<Response<Body>, WebError> {
    only_get(request.method())?;
    let proxy = app.proxy()?;
    let question = Question::parse(path).map_err(refused)?;
    let class = match question {
        Question::Zip(..) => Class::Zip,
        _ => Class::Module,
    };
    let slot = app.enter(class, asked)?;
    let answering = async {
        match proxy.answer(&question).await.map_err(refused)? {
            Answer::List(list) => Ok(small(request, TEXT, list.into())),
            Answer::Info(json) => Ok(small(request, "application/json", json)),
            Answer::GoMod(text) => Ok(small(request, TEXT, text)),
            Answer::Zip(file) => zip(request, file).await,
        }
    };
    let answer = timeout(asked.settings.timeouts.module, answering).await;
    let mut response = answer.map_err(|_| WebError::Deadline)??;
    response.body_mut().hold(slot);
    Ok(response)
}

fn small(request: &Request<Incoming>, kind: &'static str, body: bytes::Bytes) -> Response<Body> {
    let etag = ETag::of([&body[..]]);
    match etag.is_known(request.headers()) {
        true => etag.unchanged(),
        false => etag.put_on(respond::typed(StatusCode::OK, kind, body)),
    }
}

/// A zip is not begun for who has it, or wants only the head.
async fn zip(request: &Request<Incoming>, zip: Zip) -> Result<Response<Body>, WebError> {
    let etag = ETag::named(&zip.etag());
    if etag.is_known(request.headers()) {
        return Ok(etag.unchanged());
    }
    let body = match *request.method() == Method::HEAD {
        true => Body::stream(stream::empty()),
        false => Body::stream(zip.open().await.map_err(refused)?),
    };
    let response = respond::typed(StatusCode::OK, "application/zip", body);
    Ok(etag.put_on(response))
}

fn refused(error: ProxyError) -> WebError {
    match error {
        ProxyError::NotFound { .. } => WebError::NoSuchModule(error.to_string()),
        ProxyError::Busy { retry_after } => WebError::ModulesBusy { retry_after },
        error => WebError::internal("a module cannot be served", error),
    }
}
