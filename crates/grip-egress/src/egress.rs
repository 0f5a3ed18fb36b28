//! Asking a host, hop by hop.

mod answered;
mod refusal;

use std::sync::Arc;

use grip_limits::{Permit, Throttle, Verdict};
use grip_types::Domain;
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, timeout_at};
use url::Url;

pub use self::answered::Reply;
use self::{answered::Answered, refusal::Refusal};
use crate::{
    address::Rules,
    bearer::Bearer,
    client,
    error::{BuildError, EgressError, What},
    guard::{Forbidden, Guard},
    options::{Options, Request, Terms},
    redirect::{self, RedirectError},
    shown::Shown,
};

/// The one way out. Cheap to clone; clones share connections and limits.
#[derive(Clone)]
pub struct Egress {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    guard: Guard,
    client: reqwest::Client,
    /// For credentials in plain text.
    inside: reqwest::Client,
    throttle: Throttle,
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
        let client = client::build(&options, rules.clone(), false, roots)?;
        let inside = client::build(&options, rules.clone(), true, roots)?;
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
    /// Gives back each permit on every path, with what the host's answer says about it. Cancel
    /// safe in that nothing stays taken; the host may have seen the request.
    pub async fn send(&self, request: Request, permit: Permit) -> Result<Reply, EgressError> {
        self.send_on(&Terms::default(), request, permit).await
    }

    /// [`Egress::send`] on other terms.
    pub async fn send_on(
        &self,
        terms: &Terms,
        request: Request,
        permit: Permit,
    ) -> Result<Reply, EgressError> {
        let Options { total, idle, .. } = self.inner.options;
        let deadline = Instant::now() + total;
        let mut permit = self.check_first(terms, &request.url, permit)?;
        let mut hop = Hop::first(terms, &request);
        let mut followed = 0;
        loop {
            let answered = self.ask(terms, &request, &hop, permit, deadline).await?;
            let status = answered.response.status();
            let url = hop.url.clone();
            tracing::debug!(url = %Shown(&url), status = status.as_u16(), "a host answered");
            if status.is_success() {
                return answered.reply(&request, url, idle, deadline);
            }
            if !terms.follow || !redirect::is_redirect(status) {
                let refusal = Refusal::read(answered, idle, deadline).await;
                return match terms.any_status {
                    true => refusal.reply(url),
                    false => Err(refusal.error()),
                };
            }
            let to;
            (to, permit) = self.follow(&request, &url, answered, followed).await?;
            hop = hop.to(to);
            followed += 1;
        }
    }

    fn check_first(&self, terms: &Terms, url: &Url, permit: Permit) -> Result<Permit, EgressError> {
        let checked = self.check(url).and_then(|domain| match &terms.bearer {
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

    /// Makes one request and waits for the head of its answer.
    async fn ask(
        &self,
        terms: &Terms,
        request: &Request,
        hop: &Hop<'_>,
        permit: Permit,
        deadline: Instant,
    ) -> Result<Answered, EgressError> {
        let options = &self.inner.options;
        let patience = Instant::now() + options.connect + options.idle;
        let client = match hop.bearer {
            Some(_) if hop.url.scheme() != "https" => &self.inner.inside,
            _ => &self.inner.client,
        };
        let asking = client.execute(client::prepare(request, &hop.url, hop.bearer));
        match timeout_at(deadline.min(patience), asking).await {
            Ok(Ok(response)) => Ok(Answered {
                response,
                permit,
                heed_quota: terms.heed_quota,
            }),
            Ok(Err(error)) => Err(answered::unanswered(error, permit)),
            Err(_) => {
                permit.finish(Verdict::Failure, None);
                let what = match Instant::now() >= deadline {
                    true => What::Total,
                    false => What::Headers,
                };
                Err(EgressError::TimedOut(what))
            }
        }
    }

    /// Decides where a redirect leads and pays for the way there.
    async fn follow(
        &self,
        request: &Request,
        from: &Url,
        answered: Answered,
        followed: usize,
    ) -> Result<(Url, Permit), EgressError> {
        let (reading, advice) = answered.says(b"");
        let verdict = reading.verdict;
        let Answered {
            response,
            mut permit,
            ..
        } = answered;
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
    fn first(terms: &'a Terms, request: &Request) -> Self {
        Self {
            url: request.url.clone(),
            bearer: terms.bearer.as_ref(),
        }
    }

    /// The hop after a redirect. A credential stays behind at the first other origin, for good:
    /// whoever sends us back from there would choose what is asked in our name.
    fn to(self, url: Url) -> Self {
        let stays = url.origin() == self.url.origin();
        let bearer = self.bearer.filter(|_| stays);
        Self { url, bearer }
    }
}
