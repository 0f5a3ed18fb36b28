//! Misbehaviour of the fake, and for how long.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;

use crate::remote::Gate;

/// How a call is treated.
#[derive(Clone, Debug, Default)]
pub enum Behaviour {
    /// As it should be.
    #[default]
    Serve,
    /// Takes the call and never answers.
    Hang,
    /// Answers, once the gate is open.
    Hold(Gate),
    /// A web page with status 200.
    Html,
    /// Half of the answer, with a length that fits what is sent.
    TruncatedJson,
    /// The head of the answer and half of its body, then a closed connection.
    BreakOff,
    /// The first page again and again, with a link to a further one each time.
    EndlessPages,
    /// A link to the page that was asked for.
    SamePage,
    /// As it should be; then a tag is removed, so that pages shift while a list is read.
    ThenUntag { repo: String, tag: String },
    /// A link to a next page on another host.
    NextElsewhere(String),
    /// What it would answer to a call for this path: another repository's data.
    Instead(String),
    /// Answers a fetch of the git server with this pack, whatever was asked for.
    Pack(Bytes),
    /// This answer, word for word. Rate limit headers are added.
    Status {
        code: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    /// This answer without rate limit headers, as from a machine in front of it.
    Bare {
        code: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
}

impl Behaviour {
    /// A refusal with GitHub's kind of body.
    pub fn status(code: u16, message: &str) -> Self {
        Self::Status {
            code,
            headers: vec![("content-type".into(), super::service::JSON.into())],
            body: serde_json::json!({ "message": message }).to_string(),
        }
    }

    /// A refusal with `Retry-After` in seconds.
    pub fn retry_after(code: u16, seconds: u64) -> Self {
        Self::Status {
            code,
            headers: vec![("retry-after".into(), seconds.to_string())],
            body: String::new(),
        }
    }

    /// A redirect to this URL.
    pub fn moved(to: &str) -> Self {
        Self::Status {
            code: 301,
            headers: vec![("location".into(), to.into())],
            body: String::new(),
        }
    }
}

/// Which behaviour is next below which path.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    steps: Mutex<BTreeMap<String, VecDeque<Behaviour>>>,
}

impl Scripts {
    pub(super) fn set(&self, path: &str, steps: impl IntoIterator<Item = Behaviour>) {
        let mut all = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(path.to_owned(), steps.into_iter().collect());
    }

    /// The behaviour for a call; uses up one step unless it is the last.
    pub(super) fn next(&self, path: &str) -> Behaviour {
        let mut all = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = all.iter_mut().filter(|(below, _)| path.starts_with(*below));
        let Some((_, steps)) = fitting.max_by_key(|(below, _)| below.len()) else {
            return Behaviour::Serve;
        };
        match steps.len() {
            0 => Behaviour::Serve,
            1 => steps[0].clone(),
            _ => steps.pop_front().unwrap_or_default(),
        }
    }
}
