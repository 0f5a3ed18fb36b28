//! Asking a host, hop by hop.

mod answered;

use std::sync::Arc;

use grip_throttle::{Permit, Throttle, Verdict};
use grip_types::Domain;
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, timeout_at};
use url::Url;

use self::answered::Answered;
pub use self::answered::Reply;
use crate::{
    address::Rules,
    client,
    error::{BuildError, EgressError, What},
    guard::{Forbidden, Guard},
    options::{Options, Request},
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
    throttle: Throttle,
}

impl Egress {
    pub fn new(options: Options, throttle: Throttle) -> Result<Self, BuildError> {
        let rules = Rules::new(options.allow_non_global);
        Self::build(options, throttle, rules, &[])
    }

    pub(crate) fn build(
        options: Options,
        throttle: Throttle,
        rules: Rules,
        roots: &[CertificateDer<'static>],
    ) -> Result<Self, BuildError> {
        let client = client::build(&options, rules.clone(), roots)?;
        let guard = Guard {
            rules,
            own: options.own.clone(),
            schemes: options.schemes.iter().map(|s| s.to_lowercase()).collect(),
        };
        let inner = Arc::new(Inner {
            options,
            guard,
            client,
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

    /// Makes `request` and follows redirects. `permit` pays for the first hop, and every further
    /// hop is paid for at its own host.
    ///
    /// Gives back each permit on every path, with what the host's answer says about it. Cancel
    /// safe in that nothing stays taken; the host may have seen the request.
    pub async fn send(&self, request: Request, permit: Permit) -> Result<Reply, EgressError> {
        let Options { total, idle, .. } = self.inner.options;
        let deadline = Instant::now() + total;
        let mut permit = self.check_first(&request.url, permit)?;
        let mut url = request.url.clone();
        let mut followed = 0;
        loop {
            let answered = self.ask(&request, &url, permit, deadline).await?;
            let status = answered.response.status();
            tracing::debug!(url = %Shown(&url), status = status.as_u16(), "a host answered");
            if status.is_success() {
                return answered.reply(&request, url, idle, deadline);
            }
            if !redirect::is_redirect(status) {
                return Err(answered.refusal(idle, deadline).await);
            }
            (url, permit) = self.follow(&request, &url, answered, followed).await?;
            followed += 1;
        }
    }

    fn check_first(&self, url: &Url, permit: Permit) -> Result<Permit, EgressError> {
        let error = match self.check(url) {
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
        request: &Request,
        url: &Url,
        permit: Permit,
        deadline: Instant,
    ) -> Result<Answered, EgressError> {
        let options = &self.inner.options;
        let patience = Instant::now() + options.connect + options.idle;
        let asking = self.inner.client.execute(client::prepare(request, url));
        match timeout_at(deadline.min(patience), asking).await {
            Ok(Ok(response)) => Ok(Answered { response, permit }),
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
        let (verdict, advice) = answered.says();
        let Answered {
            response,
            mut permit,
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
        Ok((to, domain))
    }
}
