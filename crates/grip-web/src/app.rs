//! One request from its head to the head of its answer.

mod answer;
mod operate;

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
use grip_index::{Index, proxy::Proxy};
use grip_queue::Queue;
use grip_relay::{Relay, WritePolicy};
use grip_store::EventStore;
use grip_tasks::{TaskGroup, TaskStatus};
use http::{HeaderValue, Method, Request, Response, Version, header};
use hyper::body::Incoming;
use tokio::{sync::Semaphore, time::Instant};
use tracing::Instrument;

use crate::{
    Build, Resolve, SyncHandle, Watch, Web, accept, admin,
    admission::Admission,
    body::Body,
    client::Client,
    cors,
    error::{ResolvingError, WatchError, WebError},
    metrics::{Domains, Gathered, Metrics, Sampled, unix_now},
    pages,
    request_id::{self, RequestIds},
    route::Route,
    server::{Connection, Handed},
    settings::WebSettings,
    views, webhook,
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
    sampled: Arc<Sampled>,
    /// What deliveries of webhooks may hold together, in bytes.
    room: Arc<Semaphore>,
    /// Signed orders that were carried out of late.
    used: admin::Used,
}

/// What a handler knows of its request beside the request itself.
pub(crate) struct Asked {
    pub(crate) settings: Arc<WebSettings>,
    pub(crate) client: Client,
    pub(crate) connection: Arc<Connection>,
    /// The name of the request.
    pub(crate) id: String,
}

impl App {
    pub(crate) fn new(web: Web, group: TaskGroup) -> Arc<Self> {
        let admission = Admission::new(&web.settings.load().limits);
        let sampled = Arc::new(Sampled::new(&web));
        sampled.start(&group);
        let gathered = Gathered {
            admission: Arc::clone(&admission),
            group: group.clone(),
            db: web.queue.db().clone(),
            relay: web.relay.clone(),
            grasp: web.grasp.clone(),
            sync: web.sync.clone(),
            resolver: web.resolve.as_ref().map(|resolve| resolve.resolver.clone()),
            sampled: Arc::clone(&sampled),
            domains: Domains::default(),
            started: Instant::now(),
        };
        Arc::new(Self {
            metrics: Metrics::new(&web.build, gathered),
            ids: RequestIds::new(unix_now()),
            policy: Arc::new(web.grasp.clone()),
            sockets: AtomicU64::new(0),
            recent: views::Recent::default(),
            sampled,
            room: Arc::new(Semaphore::new(webhook::ROOM)),
            used: admin::Used::since(operate::now()),
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

    /// Every task of the process.
    pub(crate) fn tasks(&self) -> Vec<TaskStatus> {
        let mut tasks = self.group.root().status();
        tasks.extend(self.web.queue.db().tasks());
        tasks
    }

    pub(crate) fn relay(&self) -> &Relay {
        &self.web.relay
    }

    pub(crate) fn grasp(&self) -> &Grasp {
        &self.web.grasp
    }

    pub(crate) fn sync(&self) -> &SyncHandle {
        &self.web.sync
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.web.queue
    }

    /// The index, or that there is none.
    pub(crate) fn index(&self) -> Result<&Index, WebError> {
        self.web.index.as_deref().ok_or(WebError::IndexOff)
    }

    pub(crate) fn proxy(&self) -> Result<&Proxy, WebError> {
        self.web.proxy.as_ref().ok_or(WebError::ProxyOff)
    }

    /// What watches GitHub, or that nothing does.
    pub(crate) fn watch(&self) -> Result<&Watch, WatchError> {
        self.web.watch.as_ref().ok_or(WatchError::Off)
    }

    /// What resolves names, or that nothing does.
    pub(crate) fn resolve(&self) -> Result<&Resolve, ResolvingError> {
        self.web.resolve.as_ref().ok_or(ResolvingError::Off)
    }

    pub(crate) fn room(&self) -> &Arc<Semaphore> {
        &self.room
    }

    pub(crate) fn sampled(&self) -> &Sampled {
        &self.sampled
    }

    /// The numbers for a scraper as they are; what must be asked for is asked for the next.
    pub(crate) fn scrape(&self) -> &Metrics {
        self.sampled.scraped();
        &self.metrics
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
        let on = Arc::clone(&connection);
        let span = tracing::info_span!("request", route = label, method = %method, id);

        let mut response = self
            .respond(route, request, connection, settings, &id)
            .instrument(span.clone())
            .await;

        cors::allow(response.headers_mut());
        response
            .headers_mut()
            .insert(request_id::HEADER, request_id::value(&id));
        on.answers();
        if (on.refusal().is_some() || self.is_draining()) && version < Version::HTTP_2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        if method == Method::HEAD {
            leave_body_out(&mut response);
        }
        let (status, took) = (response.status(), began.elapsed());
        span.in_scope(|| tracing::debug!(status = status.as_u16(), ?took, "answered"));
        self.metrics.answered(label, status, took);
        response.body_mut().hold(busy);
        if let Some(handed) = Handed::current() {
            response.body_mut().watch(handed);
        }
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
        let for_a_program = route.is_for_programs() || accept::wants_json(request.headers());
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
            id: id.to_owned(),
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
        match for_a_program {
            true => error.json(id),
            false => error.response(),
        }
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
