//! The application behind the accept loop: one request from its head to the head of its response.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use grip_git::RefSnapshot;
use grip_index::{Index, proxy::Proxy};
use grip_relay::WritePolicy;
use grip_tasks::{TaskGroup, TaskStatus};
use grip_types::RepoAddr;
use http::{HeaderValue, Method, Request, Response, Version, header};
use hyper::body::Incoming;
use tokio::{sync::Semaphore, time::Instant};
use tracing::Instrument;

use crate::{
    Readiness, Resolve, Watch, Web, admin,
    api::{backup::Freezing, events::Compacting},
    body::Body,
    client::Client,
    cors,
    error::{ResolvingError, WatchError, WebError},
    limits::{Full, Limits},
    live::LiveParts,
    metrics::{Collected, DatabaseSamples, Domains, Metrics, unix_now},
    pages::{browse::Browsing, catalog::CatalogCache},
    private,
    request_context::RequestContext,
    request_id::{self, RequestIds},
    respond::WithHeader as _,
    routes,
    server::{Application, Connection, Handed, Verdict},
    settings::WebSettings,
    webhook,
};

pub(crate) struct App {
    pub(crate) web: Web,
    pub(crate) group: TaskGroup,
    pub(crate) limits: Arc<Limits>,
    pub(crate) metrics: Metrics,
    ids: RequestIds,
    /// The service as the relay knows it.
    pub(crate) policy: Arc<dyn WritePolicy>,
    sockets: AtomicU64,
    pub(crate) catalog: CatalogCache,
    pub(crate) browsing: Browsing,
    pub(crate) live: LiveParts,
    pub(crate) samples: Arc<DatabaseSamples>,
    /// Bytes that deliveries of webhooks may hold together.
    pub(crate) webhook_bytes: Arc<Semaphore>,
    /// Signatures of the operator that were used.
    pub(crate) used_signatures: admin::UsedSignatures,
    /// The state that is laid out for a backup at this moment.
    pub(crate) freezing: Freezing,
    /// The event store is compacted at this moment.
    pub(crate) compacting: Compacting,
    pub(crate) started: Instant,
}

impl App {
    pub(crate) fn new(web: Web, group: TaskGroup) -> Arc<Self> {
        let limits = Arc::new(Limits::new(&web.settings.load().limits));
        let samples = Arc::new(DatabaseSamples::new(&web));
        samples.start(&group);
        let collected = Collected {
            limits: Arc::clone(&limits),
            group: group.clone(),
            db: web.queue.db().clone(),
            relay: web.relay.clone(),
            grasp: web.grasp.clone(),
            sync: web.sync.clone(),
            readiness: web.readiness.clone(),
            resolver: web.resolve.as_ref().map(|resolve| resolve.resolver.clone()),
            samples: Arc::clone(&samples),
            domains: Domains::default(),
            started: Instant::now(),
        };
        let (live, renderers) = LiveParts::new();
        let app = Arc::new(Self {
            metrics: Metrics::new(&web.build, collected),
            ids: RequestIds::new(unix_now()),
            policy: Arc::new(web.grasp.clone()),
            sockets: AtomicU64::new(0),
            catalog: CatalogCache::default(),
            browsing: Browsing::default(),
            live,
            samples,
            webhook_bytes: Arc::new(Semaphore::new(webhook::MAX_BYTES)),
            used_signatures: admin::UsedSignatures::since(admin::now()),
            freezing: Freezing::default(),
            compacting: Compacting::default(),
            started: Instant::now(),
            limits,
            group,
            web,
        });
        renderers.start(&app);
        app
    }

    pub(crate) fn settings(&self) -> Arc<WebSettings> {
        self.web.settings.load_full()
    }

    pub(crate) fn is_draining(&self) -> bool {
        Application::is_draining(self)
    }

    /// Every task of the process.
    pub(crate) fn tasks(&self) -> Vec<TaskStatus> {
        let mut tasks = self.group.root().status();
        tasks.extend(self.web.queue.db().tasks());
        tasks
    }

    pub(crate) fn index(&self) -> Result<&Index, WebError> {
        self.web.index.as_deref().ok_or(WebError::IndexOff)
    }

    pub(crate) fn proxy(&self) -> Result<&Proxy, WebError> {
        self.web.proxy.as_ref().ok_or(WebError::ProxyOff)
    }

    pub(crate) fn watch(&self) -> Result<&Watch, WatchError> {
        self.web.watch.as_ref().ok_or(WatchError::Off)
    }

    pub(crate) fn resolve(&self) -> Result<&Resolve, ResolvingError> {
        self.web.resolve.as_ref().ok_or(ResolvingError::Off)
    }

    /// A number for a new WebSocket, for the log.
    pub(crate) fn next_socket(&self) -> u64 {
        self.sockets.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The refs of a repository; off the runtime, because they may have to be read from disk.
    pub(crate) async fn refs(&self, repo: &RepoAddr) -> Result<Arc<RefSnapshot>, WebError> {
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
}

impl Application for App {
    fn settings(&self) -> Arc<WebSettings> {
        Self::settings(self)
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn readiness(&self) -> &Readiness {
        &self.web.readiness
    }

    fn group(&self) -> &TaskGroup {
        &self.group
    }

    fn refused_connection(&self, full: Option<Full>) {
        self.metrics.refused_connection(full);
    }

    fn cut_connection(&self, verdict: Verdict) {
        self.metrics.cut_connection(verdict);
    }

    fn cut_stream(&self) {
        self.metrics.cut_stream();
    }

    /// Answers a request; every response carries the CORS headers.
    async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Response<Body> {
        let began = Instant::now();
        let busy = connection.activity.request();
        let settings = self.settings();
        let (head, body) = request.into_parts();
        let contributors = self.web.grasp.serves_contributors();
        let base = settings.service.base();
        let matched = routes::find(head.uri.path(), base, contributors);
        let label = matched.route.label;
        let id = self.ids.name(&head.headers);
        let proxies = &settings.trusted_proxies;
        let client = Client::find(connection.peer.ip(), &head.headers, proxies);
        let from = client.ip;
        let span = tracing::info_span!("request", route = label, method = %head.method, %from, id);
        let cx = RequestContext {
            client,
            app: &self,
            head: &head,
            matched,
            settings,
            connection,
            id: &id,
        };

        let mut response = cx.respond(body).instrument(span.clone()).await;

        cors::allow(response.headers_mut());
        if response.extensions().get::<private::Refused>().is_none() {
            let headers = response.headers_mut();
            headers.insert(request_id::HEADER, request_id::value(&id));
        }
        let connection = &cx.connection;
        connection.responds();
        let is_last = connection.refusal().is_some() || self.is_draining();
        if is_last && head.version < Version::HTTP_2 {
            response = response.with(header::CONNECTION, "close");
        }
        if head.method == Method::HEAD {
            leave_body_out(&mut response);
        }
        let (status, took) = (response.status(), began.elapsed());
        span.in_scope(|| tracing::debug!(status = status.as_u16(), ?took, "responded"));
        self.metrics.responded(label, status, took);
        match Handed::current() {
            Some(handed) => response.body_mut().watch(handed),
            None => busy.answers(),
        }
        response.body_mut().hold(busy);
        response
    }
}

/// A HEAD response: the head of a GET, with the length its body would have.
fn leave_body_out(response: &mut Response<Body>) {
    if let Some(len) = response.body().len() {
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    }
    response.body_mut().clear();
}
