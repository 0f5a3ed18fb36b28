//! Where the questions of others are answered.
//!
//! Invariants:
//! - At most so many questions are at work as there are passes, in all and for each peer; the
//!   next is told "busy" at once, and of those who are told only some at a time: the rest is
//!   simply closed.
//! - Who opens a stream and asks nothing has no pass, and no other peer's room: each may have so
//!   many unheard questions, for a short time.
//! - Work ends when the asker goes away or takes nothing of its answer any more, at the timeout,
//!   or when the node stops.

use std::{collections::HashMap, sync::Arc, time::Duration};

use grip_tasks::TaskGroup;
use libp2p::{
    PeerId, Stream,
    futures::{AsyncRead, AsyncReadExt as _, AsyncWrite},
};
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use super::{
    frame::{self, Answer, Found},
    shared::{Shared, count},
};
use crate::{Local, RecordKey, limits};

/// Questions that are not heard to the end yet, of all peers and of one; more are closed. Those of
/// one times the connections that a node has are those of all.
const HEARING: usize = HEARING_PER_PEER * 256;
const HEARING_PER_PEER: usize = 32;

/// How long a peer may take to say its question, and how long to take the next piece of the
/// answer.
const HEARING_TIME: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(2);

/// How many peers can be told at the same time that we are busy, and how long that may take.
const TELLING: usize = 64;
const TELLING_TIME: Duration = Duration::from_secs(2);

/// A question to the swarm task: what is stored under `key`.
pub(super) struct Lookup {
    pub key: RecordKey,
    pub asker: PeerId,
    pub found: oneshot::Sender<Found>,
}

pub(super) struct Desk {
    pub(super) group: TaskGroup,
    pub(super) local: Arc<dyn Local>,
    /// Full means busy.
    pub(super) lookups: mpsc::Sender<Lookup>,
    pub(super) shared: Arc<Shared>,
    pub(super) timeout: Duration,
    pub(super) passes: Arc<Passes>,
    hearing: Arc<Passes>,
    telling: Semaphore,
}

impl Desk {
    pub(super) fn new(
        group: TaskGroup,
        local: Arc<dyn Local>,
        lookups: mpsc::Sender<Lookup>,
        shared: Arc<Shared>,
        timeout: Duration,
        passes: Passes,
    ) -> Self {
        Self {
            group,
            local,
            lookups,
            shared,
            timeout,
            passes: Arc::new(passes),
            hearing: Arc::new(Passes::new(HEARING, HEARING_PER_PEER)),
            telling: Semaphore::new(TELLING),
        }
    }

    /// Takes in one question; never waits.
    pub(super) fn receive(self: &Arc<Self>, peer: PeerId, mut stream: Stream) {
        count(&self.shared.counts.questions);
        let Some(turn) = self.hearing.admit(peer) else {
            return count(&self.shared.counts.busy);
        };
        let desk = Arc::clone(self);
        let stop = self.group.token();
        let work = async move {
            let attended = desk.attend(peer, &mut stream, turn);
            if stop.run_until_cancelled(attended).await == Some(false) {
                count(&desk.shared.counts.broken);
            }
        };
        self.group.spawn("answer", work);
    }

    /// Hears a question and answers it or says that we are busy; false if it broke.
    async fn attend<S>(&self, peer: PeerId, stream: &mut S, turn: Pass) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let heard = timeout(HEARING_TIME, frame::read_question(stream)).await;
        let Ok(Ok(key)) = heard else {
            return false;
        };
        drop(turn);
        let Some(_pass) = self.passes.admit(peer) else {
            self.refuse(stream).await;
            return true;
        };
        let answered = timeout(self.timeout, self.answer(peer, key, stream)).await;
        answered.unwrap_or(false)
    }

    async fn refuse(&self, stream: &mut (impl AsyncWrite + Unpin)) {
        count(&self.shared.counts.busy);
        if let Ok(_permit) = self.telling.try_acquire() {
            let telling = frame::write_answer(stream, &Answer::Busy, PATIENCE);
            // Who does not hear it finds the stream closed.
            let _ = timeout(TELLING_TIME, telling).await;
        }
    }

    async fn answer<S>(&self, peer: PeerId, key: RecordKey, stream: &mut S) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut more = [0];
        let answer = tokio::select! {
            biased;
            // The asker has nothing more to say: a byte is an error, and the end is his leave.
            _ = stream.read(&mut more) => return false,
            answer = self.find(key, peer) => answer,
        };
        let written = frame::write_answer(stream, &answer, PATIENCE).await;
        written.is_ok()
    }

    async fn find(&self, key: RecordKey, asker: PeerId) -> Answer {
        let own = self.local.value(&key).await;
        let (found, receiver) = oneshot::channel();
        let lookup = Lookup { key, asker, found };
        if self.lookups.try_send(lookup).is_err() {
            count(&self.shared.counts.busy);
            return Answer::Busy;
        }
        let Ok(mut found) = receiver.await else {
            return Answer::Busy;
        };
        let fits = |value: &bytes::Bytes| value.len() <= limits::VALUE_BYTES;
        found.value = own.filter(fits).or(found.value);
        Answer::Found(found)
    }
}

/// The right to have questions under way, in all and for each peer.
pub(super) struct Passes {
    total: usize,
    per_peer: usize,
    /// Bounded by `total`: who has no pass is not in it.
    held: Mutex<HashMap<PeerId, usize>>,
}

impl Passes {
    pub(super) fn new(total: usize, per_peer: usize) -> Self {
        Self {
            total,
            per_peer,
            held: Mutex::default(),
        }
    }

    pub(super) fn admit(self: &Arc<Self>, peer: PeerId) -> Option<Pass> {
        let mut held = self.held.lock();
        if held.values().sum::<usize>() >= self.total {
            return None;
        }
        let own = held.entry(peer).or_default();
        if *own >= self.per_peer {
            return None;
        }
        *own += 1;
        drop(held);
        Some(Pass {
            passes: Arc::clone(self),
            peer,
        })
    }
}

/// One question at work; given back on drop.
pub(super) struct Pass {
    passes: Arc<Passes>,
    peer: PeerId,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut held = self.passes.held.lock();
        if let Some(own) = held.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_bounded_in_all_and_for_each_peer_and_come_back() {
        let passes = Arc::new(Passes::new(3, 2));
        let (one, other) = (PeerId::random(), PeerId::random());
        let first = passes.admit(one).unwrap();
        let _second = passes.admit(one).unwrap();
        assert!(passes.admit(one).is_none());
        let third = passes.admit(other).unwrap();
        assert!(passes.admit(other).is_none(), "three are out");
        drop(third);
        assert_eq!(passes.held.lock().len(), 1);
        drop(first);
        assert!(passes.admit(one).is_some());
    }
}
