//! Misbehaviour of a host, and for how long.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::watch;

/// How a request is treated.
#[derive(Clone, Debug, Default)]
pub enum Behaviour {
    /// Answers as git does.
    #[default]
    Serve,
    /// Takes the request and never answers.
    HangBeforeHeaders,
    /// Sends the headers and so many bytes of git's answer, then nothing more.
    HangAfter {
        bytes: usize,
    },
    /// Sends git's answer a little at a time.
    Trickle {
        bytes: usize,
        every: Duration,
    },
    /// Sends so many bytes of git's answer and closes the connection.
    CloseAfter {
        bytes: usize,
    },
    /// Answers a fetch with a pack that is well formed and never ends.
    Endless,
    /// Answers a fetch with this pack, whatever was asked for.
    Pack(Bytes),
    /// Answers with a web page.
    Page,
    Status(Status),
    /// Sends the client to the same action below another clone URL.
    Redirect {
        status: u16,
        to: String,
    },
    /// Answers as git does, once the gate is open.
    Hold(Gate),
}

impl Behaviour {
    /// A status without further advice.
    pub fn status(code: u16) -> Self {
        Self::Status(Status {
            code,
            headers: Vec::new(),
        })
    }

    /// A status with `Retry-After` in seconds.
    pub fn retry_after(code: u16, seconds: u64) -> Self {
        Self::Status(Status {
            code,
            headers: vec![("retry-after".into(), seconds.to_string())],
        })
    }
}

/// An answer that is a status and a short text.
#[derive(Clone, Debug)]
pub struct Status {
    pub code: u16,
    pub headers: Vec<(String, String)>,
}

/// Holds answers back until it is opened. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    open: watch::Sender<bool>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            open: watch::Sender::new(false),
        }
    }
}

impl Gate {
    /// Lets through what waits and all that comes later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    pub(crate) async fn pass(&self) {
        let mut open = self.open.subscribe();
        // The sender is `self`, so it outlives this wait.
        let _ = open.wait_for(|open| *open).await;
    }
}

/// Which behaviour is next, for the host as a whole and for single repositories.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    steps: Mutex<HashMap<Option<String>, VecDeque<Behaviour>>>,
}

impl Scripts {
    pub(super) fn set(&self, repository: Option<&str>, steps: impl IntoIterator<Item = Behaviour>) {
        let steps = steps.into_iter().collect();
        let mut all = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(repository.map(ToOwned::to_owned), steps);
    }

    /// The behaviour for a request for `repository`; uses up one step unless it is the last.
    pub(super) fn next(&self, repository: &str) -> Behaviour {
        let mut all = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let own = Some(repository.to_owned());
        let key = if all.contains_key(&own) { own } else { None };
        let Some(steps) = all.get_mut(&key) else {
            return Behaviour::Serve;
        };
        if steps.len() > 1 {
            return steps.pop_front().unwrap_or_default();
        }
        steps.front().cloned().unwrap_or_default()
    }
}
