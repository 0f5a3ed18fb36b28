//! The request of objects from one URL, and its errors.

use std::{collections::BTreeSet, error::Error, fmt, future::Future};

use grip_egress::{EgressError, Forbidden};
use grip_git::{DiskUser, ReceiveError, remote::RemoteError};
use grip_limits::{Permit, Refused};
use grip_types::{ErrorChain, Identifier, Oid};
use url::Url;

use crate::meter::Meter;

/// Longest text that is kept of what went wrong.
const MAX_TEXT: usize = 300;

/// Brings objects from a URL into the store of an identifier.
pub trait Fetch: Send + Sync + 'static {
    /// Says why a URL must not be asked, as far as that is known without asking anybody.
    fn check(&self, url: &Url) -> Result<(), Forbidden>;

    /// V0Request with one HTTP request, redirects not counted, which `permit` pays for.
    ///
    /// Cancel safe: what had not arrived whole leaves nothing behind.
    fn fetch(
        &self,
        job: Job<'_>,
        permit: Permit,
    ) -> impl Future<Output = Result<Fetched, FetchError>> + Send;
}

/// What one URL is asked for.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    pub identifier: &'a Identifier,
    pub url: &'a Url,
    pub wants: &'a BTreeSet<Oid>,
    /// Those of them that matter most: a host that has not all is asked for these apart.
    pub first: &'a BTreeSet<Oid>,
    /// Counts what comes.
    pub meter: &'a Meter,
    /// Whose bytes they are on the disk.
    pub disk_user: DiskUser,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Those of the wanted objects that are in the store now, each with all it links to.
    pub arrived: BTreeSet<Oid>,
    /// The response says how to ask this URL better: it is worth asking again at once.
    pub resume: bool,
    /// What the host said, in words for people; empty if the objects speak for themselves.
    pub note: String,
}

/// A fetch that brought nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// Nobody was asked, and must not be.
    #[error(transparent)]
    Forbidden(Forbidden),
    /// The host a redirect led to is at its limits.
    #[error(transparent)]
    Throttled(Refused),
    #[error(transparent)]
    Egress(EgressError),
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Receive(ReceiveError),
    #[error("remote returned none of the wanted objects")]
    NothingWanted,
    /// The host takes long, and others wait.
    #[error("the host is slow, and others were waiting: it is tried again later")]
    GaveWay,
    /// Nobody was asked: what they sent might fill the disk.
    #[error("less than {} free on the disk of the git directory", Size(*.0))]
    DiskFull(u64),
    #[error("the objects could not be looked up or stored here")]
    Local(#[source] Box<dyn Error + Send + Sync>),
}

impl FetchError {
    /// Says whether this node failed, whatever the host had sent.
    pub(crate) fn is_node_fault(&self) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Receive(error) => error.is_node_fault(),
            _ => false,
        }
    }
}

impl From<ReceiveError> for FetchError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Remote(error) => Self::Remote(error),
            other => Self::Receive(other),
        }
    }
}

impl From<EgressError> for FetchError {
    fn from(error: EgressError) -> Self {
        match error {
            EgressError::Forbidden(forbidden) => Self::Forbidden(forbidden),
            EgressError::Throttled(refused) => Self::Throttled(refused),
            other => Self::Egress(other),
        }
    }
}

/// A number of bytes in words.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 => write!(f, "{} MiB", bytes >> 20),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// An error with all that led to it, in one line of bounded length.
pub(crate) fn in_words(error: &dyn Error) -> String {
    let text = ErrorChain(error).to_string();
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_full_disk_is_shown_with_the_room_that_must_stay() {
        let text_of = |bytes| FetchError::DiskFull(bytes).to_string();
        let text = "less than 256 MiB free on the disk of the git directory";
        assert_eq!(text_of(256 << 20), text);
        assert!(text_of(1000).starts_with("less than 1000 bytes free"));
    }

    #[test]
    fn only_what_the_host_cannot_bring_about_is_the_fault_of_this_node() {
        let broken = || io::Error::other("disk");
        assert!(FetchError::Local(Box::new(broken())).is_node_fault());
        assert!(FetchError::Receive(ReceiveError::Io(broken())).is_node_fault());
        for of_host in [
            ReceiveError::Client(broken()),
            ReceiveError::Corrupt(String::new()),
            ReceiveError::Bomb,
            ReceiveError::TooSlow(std::time::Duration::ZERO),
        ] {
            assert!(!FetchError::Receive(of_host).is_node_fault());
        }
        assert!(!FetchError::DiskFull(1).is_node_fault());
        assert!(!FetchError::GaveWay.is_node_fault());
    }

    #[test]
    fn an_error_is_shown_with_its_causes_in_bounded_length() {
        let cause = io::Error::other("x".repeat(1000));
        let text = in_words(&FetchError::Local(Box::new(cause)));
        assert!(text.starts_with("the objects could not be looked up or stored here: xxx"));
        assert_eq!(text.chars().count(), MAX_TEXT + 1);
    }
}
