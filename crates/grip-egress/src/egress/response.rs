//! The head of a response: its host's advice, and whether the response can be used.

use std::{
    error::Error,
    time::{Duration, SystemTime},
};

use grip_limits::{
    Advice, Networks, Permit, Verdict, Why,
    response::{self as limits, Reading},
};
use http::{
    HeaderMap, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, RETRY_AFTER},
};
use tokio::time::Instant;
use url::Url;

use crate::{
    body::{Bill, Body, Limits},
    client::MAX_HEADER_BYTES,
    error::{EgressError, Fault, Phase, Unusable},
    guard::Forbidden,
    options::Request,
};

/// An answer: a success, unless others were wanted too.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// What it says about asking the host again, rate limits of the caller's own accounts included.
    pub reading: Reading,
    /// Where the answer came from in the end.
    pub url: Url,
    pub body: Body,
}

/// An answer whose head is here.
pub(super) struct ResponseHead {
    pub(super) response: reqwest::Response,
    pub(super) permit: Permit,
    pub(super) networks: Option<Permit<Networks>>,
    pub(super) heed_quota: bool,
}

impl ResponseHead {
    /// What status, headers and the start of the body say, and what of it binds the host as a
    /// whole.
    pub(super) fn read(&self, start: &[u8]) -> (Reading, Option<Advice>) {
        let (status, headers) = (self.response.status(), self.response.headers());
        read_head(status, headers, start, self.heed_quota)
    }

    /// Hands out an answer of success, if it can be used.
    pub(super) fn reply(
        self,
        request: &Request,
        url: Url,
        idle: Duration,
        deadline: Instant,
    ) -> Result<Reply, EgressError> {
        let (reading, advice) = self.read(b"");
        let Self {
            response,
            permit,
            networks,
            ..
        } = self;
        let max_bytes = request.max_bytes;
        if let Err((error, verdict)) = usable(response.headers(), max_bytes) {
            permit.finish(verdict, advice);
            return Err(error);
        }
        let limits = Limits {
            max_bytes,
            idle,
            deadline,
        };
        let domain = permit.domain().clone();
        let bill = Bill {
            permit,
            _networks: networks,
            verdict: reading.verdict,
            advice,
        };
        Ok(Reply {
            status: response.status(),
            headers: response.headers().clone(),
            reading,
            url,
            body: Body::new(response.into(), domain, limits, Some(bill)),
        })
    }
}

/// What an answer says, and what of it binds the host as a whole.
pub(super) fn read_head(
    status: StatusCode,
    headers: &HeaderMap,
    start: &[u8],
    heed_quota: bool,
) -> (Reading, Option<Advice>) {
    let now = SystemTime::now();
    let reading = limits::read(status, headers, start, now);
    let is_quota = |advice: Advice| advice.why == Why::RateLimit;
    if heed_quota || !reading.advice.is_some_and(is_quota) {
        return (reading, reading.advice);
    }
    // The budget is the caller's; what the host may have said beside it is not.
    let mut rest = HeaderMap::new();
    for value in headers.get_all(RETRY_AFTER) {
        rest.append(RETRY_AFTER, value.clone());
    }
    let advice = limits::read(status, &rest, b"", now).advice;
    let said = advice.filter(|advice| advice.why == Why::RetryAfter);
    (reading, said)
}

/// Whether headers are no larger than is sensible.
pub(super) fn headers_fit(headers: &HeaderMap) -> bool {
    let sizes = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    sizes.sum::<usize>() <= MAX_HEADER_BYTES
}

/// Judges the headers of a success, before its body is read.
fn usable(headers: &HeaderMap, limit: u64) -> Result<(), (EgressError, Verdict)> {
    if !headers_fit(headers) {
        return Err((EgressError::Unusable(Unusable::Headers), Verdict::Failure));
    }
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    if !encodings.all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err((EgressError::Unusable(Unusable::Encoded), Verdict::Neutral));
    }
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|announced| announced > limit) {
        return Err((EgressError::TooBig { limit }, Verdict::Neutral));
    }
    Ok(())
}

/// Why no answer came; gives the permit back.
pub(super) fn no_response(error: reqwest::Error, permit: Permit) -> EgressError {
    if let Some(forbidden) = forbidden_in(&error) {
        permit.unused();
        return forbidden.into();
    }
    let domain = permit.domain().clone();
    if error.is_builder() {
        permit.unused();
    } else {
        permit.finish(Verdict::Failure, None);
    }
    if error.is_connect() && error.is_timeout() {
        return EgressError::TimedOut(Phase::Connect);
    }
    let source = Fault::new(error);
    tracing::debug!(%domain, detail = %source.detail(), "no response");
    EgressError::Unreachable { domain, source }
}

/// The verdict of the resolver, which the client wraps as a failure to connect.
fn forbidden_in(error: &reqwest::Error) -> Option<Forbidden> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(forbidden) = error.downcast_ref::<Forbidden>() {
            return Some(forbidden.clone());
        }
        next = error.source();
    }
    None
}
