//! Errors of requests about GitHub.

use grip_ingest::webhook::{MAX_BODY, Refused};
use http::StatusCode;

/// Why a request about GitHub gets no ordinary answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum WatchError {
    #[error("GitHub watching is off")]
    Off,
    #[error("a webhook came, and no secret is set")]
    NoSecret,
    #[error("a delivery is not known to be GitHub's: {0}")]
    NotSigned(Refused),
    #[error("a delivery is too long")]
    TooLong,
    #[error("a delivery took too long to arrive")]
    TooSlow,
    #[error("a push is kept aside: {0}")]
    KeptAside(String),
    #[error("there is nothing at this path of GitHub's")]
    Nothing,
    #[error("no {what} of this name is known")]
    Unknown { what: &'static str },
    #[error("no picture of this person is kept")]
    NoPicture,
}

impl WatchError {
    /// Status and sentence of each failure.
    pub(super) fn answer(&self) -> (StatusCode, String) {
        answers! { self,
            Self::Off => NOT_FOUND,
                "GitHub watching is off on this node: its operator can set watch_github.";
            Self::NoSecret => NOT_FOUND,
                "This node takes no webhooks yet: its operator has to set \
                 GRIPFAST_GITHUB_WEBHOOK_SECRET to the secret of the webhook and start it again.";
            Self::NotSigned(why) => UNAUTHORIZED, format!("Nothing was taken in: {why}.");
            Self::TooLong => PAYLOAD_TOO_LARGE,
                format!("Nothing was taken in: the body is longer than {MAX_BODY} bytes.");
            Self::TooSlow => REQUEST_TIMEOUT,
                "Nothing was taken in: the body took too long to arrive.";
            Self::KeptAside(why) => BAD_REQUEST,
                format!("The push cannot be read and is kept aside for the operator: {why}.");
            Self::Nothing => NOT_FOUND,
                "There is nothing here. Below /api/v1/github/ there are events, users/<login or \
                 id>, repos/<owner>/<name>, repos/<id>, avatars/<id of a user>, stats, gaps and \
                 status.";
            Self::Unknown { what } => NOT_FOUND,
                format!("No {what} of this name is known here: only those are whose pushes were \
                         seen and who were then asked for at GitHub. /api/v1/github/events lists \
                         pushes.");
            Self::NoPicture => NOT_FOUND,
                "No picture of this person is kept here. It is named by GitHub's number of the \
                 person, such as avatars/583231.";
        }
    }
}
