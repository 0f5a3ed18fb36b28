//! Responses without success, and the start of their body.

use std::time::Duration;

use grip_limits::response::Reading;
use grip_types::Domain;
use http::{HeaderMap, StatusCode};
use tokio::{io::AsyncReadExt as _, time::Instant};
use url::Url;

use super::{
    Reply,
    response::{self, ResponseHead},
};
use crate::{
    body::{Body, Limits},
    error::{EgressError, Unusable},
    error_text,
};

/// Bytes of a refusal that are read.
const MAX_BYTES: u64 = 8 * 1024;

/// A refusal, read as far as it is.
pub(super) struct Refusal {
    status: StatusCode,
    headers: HeaderMap,
    start: Vec<u8>,
    reading: Reading,
    domain: Domain,
    limits: Limits,
}

impl Refusal {
    /// Reads what the host says, as far as it says it soon, and gives the permit back.
    pub(super) async fn read(head: ResponseHead, idle: Duration, deadline: Instant) -> Self {
        let ResponseHead {
            response,
            permit,
            heed_quota,
        } = head;
        let (status, headers) = (response.status(), response.headers().clone());
        let domain = permit.domain().clone();
        let limits = Limits {
            max_bytes: u64::MAX,
            idle,
            deadline: deadline.min(Instant::now() + idle),
        };
        let body = Body::new(response.into(), domain.clone(), limits, None);
        let mut start = Vec::new();
        if let Err(error) = body.take(MAX_BYTES).read_to_end(&mut start).await {
            tracing::debug!(%error, "failed to read the body of a refusal");
        }
        let (reading, advice) = response::read_head(status, &headers, &start, heed_quota);
        permit.finish(reading.verdict, advice);
        Self {
            status,
            headers,
            start,
            reading,
            domain,
            limits: Limits { deadline, ..limits },
        }
    }

    pub(super) fn error(self) -> EgressError {
        EgressError::Status {
            status: self.status,
            message: error_text::plain(&self.headers, &self.start),
            kind: self.reading.kind,
            retry_after: self.reading.advice.map(|advice| advice.wait),
        }
    }

    /// The same as a reply; its body is here already, and the rest is not read.
    pub(super) fn reply(self, url: Url) -> Result<Reply, EgressError> {
        if !response::headers_fit(&self.headers) {
            return Err(EgressError::Unusable(Unusable::Headers));
        }
        Ok(Reply {
            status: self.status,
            headers: self.headers,
            reading: self.reading,
            url,
            body: Body::new(self.start.into(), self.domain, self.limits, None),
        })
    }
}
