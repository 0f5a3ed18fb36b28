//! Requests to hosts, hop by hop.

mod preflight;
mod refusal;
mod response;
mod route;
mod websocket;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_limits::{Permit, Throttle, Verdict};
use grip_types::Domain;
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, timeout_at};
use url::Url;

use self::response::ResponseHead;
pub use self::{
    response::Reply,
    websocket::{Socket, WebSocket},
};
use crate::{
    address::Rules,
    bearer::Bearer,
    client::{self, Purpose},
    error::{BuildError, EgressError, Phase},
    guard::{Forbidden, Guard},
    lookup::{Pins, Resolver},
    options::{Options, Request, RequestPolicy},
    preflight::Preflight,
    printable_url::Shown,
    redirect::{self, RedirectError},
};

/// Sends requests to other hosts. Cheap to clone; clones share connections and limits.
#[derive(Clone)]
pub struct Egress {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    guard: Guard,
    client: Client,
    /// For credentials in plain text.
    inside: Client,
    websockets: Client,
    throttle: Throttle,
}

/// A client, and how it finds addresses.
struct Client {
    http: reqwest::Client,
    resolver: Resolver,
}

impl Egress {
    pub fn new(options: Options, throttle: Throttle) -> Result<Self, BuildError> {
        let rules = Rules::new(options.allow_non_global, options.private_hosts.clone());
        Self::build(options, throttle, rules, &[])
    }

