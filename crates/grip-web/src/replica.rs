//! Node of a cluster that follows its leader: fetches are served from the copy on its own disk, and
//! everything else is forwarded to the leader.
//!
//! ```text
//! git fetch ──▶ up to date? ──▶ refs and packs of this disk
//!     of objects that no ref is at ──▶ leader, which knows what is out of service
//! all else  ──▶ leader
//! ```
//!
//! Before refs are listed or a pack is made, the end of the cluster's log is asked for and applied: no
//! node answers with less than another did before.

mod fetch;
mod forward;

use std::{net::SocketAddr, sync::Arc};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use grip_git::Repositories;
use grip_tasks::TaskGroup;
use http::{Method, Request, Response, StatusCode, Version, header, request::Parts};
use hyper::body::Incoming;
use tokio::{net::TcpListener, sync::watch};

use crate::{
    Readiness,
    api::types::ReadyAnswer,
    body::Body,
    client::Client,
    cors,
    error::WebError,
    limits::{Class, Limits, RequestPermit},
    query::query_value,
    request_context::HttpResult,
    respond::{self, WithHeader as _},
    routes::{self, Matched},
    server::{self, Application, Connection, Handed},
    settings::WebSettings,
};

/// All that a follower needs to serve.
#[derive(Clone)]
pub struct Replica {
    pub repositories: Repositories,
    pub settings: Arc<ArcSwap<WebSettings>>,
    pub readiness: Readiness,
    /// Where the leader is reached; none while there is none.
    pub leader: watch::Receiver<Option<SocketAddr>>,
    pub freshness: Arc<dyn Freshness>,
}

/// How far a copy has followed its cluster.
pub trait Freshness: Send + Sync {
    /// Waits until everything is here that was committed before this was called; false if that takes
    /// too long, or if nobody can tell.
    fn catch_up(&self) -> BoxFuture<'_, bool>;
}

/// Serves HTTP on `listener` until `group` is told to stop, as [`crate::serve`] does.
pub async fn serve_replica(listener: TcpListener, replica: Replica, group: &TaskGroup) {
    let limits = Limits::new(&replica.settings.load().limits);
    let follower = Follower {
        replica,
        limits,
        group: group.clone(),
    };
    server::accept(listener, Arc::new(follower), group, group).await;
}

struct Follower {
    replica: Replica,
    limits: Limits,
    group: TaskGroup,
}

/// A request with what is known of it.
struct FollowerRequest<'a> {
    head: &'a Parts,
    matched: &'a Matched<'a>,
    settings: &'a WebSettings,
    client: Client,
}

/// What stays taken until a forwarded response is sent, or a forwarded WebSocket has ended.
struct Kept {
    _permit: RequestPermit,
    _connection: Arc<Connection>,
}

impl Application for Follower {
    async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Response<Body> {
        let busy = connection.activity.request();
        let settings = Application::settings(&*self);
        let (head, body) = request.into_parts();
        let client = Client::find(
            connection.peer.ip(),
            &head.headers,
            &settings.trusted_proxies,
        );
        let version = head.version;
        let handled = self.respond(head, body, &settings, client, &connection);
        let mut response = handled.await.unwrap_or_else(|error| {
            error.log();
            error.response()
        });
        cors::allow(response.headers_mut());
        connection.responds();
        let is_last = connection.refusal().is_some() || self.is_draining();
        let is_upgrade = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if is_last && !is_upgrade && version < Version::HTTP_2 {
            response = response.with(header::CONNECTION, "close");
        }
        match Handed::current() {
            Some(handed) => response.body_mut().watch(handed),
            None => busy.answers(),
        }
        response.body_mut().hold(busy);
        response
    }

    fn settings(&self) -> Arc<WebSettings> {
        self.replica.settings.load_full()
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn readiness(&self) -> &Readiness {
        &self.replica.readiness
    }

    fn group(&self) -> &TaskGroup {
        &self.group
    }
}

impl Follower {
    async fn respond(
        self: &Arc<Self>,
        head: Parts,
        body: Incoming,
        settings: &WebSettings,
        client: Client,
        connection: &Arc<Connection>,
    ) -> HttpResult {
        let path = head.uri.path().to_owned();
        // Contributor repositories are the leader's alone.
        let matched = routes::find(&path, settings.service.base(), false);
        match matched.route.label {
            "healthz" => return Ok(respond::text(StatusCode::OK, "ok\n")),
            "readyz" => return self.ready(),
            _ => {}
        }
        if let Some(refusal) = connection.refusal() {
            return Err(refusal);
        }
        if self.is_draining() {
            return Err(WebError::Draining);
        }
        if !self.limits.spend(client, &settings.limits) {
            return Err(WebError::TooManyRequests);
        }
        let asked = FollowerRequest {
            head: &head,
            matched: &matched,
            settings,
            client,
        };
        if head.method == Method::OPTIONS {
            return Ok(cors::preflight());
        }
        if is_fetch(&asked) {
            return self.fetch(&asked, body, connection).await;
        }
        let class = match matched.route.label {
            "receive-pack" => Class::Push,
            "root" if head.headers.contains_key(header::UPGRADE) => Class::Websocket,
            _ => Class::Api,
        };
        let kept = Kept {
            _permit: self.permit(&asked, class)?,
            _connection: Arc::clone(connection),
        };
        self.forward(head, body, client, kept).await
    }

    fn permit(&self, asked: &FollowerRequest<'_>, class: Class) -> Result<RequestPermit, WebError> {
        let repository = asked.matched.repository.as_ref();
        let repository = repository.filter(|_| matches!(class, Class::Fetch | Class::Push));
        let bounds = &asked.settings.limits;
        let permit = self.limits.request(class, asked.client, repository, bounds);
        permit.ok_or(WebError::Busy(class))
    }

    /// Whether requests are served, and if not, what is missing.
    fn ready(&self) -> HttpResult {
        if self.is_draining() {
            self.replica.readiness.drain();
        }
        let named = |(part, why): (&'static str, String)| (part.to_owned(), why);
        let missing = self.replica.readiness.missing().into_iter().map(named);
        let degraded = self.replica.readiness.degraded().into_iter().map(named);
        let answer = ReadyAnswer {
            ready: self.replica.readiness.is_ready(),
            missing: missing.collect(),
            degraded: degraded.collect(),
        };
        let status = if answer.ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let response = respond::json(status, &answer)?;
        Ok(response.with(header::CACHE_CONTROL, "no-cache"))
    }
}

/// Whether git asks for what this node has on its own disk.
fn is_fetch(asked: &FollowerRequest<'_>) -> bool {
    match asked.matched.route.label {
        "upload-pack" => asked.head.method == Method::POST,
        "info-refs" => {
            asked.head.method == Method::GET
                && query_value(asked.head.uri.query(), "service") == Some("git-upload-pack")
        }
        _ => false,
    }
}
