//! Errors of requests to the resolver.

use std::time::Duration;

use grip_resolve::ResolveError;
use http::StatusCode;

use crate::admin::InvalidSignature;

/// Why a request about names and manifests gets no ordinary answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ResolvingError {
    #[error("the resolver is disabled")]
    Off,
    #[error("an order is not signed by the owner: {0}")]
    NotSigned(#[from] InvalidSignature),
    #[error("an order is too long")]
    BodyTooLong,
    #[error("an order took too long to arrive")]
    BodyTooSlow,
    #[error("an order is not carried out: {0}")]
    Refused(String),
    #[error("a key is not resolved: {0}")]
    Failed(#[from] ResolveError),
}

impl ResolvingError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Off => StatusCode::NOT_FOUND,
            Self::NotSigned(InvalidSignature::TooMany) => StatusCode::TOO_MANY_REQUESTS,
            Self::NotSigned(_) => StatusCode::UNAUTHORIZED,
            Self::BodyTooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Refused(_) => StatusCode::CONFLICT,
            Self::Failed(error) => match error {
                ResolveError::Malformed(_) => StatusCode::BAD_REQUEST,
                ResolveError::Unknown => StatusCode::NOT_FOUND,
                ResolveError::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
                ResolveError::Timeout => StatusCode::GATEWAY_TIMEOUT,
                ResolveError::PeersBusy { .. }
                | ResolveError::BreakerOpen { .. }
                | ResolveError::Unreadable
                | ResolveError::Canceled => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
        }
    }

    pub(super) fn caller(&self) -> String {
        match self {
            Self::Off => "The resolver is disabled on this node.".into(),
            Self::NotSigned(why) => format!("The signature opens nothing: {why}."),
            Self::BodyTooLong => "The body is longer than a MiB; a key is far shorter.".into(),
            Self::BodyTooSlow => "The body took too long to arrive.".into(),
            Self::Refused(why) => sentence(why),
            Self::Failed(ResolveError::Malformed(why)) => format!("This is no key: {why}."),
            Self::Failed(ResolveError::Unknown) => "Nobody who was asked knows it. Check the \
                                                    spelling; /resolver says whether this node \
                                                    asks others at all."
                .into(),
            Self::Failed(ResolveError::Timeout) => {
                "No answer came within the deadline. Try again.".into()
            }
            Self::Failed(ResolveError::Canceled) => {
                "The server is shutting down. Try again in a minute.".into()
            }
            Self::Failed(error) => sentence(&error.to_string()),
        }
    }

    /// At least a second, because the header knows nothing shorter.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let error = match self {
            Self::Failed(error) => error,
            Self::NotSigned(InvalidSignature::TooMany) => return Some(Duration::from_secs(60)),
            _ => return None,
        };
        let after = match error {
            ResolveError::Timeout => Duration::from_secs(1),
            ResolveError::Canceled => Duration::from_secs(60),
            error => error.retry_after()?,
        };
        let has_rest = after.subsec_nanos() > 0;
        let seconds = after.as_secs() + u64::from(has_rest);
        Some(Duration::from_secs(seconds.max(1)))
    }
}

/// A reason as a sentence of its own.
fn sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
