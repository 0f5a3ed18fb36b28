//! The API: what operators' tools ask and order.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Request, Response, header};
use hyper::body::Incoming;

use super::{App, Asked};
use crate::{
    admin::{self, Admin, Signable, Signed},
    admission::Class,
    api,
    body::Body,
    error::{ResolvingError, WebError},
    method::{is_read, only_delete, only_get, only_get_or_delete, only_post},
    metrics::unix_now,
    resolve::{Action, Gate},
    route::Route,
};

/// How long an order may take that goes through everything that is kept.
const ORDER: Duration = Duration::from_secs(300);

impl App {
    /// Who orders something of the resolver: whoever shows the token, or has signed.
    pub(crate) fn gate(
        &self,
        action: Action,
        headers: &HeaderMap,
        asked: &Asked,
    ) -> Result<Gate, WebError> {
        let Some(shown) = admin::shown(headers) else {
            let admin = admin::admit(&self.web.admin, asked.connection.peer, headers)?;
            return Ok(Gate::Token(admin));
        };
        let url = format!(
            "{}/admin/{}",
            asked.settings.service.http_url(),
            action.name()
        );
        let request = Signable {
            url: &url,
            method: "POST",
            owner: asked.settings.node.owner,
            now: now(),
        };
        let signed = admin::read(shown, &request).map_err(ResolvingError::NotSigned)?;
        Ok(Gate::Signed(signed))
    }

    /// Lets in who has signed for this very body.
    pub(crate) fn open(&self, signed: Signed, body: &[u8]) -> Result<Admin, WebError> {
        let opened = signed.open(body, &self.used, now);
        Ok(opened.map_err(ResolvingError::NotSigned)?)
    }

    /// What operators' tools ask. What changes something passes the gate before anything else.
    pub(super) async fn operate(
        self: &Arc<Self>,
        route: Route<'_>,
        request: &Request<Incoming>,
        asked: &Asked,
    ) -> Result<Response<Body>, WebError> {
        let (method, query) = (request.method(), request.uri().query());
        let admit = || admin::admit(&self.web.admin, asked.connection.peer, request.headers());
        match route {
            Route::SyncNow(identifier) => {
                only_post(method)?;
                let now = api::sync::now(self, admit()?, identifier);
                self.in_time(Class::Api, asked, now).await
            }
            Route::WaitingRetry(id) => {
                only_post(method)?;
                let retry = api::purgatory::retry(self, admit()?, id);
                self.in_time(Class::Api, asked, retry).await
            }
            Route::Waiting(id) => {
                only_delete(method)?;
                let forget = api::purgatory::forget(self, admit()?, id);
                self.in_time(Class::Api, asked, forget).await
            }
            Route::IndexNow => {
                only_post(method)?;
                let now = api::index::now(self, admit()?, query);
                self.in_time(Class::Api, asked, now).await
            }
            Route::Index | Route::IndexRepos | Route::IndexRepo(_) => {
                only_get(method)?;
                let answer = api::index::tell(self, &route, query);
                self.in_time(Class::Api, asked, answer).await
            }
            Route::GitHub(what) if what.is_order() => {
                only_post(method)?;
                let order = api::github::order(self, admit()?, what, query);
                self.within(Class::Api, asked, ORDER, order).await
            }
            Route::GitHub(what) => {
                only_get(method)?;
                let is_shown = request.headers().contains_key(header::AUTHORIZATION);
                let is_operator = is_shown && admit().is_ok();
                let answer = api::github::tell(self, what, request, is_operator);
                self.in_time(Class::Api, asked, answer).await
            }
            Route::ResolveStatus => {
                only_get(method)?;
                let is_shown = request.headers().contains_key(header::AUTHORIZATION);
                let is_operator = is_shown && admit().is_ok();
                let status = api::resolve::status(self, query, is_operator);
                self.in_time(Class::Api, asked, status).await
            }
            Route::JobRetry(kind, key) => {
                only_post(method)?;
                let retry = api::queue::retry(self, admit()?, kind, key);
                self.in_time(Class::Api, asked, retry).await
            }
            Route::Job(kind, key) if is_read(method) => {
                let find = api::queue::find(self, kind, key);
                self.in_time(Class::Api, asked, find).await
            }
            Route::Job(kind, key) => {
                only_get_or_delete(method)?;
                let forget = api::queue::forget(self, admit()?, kind, key);
                self.in_time(Class::Api, asked, forget).await
            }
            Route::Queue => {
                only_get(method)?;
                let list = api::queue::list(self, query);
                self.in_time(Class::Api, asked, list).await
            }
            Route::Purgatory => {
                only_get(method)?;
                let list = api::purgatory::list(self, query);
                self.in_time(Class::Api, asked, list).await
            }
            _ => {
                only_get(method)?;
                let status = async { api::sync::status(self, query) };
                self.in_time(Class::Api, asked, status).await
            }
        }
    }
}

/// In seconds since 1970.
pub(super) fn now() -> u64 {
    u64::try_from(unix_now()).unwrap_or_default()
}
