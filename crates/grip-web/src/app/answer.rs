//! Which handler answers, and what must be free before it may.

use std::{sync::Arc, time::Duration};

use grip_nostr::RepoAddr;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{App, Asked};
use crate::{
    accept,
    admission::{Class, Place, Slot},
    api,
    body::Body,
    error::WebError,
    feed, git, go,
    method::only_get,
    nip11, probes, resolve, respond,
    route::Route,
    views, webhook, websocket,
};

impl App {
    pub(super) async fn answer(
        self: &Arc<Self>,
        route: Route<'_>,
        request: Request<Incoming>,
        asked: Asked,
    ) -> Result<Response<Body>, WebError> {
        if route.is_probe() {
            only_get(request.method())?;
            return self.probe(&route, &asked);
        }
        self.admit(&asked)?;
        match route {
            Route::Root => self.root(request, asked).await,
            Route::Git(addr, endpoint) => git::handle(self, addr, endpoint, request, asked).await,
            Route::Repository(addr) => {
                only_get(request.method())?;
                let page = views::repository(self, addr, &asked);
                self.in_time(Class::Page, &asked, page).await
            }
            Route::Bare(addr) => redirect(&addr, &request, &asked),
            Route::Explain(subject) => {
                only_get(request.method())?;
                let explanation = api::explain(self, subject);
                self.in_time(Class::Api, &asked, explanation).await
            }
            Route::SyncPage => {
                only_get(request.method())?;
                let page = views::sync(self, &asked);
                self.in_time(Class::Page, &asked, page).await
            }
            Route::PurgatoryPage => {
                only_get(request.method())?;
                let page = views::purgatory(self, &asked);
                self.in_time(Class::Page, &asked, page).await
            }
            Route::ModulesPage => {
                only_get(request.method())?;
                let page = views::modules(self, &asked);
                self.in_time(Class::Page, &asked, page).await
            }
            Route::GitHubPage => {
                only_get(request.method())?;
                let page = views::github(self, &asked);
                self.in_time(Class::Page, &asked, page).await
            }
            Route::Webhook => webhook::receive(self, request, &asked).await,
            Route::Feed | Route::Changes => {
                only_get(request.method())?;
                let page = async {
                    match route {
                        Route::Feed => feed::versions(self, &request).await,
                        _ => feed::changes(self, &request).await,
                    }
                };
                self.in_time(Class::Feed, &asked, page).await
            }
            Route::Resolve(key) => {
                only_get(request.method())?;
                let found = resolve::manifest(self, key, &request);
                self.in_time(Class::Resolve, &asked, found).await
            }
            Route::Providers(key) => {
                only_get(request.method())?;
                let found = resolve::providers(self, key, request.uri().query());
                self.in_time(Class::Resolve, &asked, found).await
            }
            Route::ResolveOrder(action) => resolve::order(self, action, request, &asked).await,
            Route::ResolverPage => {
                only_get(request.method())?;
                let page = views::resolver(self, request.uri().query(), &asked);
                self.in_time(Class::Page, &asked, page).await
            }
            Route::Tasks => {
                only_get(request.method())?;
                let list = async { api::tasks::list(self) };
                self.in_time(Class::Api, &asked, list).await
            }
            Route::Go(path) => go::handle(self, path, &request, &asked).await,
            Route::Sync
            | Route::SyncNow(_)
            | Route::Purgatory
            | Route::Waiting(_)
            | Route::WaitingRetry(_)
            | Route::Queue
            | Route::Job(..)
            | Route::JobRetry(..)
            | Route::Index
            | Route::IndexNow
            | Route::IndexRepos
            | Route::IndexRepo(_)
            | Route::GitHub(_)
            | Route::ResolveStatus => self.operate(route, &request, &asked).await,
            Route::Icon => only_get(request.method()).map(|()| probes::icon()),
            Route::BadRepository => Err(WebError::BadRepositoryPath),
            _ => Err(WebError::NoSuchPage),
        }
    }

    /// The relay, its NIP-11 document or the landing page: all live at `/`.
    async fn root(
        self: &Arc<Self>,
        request: Request<Incoming>,
        asked: Asked,
    ) -> Result<Response<Body>, WebError> {
        if websocket::is_upgrade(request.headers()) {
            return self.upgrade(request, asked);
        }
        only_get(request.method())?;
        if accept::wants_relay_document(request.headers()) {
            let limitation = nip11::Limitation::of(&self.web.relay.limits());
            return nip11::document(&asked.settings, &self.web.build, limitation);
        }
        let page = views::home(self, &asked);
        self.in_time(Class::Page, &asked, page).await
    }

