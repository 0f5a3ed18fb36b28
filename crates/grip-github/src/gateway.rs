//! The gateway: every call through budget, throttle and egress.

mod request;
mod response;
mod secondary;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use grip_egress::{Bearer, Egress, EgressError, Reply, RequestPolicy};
use grip_limits::{Lane, Refused};
use grip_types::Domain;
use tokio::{io::AsyncReadExt as _, time::Instant};
use url::Url;

pub(crate) use self::{
    request::{ApiRequest, RAW},
    response::Success,
};
use self::{
    response::{Outcome, RawResponse, Step},
    secondary::SecondaryPause,
};
use crate::{
    budget::{Budget, Budgets, CallPermit, Denied, Outcome as CallOutcome},
    error::GitHubError,
    link,
    options::{self, Options, SetupError},
    quota::{self, Resource},
    recent_repositories::RecentRepositories,
    response::{Etag, Response},
};

/// Redirects that are followed in a row; a renamed repository needs one.
const MAX_MOVES: usize = 3;

/// One GitHub's API. Cheap to clone; clones share budgets.
#[derive(Clone)]
pub struct GitHub {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// Ends with a slash.
    pub(crate) base: Url,
    domain: Domain,
    bearers: Vec<Bearer>,
    /// The same tokens as git servers take them.
    clone_bearers: Vec<Bearer>,
    budgets: Budgets,
    egress: Egress,
    secondary: SecondaryPause,
    pub(crate) recent: RecentRepositories,
    pub(crate) max_pages: u32,
    pub(crate) max_host_pages: u32,
}