    pub(crate) fn build(
        options: Options,
        throttle: Throttle,
        rules: Rules,
        roots: &[CertificateDer<'static>],
    ) -> Result<Self, BuildError> {
        let client = |purpose| {
            let resolver = Resolver {
                lookup: Arc::clone(&options.lookup),
                rules: rules.clone(),
                only_inside: purpose == Purpose::Inside,
                pins: Pins::default(),
            };
            let http = client::build(&options, resolver.clone(), purpose, roots)?;
            Ok::<_, BuildError>(Client { http, resolver })
        };
        let (inside, websockets) = (client(Purpose::Inside)?, client(Purpose::WebSockets)?);
        let client = client(Purpose::Requests)?;
        let guard = Guard {
            rules,
            own: options.own.clone(),
            schemes: options.schemes.iter().map(|s| s.to_lowercase()).collect(),
        };
        let inner = Arc::new(Inner {
            options,
            guard,
            client,
            inside,
            websockets,
            throttle,
        });
        Ok(Self { inner })
    }

    pub fn throttle(&self) -> &Throttle {
        &self.inner.throttle
    }

    /// Says whose host `url` is, or why it is never asked, as far as the URL alone can tell.
    ///
    /// Where a name leads is judged when it is asked.
    pub fn check(&self, url: &Url) -> Result<Domain, Forbidden> {
        self.inner.guard.check(url)
    }

    /// Makes `request` without credentials and follows redirects to a success. `permit` pays for
    /// the first hop, and every further hop is paid for at its own host.
    ///
    /// Gives back each permit on every path, with what the host's response says about it. Cancel
    /// safe in that nothing stays taken; the host may have seen the request.
    pub async fn send(&self, request: Request, permit: Permit) -> Result<Reply, EgressError> {
        self.send_with(&RequestPolicy::default(), request, permit)
            .await
    }

    /// [`Egress::send`] with another policy.
    pub fn send_with<'a>(
        &'a self,
        policy: &'a RequestPolicy,
        request: Request,
        permit: Permit,
    ) -> BoxFuture<'a, Result<Reply, EgressError>> {
        self.send_after(None, policy, request, permit)
    }

    /// [`Egress::send_with`] after `preflight` was asked about every hop.
    pub fn send_after<'a>(
        &'a self,
        preflight: Option<&'a dyn Preflight>,
        policy: &'a RequestPolicy,
        request: Request,
        permit: Permit,
    ) -> BoxFuture<'a, Result<Reply, EgressError>> {
        Box::pin(async move {
            let Options { total, idle, .. } = self.inner.options;
            let deadline = Instant::now() + total;
            let mut permit = self.check_first(policy, &request.url, permit)?;
            let mut hop = Hop::first(policy, &request);
            let mut followed = 0;
            loop {
                if let Some(preflight) = preflight {
                    let asking = self.preflight(preflight, &hop.url, permit, deadline);
                    permit = asking.await?;
                }
                let head = self.ask(policy, &request, &hop, permit, deadline).await?;
                let status = head.response.status();
                let url = hop.url.clone();
                tracing::debug!(url = %Shown(&url), status = status.as_u16(), "received response");
                if status.is_success() {
                    return head.reply(&request, url, idle, deadline);
                }
                if !policy.follow || !redirect::is_redirect(status) {
                    return refusal::read(head, url, idle, deadline, policy.any_status).await;
                }
                let to;
                (to, permit) = self.follow(&request, &url, head, followed).await?;
                hop = hop.to(to);
                followed += 1;
            }
        })
    }

    fn check_first(
        &self,
        policy: &RequestPolicy,
        url: &Url,
        permit: Permit,
    ) -> Result<Permit, EgressError> {
        let checked = self.check(url).and_then(|domain| match &policy.bearer {
            Some(_) => self.inner.guard.check_credential(url).map(|()| domain),
            None => Ok(domain),
        });
        let error = match checked {
            Ok(domain) if domain == *permit.domain() => return Ok(permit),
            Ok(request) => EgressError::WrongPermit {
                permit: permit.domain().clone(),
                request,
            },
            Err(forbidden) => forbidden.into(),
        };
        permit.unused();
        Err(error)
    }

    /// Makes one request and waits for the head of its response.
    async fn ask(
        &self,
        policy: &RequestPolicy,
        request: &Request,
        hop: &Hop<'_>,
        permit: Permit,
        deadline: Instant,
    ) -> Result<ResponseHead, EgressError> {
        let options = &self.inner.options;
        let client = match hop.bearer {
            Some(_) if hop.url.scheme() != "https" => &self.inner.inside,
            _ => &self.inner.client,
        };
        let routed = self.route_or_settle(client, &hop.url, permit, deadline);
        let (route, permit) = routed.await?;
        let patience = Instant::now() + options.connect + options.idle;
        let request = client::prepare(request, &hop.url, hop.bearer);
        let asked_at = Instant::now();
        let asking = client.http.execute(request);
        match timeout_at(deadline.min(patience), asking).await {
            Ok(Ok(response)) => {
                let throttle = &self.inner.throttle;
                throttle.responded(permit.domain(), asked_at.elapsed());
                Ok(ResponseHead {
                    response,
                    permit,
                    networks: route.networks,
                    heed_quota: policy.heed_quota,
                })
            }
            Ok(Err(error)) => Err(response::no_response(error, permit)),
            Err(_) => {
                permit.finish(Verdict::Failure, None);
                let phase = if Instant::now() >= deadline {
                    Phase::Total
                } else {
                    Phase::Headers
                };
                Err(EgressError::TimedOut(phase))
            }
        }
    }

    /// Decides where a redirect leads and pays for the way there.
    async fn follow(
        &self,
        request: &Request,
        from: &Url,
        head: ResponseHead,
        followed: usize,
    ) -> Result<(Url, Permit), EgressError> {
        let (reading, advice) = head.read(b"");
        let verdict = reading.verdict;
        let ResponseHead {
            response,
            mut permit,
            ..
        } = head;
        let (to, domain) = match self.target(request, from, &response, followed) {
            Ok(target) => target,
            Err(error) => {
                permit.finish(verdict, advice);
                return Err(error);
            }
        };
        // Its connection is of no use any more.
        drop(response);
        if domain == *permit.domain() && advice.is_none() {
            return match permit.again().await {
                Ok(()) => Ok((to, permit)),
                Err(refused) => {
                    permit.finish(verdict, None);
                    Err(refused.into())
                }
            };
        }
        let lane = permit.lane();
        permit.finish(verdict, advice);
        let permit = self.inner.throttle.acquire(&domain, lane).await?;
        Ok((to, permit))
    }

    fn target(
        &self,
        request: &Request,
        from: &Url,
        response: &reqwest::Response,
        followed: usize,
    ) -> Result<(Url, Domain), EgressError> {
        let most = self.inner.options.max_redirects;
        if followed >= most {
            return Err(RedirectError::TooMany(most).into());
        }
        let (status, headers) = (response.status(), response.headers());
        let to = redirect::target(&request.method, from, status, headers)?;
        let domain = self.check(&to)?;
        self.inner.guard.check_redirect(&request.url, &domain)?;
        Ok((to, domain))
    }
}

/// Where a request goes next.
struct Hop<'a> {
    url: Url,
    bearer: Option<&'a Bearer>,
}

impl<'a> Hop<'a> {
    fn first(policy: &'a RequestPolicy, request: &Request) -> Self {
        Self {
            url: request.url.clone(),
            bearer: policy.bearer.as_ref(),
        }
    }

    /// The hop after a redirect. A credential stays behind at the first other origin, for good:
    /// a host that redirects back would choose what is asked in our name.
    fn to(self, url: Url) -> Self {
        let stays = url.origin() == self.url.origin();
        let bearer = self.bearer.filter(|_| stays);
        Self { url, bearer }
    }
}
