//! One request from its head to the head of its answer.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;
use grip_tasks::TaskGroup;
use http::{HeaderValue, Method, Request, Response, Version, header};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::{
    Build, Web, accept,
    admission::{Admission, Class, Slot},
    body::Body,
    client::Client,
    cors,
    error::{WebError, only_get},
    metrics::{Gathered, Metrics, unix_now},
    pages, probes,
    request_id::{self, RequestIds},
    route::Route,
    server::Connection,
    settings::WebSettings,
};

/// The application behind the accept loop.
pub(crate) struct App {
    web: Web,
    group: TaskGroup,
    admission: Arc<Admission>,
    metrics: Metrics,
    ids: RequestIds,
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
            started: Instant::now(),
        };
        Arc::new(Self {
            metrics: Metrics::new(&web.build, gathered),
            ids: RequestIds::new(unix_now()),
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
            Route::Nowhere => Err(WebError::NoSuchPage),
            Route::BadRepository => Err(WebError::BadRepositoryPath),
            _ => Err(WebError::NoSuchPage),
        }
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

/// What HEAD gets: the head of a GET, with the length its body would have.
fn leave_body_out(response: &mut Response<Body>) {
    if let Some(len) = response.body().len() {
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    }
    response.body_mut().clear();
}
