//! A request with what is known of its sender, and its way to the handler of its route.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use grip_nostr::RepoAddr;
use grip_types::ClientNetwork;
use http::{HeaderMap, Method, Response, header, request::Parts};
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::{
    admin::{self, Admin},
    app::App,
    body::Body,
    client::Client,
    cors,
    error::WebError,
    limits::{Class, RequestPermit},
    negotiation,
    pages::{self, Frame},
    private,
    routes::{Failures, Handler, Limit, Matched, Reader},
    server::Connection,
    settings::WebSettings,
};

/// Time for an order that goes through everything that is kept.
const BULK_TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) type HttpResult = Result<Response<Body>, WebError>;

pub(crate) struct RequestContext<'a> {
    pub(crate) app: &'a Arc<App>,
    pub(crate) head: &'a Parts,
    pub(crate) matched: Matched<'a>,
    pub(crate) settings: Arc<WebSettings>,
    pub(crate) client: Client,
    pub(crate) connection: Arc<Connection>,
    /// Finds the request again in the log.
    pub(crate) id: &'a str,
}

impl<'a> RequestContext<'a> {
    /// Answers every request: a failure and a bug have responses too.
    pub(crate) async fn respond(&self, body: Incoming) -> Response<Body> {
        if self.head.method == Method::OPTIONS {
            return cors::preflight();
        }
        let error = match AssertUnwindSafe(self.dispatch(body)).catch_unwind().await {
            Ok(Ok(mut response)) => {
                if self.settings.private.is_some() && self.matched.route.reader == Reader::Member {
                    private::keep_out_of_caches(response.headers_mut());
                }
                return response;
            }
            Ok(Err(error)) => error,
            Err(_) => WebError::Panic,
        };
        error.log();
        self.count_refusal(&error);
        if let Some(private) = &self.settings.private
            && (matches!(error, WebError::NotAMember)
                || self.matched.route.reader == Reader::Signed)
        {
            return private::refusal(private);
        }
        let failures = self.matched.route.failures;
        if failures != Failures::Git
            && negotiation::wants_page(self.headers())
            && let Ok(page) = pages::failure(self.frame(), &error, self.id)
        {
            return page;
        }
        if failures == Failures::Json || negotiation::wants_json(self.headers()) {
            error.json(self.id)
        } else {
            error.response()
        }
    }

    /// Checks limits, membership, method and operator in this order, then runs the handler of the route.
    async fn dispatch(&self, body: Incoming) -> HttpResult {
        let route = self.matched.route;
        let is_gated = self.settings.private.is_some() && route.reader == Reader::Member;
        // A proof costs a check of its signature: of whoever shows one, the rate counts.
        let is_probe = matches!(route.limit, Limit::Probe | Limit::Metered);
        if !is_probe || (is_gated && !self.is_operator()) {
            self.check_limits()?;
        } else if route.limit == Limit::Metered {
            self.spend()?;
        }
        if is_gated {
            private::check(self)?;
        }
        route.check_method(&self.head.method)?;
        let work = match route.handler {
            Handler::Immediate(handler) => async move { handler(self) }.boxed(),
            Handler::Read(handler) => handler(self),
            Handler::Upload(handler) => handler(self, body),
            Handler::Operator(handler) => handler(self, self.operator()?),
            Handler::OperatorUpload(handler) => handler(self, self.operator()?, body),
        };
        let (class, time) = match route.limit {
            Limit::Probe | Limit::Metered | Limit::ByHandler => return work.await,
            Limit::Answer(class) => (class, self.settings.timeouts.answer),
            Limit::Bulk(class) => (class, BULK_TIMEOUT),
        };
        self.limited(class, time, work).await
    }

    /// Refuses what this connection or this client may not have at the moment.
    fn check_limits(&self) -> Result<(), WebError> {
        if let Some(refusal) = self.connection.refusal() {
            return Err(refusal);
        }
        if self.app.is_draining() {
            self.app.metrics.rejected("draining");
            return Err(WebError::Draining);
        }
        // Another node may have gone on while this one slept.
        if self
            .app
            .web
            .leads
            .as_ref()
            .is_some_and(|leads| !leads.holds())
        {
            return Err(WebError::NoLeader);
        }
        self.spend()
    }

    /// Takes one request of the client's rate.
    fn spend(&self) -> Result<(), WebError> {
        if self.app.limits.spend(self.client, &self.settings.limits) {
            return Ok(());
        }
        self.app.metrics.rejected("requests_per_ip");
        Err(WebError::TooManyRequests)
    }

    /// Counts a resolution that was refused at once, beside those that found no permit.
    pub(crate) fn count_refusal(&self, error: &WebError) {
        if error.is_busy_resolver() {
            self.app.metrics.busy(Class::Resolve);
        }
    }

    /// Runs `work` with a permit of `class`, which is kept until the response is sent.
    pub(crate) async fn limited(
        &self,
        class: Class,
        time: Duration,
        work: impl Future<Output = HttpResult>,
    ) -> HttpResult {
        let permit = self.permit_soon(class, None).await?;
        let response = timeout(time, work).await;
        let mut response = response.map_err(|_| WebError::Deadline)??;
        response.body_mut().hold(permit);
        Ok(response)
    }

    pub(crate) fn permit(&self, class: Class) -> Result<RequestPermit, WebError> {
        let limits = &self.app.limits;
        let permit = limits.request(class, self.client, None, &self.settings.limits);
        permit.ok_or_else(|| self.busy(class))
    }

    /// The same, and waits a moment for it where the class is worth it. Work on one repository counts
    /// against that too.
    pub(crate) async fn permit_soon(
        &self,
        class: Class,
        repository: Option<&RepoAddr>,
    ) -> Result<RequestPermit, WebError> {
        let limits = &self.app.limits;
        let permit = limits.request_soon(class, self.client, repository, &self.settings.limits);
        permit.await.ok_or_else(|| self.busy(class))
    }

    fn busy(&self, class: Class) -> WebError {
        self.app.metrics.busy(class);
        WebError::Busy(class)
    }

    /// The network of the client; none where no bound per network applies.
    pub(crate) fn network(&self) -> Option<ClientNetwork> {
        let networks = self.settings.limits.networks;
        (!self.client.exempt).then(|| networks.network(self.client.ip))
    }

    /// Accepts a local connection that presents the admin token.
    pub(crate) fn operator(&self) -> Result<Admin, WebError> {
        admin::admit(&self.app.web.admin, self.connection.peer, self.headers())
    }

    /// Whether a reader may also see what is not public.
    pub(crate) fn is_operator(&self) -> bool {
        self.headers().contains_key(header::AUTHORIZATION) && self.operator().is_ok()
    }

    pub(crate) fn headers(&self) -> &'a HeaderMap {
        &self.head.headers
    }

    pub(crate) fn query(&self) -> Option<&'a str> {
        self.head.uri.query()
    }

    /// The parameters of the path, still percent-encoded.
    pub(crate) fn params(&self) -> [&'a str; 2] {
        self.matched.params
    }

    /// The repository of the path.
    pub(crate) fn repository(&self) -> Result<&RepoAddr, WebError> {
        let repository = self.matched.repository.as_ref();
        repository.ok_or(WebError::BadRepositoryPath)
    }

    pub(crate) fn frame(&self) -> Frame {
        let app = self.app;
        let features = [
            app.index().is_ok(),
            app.watch().is_ok(),
            app.resolve().is_ok(),
        ];
        Frame::new(&self.settings, &app.web.build).within(self.matched.route.path, features)
    }
}
