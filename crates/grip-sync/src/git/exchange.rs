//! One request, the meaning of its response, and what follows from it.

use std::{collections::BTreeSet, sync::Arc};

use grip_egress::EgressError;
use grip_git::remote::{Advertisement, RemoteError};
use grip_types::Oid;
use http::StatusCode;

use super::protocol_v0::V0Request;
use crate::fetch::FetchError;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    FetchV2(Vec<Oid>),
    ListRefs,
    Advertise,
    FetchV0(Arc<V0Request>),
}

/// The meaning of a response.
#[derive(Clone, Debug)]
pub(super) enum Response {
    /// Those of the wanted objects that came.
    Pack(BTreeSet<Oid>),
    Lacks(Oid),
    /// The wanted objects among its refs.
    Refs(BTreeSet<Oid>),
    Advertised(Advertisement),
    NotUnderstood,
    /// A refusal in words that say neither why nor which of the objects is meant.
    Refused,
    /// An error that may mean `NotUnderstood`.
    Doubtful,
}

impl Response {
    /// What a failure teaches about its host.
    pub(super) fn in_error(error: &FetchError) -> Option<Self> {
        let remote = match error {
            FetchError::Remote(error) => Some(error),
            FetchError::Receive(error) => error.remote(),
            FetchError::Egress(EgressError::Status { status, .. }) => {
                return is_doubtful(*status).then_some(Self::Doubtful);
            }
            _ => None,
        };
        match remote? {
            RemoteError::NotOurRef(oid) => Some(Self::Lacks(*oid)),
            RemoteError::UnsupportedVersion => Some(Self::NotUnderstood),
            RemoteError::Refused(_) => Some(Self::Refused),
            _ => None,
        }
    }
}

/// What hosts answer whose git fell over a request that it did not understand.
fn is_doubtful(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::INTERNAL_SERVER_ERROR
            | StatusCode::NOT_IMPLEMENTED
    )
}

/// What follows from an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lesson {
    /// Asking again at once is worth it.
    pub(super) resume: bool,
    /// It was an answer to go by, not just a failure.
    pub(super) is_answer: bool,
    pub(super) note: String,
}

impl Lesson {
    pub(super) fn answer(resume: bool, note: impl Into<String>) -> Self {
        Self {
            resume,
            is_answer: true,
            note: note.into(),
        }
    }
}

impl Step {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::FetchV2(_) => "fetch",
            Self::ListRefs => "ls-refs",
            Self::Advertise => "info/refs",
            Self::FetchV0(_) => "fetch of version 0",
        }
    }
}
