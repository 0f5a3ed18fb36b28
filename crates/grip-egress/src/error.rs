//! Errors of requests.

use std::{error::Error, fmt, io, time::Duration};

use grip_limits::{Refused, response::ResponseKind};
use grip_types::{Domain, ErrorChain};
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
    #[error("its name was not resolved in time (DNS)")]
    Lookup,
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
    #[error("it opens no websocket")]
    NoWebSocket,
}

/// What went wrong below HTTP, or with it, in words for people. The library's own text is its
/// source, for the log.
#[derive(Debug)]
pub struct Fault {
    kind: FaultKind,
    source: Box<dyn Error + Send + Sync>,
}

/// The kinds of faults that a person can tell apart and do something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    #[error("its name cannot be resolved (DNS)")]
    Dns,
    #[error("the connection was refused")]
    Refused,
    #[error("the TLS handshake failed")]
    Tls,
    #[error("its certificate is not valid")]
    Certificate,
    #[error("the network cannot be reached")]
    NoRoute,
    #[error("the connection was closed")]
    Reset,
    #[error("the connection timed out")]
    TimedOut,
    #[error("it does not speak HTTP")]
    NotHttp,
    #[error("the connection failed")]
    Other,
}

impl Fault {
    pub(crate) fn new(error: reqwest::Error) -> Self {
        let error = error.without_url();
        Self {
            kind: FaultKind::of(&error).unwrap_or(FaultKind::Other),
            source: error.into(),
        }
    }

    pub(crate) fn lookup(error: io::Error) -> Self {
        Self {
            kind: FaultKind::Dns,
            source: error.into(),
        }
    }

    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// The library's own words, for the log.
    pub fn detail(&self) -> impl fmt::Display {
        ErrorChain(self.source.as_ref())
    }
}

impl FaultKind {
    /// Finds what an error or its causes say that came from an HTTP client, whatever it is wrapped in;
    /// none where they say none of these.
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        let (mut found, mut timed_out) = (None, None);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<reqwest::Error>() {
                if error.is_dns() {
                    return Some(Self::Dns);
                }
                timed_out = error.is_timeout().then_some(Self::TimedOut).or(timed_out);
            }
            found = Self::in_cause(error).or(found);
            next = error.source();
        }
        found.or(timed_out)
    }

    /// What one error of a chain says by itself.
    fn in_cause(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            // What TLS says is inside an error of its own.
            if let Some(inner) = error.get_ref() {
                return Self::in_cause(inner);
            }
            return match error.kind() {
                io::ErrorKind::ConnectionRefused => Some(Self::Refused),
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof => Some(Self::Reset),
                io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::AddrNotAvailable => Some(Self::NoRoute),
                io::ErrorKind::TimedOut => Some(Self::TimedOut),
                _ => None,
            };
        }
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Some(match error {
                rustls::Error::InvalidCertificate(_) => Self::Certificate,
                _ => Self::Tls,
            });
        }
        // The HTTP library tells its parse errors by their text alone.
        let text = error.to_string();
        if text.contains("invalid HTTP") || text.contains("frame with invalid") {
            return Some(Self::NotHttp);
        }
        text.contains("connection closed before")
            .then_some(Self::Reset)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl Error for Fault {}

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
    Client(#[source] reqwest::Error),
}
