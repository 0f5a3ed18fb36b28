//! One answer: what it says about its host, and what it is worth.

use std::{
    error::Error,
    time::{Duration, SystemTime},
};

use grip_throttle::{Advice, Permit, Verdict, answer};
use http::{
    HeaderMap, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_LENGTH},
};
use tokio::{io::AsyncReadExt as _, time::Instant};
use url::Url;

use crate::{
    body::{Bill, Body, Limits},
    client::MAX_HEADER_BYTES,
    error::{EgressError, Fault, Unusable, What},
    guard::Forbidden,
    options::Request,
    said,
};

/// Bytes of a refusal that are read.
const MAX_REFUSAL_BYTES: u64 = 8 * 1024;

/// An answer with a status of success.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Where the answer came from in the end.
    pub url: Url,
    pub body: Body,
}

/// An answer whose head is here.
pub(super) struct Answered {
    pub(super) response: reqwest::Response,
    pub(super) permit: Permit,
}

impl Answered {
    /// What status and headers say about the host.
    pub(super) fn says(&self) -> (Verdict, Option<Advice>) {
        let (status, headers) = (self.response.status(), self.response.headers());
        let reading = answer::read(status, headers, b"", SystemTime::now());
        (reading.verdict, reading.advice)
    }

    /// Hands out an answer of success, if it can be used.
    pub(super) fn reply(
        self,
        request: &Request,
        url: Url,
        idle: Duration,
        deadline: Instant,
    ) -> Result<Reply, EgressError> {
        let (verdict, advice) = self.says();
        let Self { response, permit } = self;
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
            verdict,
            advice,
        };
        Ok(Reply {
            status: response.status(),
            headers: response.headers().clone(),
            url,
            body: Body::new(response.into(), domain, limits, Some(bill)),
        })
    }

    /// Reads what the host says to its refusal, as far as it says it soon.
    pub(super) async fn refusal(self, idle: Duration, deadline: Instant) -> EgressError {
        let Self { response, permit } = self;
        let (status, headers) = (response.status(), response.headers().clone());
        let limits = Limits {
            max_bytes: u64::MAX,
            idle,
            deadline: deadline.min(Instant::now() + idle),
        };
        let body = Body::new(response.into(), permit.domain().clone(), limits, None);
        let mut start = Vec::new();
        if let Err(error) = body.take(MAX_REFUSAL_BYTES).read_to_end(&mut start).await {
            tracing::debug!(%error, "a refusal broke off");
        }
        let reading = answer::read(status, &headers, &start, SystemTime::now());
        permit.finish(reading.verdict, reading.advice);
        EgressError::Status {
            status,
            said: said::plain(&headers, &start),
            answer: reading.answer,
            retry_after: reading.advice.map(|advice| advice.wait),
        }
    }
}

/// Judges the headers of a success, before its body is read.
fn usable(headers: &HeaderMap, limit: u64) -> Result<(), (EgressError, Verdict)> {
    let sizes = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    if sizes.sum::<usize>() > MAX_HEADER_BYTES {
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
pub(super) fn unanswered(error: reqwest::Error, permit: Permit) -> EgressError {
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
        return EgressError::TimedOut(What::Connect);
    }
    let source = Fault::new(error);
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
