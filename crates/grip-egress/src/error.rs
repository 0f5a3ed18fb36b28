//! Errors of requests.

use std::{error::Error, fmt, io, time::Duration};

use grip_limits::{Refused, response::ResponseKind};
use grip_types::Domain;
use http::StatusCode;

use crate::{guard::Forbidden, redirect::RedirectError};

/// Why a request brought no response, or not all of it.
///
/// No variant and no source of one repeats the user name, password or query of a URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// No request was made to the place that is meant.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The host is at its limits; the request, or its next hop, was not made.
    #[error(transparent)]
    Throttled(#[from] Refused),
    /// The host responded, but not with what was asked for.
    #[error("the host responded with status {status}{}", quoted(.message))]
    Status {
        status: StatusCode,
        /// At most 300 characters of plain text; often empty.
        message: String,
        kind: ResponseKind,
        /// How long the host wants to be left alone.
        retry_after: Option<Duration>,
    },
    #[error("no response from {domain}")]
    Unreachable { domain: Domain, source: Fault },
    #[error("the response of {domain} broke off")]
    BrokenOff { domain: Domain, source: Fault },
    #[error("{0}")]
    TimedOut(Phase),
    #[error("the response is larger than {limit} bytes")]
    TooBig { limit: u64 },
    #[error(transparent)]
    Redirect(#[from] RedirectError),
    #[error("the response cannot be used: {0}")]
    Unusable(Unusable),
    /// The caller's mistake: politeness was asked for another host.
    #[error("the permit is for {permit}, the request for {request}")]
    WrongPermit { permit: Domain, request: Domain },
}

impl EgressError {
    /// Finds the reason inside an error that came from reading a [`Body`](crate::Body).
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<EgressError> for io::Error {
    fn from(error: EgressError) -> Self {
        let kind = match &error {
            EgressError::TimedOut(_) => io::ErrorKind::TimedOut,
            EgressError::TooBig { .. } => io::ErrorKind::FileTooLarge,
            EgressError::BrokenOff { .. } => io::ErrorKind::ConnectionReset,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// The phase of a request that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Phase {
    #[error("the connection was not made in time")]
    Connect,
    #[error("the host sent no response in time")]
    Headers,
    #[error("the host stopped in the middle of its response")]
    Body,
    #[error("the whole response did not come in time")]
    Total,
}

/// What is wrong with a response that came whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    #[error("it is compressed, which was not asked for")]
    Encoded,
    #[error("its headers are too large")]
    Headers,
}

/// What went wrong below HTTP, or with it.
#[derive(Debug)]
pub struct Fault(reqwest::Error);

impl Fault {
    pub(crate) fn new(error: reqwest::Error) -> Self {
        Self(error.without_url())
    }

    /// Says whether the name of the host leads nowhere.
    pub fn is_dns(&self) -> bool {
        self.0.is_dns()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

fn quoted(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(": {message:?}"),
    }
}

/// Why the egress could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    #[error("the user agent cannot be sent in a header")]
    UserAgent(#[source] http::header::InvalidHeaderValue),
    #[error("the TLS settings do not fit together")]
    Tls(#[source] rustls::Error),
    #[error("the HTTP client cannot be built")]
    Client(#[source] Fault),
}