impl GitHub {
    /// Sets the gateway up; no call is made. A token that is named twice counts once.
    pub fn new(options: Options, egress: Egress) -> Result<Self, SetupError> {
        let base = options::base(&options.api)?;
        let domain = egress.check(&base)?;
        let mut tokens: Vec<_> = Vec::new();
        for token in &options.tokens {
            if !tokens.contains(&token) {
                tokens.push(token);
            }
        }
        let budgets = Budgets::open(&options, &base, &tokens, egress.throttle());
        let inner = Inner {
            domain,
            base,
            budgets,
            bearers: tokens.iter().map(|token| token.bearer()).collect(),
            clone_bearers: tokens.iter().filter_map(|it| it.clone_bearer()).collect(),
            egress,
            secondary: SecondaryPause::default(),
            recent: RecentRepositories::default(),
            max_pages: options.max_pages,
            max_host_pages: options.max_host_pages,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The host of the API.
    pub fn host(&self) -> &str {
        self.inner.domain.as_str()
    }

    /// Whether GraphQL can be asked: it answers nobody without a token.
    pub fn has_graphql(&self) -> bool {
        !self.inner.bearers.is_empty()
    }

    /// The tokens as the host's git server takes them, for repositories that not everybody may
    /// clone. That server is not the API: nothing of it is paid from a budget.
    pub fn clone_credentials(&self) -> &[Bearer] {
        &self.inner.clone_bearers
    }

    /// What is left of every budget that was used so far.
    pub fn budget(&self) -> Vec<Budget> {
        self.inner.budgets.list()
    }

    /// Asks for JSON; with a tag, for changes since then only.
    pub(crate) async fn ask_json(
        &self,
        url: Url,
        etag: Option<&Etag>,
    ) -> Result<Response<Box<Success>>, GitHubError> {
        let json = ApiRequest::json(url);
        self.ask(&ApiRequest { etag, ..json }).await
    }

    /// Asks without a tag, so that the response is a whole one.
    pub(crate) async fn whole(&self, ask: ApiRequest<'_>) -> Result<Box<Success>, GitHubError> {
        let whole = self.ask(&ask).await?.fresh();
        whole.ok_or_else(|| GitHubError::malformed("no change, which was not asked for"))
    }

    /// Asks, and follows a moved repository within the API. Every hop is paid for.
    pub(crate) async fn ask(
        &self,
        ask: &ApiRequest<'_>,
    ) -> Result<Response<Box<Success>>, GitHubError> {
        let mut url = ask.url.clone();
        for moves in 0..=MAX_MOVES {
            match self.ask_there(ask, &url).await? {
                Step::Received(mut received) => {
                    if let Response::Fresh(success) = &mut received {
                        success.was_moved = moves > 0;
                    }
                    return Ok(received);
                }
                Step::Moved(place) => {
                    let to = url.join(&place).ok();
                    let to = to.filter(|to| link::is_below(to, &self.inner.base));
                    url = to.ok_or_else(|| {
                        GitHubError::malformed("a redirect that leads out of the API")
                    })?;
                }
            }
        }
        Err(GitHubError::malformed(format!(
            "more than {MAX_MOVES} redirects in a row"
        )))
    }

    /// Asks one URL, with the next token where the host does not accept one or its budget turns
    /// out to be spent.
    async fn ask_there(&self, ask: &ApiRequest<'_>, url: &Url) -> Result<Step, GitHubError> {
        let below = url.path().strip_prefix(self.inner.base.path());
        let resource = Resource::of(below.unwrap_or_default());
        let resource = ask.resource.unwrap_or(resource);
        self.inner.secondary.check()?;
        let mut was_refused = false;
        for _ in 0..=self.inner.bearers.len() {
            let call = match self.inner.budgets.take(resource).await {
                Ok(call) => call,
                Err(why) => return Err(denied(why, was_refused)),
            };
            let began = Instant::now();
            let called = self.call(ask, url, call).await;
            match self.inner.secondary.note(began, called)? {
                Outcome::Unauthorised => {}
                Outcome::Spent => was_refused = true,
                Outcome::Step(step) => return Ok(step),
            }
        }
        let last = self.inner.budgets.take(resource).await.err();
        let soon = Denied::Busy(Instant::now() + Duration::from_secs(1));
        Err(denied(last.unwrap_or(soon), was_refused))
    }

    /// Makes one call.
    async fn call(
        &self,
        ask: &ApiRequest<'_>,
        url: &Url,
        mut call: CallPermit,
    ) -> Result<Outcome, GitHubError> {
        let inner = &self.inner;
        let permit = inner.egress.throttle().acquire(&inner.domain, Lane::Api);
        let permit = permit.await.map_err(throttled)?;
        let policy = RequestPolicy {
            bearer: inner.bearers.get(call.grant().account).cloned(),
            follow: false,
            any_status: true,
            heed_quota: false,
        };
        call.grant_mut().is_sent = true;
        let sent = inner
            .egress
            .send_with(&policy, ask.request(url), permit)
            .await;
        let reply = match sent {
            Ok(reply) => reply,
            Err(error @ EgressError::Forbidden(_)) => {
                inner.budgets.settle(call, CallOutcome::Unused).await;
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        };
        let quota = quota::read(&reply.headers, SystemTime::now());
        let status = reply.status;
        if status.as_u16() == 401 {
            inner.budgets.refuse(call).await;
            return Ok(Outcome::Unauthorised);
        }
        if !status.is_server_error() {
            inner.budgets.accept(&call);
        }
        let outcome = match quota {
            Some(quota) => CallOutcome::Quota(quota),
            None if status.is_success() || status.as_u16() == 304 => CallOutcome::Unmetered,
            None => CallOutcome::Lost,
        };
        inner.budgets.settle(call, outcome).await;
        let is_spent = quota.is_some_and(|quota| quota.remaining == 0);
        let (url, headers, reading) = (reply.url.clone(), reply.headers.clone(), reply.reading);
        let body = read_whole(reply).await?;
        response::classify(RawResponse {
            status,
            headers,
            url,
            body,
            reading,
            is_spent,
        })
    }
}

async fn read_whole(mut reply: Reply) -> Result<Bytes, GitHubError> {
    let mut body = Vec::new();
    match reply.body.read_to_end(&mut body).await {
        Ok(_) => Ok(body.into()),
        Err(error) => {
            let inner = error.into_inner().and_then(|error| error.downcast().ok());
            let error: Box<EgressError> = inner.expect("because a body fails with a reason");
            Err((*error).into())
        }
    }
}

/// The host is at its limits.
fn throttled(refused: Refused) -> GitHubError {
    GitHubError::Throttled {
        until: moment(refused.retry_at),
        refused: Some(refused),
    }
}

/// Why no call was made. `was_refused`: another token was, by its rate limit.
fn denied(why: Denied, was_refused: bool) -> GitHubError {
    match why {
        Denied::Spent(at) if was_refused => GitHubError::RateLimited {
            until: moment(at),
            secondary: false,
        },
        Denied::Spent(at) => GitHubError::Exhausted { until: moment(at) },
        Denied::Busy(at) => GitHubError::Throttled {
            until: moment(at),
            refused: None,
        },
        Denied::SetAside(at) => GitHubError::Unauthorised { until: moment(at) },
    }
}

/// The same moment by the wall clock.
fn moment(at: Instant) -> SystemTime {
    SystemTime::now() + at.saturating_duration_since(Instant::now())
}