    fn upgrade(
        self: &Arc<Self>,
        request: Request<Incoming>,
        asked: Asked,
    ) -> Result<Response<Body>, WebError> {
        let slot = self.enter(Class::Websocket, &asked)?;
        let client = asked.client;
        // A direct connection is counted for its address already.
        let place = match asked.connection.is_proxy && !client.exempt {
            true => Some(self.place_behind_proxy(&asked)?),
            false => None,
        };
        let session = websocket::Session {
            app: Arc::clone(self),
            client: client.ip,
            connection: asked.connection,
            slot,
            place,
        };
        websocket::accept(request, session)
    }

    fn place_behind_proxy(&self, asked: &Asked) -> Result<Place, WebError> {
        self.admission
            .count_behind_proxy(asked.client.ip, &asked.settings.limits)
            .map_err(|full| {
                self.metrics.refused_connection(Some(full));
                WebError::TooManyConnections
            })
    }

    /// Answers what must never wait behind work.
    fn probe(&self, route: &Route<'_>, asked: &Asked) -> Result<Response<Body>, WebError> {
        match route {
            Route::Health => Ok(probes::health()),
            Route::Ready => {
                // The stop is known here before the accept loop had its turn to say so.
                if self.is_draining() {
                    self.drain();
                }
                probes::ready(&self.web.readiness, &self.web.sync)
            }
            Route::Version => probes::version(&self.web.build),
            Route::Metrics if asked.settings.metrics => probes::metrics(self.scrape()),
            Route::Robots => Ok(probes::robots()),
            _ => Err(WebError::NoSuchPage),
        }
    }

    /// Refuses what this connection or this client may not have at the moment.
    fn admit(&self, asked: &Asked) -> Result<(), WebError> {
        if let Some(refusal) = asked.connection.refusal() {
            return Err(refusal);
        }
        if self.is_draining() {
            self.metrics.rejected("draining");
            return Err(WebError::Draining);
        }
        if !self.admission.spend(asked.client, &asked.settings.limits) {
            self.metrics.rejected("requests_per_ip");
            return Err(WebError::TooManyRequests);
        }
        Ok(())
    }

    /// Takes a slot of `class`.
    pub(crate) fn enter(&self, class: Class, asked: &Asked) -> Result<Slot, WebError> {
        self.admission
            .enter(class, asked.client, &asked.settings.limits)
            .ok_or_else(|| {
                self.metrics.busy(class);
                WebError::Busy(class)
            })
    }

    /// Runs a page or an API answer in a slot of its class, within the time an answer may take.
    pub(super) async fn in_time(
        &self,
        class: Class,
        asked: &Asked,
        work: impl Future<Output = Result<Response<Body>, WebError>>,
    ) -> Result<Response<Body>, WebError> {
        let time = asked.settings.timeouts.answer;
        self.within(class, asked, time, work).await
    }

    /// The same within a time of its own.
    pub(super) async fn within(
        &self,
        class: Class,
        asked: &Asked,
        time: Duration,
        work: impl Future<Output = Result<Response<Body>, WebError>>,
    ) -> Result<Response<Body>, WebError> {
        let slot = self.enter(class, asked)?;
        let mut response = timeout(time, work)
            .await
            .map_err(|_| WebError::Deadline)??;
        response.body_mut().hold(slot);
        Ok(response)
    }
}

/// Sends a browser on to the repository's page; programs are told that nothing is here, since
/// git must not learn to leave out the suffix.
fn redirect(
    addr: &RepoAddr,
    request: &Request<Incoming>,
    asked: &Asked,
) -> Result<Response<Body>, WebError> {
    only_get(request.method())?;
    if !accept::wants_page(request.headers()) {
        return Err(WebError::NoSuchRepository);
    }
    let base = match asked.settings.service.base() {
        "" => String::new(),
        base => format!("/{base}"),
    };
    let target = format!("{base}/{}", addr.path());
    let location = HeaderValue::from_str(&target)
        .map_err(|e| WebError::internal("a path is no header value", e))?;
    let mut response = respond::text(StatusCode::FOUND, format!("{target}\n"));
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}
