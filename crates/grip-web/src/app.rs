//! One request from its head to the head of its answer.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::FutureExt;
use grip_git::{RefSnapshot, RepoPath, Repositories};
use grip_grasp::Grasp;
use grip_nostr::RepoAddr;
use grip_relay::{Relay, WritePolicy};
use grip_store::EventStore;
use grip_tasks::TaskGroup;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::{
    Build, Web, accept,
    admission::{Admission, Class, Place, Slot},
    api,
    body::Body,
    client::Client,
    cors,
    error::{WebError, only_get},
    git,
    metrics::{Gathered, Metrics, unix_now},
    nip11, pages, probes,
    request_id::{self, RequestIds},
    respond,
    route::Route,
    server::Connection,
    settings::WebSettings,
    views, websocket,
};

/// The application behind the accept loop.
pub(crate) struct App {
    web: Web,
    group: TaskGroup,
    admission: Arc<Admission>,
    metrics: Metrics,
    ids: RequestIds,
    /// The service as the relay knows it.
    policy: Arc<dyn WritePolicy>,
    sockets: AtomicU64,
    recent: views::Recent,
}

/// What a handler knows of its request beside the request itself.
pub(crate) struct Asked {
    pub(crate) settings: Arc<WebSettings>,
    pub(crate) client: Client,
    pub(crate) connection: Arc<Connection>,
}

impl App {
    pub(crate) fn new(web: Web, group: TaskGroup) -> Arc<Self> {
        let admission = Admission::new(&web.settings.load().limits);
        let gathered = Gathered {
            admission: Arc::clone(&admission),
            group: group.clone(),
            relay: web.relay.clone(),
            grasp: web.grasp.clone(),
            started: Instant::now(),
        };
        Arc::new(Self {
            metrics: Metrics::new(&web.build, gathered),
            ids: RequestIds::new(unix_now()),
            policy: Arc::new(web.grasp.clone()),
            sockets: AtomicU64::new(0),
            recent: views::Recent::default(),
            admission,
            group,
            web,
        })
    }

    pub(crate) fn settings(&self) -> Arc<WebSettings> {
        self.web.settings.load_full()
    }

    pub(crate) fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn build(&self) -> &Build {
        &self.web.build
    }

    pub(crate) fn group(&self) -> &TaskGroup {
        &self.group
    }

    pub(crate) fn relay(&self) -> &Relay {
        &self.web.relay
    }

    pub(crate) fn grasp(&self) -> &Grasp {
        &self.web.grasp
    }

    pub(crate) fn repositories(&self) -> &Repositories {
        &self.web.repositories
    }

    pub(crate) fn store(&self) -> &EventStore {
        &self.web.store
    }

    pub(crate) fn recent(&self) -> &views::Recent {
        &self.recent
    }

    pub(crate) fn policy(&self) -> Arc<dyn WritePolicy> {
        Arc::clone(&self.policy)
    }

    /// A number for a new WebSocket, for the log.
    pub(crate) fn next_socket(&self) -> u64 {
        self.sockets.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The refs of a repository; off the runtime, because they may have to be read from disk.
    pub(crate) async fn refs(&self, repo: &RepoPath) -> Result<Arc<RefSnapshot>, WebError> {
        let (repositories, repo) = (self.web.repositories.clone(), repo.clone());
        self.blocking("refs", move || repositories.refs(&repo))
            .await?
            .map_err(|e| WebError::internal("the refs of a repository cannot be read", e))
    }

    /// Runs `work` where it may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        kind: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WebError> {
        let handle = self.group.spawn_blocking(kind, work);
        let stopped = |e| WebError::internal("a reading task was stopped", e);
        handle.await.map_err(stopped)
    }

    pub(crate) fn drain(&self) {
        self.web.readiness.drain();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.group.token().is_cancelled() || self.web.readiness.is_draining()
    }

    /// Answers a request, whatever happens: a failure and a bug have answers too, and every
    /// answer carries the CORS headers.
    pub(crate) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Response<Body> {
        let began = Instant::now();
        let busy = connection.activity.request();
        let settings = self.settings();
        let (method, version) = (request.method().clone(), request.version());
        let uri = request.uri().clone();
        let route = Route::parse(uri.path(), settings.service.base());
        let label = route.label();
        let id = self.ids.name(request.headers());
        let is_refused = connection.refusal().is_some();
        let span = tracing::info_span!("request", route = label, method = %method, id);

        let mut response = self
            .respond(route, request, connection, settings, &id)
            .instrument(span)
            .await;

        cors::allow(response.headers_mut());
        response
            .headers_mut()
            .insert(request_id::HEADER, request_id::value(&id));
        if is_refused && version < Version::HTTP_2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        if method == Method::HEAD {
            leave_body_out(&mut response);
        }
        self.metrics
            .answered(label, response.status(), began.elapsed());
        response.body_mut().hold(busy);
        response
    }

    async fn respond(
        self: &Arc<Self>,
        route: Route<'_>,
        request: Request<Incoming>,
        connection: Arc<Connection>,
        settings: Arc<WebSettings>,
        id: &str,
    ) -> Response<Body> {
        if request.method() == Method::OPTIONS {
            return cors::preflight();
        }
        let for_a_person = !route.is_git() && accept::wants_page(request.headers());
        let frame_of = Arc::clone(&settings);
        let client = Client::find(
            connection.peer.ip(),
            request.headers(),
            &settings.trusted_proxies,
        );
        let asked = Asked {
            settings,
            client,
            connection,
        };
        let answering = AssertUnwindSafe(self.answer(route, request, asked)).catch_unwind();
        let error = match answering.await {
            Ok(Ok(response)) => return response,
            Ok(Err(error)) => error,
            Err(_) => WebError::Panic,
        };
        error.log();
        if for_a_person {
            let frame = pages::Frame::new(&frame_of, &self.web.build);
            if let Ok(page) = pages::failure(frame, &error, id) {
                return page;
            }
        }
        error.response()
    }

    async fn answer(
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
            Route::Ready => probes::ready(&self.web.readiness),
            Route::Version => probes::version(&self.web.build),
            Route::Metrics if asked.settings.metrics => probes::metrics(&self.metrics),
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
            .enter(class, &asked.settings.limits)
            .ok_or_else(|| {
                self.metrics.busy(class);
                WebError::Busy(class)
            })
    }

    /// Runs a page or an API answer in a slot of its class, within the time an answer may take.
    async fn in_time(
        &self,
        class: Class,
        asked: &Asked,
        work: impl Future<Output = Result<Response<Body>, WebError>>,
    ) -> Result<Response<Body>, WebError> {
        let slot = self.enter(class, asked)?;
        let mut response = timeout(asked.settings.timeouts.answer, work)
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

/// What HEAD gets: the head of a GET, with the length its body would have.
fn leave_body_out(response: &mut Response<Body>) {
    if let Some(len) = response.body().len() {
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    }
    response.body_mut().clear();
}
