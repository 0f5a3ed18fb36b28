//! Responses without success, and the start of their body.

use std::time::Duration;

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

/// Reads what the host says, as far as it says it soon, and gives the permit back.
///
/// The reply is wanted with `any_status` only; its body is here already, and the rest is not read.
pub(super) async fn read(
    head: ResponseHead,
    url: Url,
    idle: Duration,
    deadline: Instant,
    any_status: bool,
) -> Result<Reply, EgressError> {
    let ResponseHead {
        response,
        permit,
        networks: _networks,
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
    if !any_status {
        return Err(EgressError::Status {
            status,
            message: error_text::plain(&headers, &start),
            kind: reading.kind,
            retry_after: reading.advice.map(|advice| advice.wait),
        });
    }
    if !response::headers_fit(&headers) {
        return Err(EgressError::Unusable(Unusable::Headers));
    }
    let limits = Limits { deadline, ..limits };
    Ok(Reply {
        status,
        headers,
        reading,
        url,
        body: Body::new(start.into(), domain, limits, None),
    })
}
